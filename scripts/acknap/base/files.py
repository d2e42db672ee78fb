"""File operations that an interrupted run cannot leave half done."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acknap.base.errors import HarnessError


def write_atomic(path: Path, content: bytes) -> None:
    """Put `content` at `path` by rename: a reader sees the old file or the new one.

    The new file is a new inode, so other hard links to the old one keep its content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remember(path: Path, key: object, value: object) -> None:
    """Keep what was done, for `recall`; key and value as JSON has them."""
    write_atomic(path, json.dumps({"key": key, "value": value}).encode())


def recall(path: Path, key: object) -> Any:
    """What was kept for this key; None if nothing, and in CI, which skips nothing."""
    if os.environ.get("CI") == "true":
        return None
    try:
        kept = json.loads(path.read_bytes())
        return kept["value"] if kept["key"] == json.loads(json.dumps(key)) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def replace_directory(target: Path, content: dict[str, bytes]) -> None:
    """Make `target` hold exactly `content` (relative name to bytes).

    The new directory is complete before the old one is moved away. A run that is
    killed between the two renames is mended by `restore_directory`.
    """
    new, old = _aside(target, "new"), _aside(target, "old")
    shutil.rmtree(new, ignore_errors=True)
    for name, data in content.items():
        write_atomic(new / name, data)
    restore_directory(target)
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def restore_directory(target: Path) -> None:
    """Undo what a killed `replace_directory` left behind."""
    old = _aside(target, "old")
    if not old.exists():
        return
    if target.exists():
        shutil.rmtree(old)
    else:
        old.rename(target)


def link(source: str | Path, destination: str | Path) -> None:
    """A hard link where the file system has them, else a copy."""
    try:
        os.link(source, destination)
    except FileExistsError:
        raise
    except OSError:
        shutil.copy2(source, destination)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the length of the block, as tools print its path: no links in it."""
    with tempfile.TemporaryDirectory(prefix="acknap-") as name:
        yield Path(name).resolve()


def compiled(file: Path) -> Iterator[Path]:
    """The compiled files that there are of a module, of all Pythons."""
    return (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in an error that names none, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def require_folder(folder: Path) -> None:
    """Make the folder of a command's output now, rather than fail after its runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"cannot write to {folder}: {error.strerror}") from None


def require_space(
    directory: Path,
    needed: int,
    purpose: str,
    advice: str = "set ACKNAP_BUILD to another disk",
) -> None:
    """Refuse to start what the disk cannot hold."""
    free = _free(directory)
    if free < needed:
        raise HarnessError(
            f"{purpose} needs about {needed / 1e9:.1f} GB, {directory} has "
            f"{free / 1e9:.1f} GB free: make room or {advice}"
        )


def _free(directory: Path) -> int:
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    return shutil.disk_usage(existing).free


def _aside(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{suffix}")
