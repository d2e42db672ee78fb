"""The environment of the other people's solvers that a benchmark sets beside ours."""

import shutil
import venv
from pathlib import Path

from acknap import pip
from acknap.errors import HarnessError
from acknap.files import require_space, write_atomic
from acknap.locks import locked
from acknap.paths import Layout
from acknap.progress import working

_SIZE = 0.6e9


def python(layout: Layout) -> Path:
    """Make or reuse the environment and return its interpreter.

    Raises:
        HarnessError: It cannot be made.
    """
    requirements = layout.requirements / "bench-peers.txt"
    if not requirements.is_file():
        raise HarnessError(f"there is no {layout.relative(requirements)}")
    folder = layout.build / "env" / "bench-peers"
    interpreter, stamp = folder / "bin" / "python", folder / "complete"
    wanted = requirements.read_bytes()
    with locked(
        folder.with_suffix(".lock"), "Another process makes it: waiting"
    ) as lock:
        if stamp.is_file() and stamp.read_bytes() == wanted:
            return interpreter
        require_space(folder, int(_SIZE), "the environment of the peers")
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=False)
        log = folder.with_suffix(".log")
        with working(f"Installing the peers into {layout.relative(folder)}"):
            pip.install(interpreter, requirements, log, lock)
        write_atomic(stamp, wanted)
    return interpreter
