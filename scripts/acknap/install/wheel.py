"""A wheel of a release with the series in it, made from the released wheel."""

import copy
import re
import shutil
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from acknap.base import pip
from acknap.base.errors import HarnessError
from acknap.base.files import require_space
from acknap.base.layout import Layout
from acknap.base.locks import locked
from acknap.base.progress import working
from acknap.install import pip_record
from acknap.series import tree
from acknap.series.patches import load
from acknap.upstream import pristine
from acknap.upstream.targets import Target

# A released wheel: on Linux pip's index brings a CUDA build.
_SIZE = 1e9 if sys.platform == "linux" else 2e8
_LABEL = "acknap"
_SCRATCH = ".torch-acknap.partial"
_CHUNK = 1 << 20
_ADVICE = "name another folder with --out"


@dataclass(frozen=True)
class Plan:
    """How the patched wheel differs from the released one.

    Attributes:
        filename: The new wheel's name.
        old_info: The dist-info folder in the released wheel.
        new_info: That in the patched one, which has another version.
        contents: All files that are new or other, by their path in the patched wheel.
    """

    filename: str
    old_info: str
    new_info: str
    contents: Mapping[str, bytes]

    def renamed(self, path: str) -> str:
        """A path of the released wheel in the patched one."""
        rest = path.removeprefix(f"{self.old_info}/")
        return path if rest == path else f"{self.new_info}/{rest}"


def write_wheel(
    layout: Layout, target: Target, source: Path | None, out: Path | None
) -> str:
    """Write the patched wheel of a release; it appears when it is complete.

    Its version has a local label with the series' revision, so that `torch==2.10.0`
    still accepts it. torch/version.py stays as released: what reads a build's
    `+cu128` from torch.__version__ goes on working.

    Args:
        source: The released wheel. If none, pip downloads it.
        out: The folder for the new one.

    Returns:
        One line that says where the wheel is.

    Raises:
        HarnessError: it is not the release's wheel, or the disk is too small.
    """
    folder = (out or layout.build / "wheels").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / _SCRATCH
    waiting = f"Another process writes a wheel into {folder}: waiting"
    with locked(layout.build / "wheels.lock", waiting) as lock:
        shutil.rmtree(scratch, ignore_errors=True)  # of a killed run
        scratch.mkdir()
        try:
            if source is None:
                purpose = f"a wheel of {target.name}"
                require_space(folder, int(2 * _SIZE), purpose, _ADVICE)
                with working(f"Downloading the wheel of torch {target.release}"):
                    log = layout.build / "wheels.log"
                    source = pip.download(target.release, scratch, log, lock)
            written = _patch(layout, target, source, scratch)
            final = written.replace(folder / written.name)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return f"{final}: install it with pip"


def _patch(layout: Layout, target: Target, source: Path, folder: Path) -> Path:
    """Write the patched form of a wheel into a folder."""
    try:
        with zipfile.ZipFile(source) as archive:
            plan = _plan(layout, target, archive, source)
            size = int(1.1 * source.stat().st_size)
            require_space(folder, size, plan.filename, _ADVICE)
            with working(f"Writing {plan.filename}"):
                _write(source, archive, plan, folder / plan.filename)
    except FileNotFoundError:
        raise HarnessError(f"there is no {source}") from None
    except zipfile.BadZipFile as error:
        raise HarnessError(f"{source} is not a whole wheel: {error}") from None
    return folder / plan.filename


def _plan(
    layout: Layout, target: Target, archive: zipfile.ZipFile, source: Path
) -> Plan:
    version = _version(source, target)
    _, old_version, *tags = source.name.split("-")
    old_info = f"torch-{old_version}.dist-info"
    paths = [f"{old_info}/METADATA", f"{old_info}/RECORD"]
    paths += [*target.files, pristine.VERSION]
    released = pristine.read_archive(archive, paths, str(source))
    metadata, listed, commit = map(released.pop, (*paths[:2], pristine.VERSION))
    advice = "take the wheel that PyTorch published"
    pristine.verify(target, released, str(source), advice)
    pristine.verify_commit(target, commit, str(source), advice)
    series = load(layout, target.series)
    contents = tree.patched_files(target, released, series)
    labels = filter(None, [version.local, _LABEL, series.revision[:8]])
    # In the one spelling that pip expects.
    new = str(Version(f"{version.public}+{'.'.join(labels)}"))
    new_info = f"torch-{new}.dist-info"
    plan = Plan("-".join(["torch", new, *tags]), old_info, new_info, contents)
    line = f"Version: {new}".encode()
    contents[f"{new_info}/METADATA"] = re.sub(
        rb"(?m)^Version: .*$", line, metadata, count=1
    )
    rows = listed.decode().splitlines(keepends=True)
    moved = "".join(map(plan.renamed, rows)).encode()
    record = f"{new_info}/RECORD"
    contents[record] = pip_record.rewrite(moved, contents, [record])
    return plan


def _version(wheel: Path, target: Target) -> Version:
    """The version of a wheel, which has to be one of the target's."""
    try:
        name, version, _, _ = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename:
        raise HarnessError(f"{wheel} does not have the name of a wheel") from None
    if name != "torch":
        raise HarnessError(f"{wheel} is not a wheel of torch")
    if version.public != target.release:
        raise HarnessError(
            f"{wheel} is of torch {version.public}, not {target.release}: add --target "
            f"v{version.public}"
        )
    return version


def _write(source: Path, archive: zipfile.ZipFile, plan: Plan, path: Path) -> None:
    """Copy a wheel with the plan's files instead of its own; RECORD comes last."""
    entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    ends = [*(entry.header_offset for entry in entries[1:]), archive.start_dir]
    last, model = f"{plan.new_info}/RECORD", archive.getinfo(pristine.VERSION)
    rest = dict(plan.contents)
    with (
        source.open("rb") as old,
        path.open("wb") as file,
        zipfile.ZipFile(file, "w") as new,
    ):
        for entry, end in zip(entries, ends, strict=True):
            name = plan.renamed(entry.filename)
            if name == last:
                continue
            if name in rest:
                new.writestr(_entry(name, entry), rest.pop(name))
            elif name != entry.filename:
                new.writestr(_entry(name, entry), archive.read(entry))
            else:
                _copy(old, entry, end, new, file)
        for name in sorted(rest, key=lambda name: (name == last, name)):
            new.writestr(_entry(name, model), rest[name])


def _copy(
    old: BinaryIO,
    entry: zipfile.ZipInfo,
    end: int,
    new: zipfile.ZipFile,
    file: BinaryIO,
) -> None:
    """Copy an entry as it is, compressed: to compress all anew takes minutes.

    zipfile has no call for it. It writes its directory, at the end, from `filelist`.
    """
    copied = copy.copy(entry)
    copied.header_offset = new.start_dir
    old.seek(entry.header_offset)
    file.seek(new.start_dir)
    left = end - entry.header_offset
    while chunk := old.read(min(left, _CHUNK)):
        file.write(chunk)
        left -= len(chunk)
    new.filelist.append(copied)
    new.start_dir = file.tell()


def _entry(name: str, model: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """A new entry with another's time, mode and compression."""
    made = zipfile.ZipInfo(name, model.date_time)
    made.compress_type = model.compress_type
    made.external_attr = model.external_attr
    return made
