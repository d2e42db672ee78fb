"""The torch that one Python imports: found, described, locked."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from acknap.base.errors import HarnessError
from acknap.base.layout import INSIDE
from acknap.base.locks import lock
from acknap.install import pip_record
from acknap.upstream import pristine, state

LOCATE = INSIDE / "locate.py"

# They would make Python look elsewhere than it does for its user: the launcher sets
# the first one for the harness itself.
_DROPPED = ("PYTHONPATH", "PYTHONSAFEPATH")


@dataclass(frozen=True)
class Torch:
    """A torch that a package installer put there.

    Attributes:
        commit: The PyTorch commit that it was built from, if its version.py names one.
        info: Its dist-info folder.
    """

    site_packages: Path
    info: Path
    commit: str | None

    def __str__(self) -> str:
        return f"torch {self.version} in {self.site_packages}"

    @property
    def version(self) -> str:
        return self.info.name.removeprefix("torch-").removesuffix(".dist-info")

    @property
    def record(self) -> str:
        """The path of its RECORD below site-packages."""
        return f"{self.info.name}/RECORD"

    @property
    def again(self) -> str:
        """What to do to have it as it was."""
        return f"install torch {self.version} again with pip ({self.pip_option})"

    @property
    def pip_option(self) -> str:
        """The option with which pip replaces it."""
        try:
            pip_record.paths((self.site_packages / self.record).read_bytes())
        except (FileNotFoundError, HarnessError):
            return "--ignore-installed"  # pip removes only what a RECORD lists
        return "--force-reinstall"

    @property
    def default_solver(self) -> str | None:
        """What its config.py names as the solver of a budget, None if it names none."""
        path = self.site_packages / "torch" / "_functorch" / "config.py"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = re.findall(
            r"(?m)^activation_memory_budget_solver\b.*= \"(\w+)\"$", text
        )
        return found[-1] if found else None

    def blob(self, path: str) -> str | None:
        """The id of a file below site-packages, None if there is no such file."""
        return state.blob(self.site_packages / path)


def find(python: str | None) -> Torch:
    """The torch that a Python imports.

    Args:
        python: A Python, a command or the folder of a virtual environment. If none: the
            Python of the active virtual environment, else the `python` on PATH.

    Raises:
        HarnessError: there is none, or no package installer put it there.
    """
    chosen = _choose(python)
    origin = _locate(chosen)
    if origin is None:
        raise HarnessError(f"{chosen} has no torch: name another Python with --python")
    site_packages = origin.parent.parent
    infos = sorted(site_packages.glob("torch-*.dist-info"))
    if not infos and any(
        (site_packages / name).exists() for name in (".git", "setup.py")
    ):
        raise HarnessError(
            f"{chosen} imports torch from the source tree {site_packages}: run "
            f"`./scripts/harness apply TARGET {site_packages}` instead"
        )
    if len(infos) != 1:
        raise HarnessError(
            f"{site_packages} has {len(infos) or 'no'} torch-*.dist-info beside the "
            f"torch that {chosen} imports: install one torch with pip"
        )
    version = origin.parent / "version.py"
    commit = pristine.commit_of(version.read_bytes()) if version.is_file() else None
    return Torch(site_packages, infos[0], commit)


def require_changeable(torch: Torch, paths: Collection[str]) -> None:
    """Refuse a torch in which these files cannot or must not be replaced.

    Raises:
        HarnessError: another package manager owns it, or it cannot be written to.
    """
    installer = torch.info / "INSTALLER"
    if installer.is_file() and installer.read_bytes().strip() == b"conda":
        raise HarnessError(f"{torch} belongs to conda: make an environment with pip")
    listed = torch.site_packages / torch.record
    if not listed.is_file():
        raise HarnessError(
            f"{torch} has no RECORD, so that no pip installed it: make an environment "
            "with pip"
        )
    try:
        pip_record.paths(listed.read_bytes())
    except HarnessError as error:
        raise HarnessError(f"{listed.parent}: {error}: {torch.again}") from None
    site_packages = torch.site_packages.resolve()
    for path in paths:
        file = torch.site_packages / path
        if file.resolve() != site_packages / path:
            raise HarnessError(
                f"{file} is a link to {file.resolve()}, which others may use: install "
                "torch again with pip, or with uv and --link-mode=copy"
            )
    require_writable(torch, paths)


def require_writable(torch: Torch, paths: Iterable[str]) -> None:
    """Refuse a torch in whose folders this user cannot replace these files."""
    folders = {(torch.site_packages / path).parent for path in paths}
    for folder in sorted({torch.site_packages, torch.info, *folders}):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise HarnessError(
                f"{folder} cannot be written to: run as its owner, or use a virtual "
                "environment of your own"
            )


@contextmanager
def locked(torch: Torch) -> Iterator[None]:
    """Let one process at a time change a torch; the lock leaves no file behind."""
    require_writable(torch, ())
    with (torch.info / "METADATA").open("r+b") as file:
        lock(file, f"Another process changes {torch}: waiting")
        yield


def _choose(python: str | None) -> Path:
    named = python or os.environ.get("VIRTUAL_ENV")
    if named and (folder := Path(named)).is_dir():
        found_in = folder.absolute() / "bin" / "python"
        if not found_in.exists():
            raise HarnessError(
                f"{named} is no virtual environment: no bin/python in it"
            )
        return found_in
    for name in [named] if named else ["python", "python3"]:
        if found := shutil.which(name):
            # Not resolved: a link would lead out of its environment.
            return Path(found).absolute()
    raise HarnessError(f"cannot run {named or 'python'}: name a Python with --python")


def _locate(python: Path) -> Path | None:
    """The file of the torch package that a Python would import."""
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    try:
        done = subprocess.run(
            [python, "-B", LOCATE], capture_output=True, text=True, env=kept
        )
        origin = json.loads(done.stdout)["torch"]
    except (OSError, ValueError, KeyError, TypeError):
        raise HarnessError(f"{python} does not run as a Python does") from None
    return Path(origin) if origin else None
