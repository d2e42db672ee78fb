"""A lock between processes that a killed process's child keeps."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from acknap.base.progress import say


@contextmanager
def locked(path: Path, waiting: str) -> Iterator[int]:
    """Hold the lock file at `path` for the length of the block.

    Args:
        path: The lock file.
        waiting: What to say if another process holds it.

    Yields:
        A file descriptor. A child that gets it (`pass_fds`) holds the lock too: if we
        are killed, the next run waits until our pip has ended.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        lock(file, waiting)
        yield file.fileno()


def lock(file: IO[Any], waiting: str) -> None:
    """Lock an open file until it is closed; on NFS it has to be open for writing."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(waiting)
        fcntl.flock(file, fcntl.LOCK_EX)
