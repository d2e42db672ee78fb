"""Records that a worker makes of models in stock and in patched torch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acknap.base.files import require_folder
from acknap.base.layout import Layout
from acknap.base.progress import working
from acknap.models.tracer import transformers
from acknap.torches import environments
from acknap.torches.inspect import inspect
from acknap.torches.worker import run_workers
from acknap.upstream.targets import Target

SIDES = ("stock", "patched")

Row = dict[str, Any]


def record_both(
    layout: Layout,
    release: Target,
    worker: Path,
    duration: str,
    models: Sequence[str],
    folder: Path,
) -> None:
    """Let a worker measure models in both torches; it goes on where it was stopped.

    Args:
        layout: The repository.
        release: As published and patched.
        worker: A module of `inside`.
        duration: How long each side takes, in words.
        models: Names that the worker knows; all if none.
        folder: Where stock.jsonl and patched.jsonl go, one after the other.

    Raises:
        HarnessError: An environment cannot be made, or a run failed.
    """
    for side in SIDES:
        record(layout, release, worker, duration, models, folder, side)


def record(
    layout: Layout,
    release: Target,
    worker: Path,
    duration: str,
    models: Sequence[str],
    folder: Path,
    side: str,
) -> None:
    """Let a worker measure models in one torch; it goes on where it was stopped.

    Args:
        layout: The repository.
        release: As published and patched.
        worker: A module of `inside`.
        duration: How long it takes, in words.
        models: Names that the worker knows; all if none.
        folder: Where the record goes, named by the side.
        side: One of `SIDES`.

    Raises:
        HarnessError: The environment cannot be made, or the run failed.
    """
    require_folder(folder)
    make = environments.stock if side == "stock" else environments.patched
    environment, name = make(layout, release), worker.stem
    inspect(environment)
    command: list[str | Path] = [environment.python, "-I", "-B", worker]
    command += [folder / f"{side}.jsonl", "--packages", transformers(layout)]
    if models:
        command += ["--models", *models]
    title = name.replace("_", " ").capitalize()
    with working(f"{title} in {side} torch {release.release}: {duration}"):
        run_workers({layout.build / f"{name}-{side}.log": command})


def read(folder: Path, side: str) -> list[Row]:
    """Return the rows of one torch."""
    lines = (folder / f"{side}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def read_both(folder: Path) -> tuple[list[Row], list[Row]]:
    """Return the rows of stock torch, and those of patched torch."""
    return read(folder, "stock"), read(folder, "patched")
