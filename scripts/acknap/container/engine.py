"""A container engine with BuildKit: found, run, and what it says put in one line."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acknap.base.errors import HarnessError, last_line
from acknap.base.progress import say, working

# docker has no BuildKit without it, from 18.09 to 22; later versions need buildx.
_VARIABLES = {"DOCKER_BUILDKIT": "1", "BUILDKIT_PROGRESS": "plain"}

_OWN = "or put `docker/engine.sh` before the command, as root: it brings one up"
_STEP = re.compile(r"^#\d+ (\[\S+ +\d+/\d+\] .{1,60})", re.MULTILINE)
_HARNESS_ERROR = re.compile(r"^(?:#\d+ +[\d.]+ +)?error: (.+)$", re.MULTILINE)
_ENGINE_ERROR = re.compile(r"^(?:#\d+ )?(?:ERROR|Error|error): (.+)$", re.MULTILINE)
_NO_SPACE = re.compile(r"no space left on device|GB free: make room", re.IGNORECASE)
_NO_INDEX = re.compile(
    r"index does not answer|Retrying \(Retry\((?s:.*)No matching distribution found"
)
_NO_BASE = re.compile(
    r"failed to (?:resolve source metadata|create LLB definition|do request|authorize)"
    r"|pull access denied|initializing source docker"
)


@dataclass(frozen=True)
class Engine:
    """The program that speaks to an engine which answers and has BuildKit."""

    program: Path
    has_contexts: bool  # a build can take a second folder

    def build(self, arguments: Sequence[str | Path], log: Path, what: str) -> None:
        """Build an image; the engine's output goes to `log`, its steps are shown.

        Raises:
            HarnessError: with the reason in one line. Nothing is tagged then.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with (
            log.open("w") as output,
            working(what),
            self._started(
                ["build", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process,
        ):
            for line in process.stdout or ():
                output.write(line)
                output.flush()
                if step := _STEP.match(line):
                    say(f"  {step.group(1)}")
        if process.returncode:
            said = reason(log.read_text(errors="replace"))
            raise HarnessError(f"{what} failed: {said} (log: {log})")

    def run(self, arguments: Sequence[str | Path], **options: Any) -> int:
        """Run a container to its end and remove it; return its exit status."""
        name = f"acknap-{os.getpid()}"
        command = ["run", "--rm", "--name", name, *arguments]
        try:
            with self._started(command, **options) as process:
                pass
        except BaseException:
            _call(self.program, "rm", "--force", name)
            raise
        return process.returncode

    def text(self, *arguments: str) -> str:
        """Run a command of the engine and return what it prints.

        Raises:
            HarnessError: with what the engine said.
        """
        done = _call(self.program, *arguments)
        if done.returncode:
            raise HarnessError(f"{self.program.name}: {last_line(done.stderr)}")
        return done.stdout.strip()

    @contextmanager
    def _started(
        self, arguments: Sequence[str | Path], **options: Any
    ) -> Iterator[subprocess.Popen[Any]]:
        with subprocess.Popen(
            [self.program, *arguments], env=os.environ | _VARIABLES, **options
        ) as process:
            try:
                yield process
                process.wait()
            except BaseException:
                process.terminate()
                raise


def find() -> Engine:
    """The first engine on PATH that can be used, docker before podman.

    Raises:
        HarnessError: there is none; the message says what is missing.
    """
    faults = []
    for program in _programs():
        version, options = _call(program, "version"), _call(program, "build", "--help")
        if version.returncode:
            said = last_line(version.stderr)
            faults.append(
                f"{program} finds no engine that answers ({said}): start it, {_OWN}"
            )
        elif "--secret" not in options.stdout:
            faults.append(f"{program} has no BuildKit: install its buildx plugin")
        else:
            return Engine(program, "--build-context" in options.stdout)
    raise HarnessError(
        faults[0] if faults else f"no docker on PATH: install it, {_OWN}"
    )


def reason(output: str) -> str:
    """Say in one line why a build failed."""
    if _NO_SPACE.search(output):
        return "the engine's disk is full: make room, see `docker system df`"
    if _NO_INDEX.search(output):
        return "the package index does not answer: check the network, and --network"
    if errors := _HARNESS_ERROR.findall(output):
        return str(errors[-1])
    said = last_line("\n".join(_ENGINE_ERROR.findall(output)) or output)
    if _NO_BASE.search(output):
        return (
            f"the base image cannot be had ({said}): name another with --base-image, "
            "or make one with docker/base-image.sh"
        )
    return said


def _programs() -> list[Path]:
    """Every docker on PATH, then every podman."""
    found = [
        Path(path)
        for name in ("docker", "podman")
        for folder in os.get_exec_path()
        if (path := shutil.which(name, path=folder))
    ]
    return list(dict.fromkeys(found))


def _call(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments],
        env=os.environ | _VARIABLES,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
