"""The patches of a series, as they lie under patches/."""

import email.policy
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

from acknap.base import git
from acknap.base.errors import HarnessError, SeriesError
from acknap.base.files import restore_directory
from acknap.base.layout import Layout
from acknap.upstream.targets import SeriesEntry

OPTIONAL = "optional"
_FILE = re.compile(
    r"^diff --git a/(?P<path>\S+) b/(?P=path)\n"
    r"(?P<new>new file mode \d+\n)?index [0-9a-f]+\.\.(?P<blob>[0-9a-f]{40})\b",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Patch:
    """One patch file.

    Attributes:
        name: Path below the series' directory: `0001-x.patch`, `optional/0001-y.patch`.
        title: First line of its message.
        added: Files that it adds, with their blob ids.
        modified: Files that it changes, with their blob ids on the base release.
    """

    path: Path
    name: str
    title: str
    added: Mapping[str, str]
    modified: Mapping[str, str]

    @property
    def optional(self) -> bool:
        """Whether a user may leave it out."""
        return self.name.startswith(f"{OPTIONAL}/")

    def identity(self) -> tuple[bytes, bytes]:
        """Its message and git's id of its change, which no line number enters."""
        data = self.path.read_bytes()
        found = git.run(self.path.parent, "patch-id", "--stable", stdin=data)
        return data.partition(b"\ndiff --git ")[0], found.split()[0]


@dataclass(frozen=True)
class Series:
    """The patches of a series, in the order in which they apply.

    Attributes:
        mandatory: Those that every user has.
        optional: Those that a user may leave out; they apply last.
    """

    mandatory: tuple[Patch, ...]
    optional: tuple[Patch, ...] = ()

    @classmethod
    def of(cls, patches: Iterable[Patch]) -> "Series":
        """Order patches by their names."""
        ordered = sorted(patches, key=lambda one: one.name)
        return cls(
            tuple(one for one in ordered if not one.optional),
            tuple(one for one in ordered if one.optional),
        )

    @property
    def all(self) -> tuple[Patch, ...]:
        return self.mandatory + self.optional

    @property
    def revision(self) -> str:
        """A hash of the mandatory patches, which names their state."""
        digest = hashlib.sha256()
        for patch in self.mandatory:
            digest.update(patch.path.read_bytes())
        return digest.hexdigest()

    @property
    def added(self) -> dict[str, str]:
        """Files that the mandatory patches add below torch/, with their blob ids."""
        added = added_files(self.mandatory)
        return {path: blob for path, blob in added.items() if path.startswith("torch/")}

    @property
    def touched(self) -> list[str]:
        """Files below torch/ that they add or change, in that order."""
        paths = [path for one in self.mandatory for path in (*one.added, *one.modified)]
        return [path for path in dict.fromkeys(paths) if path.startswith("torch/")]


def load(layout: Layout, series_name: str) -> Series:
    """The patches of a series as they lie under patches/.

    Raises:
        SeriesError: there are none, or one was not made by `export`.
    """
    if not has_patches(layout, series_name):
        shown = layout.relative(layout.patches / series_name)
        raise SeriesError(
            f"{shown} has no patches: commit them in a tree made by `apply`, then run "
            "`./scripts/harness export TREE`"
        )
    return load_from(layout.patches / series_name)


def load_sources(layout: Layout, entry: SeriesEntry) -> Series:
    """What export makes a series from: a variant shares all but its own patches.

    Raises:
        SeriesError: `differs` names what is no patch of both series.
    """
    own = load(layout, entry.name)
    if entry.variant_of is None:
        return own
    shared = load(layout, entry.variant_of)
    of_both = {one.name for one in own.all} & {one.name for one in shared.all}
    for name in entry.differs:
        if name not in of_both:
            raise SeriesError(
                f"{name} under `differs` of series {entry.name} in "
                f"patches/targets.toml is no patch of it and of {entry.variant_of}"
            )
    return Series.of(
        [
            *(one for one in shared.all if one.name not in entry.differs),
            *(one for one in own.all if one.name in entry.differs),
        ]
    )


def load_from(directory: Path) -> Series:
    """The patches below any directory."""
    paths = [*directory.glob("*.patch"), *(directory / OPTIONAL).glob("*.patch")]
    return Series.of(
        _parse(path, path.relative_to(directory).as_posix()) for path in paths
    )


def has_patches(layout: Layout, series_name: str) -> bool:
    """Whether the series has a first patch yet."""
    directory = layout.patches / series_name
    restore_directory(directory)
    return any(directory.glob("*.patch"))


def added_files(patches: Iterable[Patch]) -> dict[str, str]:
    """The files that patches add, with the blob ids that the last of them gives."""
    found: dict[str, str] = {}
    for patch in patches:
        later = {path: patch.modified[path] for path in found.keys() & patch.modified}
        found |= {**patch.added, **later}
    return found


def source_of(layout: Layout, path: str) -> Path | None:
    """Where a file that a series adds is edited; None if it is in neither source."""
    tests = "test/functorch/"
    if path.startswith(tests):
        source = layout.suite / path.removeprefix(tests)
    else:
        source = layout.overlay / path
    return source if source.is_file() else None


def new_files(layout: Layout) -> list[str]:
    """Every file of the overlay and the suite, by its path in the torch tree."""
    overlay = [
        path.relative_to(layout.overlay).as_posix()
        for path in layout.overlay.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    suite = [f"test/functorch/{path.name}" for path in layout.suite.glob("test_*.py")]
    return sorted(overlay + suite)


def _parse(path: Path, name: str) -> Patch:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}") from None
    subject = message_from_bytes(data, policy=email.policy.default)["subject"]
    files = list(_FILE.finditer(data.decode(errors="replace")))
    if not subject or not files:
        raise SeriesError(f"{path} is not a patch made by `export`")
    return Patch(
        path=path,
        name=name,
        title=str(subject).removeprefix("[PATCH] "),
        added={match["path"]: match["blob"] for match in files if match["new"]},
        modified={match["path"]: match["blob"] for match in files if not match["new"]},
    )
