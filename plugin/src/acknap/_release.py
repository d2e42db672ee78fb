"""The installed torch, and which private modules are its own with the series."""

import functools
import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from acknap import _signatures

_PRIVATE = "acknap._torch"


@dataclass(frozen=True)
class Installed:
    """The torch that is there.

    Attributes:
        revision: Of the series in this package.
        folder: The private package: for exactly this torch, or, if it is not known, the
            newest one, whose solvers need nothing of torch.
        reason: Why this torch is not known; empty if it is.
        options: The options that the series adds, with their defaults.
    """

    revision: str
    folder: str
    reason: str
    options: Mapping[str, Any]

    def module(self, name: str) -> ModuleType:
        """A private module, by its name below `torch._functorch`."""
        return importlib.import_module(f"{_PRIVATE}.{self.folder}.{name}")

    def stamp(self) -> tuple[str, ...]:
        """What of this package decides on a plan, for the keys of compile caches."""
        return version("acknap"), self.revision, self.reason or self.folder


@functools.cache
def installed() -> Installed:
    """Find the private modules of the torch that is there.

    They are taken only if every file that they stand for is the released one, byte for
    byte, or the one of a torch that was patched with the series, and if the functions
    that the package calls beside them are those of the release.
    """
    table = json.loads((files(_PRIVATE) / "releases.json").read_text())
    releases = table["releases"]
    release = torch.__version__.partition("+")[0]
    entry = releases.get(release)
    if entry is None:
        entry = releases[
            max(releases, key=lambda name: tuple(map(int, name.split("."))))
        ]
        reason = f"PyTorch {torch.__version__} is not one of {', '.join(releases)}"
    else:
        reason = _difference(entry["files"], release)
    return Installed(table["revision"], entry["folder"], reason, entry["options"])


def _difference(blobs: Mapping[str, list[str]], release: str) -> str:
    """Which file is not that of the release; empty if all are."""
    root = Path(torch.__file__).parents[1]
    for path, known in blobs.items():
        if _blob_id(root / path) not in known:
            return f"{path} is not that of PyTorch {release}"
    try:
        changed = _signatures.differences(
            release, lambda path: (root / path).read_bytes()
        )
        return next(changed, "")
    except (OSError, SyntaxError) as error:
        return f"the files of PyTorch {release} cannot be read: {error}"


def _blob_id(path: Path) -> str | None:
    """What git calls a file's content; None if there is no file."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
