"""Which state files of a torch are in: as released, with a series, or neither."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from acknap.base import git
from acknap.upstream.targets import Target

State = Literal["pristine", "patched", "unknown"]
Blobs = Mapping[str, str | None]  # by path below site-packages; None: no such file


def expected(
    target: Target, added: Blobs, state: Literal["pristine", "patched"]
) -> Blobs:
    """Return the blob ids that a release's files have in a state.

    Args:
        target: The release.
        added: The files that its series adds, with their ids.
        state: As released, or with the series.
    """
    if state == "pristine":
        return {**target.before, **dict.fromkeys(added)}
    return {**target.before, **target.after, **added}


def blobs(site_packages: Path, paths: Blobs) -> Blobs:
    """Return the ids of files below a folder."""
    return {path: blob(site_packages / path) for path in paths}


def blob(file: Path) -> str | None:
    """Return the id of a file, None if there is none."""
    try:
        return git.blob_id(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def differing(found: Blobs, wanted: Blobs) -> str | None:
    """Return the first path whose id is not the wanted one, None if all are."""
    return next((path for path in wanted if found.get(path) != wanted[path]), None)


def of(found: Blobs, target: Target, added: Blobs) -> State:
    """Return the state of a release's files."""
    for state in ("pristine", "patched"):
        if differing(found, expected(target, added, state)) is None:
            return state
    return "unknown"
