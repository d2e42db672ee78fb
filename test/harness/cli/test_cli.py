"""The command line: help, errors, exit statuses."""

import re
import sys
from functools import partial
from pathlib import Path

import pytest

from acknap.base.layout import Layout
from acknap.inside.solvers import SOLVERS
from acknap.series.patches import load
from acknap.suite import selftest
from toy_upstream import Repository, Tree


def test_help_lists_the_commands(repository: Repository) -> None:
    out = repository.ok("--help")
    panels = [line.split()[1] for line in out.splitlines() if line.startswith("╭")]
    assert panels == [
        "Options",
        "Apply",
        "Model",
        "Verify",
        "Reproduce",
        "Maintain",
    ]
    commands = ("apply", "bench", "capture", "check", "compare", "export", "report")
    for command in (*commands, "solve", "test"):
        assert f"│ {command} " in out
        assert repository.run(command, "--help").status == 0


def test_version_names_the_commit_and_each_series(repository: Repository) -> None:
    tree = Tree(repository.root)
    tree.git("init", "-q")
    tree.commit("Before the series")
    commit = tree.git("rev-parse", "HEAD")
    lines = repository.ok("--version").splitlines()
    assert lines == [f"acknap, commit {commit}", "series v1, revision none yet"]
    repository.add_series()
    revision = load(repository.layout, "v1").revision[:8]
    lines = repository.ok("--version").splitlines()
    assert lines == [
        f"acknap, commit {commit}-dirty",
        f"series v1, revision {revision}",
    ]


def test_version_of_an_unpacked_archive(repository: Repository) -> None:
    assert repository.ok("--version").startswith("acknap, commit unknown\n")


def test_targets_lists_each_release_with_its_series(repository: Repository) -> None:
    repository.add_series()
    revision = load(repository.layout, "v1").revision[:8]
    rows = [line.split() for line in repository.ok("targets").splitlines()]
    for release in ("v1.0.0", "v1.1.0"):
        assert [release, "patches/v1", revision, "no", "toy"] in rows


def test_help_of_solve_names_the_solvers(repository: Repository) -> None:
    words = repository.ok("solve", "--help").replace("│", " ").split()
    names = [name for name, solver in SOLVERS.items() if solver.listed]
    assert {f"{name}," for name in names[:-1]} | {f"{names[-1]}."} <= {*words}


def test_bench_lists_the_claims_and_measures_nothing(repository: Repository) -> None:
    repository.write(
        "benchmarks/claims.toml",
        '[claims.one]\ntext = "Is so"\nsource = "paper"\nexpected = "so"\n',
    )
    assert repository.ok("bench", "--list") == "one  Is so\n"


def test_wrong_usage(repository: Repository) -> None:
    assert repository.run("nothing").status == 2
    assert repository.run("apply").status == 2


def test_interrupt(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("acknap.series.check.run_check", interrupt)
    result = repository.run("check")
    assert result.status == 130
    assert result.err == "interrupted; run the command again to continue\n"


def test_error_of_the_system(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/build/x")

    monkeypatch.setattr("acknap.series.check.run_check", full)
    error = repository.run("check").error
    assert error == "error: No space left on device: /build/x"


def test_test_runs_every_step(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A step that fails or cannot run does not hide the others."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$2" != mypy ]\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(selftest, "COMPARED", "v9")
    monkeypatch.setattr(selftest, "OLDEST", "v8")
    monkeypatch.setattr(selftest, "PLUGIN", "v7")
    result = repository.run("test")
    assert result.status == 1
    steps = [line for line in result.out.splitlines() if line.startswith("$ ")]
    assert len(steps) == 11
    assert steps[-2:] == ["$ harness compare --target v9", "$ suite on patched v8"]
    ends = [line for line in result.out.splitlines() if re.search(r" in \d+ s$", line)]
    assert len(ends) == 10
    assert ends[0].startswith("ruff check: passed in ")
    assert ends[-1].startswith("harness compare --target v9: failed in ")
    # The runner's own words come last.
    assert result.out.endswith(f"{ends[-1]}\n\n$ suite on patched v8\n")
    assert "error: unknown target 'v9'" in result.err
    assert result.err.splitlines()[-1] == (
        "Failed: mypy, mypy --config-file plugin/pyproject.toml, harness check, "
        "types on v8, types on v9, the package on stock v7, "
        "harness compare --target v9, suite on patched v8"
    )


def test_test_keeps_what_passed_in_the_same_tree(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    ran: list[str] = []
    good = {"one": True, "two": False}

    def steps(layout: Layout) -> list[str]:
        """The steps that are run, and not kept."""
        ran.clear()
        names = {name: partial(step, name) for name in good}
        ends = selftest._run_steps(layout, names)
        kept = [name for name, end in ends.items() if end.startswith("kept")]
        assert sorted(kept + ran) == sorted(good)
        return ran

    def step(name: str) -> bool:
        ran.append(name)
        return good[name]

    layout = repository.layout
    assert steps(layout) == ["one", "two"]
    assert steps(layout) == ["one", "two"]  # there is no git
    repository.write(".gitignore", "build\n")
    Tree(repository.root).git("init", "-q")
    assert steps(layout) == ["one", "two"]
    assert steps(layout) == ["two"]
    good["two"] = True
    assert steps(layout) == ["two"]
    assert steps(layout) == []
    repository.write("new.py", "a file that git does not know yet")
    assert steps(layout) == ["one", "two"]
    monkeypatch.setenv("CI", "true")
    assert steps(layout) == ["one", "two"]
