"""The two virtual environments of a target: stock, and patched beside it.

The patched one shares the large files with the stock one by hard links; the few files
that the series changes are replaced by rename, never written through.
"""

import shutil
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.specifiers import SpecifierSet

from acknap.base import git
from acknap.base.errors import HarnessError, SeriesError
from acknap.base.files import compiled, link, write_atomic
from acknap.base.layout import Layout
from acknap.base.locks import locked
from acknap.base.progress import working
from acknap.base.venv import Venv, require_requirements
from acknap.series import tree
from acknap.series.patches import Series, added_files, load, new_files, source_of
from acknap.upstream import pristine, state
from acknap.upstream.state import Blobs
from acknap.upstream.targets import Target

# What a release takes on disk: on Linux the index brings a CUDA build.
_SIZE = 8e9 if sys.platform == "linux" else 2e9


@dataclass(frozen=True)
class Environment:
    """A virtual environment with a torch whose files are verified.

    Attributes:
        files: The blob id that each of its files below torch/ must have, None for no
            file: as released, and as the series changes them.
    """

    target: Target
    kind: Literal["stock", "patched", "plugin"]
    venv: Venv
    files: Blobs

    @property
    def python(self) -> Path:
        return self.venv.python

    @property
    def site_packages(self) -> Path:
        return self.venv.site_packages


def stock(layout: Layout, target: Target) -> Environment:
    """Make or reuse the environment of the release as published.

    Raises:
        HarnessError: it cannot be made, or its files are not those of the release.
    """
    version = ".".join(map(str, sys.version_info[:3]))
    if version not in SpecifierSet(target.requires_python):
        raise HarnessError(
            f"{target.name} needs Python {target.requires_python}, the harness runs on "
            f"{version}: put such a Python first on PATH and remove build/harness-venv"
        )
    environment = _environment(layout, target, "stock", target.before)
    with hold(layout, target) as lock:
        _make_stock(layout, environment, lock)
    return environment


def patched(layout: Layout, target: Target) -> Environment:
    """Make or reuse the environment of the release with the series on top.

    Raises:
        HarnessError: as for `stock`.
        SeriesError: the series does not give what targets.toml and the overlay say.
    """
    original = stock(layout, target)
    series = load(layout, target.series)
    _require_sources(layout, target, series)
    files = state.expected(target, series.added, "patched")
    environment = _environment(layout, target, "patched", files)
    with hold(layout, target):
        _make_patched(original, environment, series)
    return environment


def _environment(
    layout: Layout, target: Target, kind: Literal["stock", "patched"], files: Blobs
) -> Environment:
    made = Venv(layout.build / "env" / f"{target.release}-{kind}")
    files = {path: blob for path, blob in files.items() if path.startswith("torch/")}
    return Environment(target, kind, made, files)


def _make_stock(layout: Layout, environment: Environment, lock: int) -> None:
    target, made = environment.target, environment.venv
    requirements = require_requirements(layout, f"torch-{target.release}")
    wanted = {"python": sys.version, "requirements": requirements.read_text()}
    complete = made.stamp == wanted
    if not complete:
        made.install(layout, requirements, f"torch {target.release}", _SIZE, lock)
    _released(environment)
    if not complete:
        made.complete(wanted)


def _released(environment: Environment) -> dict[str, bytes]:
    """The files of a stock environment that its series works on, verified."""
    target, folder = environment.target, environment.venv.folder
    advice = f"remove {folder} and run the command again"
    files = {}
    for path in (*target.files, pristine.VERSION):
        try:
            files[path] = (environment.site_packages / path).read_bytes()
        except FileNotFoundError:
            raise HarnessError(
                f"{environment.site_packages} has no {path}: {advice}"
            ) from None
    version = files.pop(pristine.VERSION)
    pristine.verify(target, files, f"the environment {folder}", advice)
    pristine.verify_commit(target, version, f"the torch in {folder}", advice)
    return files


def _make_patched(
    original: Environment, environment: Environment, series: Series
) -> None:
    made = environment.venv
    wanted = {"stock": original.venv.stamp, "patches": series.revision}
    stamp = made.stamp
    if {key: stamp.get(key) for key in wanted} == wanted:
        found = state.blobs(made.site_packages, environment.files)
        if state.differing(found, environment.files) is None:
            return
    contents = tree.patched_files(original.target, _released(original), series)
    made.incomplete()
    if stamp.get("stock") != wanted["stock"]:
        link_packages(original.venv, made)
    _replace(original, environment, contents, {*stamp.get("files", ())} - {*contents})
    made.complete({**wanted, "files": sorted(contents)})


def link_packages(original: Venv, made: Venv) -> None:
    """Make an environment anew, with the packages of another one as hard links."""
    made.create()
    with working(f"Linking {made.folder.name}"):
        # Compiled files come along: Python takes one only if it fits its source's
        # time and size, and replaces it by rename.
        shutil.copytree(
            original.site_packages,
            made.site_packages,
            symlinks=True,
            copy_function=link,
            dirs_exist_ok=True,
        )


def _replace(
    original: Environment,
    environment: Environment,
    contents: Mapping[str, bytes],
    stale: set[str],
) -> None:
    """Put the series' files in place, and take back those of an earlier series."""
    for path in stale:
        file, source = environment.site_packages / path, original.site_packages / path
        file.unlink(missing_ok=True)
        if source.exists():
            link(source, file)
    for path, content in contents.items():
        write_atomic(environment.site_packages / path, content)
    for path in (*stale, *contents):
        file = environment.site_packages / path
        for one in compiled(file):
            one.unlink()
    _released(original)


def _require_sources(layout: Layout, target: Target, series: Series) -> None:
    """Refuse new files that were edited, added or deleted since the last export."""
    added = added_files(series.all)
    for path in sorted(added.keys() | new_files(layout)):
        source = source_of(layout, path)
        if source is None or git.blob_id(source.read_bytes()) != added.get(path):
            raise SeriesError(
                f"{path} is not in its source as the patches of {target.series} add "
                "it: run `./scripts/harness export`"
            )


def hold(layout: Layout, target: Target) -> AbstractContextManager[int]:
    """Let one process at a time work on the environments of a target."""
    return locked(
        layout.build / "env" / f"{target.release}.lock",
        f"Another process works on the environments of {target.name}: waiting",
    )
