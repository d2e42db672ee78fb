"""Run git as on a machine without any configuration of the user's."""

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from acknap.base.errors import HarnessError, last_line

# The committer of every commit that the harness makes: the same input gives the same
# commit hash on every machine.
_IDENTITY = {
    f"GIT_{who}_{key}": value
    for who in ("AUTHOR", "COMMITTER")
    for key, value in {
        "NAME": "Knapsack harness",
        "EMAIL": "harness@example.invalid",
        "DATE": "2026-01-01T00:00:00+0000",
    }.items()
}

# A repository's own configuration still counts, so what could change a result is set
# on the command line.
_SETTINGS = (
    "advice.mergeConflict=false",
    "am.keepcr=false",
    "am.threeWay=false",
    "apply.ignoreWhitespace=no",
    "apply.whitespace=nowarn",
    "commit.gpgSign=false",
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.excludesFile=/dev/null",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "init.defaultBranch=series",
    "mailinfo.scissors=false",
    "tag.gpgSign=false",
)


class GitError(HarnessError):
    """A git command that failed; `output` holds all that git said."""

    def __init__(self, command: str, stdout: str, stderr: str) -> None:
        super().__init__(f"git {command}: {last_line(stderr, 'failed')}")
        self.output = f"{stdout}\n{stderr}"


def blob_id(content: bytes) -> str:
    """The id that git gives to a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def run(
    repository: Path,
    *arguments: str | Path,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> bytes:
    """Run git in `repository` and return what it prints.

    Raises:
        GitError: git ended with an error.
        HarnessError: there is no git.
    """
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    try:
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=repository,
            env=_environment() | dict(environment or {}),
            input=stdin,
            capture_output=True,
        )
    except FileNotFoundError:
        if not repository.is_dir():
            raise HarnessError(f"{repository} is not a directory") from None
        raise HarnessError("git is not on PATH: install git") from None
    if done.returncode != 0:
        said = (one.decode(errors="replace") for one in (done.stdout, done.stderr))
        raise GitError(str(arguments[0]), *said)
    return done.stdout


def text(
    repository: Path,
    *arguments: str | Path,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run git and return its output as text, without the last newline."""
    done = run(repository, *arguments, stdin=stdin, environment=environment)
    return done.decode().rstrip("\n")


def lines(repository: Path, *arguments: str | Path) -> list[str]:
    """Run git and return the lines of its output."""
    return text(repository, *arguments).splitlines()


def describe(repository: Path) -> str:
    """The commit that a working tree is at, "-dirty" if there are changes."""
    try:
        return text(
            repository, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"
        )
    except GitError:  # an unpacked archive
        return "unknown"


def has_ref(repository: Path, ref: str) -> bool:
    """Whether `ref` names a commit of the repository."""
    try:
        run(repository, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    except GitError:
        return False
    return True


def _environment() -> dict[str, str]:
    # Inherited GIT_* variables (of a hook that calls us, say) point elsewhere.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return {
        **inherited,
        **_IDENTITY,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
