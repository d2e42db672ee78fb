"""Where pristine files come from, and how they are verified."""

import http.server
from pathlib import Path

import pytest

from acknap.base import pip
from acknap.base.errors import HarnessError
from acknap.base.git import blob_id
from acknap.upstream import pristine, wheel_reader
from toy_upstream import COMMITS, CONFIG, RELEASES, SOLVER, Repository, Tree, wheel

WHEEL = "torch-1.0.0-py3-none-any.whl"


def read(repository: Repository, checkout: Path | None = None) -> dict[str, str]:
    target = repository.target("v1.0.0")
    files = pristine.read(repository.layout, target, checkout)
    return {path: content.decode() for path, content in files.items()}


def failure(repository: Repository, checkout: Path | None = None) -> str:
    with pytest.raises(HarnessError) as caught:
        read(repository, checkout)
    return str(caught.value)


def left_over(repository: Repository) -> list[Path]:
    return list((repository.layout.build / "pristine").glob("*.part"))


@pytest.mark.parametrize("ranges", [True, False])
def test_from_the_index_once(repository: Repository, ranges: bool) -> None:
    repository.index.ranges = ranges
    assert read(repository) == RELEASES["1.0.0"]
    assert repository.index.requests[0] == "/simple/torch/"
    assert {*repository.index.requests[1:]} == {f"/files/{WHEEL}"}
    repository.index.requests.clear()
    assert read(repository) == RELEASES["1.0.0"]
    assert not repository.index.requests
    assert not left_over(repository)


def test_damaged_cache_is_read_again(repository: Repository) -> None:
    read(repository)
    cached = repository.layout.build / "pristine" / "1.0.0" / SOLVER
    cached.write_text("damaged\n")
    assert read(repository) == RELEASES["1.0.0"]
    assert cached.read_text() == RELEASES["1.0.0"][SOLVER]


@pytest.mark.parametrize("ranges", [True, False])
def test_another_file_in_the_wheel(repository: Repository, ranges: bool) -> None:
    repository.index.ranges = ranges
    repository.index.wheels[WHEEL] = wheel("1.0.0", **{SOLVER: "other\n"})
    found, pinned = blob_id(b"other\n"), blob_id(RELEASES["1.0.0"][SOLVER].encode())
    assert failure(repository) == (
        f"{SOLVER} of the wheel of torch 1.0.0 has blob id {found}, "
        f"patches/targets.toml pins {pinned} for v1.0.0: pip's index-url has "
        "to name an index with PyTorch's own wheels"
    )
    assert not (repository.layout.build / "pristine" / "1.0.0").exists()


def test_wheel_of_another_commit(repository: Repository) -> None:
    version = {"torch/version.py": f"git_version = '{'9' * 40}'\n"}
    repository.index.wheels[WHEEL] = wheel("1.0.0", **version)
    assert f"was built from commit {'9' * 40}" in failure(repository)


def test_wheel_without_a_file(repository: Repository) -> None:
    path = repository.layout.patches / "targets.toml"
    path.write_text(path.read_text().replace("solver.py", "gone.py"))
    assert WHEEL in failure(repository)
    assert "gone.py" in failure(repository)


def test_no_wheel_of_the_release(repository: Repository) -> None:
    del repository.index.wheels[WHEEL]
    message = failure(repository)
    assert (
        message
        == f"the package index {repository.index.url} has no wheel of torch 1.0.0"
    )


def test_no_project(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    use_index(monkeypatch, repository.index.url + "nothing/")
    assert failure(repository).endswith("/simple/nothing/ has no torch")


def test_build_for_another_platform_will_do(repository: Repository) -> None:
    data = repository.index.wheels.pop(WHEEL)
    repository.index.wheels["torch-1.0.0+x1-cp27-cp27m-irix_6_mips.whl"] = data
    assert read(repository) == RELEASES["1.0.0"]


def test_damaged_download(repository: Repository) -> None:
    repository.index.ranges = False
    repository.index.digests[WHEEL] = "0" * 64
    assert failure(repository) == f"{WHEEL} arrived damaged: run the command again"
    assert not left_over(repository)


def test_no_disk(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.index.ranges = False
    monkeypatch.setattr("acknap.base.files._free", lambda _: 1_000)
    assert f"reading {WHEEL} needs about " in failure(repository)


def test_index_that_does_not_answer(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http.server.HTTPServer(
        ("127.0.0.1", 0), http.server.BaseHTTPRequestHandler
    ) as one:
        port = one.server_port
    use_index(monkeypatch, f"http://user:secret@127.0.0.1:{port}/simple/")
    message = failure(repository)
    assert (
        f"the package index http://127.0.0.1:{port}/simple/ gives no answer" in message
    )
    assert "secret" not in message


def use_index(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", url)
    pip.configuration.cache_clear()
    wheel_reader._wheels.cache_clear()


class TestCheckout:
    def test_files_of_head(self, repository: Repository) -> None:
        tree = repository.checkout()
        tree.write("README.md", "edited\n")  # other files do not matter
        assert read(repository, tree.path) == RELEASES["1.0.0"]
        assert not repository.index.requests

    def test_local_changes(self, repository: Repository) -> None:
        tree = repository.checkout()
        tree.write(SOLVER, "edited\n")
        assert failure(repository, tree.path) == (
            f"{tree.path} has local changes of {SOLVER}: commit or stash them"
        )

    def test_another_release(self, repository: Repository) -> None:
        tree = repository.checkout("1.1.0")
        message = failure(repository, tree.path)
        assert message.startswith(f"{SOLVER} of {tree.path} has blob id ")
        assert message.endswith(f"run `git -C {tree.path} checkout v1.0.0`")

    def test_file_that_is_not_pinned_yet(self, repository: Repository) -> None:
        """Then only the commit can be compared."""
        path = repository.layout.patches / "targets.toml"
        text = path.read_text()
        lines = [one for one in text.splitlines() if not one.startswith(f'"{CONFIG}"')]
        path.write_text("\n".join(lines))
        tree = repository.checkout()
        head = tree.git("rev-parse", "HEAD")
        assert f"is at {head}, v1.0.0 is {COMMITS['1.0.0']}" in failure(
            repository, tree.path
        )
        path.write_text(path.read_text().replace(COMMITS["1.0.0"], head))
        assert read(repository, tree.path) == RELEASES["1.0.0"]

    def test_no_checkout(self, repository: Repository, tmp_path: Path) -> None:
        assert failure(repository, tmp_path) == f"{tmp_path} is not a PyTorch checkout"
        assert "is not a" in failure(repository, tmp_path / "absent")

    def test_in_apply(self, repository: Repository, tmp_path: Path) -> None:
        tree = repository.checkout()
        made = tmp_path / "tree"
        repository.ok("apply", "v1.0.0", made, "--checkout", tree.path)
        assert Tree(made).git("tag") == "pristine"
