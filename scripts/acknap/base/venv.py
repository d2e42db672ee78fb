"""Environments beside torch's, each made from one requirements file on first use."""

import shutil
import sysconfig
import venv
from pathlib import Path

from acknap.base import pip
from acknap.base.errors import HarnessError
from acknap.base.files import require_space, write_atomic
from acknap.base.layout import Layout
from acknap.base.locks import locked
from acknap.base.progress import working

_SIZE = 0.6e9


def environment(layout: Layout, name: str, what: str) -> Path:
    """Make or reuse the environment of requirements/NAME.txt and return its folder.

    Args:
        layout: The repository.
        name: Of the requirements file, and of the folder in build/env.
        what: What the environment holds, for messages.

    Raises:
        HarnessError: It cannot be made.
    """
    requirements = layout.requirements / f"{name}.txt"
    if not requirements.is_file():
        raise HarnessError(f"there is no {layout.relative(requirements)}")
    folder = layout.build / "env" / name
    stamp, wanted = folder / "complete", requirements.read_bytes()
    with locked(
        folder.with_suffix(".lock"), "Another process makes it: waiting"
    ) as lock:
        if stamp.is_file() and stamp.read_bytes() == wanted:
            return folder
        require_space(folder, int(_SIZE), f"the environment of {what}")
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=False)
        log = folder.with_suffix(".log")
        with working(f"Installing {what} into {layout.relative(folder)}"):
            pip.install(folder / "bin" / "python", requirements, log, lock)
        write_atomic(stamp, wanted)
    return folder


def site_packages(folder: Path) -> Path:
    """Return where the packages of an environment lie."""
    base = {"base": str(folder), "platbase": str(folder)}
    return Path(sysconfig.get_path("purelib", "venv", base))
