"""The two virtual environments of a target: stock, and patched beside it.

The patched one shares the large files with the stock one by hard links; the few files
that the series changes are replaced by rename, never written through.
"""

import json
import shutil
import sys
import sysconfig
import venv
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from packaging.specifiers import SpecifierSet

from acknap.base import git, pip
from acknap.base.errors import HarnessError, SeriesError
from acknap.base.files import link, require_space, write_atomic
from acknap.base.layout import Layout
from acknap.base.locks import locked
from acknap.base.progress import working
from acknap.series import tree
from acknap.series.patches import load, new_files, revision, source_of
from acknap.upstream import pristine
from acknap.upstream.targets import Target

# What a release takes on disk: on Linux the index brings a CUDA build.
_SIZE = 8e9 if sys.platform == "linux" else 2e9
_STAMP = "complete.json"


@dataclass(frozen=True)
class Environment:
    """A virtual environment with a torch whose files are verified."""

    target: Target
    kind: Literal["stock", "patched"]
    python: Path
    site_packages: Path


def stock(layout: Layout, target: Target) -> Environment:
    """Make or reuse the environment of the release as published.

    Raises:
        HarnessError: it cannot be made, or its files are not those of the release.
    """
    _require_python(target)
    environment = _environment(layout, target, "stock")
    with _locked(layout, target) as lock:
        _make_stock(layout, environment, lock)
    return environment


def patched(layout: Layout, target: Target) -> Environment:
    """Make or reuse the environment of the release with the series on top.

    Raises:
        HarnessError: as for `stock`.
        SeriesError: the series does not give what targets.toml and the overlay say.
    """
    original = stock(layout, target)
    _require_sources(layout, target)
    environment = _environment(layout, target, "patched")
    with _locked(layout, target):
        _make_patched(layout, original, environment)
    return environment


def _make_stock(layout: Layout, environment: Environment, lock: int) -> None:
    target = environment.target
    requirements = layout.requirements / f"torch-{target.release}.txt"
    if not requirements.is_file():
        raise HarnessError(f"there is no {layout.relative(requirements)}")
    wanted = {"python": sys.version, "requirements": requirements.read_text()}
    directory = _directory(environment)
    complete = _stamp(directory) == wanted
    if not complete:
        require_space(
            directory, int(_SIZE), f"an environment with torch {target.release}"
        )
        shutil.rmtree(directory, ignore_errors=True)
        venv.create(directory, with_pip=False)
        log = directory.with_name(f"{directory.name}.log")
        with working(
            f"Installing torch {target.release} into {layout.relative(directory)}"
        ):
            pip.install(environment.python, requirements, log, lock)
    _verify_stock(environment)
    if not complete:
        _write_stamp(directory, wanted)


def _verify_stock(environment: Environment) -> None:
    target = environment.target
    directory = _directory(environment)
    advice = f"remove {directory} and run the command again"
    files = _read(environment, target.files, advice)
    pristine.verify(target, files, f"the environment {directory}", advice)
    version = _read(environment, [pristine.VERSION], advice)[pristine.VERSION]
    pristine.verify_commit(target, version, f"the torch in {directory}", advice)


def _make_patched(
    layout: Layout, original: Environment, environment: Environment
) -> None:
    directory = _directory(environment)
    wanted = {
        "stock": _stamp(_directory(original)),
        "patches": revision(layout, environment.target.series),
    }
    stamp = _stamp(directory) or {}
    if {key: stamp.get(key) for key in wanted} != wanted or not _holds(
        environment, stamp.get("files", {})
    ):
        contents = _patched_files(layout, original)
        (directory / _STAMP).unlink(missing_ok=True)
        if stamp.get("stock") != wanted["stock"]:
            shutil.rmtree(directory, ignore_errors=True)
            venv.create(directory, with_pip=False)
            with working(f"Linking {layout.relative(directory)}"):
                _link_tree(original.site_packages, environment.site_packages)
        stale = set(stamp.get("files", {})) - set(contents)
        _replace(original, environment, contents, stale)
        ids = {path: git.blob_id(content) for path, content in contents.items()}
        _write_stamp(directory, {**wanted, "files": ids})


def _patched_files(layout: Layout, original: Environment) -> dict[str, bytes]:
    target = original.target
    released = _read(original, target.files, "remove the environment")
    return tree.patched_files(target, released, load(layout, target.series))


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
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()
    _verify_stock(original)


def _require_sources(layout: Layout, target: Target) -> None:
    """Refuse new files that were edited, added or deleted since the last export."""
    patches = load(layout, target.series)
    added = {path: blob for one in patches for path, blob in one.added.items()}
    for path in sorted(added.keys() | new_files(layout)):
        source = source_of(layout, path)
        if source is None or git.blob_id(source.read_bytes()) != added.get(path):
            raise SeriesError(
                f"{path} is not in its source as the patches of {target.series} add "
                "it: run `./scripts/harness export`"
            )


def _holds(environment: Environment, ids: Mapping[str, str]) -> bool:
    """Whether the environment's files have these ids."""
    for path, blob in ids.items():
        try:
            content = (environment.site_packages / path).read_bytes()
        except OSError:
            return False
        if git.blob_id(content) != blob:
            return False
    return bool(ids)


def _link_tree(source: Path, destination: Path) -> None:
    # Compiled files come along: Python takes one only if it fits its source's time
    # and size, and replaces it by rename.
    destination.mkdir(parents=True, exist_ok=True)
    shutil.copytree(
        source, destination, symlinks=True, copy_function=link, dirs_exist_ok=True
    )


def _require_python(target: Target) -> None:
    version = ".".join(map(str, sys.version_info[:3]))
    if version not in SpecifierSet(target.requires_python):
        raise HarnessError(
            f"{target.name} needs Python {target.requires_python}, the harness runs on "
            f"{version}: put such a Python first on PATH and remove build/harness-venv"
        )


def _environment(
    layout: Layout, target: Target, kind: Literal["stock", "patched"]
) -> Environment:
    directory = layout.build / "env" / f"{target.release}-{kind}"
    base = {"base": str(directory), "platbase": str(directory)}
    return Environment(
        target=target,
        kind=kind,
        python=directory / "bin" / "python",
        site_packages=Path(sysconfig.get_path("purelib", "venv", base)),
    )


def _directory(environment: Environment) -> Path:
    return environment.python.parent.parent


def _read(
    environment: Environment, paths: list[str] | tuple[str, ...], advice: str
) -> dict[str, bytes]:
    files = {}
    for path in paths:
        try:
            files[path] = (environment.site_packages / path).read_bytes()
        except FileNotFoundError:
            raise HarnessError(
                f"{environment.site_packages} has no {path}: {advice}"
            ) from None
    return files


def _stamp(directory: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        loaded = json.loads((directory / _STAMP).read_text())
        return loaded if isinstance(loaded, dict) else None
    return None


def _write_stamp(directory: Path, stamp: Mapping[str, Any]) -> None:
    write_atomic(directory / _STAMP, json.dumps(stamp, indent=2).encode())


def _locked(layout: Layout, target: Target) -> AbstractContextManager[int]:
    """Let one process at a time work on the environments of a target."""
    return locked(
        layout.build / "env" / f"{target.release}.lock",
        f"Another process works on the environments of {target.name}: waiting",
    )
