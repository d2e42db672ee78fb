"""`export`: what it writes, and what it refuses."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acknap import cli
from acknap.base.git import blob_id
from toy_upstream import CONFIG, MESSAGE, NEW, RELEASES, SOLVER, TEST, Repository


def test_first_patch(repository: Repository) -> None:
    tree = repository.tree()
    tree.replace(SOLVER, "return sorted(items)", "return sorted(items, key=abs)")
    tree.commit("Sort by absolute value")
    assert repository.ok("export", tree.path) == "patches/v1: rewritten\n"
    (name, text), *others = repository.patches().items()
    assert not others
    assert name == "0001-Sort-by-absolute-value.patch"
    assert text.startswith("From 0000000000000000000000000000000000000000 ")
    assert "From: Toy Author <toy@example.invalid>" in text
    assert repository.ok("export", tree.path) == "patches/v1: unchanged\n"
    for release, files in RELEASES.items():
        result = files[SOLVER].replace("sorted(items)", "sorted(items, key=abs)")
        assert "key=abs" in result
        assert repository.target(release).after == {SOLVER: blob_id(result.encode())}
    assert repository.run("check").status == 0


def test_byte_identical_from_everywhere(repository: Repository) -> None:
    repository.add_series()
    first = repository.patches()
    again = repository.tree("elsewhere")
    assert repository.ok("export", again.path) == "patches/v1: unchanged\n"
    assert repository.ok("export") == "patches/v1: unchanged\n"
    assert repository.patches() == first


def test_configuration_of_the_user_does_not_count(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.add_series()
    first = repository.patches()
    config = tmp_path / "gitconfig"
    config.write_text(
        "[core]\nautocrlf = true\n[commit]\ngpgSign = true\n[diff]\nnoprefix = true\n"
        "context = 9\n[format]\nsignature = me\nnumbered = true\n"
        "[am]\nthreeWay = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert repository.ok("export") == "patches/v1: unchanged\n"
    assert repository.patches() == first


def test_new_file_comes_from_its_source(repository: Repository) -> None:
    repository.add_series()
    repository.write(f"torch_overlay/{NEW}", "NEW = 2\n")
    repository.write(TEST, "def test_new():\n    assert True\n")
    result = repository.run("export")
    assert result.out == "patches/v1: rewritten\n"
    assert f"v1: {NEW} as in its source, not as in the tree" in result.err
    text = repository.patches()["0001-Sort-by-absolute-value.patch"]
    assert "+NEW = 2" in text
    assert "+    assert True" in text


def test_edited_and_renamed_patch(repository: Repository) -> None:
    tree = repository.add_series()
    before = repository.patches()
    tree.git("checkout", "-q", "series")
    tree.git("commit", "-q", "--amend", "-m", MESSAGE.format(title="Another title"))
    tree.git("rebase", "-q", "--fork-point", "series", "optional")
    repository.ok("export", tree.path)
    after = repository.patches()
    assert before.keys() - after.keys() == {"0002-Take-iterators.patch"}
    assert after.keys() - before.keys() == {"0002-Another-title.patch"}


def test_optional_patches_do_not_count_in_after(repository: Repository) -> None:
    repository.add_series()
    assert "optional/0001-Change-a-default.patch" in repository.patches()
    assert repository.target("v1.1.0").after.keys() == {SOLVER}


def test_context_is_set_per_patch(repository: Repository) -> None:
    tree = repository.tree()
    tree.replace(CONFIG, "alpha = 1", "alpha = 2")
    tree.commit("Change a default")
    result = repository.run("export", tree.path)
    assert result.error == (
        f"error: 0001-Change-a-default.patch does not apply to v1.1.0: {CONFIG}:1"
    )
    assert not repository.patches()
    repository.set_unified("0001-Change-a-default.patch", 1)
    repository.ok("export", tree.path)
    assert " gamma" not in repository.patches()["0001-Change-a-default.patch"]
    repository.set_unified("0002-x.patch", 1)
    assert "for 0002-x.patch, which is none of" in repository.run("export").error


def test_conflict_with_another_release_changes_nothing(repository: Repository) -> None:
    tree = repository.add_series()
    before = repository.patches()
    table = (repository.layout.patches / "targets.toml").read_text()
    tree.git("checkout", "-q", "series")
    tree.replace(CONFIG, "gamma = 3", "gamma = 5")
    tree.commit("Change gamma")
    tree.git("rebase", "-q", "series", "optional")
    result = repository.run("export", tree.path)
    assert "0003-Change-gamma.patch does not apply to v1.1.0" in result.error
    assert repository.patches() == before
    assert (repository.layout.patches / "targets.toml").read_text() == table


def test_new_upstream_file_gets_its_ids(repository: Repository) -> None:
    """A file added to `files` is read from the verified wheels."""
    path = repository.layout.patches / "targets.toml"
    text = path.read_text()
    lines = [line for line in text.splitlines() if not line.startswith(f'"{CONFIG}"')]
    path.write_text("\n".join(lines) + "\n")
    repository.add_series()
    for release, files in RELEASES.items():
        pinned = repository.target(release).before
        assert pinned == {file: blob_id(text.encode()) for file, text in files.items()}


def test_zero_commits(repository: Repository) -> None:
    repository.add_series()
    before = repository.patches()
    tree = repository.tree()
    tree.git("checkout", "-q", "-B", "series", "pristine")
    tree.git("branch", "-q", "-D", "optional")
    assert "branch series has no commits" in repository.run("export", tree.path).error
    assert repository.patches() == before


def test_no_patches_and_no_tree(repository: Repository) -> None:
    assert "patches/v1 has no patches" in repository.run("export").error


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            f"torch_overlay/{NEW}",
            f"{NEW} is in the overlay or the suite, but no commit",
        ),
        (TEST, f"{TEST} is in the overlay or the suite, but no commit"),
    ],
)
def test_new_file_that_no_commit_adds(
    repository: Repository, content: str, problem: str
) -> None:
    tree = repository.tree()
    tree.replace(SOLVER, "len(items)", "0")
    tree.commit("Change the import")
    repository.write(content, "x = 1\n")
    assert problem in repository.run("export", tree.path).error


def test_new_file_that_two_commits_touch(repository: Repository) -> None:
    tree = repository.add_series()
    tree.write(NEW, "NEW = 3\n")
    tree.commit("Edit the new file")
    error = repository.run("export", tree.path).error
    assert f"touches {NEW}, which 'Sort by absolute value' adds" in error


def test_staged_file_grows_from_patch_to_patch(repository: Repository) -> None:
    """Its last state is that of its source, earlier ones are those of the tree."""
    tree = repository.add_series()
    tree.git("checkout", "-q", "series")
    tree.write(NEW, "NEW = 1\nMORE = 1\n")
    tree.commit("Edit the new file")
    tree.git("rebase", "-q", "series", "optional")
    repository.stage(NEW)
    repository.write(f"torch_overlay/{NEW}", "NEW = 1\nMORE = 2\n")
    result = repository.run("export", tree.path)
    assert f"v1: {NEW} as in its source, not as in the tree" in result.err
    patches = repository.patches()
    assert "+NEW = 1\n" in patches["0001-Sort-by-absolute-value.patch"]
    assert "MORE" not in patches["0001-Sort-by-absolute-value.patch"]
    assert " NEW = 1\n+MORE = 2\n" in patches["0003-Edit-the-new-file.patch"]
    assert repository.run("check").status == 0
    repository.write(f"torch_overlay/{NEW}", "NEW = 1\nMORE = 3\n")
    repository.ok("export")
    assert "+MORE = 3\n" in repository.patches()["0003-Edit-the-new-file.patch"]
    assert repository.run("check").status == 0


def test_file_of_nobody(repository: Repository) -> None:
    tree = repository.tree()
    tree.write("torch/other.py", "x = 1\n")
    tree.commit("Add another file")
    error = repository.run("export", tree.path).error
    assert "'Add another file' touches torch/other.py, which is neither" in error


def test_deleted_file(repository: Repository) -> None:
    tree = repository.tree()
    tree.git("rm", "-q", CONFIG)
    tree.commit("Remove a file")
    assert f"deletes {CONFIG}" in repository.run("export", tree.path).error


def test_merge(repository: Repository) -> None:
    tree = repository.tree()
    tree.replace(SOLVER, "len(items)", "0")
    tree.commit("One")
    tree.git("checkout", "-q", "-b", "side", "pristine")
    tree.replace(CONFIG, "beta = 2", "beta = 3")
    tree.commit("Two")
    tree.git("checkout", "-q", "series")
    tree.git("merge", "-q", "side", "-m", "Merge")
    assert "is a merge" in repository.run("export", tree.path).error


def test_uncommitted_changes(repository: Repository) -> None:
    tree = repository.add_series()
    tree.write(CONFIG, "alpha = 7\n")
    assert "has uncommitted changes" in repository.run("export", tree.path).error


def test_directory_that_is_no_tree(repository: Repository, tmp_path: Path) -> None:
    error = repository.run("export", tmp_path).error
    assert "is not a tree made by `apply`" in error


def test_tree_of_another_release(repository: Repository, tmp_path: Path) -> None:
    repository.ok("apply", "v1.1.0", tmp_path / "newer")
    error = repository.run("export", tmp_path / "newer").error
    assert "was not made from the base release of a series (v1.0.0)" in error


def test_optional_branch_beside_the_series(repository: Repository) -> None:
    tree = repository.add_series()
    tree.git("checkout", "-q", "series")
    tree.replace(SOLVER, "list(items)", "tuple(items)")
    tree.git("commit", "-q", "-a", "--amend", "--no-edit")
    error = repository.run("export", tree.path).error
    assert "run `git rebase --fork-point series optional`" in error


def test_unknown_series(repository: Repository) -> None:
    error = repository.run("export", "--series", "v7").error
    assert error == "error: unknown series 'v7'; known: v1"


def test_killed_between_the_two_renames(repository: Repository) -> None:
    repository.add_series()
    before = repository.patches()
    patches = repository.layout.patches
    (patches / "v1").rename(patches / ".v1.old")
    assert repository.run("check").status == 0
    assert repository.patches() == before


@pytest.mark.parametrize("delay", [0.15, 0.3, 0.45])
def test_killed(repository: Repository, delay: float) -> None:
    """Whenever the process dies, the patches are the old or the new ones."""
    repository.add_series()
    old = repository.patches()
    repository.write(f"torch_overlay/{NEW}", "NEW = 2\n")
    code = (
        "import sys; from pathlib import Path; from acknap import cli; "
        "from acknap.base.layout import Layout; "
        f"Layout.default = lambda: Layout(Path({str(repository.root)!r})); "
        "sys.argv = ['harness', 'export']; cli.main()"
    )
    scripts = Path(cli.__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(scripts)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    assert process.wait() in (0, -signal.SIGKILL)
    repository.run("check")  # mends what the killed run left
    now = repository.patches()
    assert now == old or "+NEW = 2" in now["0001-Sort-by-absolute-value.patch"]
    repository.ok("export")
    assert repository.run("check").status == 0
    assert not [
        path for path in repository.layout.patches.iterdir() if path.name[0] == "."
    ]
