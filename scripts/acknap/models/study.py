"""Commands whose worker measures models in stock torch, in patched, or in both."""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acknap.base.errors import HarnessError
from acknap.base.files import require_folder, write_atomic
from acknap.base.layout import Layout
from acknap.base.progress import working
from acknap.models.tracer import transformers
from acknap.torches import environments
from acknap.torches.inspect import inspect
from acknap.torches.worker import run_workers
from acknap.upstream.targets import Target, Targets

SIDES = ("stock", "patched")

Row = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """A command that lets a worker measure models, and reports what it recorded.

    Attributes:
        name: The command's.
        worker: A module of `inside`, which knows the models.
        duration: How long each side takes, in words.
        report: Writes the report of the record in a folder, made by a command; returns
            the exit status.
        models: The names that the worker knows.
        sides: The torches that the worker runs in, one after the other.
    """

    name: str
    worker: Path
    duration: str
    report: Callable[[Path, str], int]
    models: Collection[str]
    sides: Sequence[str] = SIDES

    def run(
        self,
        layout: Layout,
        targets: Targets,
        target: str,
        models: Sequence[str],
        out: Path | None,
        *,
        record: bool,
    ) -> int:
        """Measure what the record lacks, and report; goes on where it was stopped.

        Args:
            layout: The repository.
            targets: The release table.
            target: The release, as published, patched, or both.
            models: Names; all if none.
            out: The folder, instead of build/NAME-RELEASE.
            record: Whether it is results/NAME-RELEASE.

        Returns:
            The exit status of the report.

        Raises:
            HarnessError: There is no such model, an environment cannot be made, or a
                run failed.
        """
        for model in models:
            if model not in self.models:
                known = "; ".join(self.models)  # some have commas
                raise HarnessError(f"unknown model {model!r}; known: {known}")
        release = targets.get(target)
        name = f"{self.name}-{release.name}"
        folder = layout.output(name, out, record=record)
        require_folder(folder)
        for side in self.sides:
            self._record(layout, release, models, folder, side)
        command = f"./scripts/harness {self.name} --target {release.name}"
        return self.report(folder, command)

    def _record(
        self,
        layout: Layout,
        release: Target,
        models: Sequence[str],
        folder: Path,
        side: str,
    ) -> None:
        make = environments.stock if side == "stock" else environments.patched
        environment = make(layout, release)
        inspect(environment)
        command: list[str | Path] = [environment.python, "-I", "-B", self.worker]
        command += [folder / f"{side}.jsonl", "--packages", transformers(layout)]
        if models:
            command += ["--models", *models]
        title = self.name.replace("-", " ").capitalize()
        with working(f"{title} in {side} torch {release.release}: {self.duration}"):
            run_workers({layout.build / f"{self.name}-{side}.log": command})


def read(folder: Path, side: str) -> list[Row]:
    """Return the rows of one torch."""
    lines = (folder / f"{side}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def read_both(folder: Path) -> tuple[list[Row], list[Row]]:
    """Return the rows of stock torch, and those of patched torch."""
    return read(folder, "stock"), read(folder, "patched")


def versions(rows: Iterable[Row]) -> str:
    """Return the torches that rows are of: release, and what tells its code."""
    return ", ".join(sorted({f"{row['torch']} {row['code']}" for row in rows}))


def write_page(folder: Path, text: str) -> None:
    """Write and print the report of a folder."""
    write_atomic(folder / "REPORT.md", text.encode())
    print(text)
