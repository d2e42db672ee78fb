"""The command line: help, errors, exit statuses."""

import sys
from pathlib import Path

import pytest

from acknap.suite import selftest
from toy_upstream import Repository


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
    assert "error: unknown target 'v9'" in result.err
    assert result.err.splitlines()[-1] == (
        "Failed: mypy, mypy --config-file plugin/pyproject.toml, harness check, "
        "types on v8, types on v9, the package on stock v7, "
        "harness compare --target v9, suite on patched v8"
    )
