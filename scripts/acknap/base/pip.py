"""The user's pip: what it is configured for, and installing with it."""

import ast
import functools
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from acknap.base.errors import HarnessError, last_line

_CONSTRAINT = re.compile(r"The user requested \(constraint\) (.+)")
_NO_NETWORK = re.compile(r"Retrying \(Retry\(|NameResolutionError|NewConnectionError")


@functools.cache
def configuration() -> Mapping[str, str]:
    """All settings, as `pip config list` shows them: `global.index-url`, ..."""
    parts = (line.partition("=") for line in _config("list"))
    return {key: str(ast.literal_eval(value)) for key, found, value in parts if found}


def setting(name: str) -> str | None:
    """The value that `pip install` uses for an option: `index-url`, `cert`."""
    keys = (f"{section}.{name}" for section in (":env:", "install", "global"))
    return next(filter(None, map(configuration().get, keys)), None)


def run(arguments: Sequence[str | Path], what: str, log: Path, lock: int) -> None:
    """Run our pip, which can work on another interpreter: `--python`.

    Args:
        arguments: Its arguments.
        what: What is installed or removed, for messages.
        log: Where pip's output goes.
        lock: File descriptor of a lock that pip holds as long as it runs.

    Raises:
        HarnessError: with the reason in one line.
    """
    command = (sys.executable, "-m", "pip", "--no-input", *arguments)
    with log.open("w") as output:
        done = subprocess.run(
            command,
            env=_environment() | {"PIP_PROGRESS_BAR": "off"},
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
        )
    if done.returncode:
        reason = _reason(log.read_text(errors="replace"))
        raise HarnessError(f"{what}: {reason} (log: {log})")


def download(release: str, folder: Path, log: Path, lock: int) -> Path:
    """Download the wheel of torch that our Python would install, into an empty folder.

    Raises:
        HarnessError: with the reason in one line.
    """
    wanted = f"torch=={release}"
    options = ("--no-deps", "--only-binary", ":all:", "--dest", folder)
    run(["download", *options, wanted], wanted, log, lock)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _reason(output: str) -> str:
    """Say in one line why pip failed."""
    if held_back := _CONSTRAINT.search(output):
        return (
            f"pip is held to {held_back.group(1)} by {_constraint_setting()}: remove "
            "that setting and run the command again"
        )
    if "No space left on device" in output:
        return "the disk is full: make room or set ACKNAP_BUILD to another disk"
    if _NO_NETWORK.search(output):
        return "the package index does not answer: check the network"
    errors = "\n".join(re.findall("^ *ERROR.*", output, re.MULTILINE))
    return f"pip failed: {last_line(errors or output, 'no output')}"


def _constraint_setting() -> str:
    """Where the constraint comes from: an environment variable or files."""
    if value := configuration().get(":env:.constraint"):
        return f"the environment variable PIP_CONSTRAINT={value}"
    file, found = "", []
    for line in _config("debug"):
        if match := re.fullmatch(r"  (\S.*), exists: True", line):
            file = match.group(1)
        match = re.fullmatch(r"    (\S+\.constraint): (.*)", line)
        if match and match.group(2) == setting("constraint"):
            found.append(f"`{match.group(1)}` in {file}")
    return f"pip's setting {' and '.join(found)}" if found else "a constraints file"


def _config(command: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", command],
        capture_output=True,
        text=True,
        env=_environment(),
    )
    return done.stdout.splitlines()


def _environment() -> dict[str, str]:
    """Without what would make pip see packages of another environment."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
