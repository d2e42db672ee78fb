"""Changes of an installed torch that a killed run cannot leave half made.

Beside torch, in its site-packages, a folder holds the files that were replaced and a
journal of what replaces them. It is complete and on the disk before the first file of
torch changes. From then on each file is moved into its place: at any moment each is the
old or the new one, and the journal says which.
"""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from acknap.base import git
from acknap.base.errors import HarnessError
from acknap.base.files import compiled, link, naming
from acknap.install import pip_record
from acknap.install.installed import Torch
from acknap.upstream.targets import Target

# In RECORD, so that `pip uninstall torch` removes it. No Python can import a name with
# a hyphen.
FOLDER = "torch-acknap"
_JOURNAL, _ORIGINALS, _STAGED = (
    f"{FOLDER}/{name}" for name in ("journal.json", "originals", "staged")
)
_FORMAT = 1


@dataclass(frozen=True)
class Journal:
    """What one installation of a series replaces.

    Attributes:
        commit: The commit that torch was built from.
        files: The ids of each file before (None: no file) and after, by its path below
            site-packages, in the order in which they change.
        compiled: The compiled files of those that had any.
    """

    target: str
    commit: str
    series: str
    revision: str
    files: Mapping[str, tuple[str | None, str]]
    compiled: tuple[str, ...]


def read(torch: Torch) -> Journal | None:
    """The journal of what was installed into a torch.

    Raises:
        HarnessError: it was damaged.
    """
    path = torch.site_packages / _JOURNAL
    try:
        data = json.loads(path.read_bytes())
        if data.pop("format") != _FORMAT:
            raise ValueError
        files = {path: (before, after) for path, (before, after) in data.pop("files")}
        return Journal(files=files, compiled=tuple(data.pop("compiled")), **data)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HarnessError(
            f"{path} cannot be read: remove {path.parent} and {torch.again}"
        ) from None


def has_folder(torch: Torch) -> bool:
    """Whether anything of ours lies beside a torch."""
    return (torch.site_packages / FOLDER).exists()


def original(torch: Torch, path: str) -> Path:
    """Where the released content of a file is: kept aside, or still in its place."""
    kept = torch.site_packages / _ORIGINALS / path
    return kept if kept.exists() else torch.site_packages / path


def put(
    torch: Torch, target: Target, revision: str, contents: Mapping[str, bytes]
) -> None:
    """Replace files of a torch by others, and add those that it does not have.

    Args:
        torch: It is pristine, and locked.
        revision: The revision of the series that the files are of.
        contents: The files by their path below site-packages.
    """
    clear(torch)
    try:
        journal = _prepare(torch, target, revision, contents)
        for path in journal.files:
            (torch.site_packages / _STAGED / path).replace(torch.site_packages / path)
        for path in journal.compiled:  # they may be of the kind that is never checked
            (torch.site_packages / path).unlink(missing_ok=True)
        shutil.rmtree(torch.site_packages / _STAGED)
        _sync(*_folders(torch, journal))
    except BaseException:
        take_back(torch)
        raise


def take_back(torch: Torch) -> None:
    """Undo all that a `put` did, complete or not; no file may be foreign or lost."""
    if journal := read(torch):
        for path, (before, after) in reversed([*journal.files.items()]):
            if torch.blob(path) != after:
                continue  # as it was
            if before is None:
                (torch.site_packages / path).unlink()
            else:
                _put_back(torch, path)
        ours = [path for path in journal.files if path.endswith(".py")]
        for path in _compiled(torch, ours) - {*journal.compiled}:
            (torch.site_packages / path).unlink(missing_ok=True)
        for path in journal.compiled:
            with suppress(FileNotFoundError):
                _put_back(torch, path)
        _sync(*_folders(torch, journal))
    clear(torch)


def clear(torch: Torch) -> None:
    """Remove the folder; its journal first, since it speaks of the other files."""
    (torch.site_packages / _JOURNAL).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        shutil.rmtree(torch.site_packages / FOLDER)


def foreign(torch: Torch, journal: Journal) -> str | None:
    """A file that is neither the journal's old nor its new one, if there is one."""
    return next(
        (path for path, ids in journal.files.items() if torch.blob(path) not in ids),
        None,
    )


def lost(torch: Torch, journal: Journal) -> Path | None:
    """A kept file that `take_back` needs and that is not as it was, if there is one."""
    for path, (before, after) in journal.files.items():
        kept = f"{_ORIGINALS}/{path}"
        if before and torch.blob(path) == after and torch.blob(kept) != before:
            return torch.site_packages / kept
    return None


def _prepare(
    torch: Torch, target: Target, revision: str, contents: Mapping[str, bytes]
) -> Journal:
    """Put everything beside torch that the change and its undoing need."""
    replaced = [path for path in contents if path in target.files]
    pycs = tuple(sorted(_compiled(torch, replaced)))
    for path in (*replaced, *pycs, torch.record):
        kept = torch.site_packages / _ORIGINALS / path
        kept.parent.mkdir(parents=True, exist_ok=True)
        link(torch.site_packages / path, kept)
    new = _with_record(torch, contents, replaced, pycs)
    mode = (torch.site_packages / replaced[0]).stat().st_mode
    for path, content in new.items():
        _write(torch.site_packages / _STAGED / path, content, mode)
    journal = Journal(
        target=target.name,
        commit=target.commit,
        series=target.series,
        revision=revision,
        files={path: (torch.blob(path), git.blob_id(new[path])) for path in new},
        compiled=pycs,
    )
    data = {"format": _FORMAT, **asdict(journal), "files": [*journal.files.items()]}
    # The journal appears when all that it speaks of is on the disk.
    partial = torch.site_packages / f"{_JOURNAL}.partial"
    _write(partial, json.dumps(data, indent=2).encode(), mode)
    folder = torch.site_packages / FOLDER
    # The files too: where there are no hard links, originals are copies.
    _sync(folder, *folder.rglob("*"))
    partial.replace(torch.site_packages / _JOURNAL)
    _sync(folder, torch.site_packages)
    return journal


def _with_record(
    torch: Torch,
    contents: Mapping[str, bytes],
    replaced: list[str],
    pycs: tuple[str, ...],
) -> dict[str, bytes]:
    """The files to put and RECORD, in an order in which torch can be imported.

    RECORD comes first: from then on pip removes what is ours. Then come the files that
    nothing uses yet, then those of the release in the order of `contents`.
    """
    old = (torch.site_packages / torch.record).read_bytes()
    kept = {
        f"{_ORIGINALS}/{path}": (torch.site_packages / path).read_bytes()
        for path in (*replaced, torch.record)
    }
    # The journal has the id of this RECORD, so RECORD cannot have the journal's.
    unhashed = [_JOURNAL, *(f"{_ORIGINALS}/{path}" for path in pycs)]
    added = {path: contents[path] for path in contents if path not in replaced}
    new = pip_record.rewrite(old, {**contents, **kept}, unhashed)
    return {torch.record: new, **added, **{path: contents[path] for path in replaced}}


def _put_back(torch: Torch, path: str) -> None:
    (torch.site_packages / _ORIGINALS / path).replace(torch.site_packages / path)


def _compiled(torch: Torch, paths: list[str]) -> set[str]:
    """The compiled files that there are of some modules, of all Pythons."""
    site = torch.site_packages
    found = (file for path in paths for file in compiled(site / path))
    return {file.relative_to(site).as_posix() for file in found}


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path):
        path.write_bytes(content)
    path.chmod(mode & 0o777)


def _folders(torch: Torch, journal: Journal) -> set[Path]:
    return {(torch.site_packages / path).parent for path in journal.files}


def _sync(*paths: Path) -> None:
    """Make sure that files, and the entries of folders, survive a power cut."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            with naming(path):
                os.fsync(handle)
        finally:
            os.close(handle)
