"""`apply`: a fresh tree, a checkout, and everything that can be wrong with them."""

from pathlib import Path

import pytest

from toy_upstream import CONFIG, NEW, SOLVER, Repository, Tree


def test_fresh_tree_is_the_same_everywhere(repository: Repository) -> None:
    repository.add_series()
    trees = [repository.tree("one"), repository.tree("two")]
    heads = {tree.git("rev-parse", "pristine", "series", "optional") for tree in trees}
    assert len(heads) == 1
    tree = trees[0]
    assert tree.git("branch", "--show-current") == "series"
    assert tree.git("status", "--porcelain") == ""
    assert tree.git("log", "--format=%s %an", "pristine..optional").splitlines() == [
        "Change a default Toy Author",
        "Take iterators Toy Author",
        "Sort by absolute value Toy Author",
    ]
    assert sorted(tree.git("ls-tree", "-r", "--name-only", "pristine").split()) == [
        CONFIG,
        SOLVER,
    ]


def test_empty_directory(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    out = repository.ok("apply", "1.1.0", tmp_path / "empty")
    assert "0 patches on branch series" in out


def test_directory_with_files(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    error = repository.run("apply", "v1.0.0", tmp_path / "full").error
    assert "is neither empty nor a PyTorch checkout" in error


def test_unknown_target(repository: Repository, tmp_path: Path) -> None:
    error = repository.run("apply", "v3", tmp_path / "tree").error
    assert error == "error: unknown target 'v3'; known: v1.0.0, v1.1.0"


def test_no_git(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = repository.run("apply", "v1.0.0", tmp_path / "tree").error
    assert error == "error: git is not on PATH: install git"
    assert not (tmp_path / "tree").exists()


def test_interrupted(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("acknap.series.tree.build", interrupt)
        result = repository.run("apply", "v1.0.0", tmp_path / "tree")
    assert result.status == 130
    assert result.err.endswith("interrupted; run the command again to continue\n")
    assert not (tmp_path / "tree").exists()
    repository.tree()


def test_rest_of_a_killed_run(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / ".tree.partial" / "torch").mkdir(parents=True)
    repository.tree()
    assert not (tmp_path / ".tree.partial").exists()


def test_corrupt_patch(repository: Repository, tmp_path: Path) -> None:
    repository.add_series()
    path = repository.layout.patches / "v1" / "0002-Take-iterators.patch"
    text = path.read_text()
    path.write_text(text.replace("+    return", "    return"))
    error = repository.run("apply", "v1.0.0", tmp_path / "tree").error
    assert "0002-Take-iterators.patch does not apply to v1.0.0: " in error
    assert not (tmp_path / "tree").exists()
    path.write_text("garbage\n")
    error = repository.run("apply", "v1.0.0", tmp_path / "tree").error
    assert "0002-Take-iterators.patch is not a patch made by `export`" in error


class TestCheckout:
    def test_series_goes_onto_the_branch(self, repository: Repository) -> None:
        repository.add_series()
        tree = repository.checkout("1.1.0")
        out = repository.ok("apply", "v1.1.0", tree.path)
        assert out == f"2 patches applied to the current branch of {tree.path}\n"
        assert tree.git("branch", "--show-current") == "main"
        assert tree.git("log", "--format=%s").splitlines() == [
            "Take iterators",
            "Sort by absolute value",
            "Release",
        ]
        assert (tree.path / NEW).read_text() == "NEW = 1\n"
        again = repository.run("apply", "v1.1.0", tree.path).error
        assert f"the series is already in {tree.path}: " in again
        tree.replace(SOLVER, "sorted", "list")
        tree.commit("Something else")
        again = repository.run("apply", "v1.1.0", tree.path).error
        assert f"{SOLVER} of {tree.path} at HEAD has blob id" in again
        assert "goes onto that release, once" in again

    def test_a_tree_that_apply_made(self, repository: Repository) -> None:
        """Also with commits of the user's: what to do is `export`."""
        repository.add_series()
        tree = repository.tree()
        tree.replace(SOLVER, "len", "sum")
        tree.commit("Edit")
        error = repository.run("apply", "v1.0.0", tree.path).error
        assert error.endswith(
            f"the series is already in {tree.path}: to change it, commit there and run "
            f"`./scripts/harness export {tree.path}`"
        )

    def test_other_release(self, repository: Repository) -> None:
        repository.add_series()
        tree = repository.checkout("1.0.0")
        error = repository.run("apply", "v1.1.0", tree.path).error
        pinned = repository.target("v1.1.0").before[SOLVER]
        assert f"pins {pinned} for v1.1.0" in error
        assert tree.git("log", "--format=%s") == "Release"

    @pytest.mark.parametrize("path", [SOLVER, NEW])
    def test_local_changes(self, repository: Repository, path: str) -> None:
        repository.add_series()
        tree = repository.checkout()
        tree.write(path, "x = 1\n")
        error = repository.run("apply", "v1.0.0", tree.path).error
        assert f"has local changes of {path}" in error
        assert tree.git("log", "--format=%s") == "Release"

    def test_staged_change_elsewhere(self, repository: Repository) -> None:
        repository.add_series()
        tree = repository.checkout()
        tree.write("README.md", "edited\n")
        tree.git("add", "README.md")
        error = repository.run("apply", "v1.0.0", tree.path).error
        assert "has staged changes of README.md" in error
        assert tree.git("status", "--porcelain") == "M  README.md"

    def test_conflict_in_the_middle(self, repository: Repository) -> None:
        """The first patch applies, the second does not: nothing stays."""
        repository.add_series()
        path = repository.layout.patches / "v1" / "0002-Take-iterators.patch"
        path.write_text(path.read_text().replace(" def size", " def length"))
        tree = repository.checkout()
        head = tree.git("rev-parse", "HEAD")
        error = repository.run("apply", "v1.0.0", tree.path).error
        assert f"0002-Take-iterators.patch does not apply to v1.0.0: {SOLVER}:" in error
        assert tree.git("rev-parse", "HEAD") == head
        assert tree.git("status", "--porcelain") == ""
        assert not (tree.path / ".git" / "rebase-apply").exists()

    def test_new_file_that_is_there(self, repository: Repository) -> None:
        repository.add_series()
        tree = repository.checkout()
        tree.write(NEW, "x = 1\n")
        tree.commit("Another new.py")
        error = repository.run("apply", "v1.0.0", tree.path).error
        assert "0001-Sort-by-absolute-value.patch does not apply" in error
        assert (tree.path / NEW).read_text() == "x = 1\n"

    def test_open_am(self, repository: Repository) -> None:
        repository.add_series()
        tree = repository.checkout()
        (tree.path / ".git" / "rebase-apply").mkdir()
        error = repository.run("apply", "v1.0.0", tree.path).error
        assert f"run `git -C {tree.path} am --abort`" in error
        assert (tree.path / ".git" / "rebase-apply").exists()

    def test_no_repository(self, repository: Repository, tmp_path: Path) -> None:
        repository.add_series()
        (tmp_path / "unpacked" / "torch" / "_functorch").mkdir(parents=True)
        error = repository.run("apply", "v1.0.0", tmp_path / "unpacked").error
        assert "unpacked is not a git checkout" in error

    def test_no_patches(self, repository: Repository) -> None:
        tree = repository.checkout()
        error = repository.run("apply", "v1.0.0", tree.path).error
        assert "patches/v1 has no patches" in error

    def test_subdirectory(self, repository: Repository, tmp_path: Path) -> None:
        """A checkout inside another repository is not taken for it."""
        repository.add_series()
        outer = Tree(tmp_path)
        outer.git("init", "-q")
        (tmp_path / "inner" / "torch" / "_functorch").mkdir(parents=True)
        result = repository.run("apply", "v1.0.0", tmp_path / "inner")
        assert "inner is not a git checkout" in result.error
