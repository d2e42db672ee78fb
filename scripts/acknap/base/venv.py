"""Virtual environments: where things lie in one, and that it is complete."""

import json
import shutil
import sysconfig
import venv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acknap.base import pip
from acknap.base.errors import HarnessError
from acknap.base.files import require_space, write_atomic
from acknap.base.layout import Layout
from acknap.base.locks import locked
from acknap.base.progress import working

_STAMP = "complete.json"
_SIZE = 0.6e9  # of an extra environment


@dataclass(frozen=True)
class Venv:
    """A virtual environment, there or not.

    The stamp is written last and says what the environment was made from: without it,
    or with another one, it is made anew.
    """

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        base = {"base": str(self.folder), "platbase": str(self.folder)}
        return Path(sysconfig.get_path("purelib", "venv", base))

    @property
    def stamp(self) -> dict[str, Any]:
        """What it was made from; empty if it is not complete."""
        with suppress(OSError, ValueError):
            loaded = json.loads((self.folder / _STAMP).read_text())
            return loaded if isinstance(loaded, dict) else {}
        return {}

    def complete(self, stamp: Mapping[str, Any]) -> None:
        """Write the stamp."""
        write_atomic(self.folder / _STAMP, json.dumps(stamp, indent=2).encode())

    def incomplete(self) -> None:
        """Remove the stamp."""
        (self.folder / _STAMP).unlink(missing_ok=True)

    def create(self) -> None:
        """Make it, without any package; what was there is removed."""
        shutil.rmtree(self.folder, ignore_errors=True)
        venv.create(self.folder, with_pip=False)

    def install(
        self, layout: Layout, requirements: Path, what: str, size: float, lock: int
    ) -> None:
        """Make it, and install what a requirements file lists.

        Args:
            layout: The repository.
            requirements: The file.
            what: What it gives, for messages.
            size: Bytes on disk, about.
            lock: File descriptor of a lock that pip holds as long as it runs.

        Raises:
            HarnessError: The disk is too small, or pip fails.
        """
        require_space(self.folder, int(size), f"an environment with {what}")
        self.create()
        log = self.folder.with_name(f"{self.folder.name}.log")
        with working(f"Installing {what} into {layout.relative(self.folder)}"):
            options = ("--python", self.python, "install", "-r", requirements)
            pip.run(options, requirements.name, log, lock)


def require_requirements(layout: Layout, name: str) -> Path:
    """Return requirements/NAME.txt.

    Raises:
        HarnessError: There is none.
    """
    path = layout.requirements / f"{name}.txt"
    if not path.is_file():
        raise HarnessError(f"there is no {layout.relative(path)}")
    return path


def extra(layout: Layout, name: str, what: str) -> Venv:
    """Make or reuse the environment of requirements/NAME.txt, beside those of torch.

    Args:
        layout: The repository.
        name: Of the requirements file, and of the folder in build/env.
        what: What the environment holds, for messages.

    Raises:
        HarnessError: It cannot be made.
    """
    requirements = require_requirements(layout, name)
    made = Venv(layout.build / "env" / name)
    wanted = {"requirements": requirements.read_text()}
    lock_file = made.folder.with_suffix(".lock")
    with locked(lock_file, "Another process makes it: waiting") as lock:
        if made.stamp != wanted:
            made.install(layout, requirements, what, _SIZE, lock)
            made.complete(wanted)
    return made
