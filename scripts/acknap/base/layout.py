"""Where things lie in this repository."""

import os
from dataclasses import dataclass
from pathlib import Path

from acknap.base.errors import HarnessError

# Scripts that a foreign Python runs.
INSIDE = Path(__file__).parents[1] / "inside"


@dataclass(frozen=True)
class Layout:
    """The directories that the harness reads and writes, all below one root."""

    root: Path

    @classmethod
    def default(cls) -> "Layout":
        """The repository that this file belongs to."""
        return cls(Path(__file__).resolve().parents[3])

    @property
    def patches(self) -> Path:
        return self.root / "patches"

    @property
    def overlay(self) -> Path:
        """Files that are new to the torch tree, laid out as in it."""
        return self.root / "torch_overlay"

    @property
    def suite(self) -> Path:
        """Tests in upstream's format, as they stand after the series."""
        return self.root / "test" / "functorch"

    @property
    def plugin(self) -> Path:
        """What the package for an unpatched torch has of its own."""
        return self.root / "plugin"

    @property
    def switch(self) -> Path:
        """First on a Python's path, it puts that package in the planner's place."""
        return self.plugin / "tests" / "as_torch"

    @property
    def requirements(self) -> Path:
        return self.root / "requirements"

    @property
    def build(self) -> Path:
        """Everything that can be made again; `ACKNAP_BUILD` moves it."""
        moved = os.environ.get("ACKNAP_BUILD")
        return Path(moved).absolute() if moved else self.root / "build"

    @property
    def results(self) -> Path:
        return self.root / "results"

    def output(self, name: str, out: Path | None, *, record: bool) -> Path:
        """The folder of a command's output: in build/, which git ignores.

        Args:
            name: The folder's.
            out: The folder that the user asked for, if any.
            record: Whether it is one in results/, to be committed.
        """
        if out and record:
            raise HarnessError("--record writes into results/: leave out --out")
        return (out or (self.results if record else self.build) / name).absolute()

    def relative(self, path: Path) -> str:
        """`path` as a user in the repository's root would type it."""
        return str(
            path.relative_to(self.root) if path.is_relative_to(self.root) else path
        )
