"""scripts/harness: finds a Python, makes its environment once, and hands over."""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acknap.base.layout import Layout

ROOT = Layout.default().root
NEEDED = ("sh", "dirname", "git")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository whose package prints its arguments and needs nothing."""
    package = tmp_path / "repo" / "scripts" / "acknap"
    package.mkdir(parents=True)
    for name in ("harness", "bootstrap.py"):
        shutil.copy(ROOT / "scripts" / name, package.parent)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import sys\nprint(sys.prefix, sys.argv[1:])\n"
    )
    (tmp_path / "repo" / "requirements").mkdir()
    (tmp_path / "repo" / "requirements" / "harness.txt").write_text("# nothing\n")
    return tmp_path / "repo"


def call(
    root: Path, *arguments: str, path: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name != "ACKNAP_BUILD"
    }
    base = Path(sys.base_prefix) / "bin"
    environment["PATH"] = str(path) if path else f"{base}:{os.environ['PATH']}"
    return subprocess.run(
        [root / "scripts" / "harness", *arguments],
        env=environment | variables,
        cwd="/",
        capture_output=True,
        text=True,
    )


def bin_directory(tmp_path: Path) -> Path:
    """A PATH without any Python."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in NEEDED:
        (directory / name).symlink_to(str(shutil.which(name)))
    return directory


def test_first_use_and_later(copy: Path) -> None:
    first = call(copy, "a b", "c")
    venv = copy / "build" / "harness-venv"
    assert first.stdout == f"{venv} ['a b', 'c']\n"
    assert first.stderr.startswith("First use: making ")
    start = time.monotonic()
    second = call(copy, "d")
    assert time.monotonic() - start < 3  # on a busy machine; 0.1 s on an idle one
    assert (second.stdout, second.stderr) == (f"{venv} ['d']\n", "")

    (venv / "complete").unlink()  # as after an interrupted first use
    assert call(copy).stderr.startswith("First use: making ")
    assert call(copy).stderr == ""


def test_second_command_waits_for_the_first_use_and_says_so(copy: Path) -> None:
    build = copy / "build"
    build.mkdir()
    with (build / "harness-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [copy / "scripts" / "harness", "late"]
        variables = {k: v for k, v in os.environ.items() if k != "ACKNAP_BUILD"}
        with subprocess.Popen(
            command, env=variables, stdout=-1, stderr=-1, text=True
        ) as second:
            assert second.stderr is not None
            said = second.stderr.readline()
            assert said.startswith("Another process makes ")
            assert said.endswith(": waiting\n")
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert second.communicate()[0].endswith("['late']\n")


def test_packages_that_are_not_to_be_had(copy: Path) -> None:
    requirements = copy / "requirements" / "harness.txt"
    requirements.write_text("no-such-package==1.0\n")
    done = call(copy, PIP_NO_INDEX="1")
    assert done.returncode == 2
    assert done.stdout == ""
    error = done.stderr.splitlines()[-1]
    assert error.startswith("error: pip could not install harness.txt: ERROR: ")
    requirements.write_text("# other pins\n")
    assert call(copy).returncode == 0


def test_no_python(copy: Path, tmp_path: Path) -> None:
    done = call(copy, path=bin_directory(tmp_path))
    assert done.returncode == 2
    assert done.stderr == "error: no Python 3.11 or newer on PATH: install one\n"


def test_old_python_is_passed_over(copy: Path, tmp_path: Path) -> None:
    directory = bin_directory(tmp_path)
    old, new = directory / "python3", directory / "python3.12"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    new.symlink_to(sys.executable)
    (copy / "scripts" / "bootstrap.py").write_text("import sys; print(sys.executable)")
    assert call(copy, path=directory).stdout == f"{new}\n"


def test_no_venv_module(copy: Path, tmp_path: Path) -> None:
    """Debian's Python has none until python3-venv is installed."""
    directory = bin_directory(tmp_path)
    python = directory / "python3"
    code = "import sys; sys.modules['ensurepip'] = None; sys.argv.pop(0); "
    code += "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    python.write_text(
        f'#!/bin/sh\nif [ "$2" = -c ]; then exit 0; fi\nshift\n'
        f'exec {sys.executable} -I -c "{code}" "$@"\n'
    )
    python.chmod(0o755)
    # `-c` takes the script's name as its first argument.
    done = call(copy, path=directory)
    assert done.returncode == 2
    assert "has no venv module: install it" in done.stderr
