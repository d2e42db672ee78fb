"""The PyTorch releases that the series is for: patches/targets.toml."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.specifiers import SpecifierSet

from acknap.base.errors import HarnessError
from acknap.base.files import write_atomic
from acknap.base.layout import Layout

# The series that the package for an unpatched torch has: its releases have the hooks.
PACKAGED = "v2.11"
_NAME = "targets.toml"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Target:
    """One PyTorch release.

    Attributes:
        before: Blob id of each file of `files`, as released.
        after: Blob id of each of them that the series changes, with the series.
        files: The upstream files that a tree of the target's series holds.
    """

    name: str
    release: str
    commit: str
    series: str
    role: str
    requires_python: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeriesEntry:
    """One series of patches in the table, exported from its base release.

    Attributes:
        unified: Lines of context of the patches that need another number than three,
            by file name (`0007-x.patch`, `optional/0001-x.patch`).
        staged: New files that more than one patch touches.
        variant_of: The series that this one equals but for some patches; it has that
            one's `files`, `unified` and `staged`.
        differs: File names of those patches.
    """

    name: str
    base: str
    files: tuple[str, ...]
    unified: Mapping[str, int] = field(default_factory=dict)
    staged: tuple[str, ...] = ()
    variant_of: str | None = None
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Targets:
    """The whole table."""

    all: tuple[Target, ...]
    series: Mapping[str, SeriesEntry]

    @classmethod
    def load(cls, layout: Layout) -> "Targets":
        """Read and check patches/targets.toml."""
        path = layout.patches / _NAME
        shown = layout.relative(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            series = {
                name: _series(name, table, data["series"])
                for name, table in data["series"].items()
            }
            targets = tuple(
                _target(name, table, series) for name, table in data["targets"].items()
            )
        except FileNotFoundError:
            raise HarnessError(f"there is no {shown}") from None
        except KeyError as error:
            raise HarnessError(f"{shown}: no key {error}") from None
        except ValueError as error:
            raise HarnessError(f"{shown}: {error}") from None
        loaded = cls(targets, series)
        for one in series.values():
            if loaded.get(one.base).series != one.name:
                raise HarnessError(f"{shown}: {one.base} is not of series {one.name}")
        return loaded

    def get(self, name: str) -> Target:
        """The target called `name`, with or without its leading `v`."""
        for target in self.all:
            if name in (target.name, target.release):
                return target
        known = ", ".join(target.name for target in self.all)
        raise HarnessError(f"unknown target {name!r}; known: {known}")

    def of_series(self, name: str) -> tuple[Target, ...]:
        """The targets of one series."""
        return tuple(target for target in self.all if target.series == name)

    def variants_of(self, name: str) -> tuple[SeriesEntry, ...]:
        """The series that equal a series but for some patches."""
        return tuple(one for one in self.series.values() if one.variant_of == name)

    def get_series(self, name: str) -> SeriesEntry:
        """The series called `name`."""
        try:
            return self.series[name]
        except KeyError:
            known = ", ".join(self.series)
            raise HarnessError(f"unknown series {name!r}; known: {known}") from None


def save_blobs(
    layout: Layout, blobs: Iterable[tuple[Target, Mapping[str, str], Mapping[str, str]]]
) -> bool:
    """Write `before` and `after` of some targets; return whether anything changed."""
    import tomlkit  # only export writes the table

    path = layout.patches / _NAME
    text = path.read_text(encoding="utf-8")
    document: Any = tomlkit.parse(text)
    for target, before, after in blobs:
        table = document["targets"][target.name]
        for key, ids in (("before", before), ("after", after)):
            written = table.setdefault(key, tomlkit.table())
            for file in set(written) - set(ids):
                del written[file]
            written.update(sorted(ids.items()))
    changed = tomlkit.dumps(document).rstrip("\n") + "\n"
    if changed != text:
        write_atomic(path, changed.encode())
    return changed != text


def _series(
    name: str, table: Mapping[str, Any], tables: Mapping[str, Any]
) -> SeriesEntry:
    origin = table.get("variant_of")
    shared = table if origin is None else tables.get(origin)
    if shared is None or (origin and "variant_of" in shared):
        raise ValueError(f"{name} is a variant of {origin}, which is no series to vary")
    return SeriesEntry(
        name=name,
        base=table["base"],
        files=tuple(shared["files"]),
        unified=shared.get("unified", {}),
        staged=tuple(shared.get("staged", ())),
        variant_of=origin,
        differs=tuple(table["differs"]) if origin else (),
    )


def _target(
    name: str, table: Mapping[str, Any], series: Mapping[str, SeriesEntry]
) -> Target:
    if not _COMMIT.fullmatch(table["commit"]):
        raise ValueError(f"{name}: commit is not a full commit id")
    if table["series"] not in series:
        raise ValueError(f"{name}: there is no series {table['series']}")
    SpecifierSet(table["requires_python"])
    return Target(
        name=name,
        release=name.removeprefix("v"),
        commit=table["commit"],
        series=table["series"],
        role=table["role"],
        requires_python=table["requires_python"],
        before=table.get("before", {}),
        after=table.get("after", {}),
        files=series[table["series"]].files,
    )
