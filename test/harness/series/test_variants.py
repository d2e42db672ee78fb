"""A series that varies another one in a few patches."""

from pathlib import Path

import pytest

from toy_upstream import CONFIG, NEW, SOLVER, Repository, Tree

DIFFERS = "0003-Change-gamma.patch"


def commit_gamma(repository: Repository, release: str, old: str) -> Tree:
    path = repository.root.parent / f"tree-{release}"
    repository.ok("apply", release, path)
    tree = Tree(path)
    tree.replace(CONFIG, f"gamma = {old}", "gamma = 5")
    tree.commit("Change gamma")
    tree.git("rebase", "-q", "--fork-point", "series", "optional")
    return tree


@pytest.fixture
def repository(repository: Repository) -> Repository:
    """Series v1 for 1.0.0, and v2 that varies one of its patches for 1.1.0."""
    repository.add_series()
    table = repository.layout.patches / "targets.toml"
    text = table.read_text()
    head, tail = text.split('[targets."v1.1.0"]')
    table.write_text(
        f'[series.v2]\nbase = "v1.1.0"\nvariant_of = "v1"\ndiffers = ["{DIFFERS}"]\n\n'
        f'{head}[targets."v1.1.0"]' + tail.replace('series = "v1"', 'series = "v2"')
    )
    (repository.layout.patches / "v2").mkdir()
    for name in ("v2", "v1"):
        for path, content in repository.patches().items():
            repository.write(f"patches/{name}/{path}", content)
        release, old = ("1.1.0", "4") if name == "v2" else ("1.0.0", "3")
        repository.ok("export", commit_gamma(repository, release, old).path)
    return repository


def test_series_takes_its_variant_along(repository: Repository) -> None:
    assert not repository.run("check").status
    repository.write(f"torch_overlay/{NEW}", "NEW = 2\n")
    assert "patches/v2: rewritten" in repository.ok("export")
    assert not repository.run("check").status
    assert repository.target("v1.1.0").after.keys() == {SOLVER, CONFIG}


def test_edit_of_a_shared_patch_reaches_the_variant(repository: Repository) -> None:
    tree = Tree(repository.root.parent / "tree-1.0.0")
    tree.git("checkout", "-q", "series")
    tree.replace(SOLVER, "key=abs", "key=hash")
    tree.commit("Sort by hash")
    tree.git("rebase", "-q", "--fork-point", "series", "optional")
    assert repository.ok("export", tree.path).splitlines() == [
        "patches/v1: rewritten",
        "patches/v2: rewritten",
    ]
    assert (repository.layout.patches / "v2" / "0004-Sort-by-hash.patch").exists()
    assert not repository.run("check").status


def edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [("Symptom", "Sympton"), ("key=abs", "key=bas")],
    ids=["message", "change"],
)
def test_shared_patch_that_differs(repository: Repository, old: str, new: str) -> None:
    name = "0001-Sort-by-absolute-value.patch"
    edit(repository.layout.patches / "v2" / name, old, new)
    result = repository.run("check")
    assert result.status == 1
    assert f"{name} is not that of v1, nor under `differs`" in result.out
    repository.ok("export")
    assert not repository.run("check").status


def test_patch_that_need_not_differ(repository: Repository) -> None:
    name = "0002-Take-iterators.patch"
    edit(repository.layout.patches / "targets.toml", DIFFERS, f'{DIFFERS}", "{name}')
    result = repository.run("check")
    assert result.status == 1
    assert f"{name} is that of v1, but under `differs`" in result.out


def test_unknown_patch(repository: Repository) -> None:
    edit(repository.layout.patches / "targets.toml", DIFFERS, "0004-x.patch")
    result = repository.run("export")
    assert "0004-x.patch under `differs` of series v2" in result.error


def test_variant_of_nothing(repository: Repository) -> None:
    edit(repository.layout.patches / "targets.toml", '"v1"\ndiffers', '"v3"\ndiffers')
    assert "v2 is a variant of v3, which is no series" in repository.run("check").error
