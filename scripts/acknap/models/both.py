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
        worker: A module of inside/models.
        duration: How long each side takes, in words.
        models: Names that the worker knows; all if none.
        folder: Where stock.jsonl and patched.jsonl go, one after the other.

    Raises:
        HarnessError: An environment cannot be made, or a run failed.
    """
    require_folder(folder)
    made = (environments.stock(layout, release), environments.patched(layout, release))
    packages, name = transformers(layout), worker.stem
    for side, environment in zip(SIDES, made, strict=True):
        inspect(environment)
        said = f"{name.capitalize()} in {side} torch {release.release}: {duration}"
        with working(said):
            command: list[str | Path] = [environment.python, "-I", "-B", worker]
            command += [folder / f"{side}.jsonl", "--packages", packages]
            if models:
                command += ["--models", *models]
            run_workers({layout.build / f"{name}-{side}.log": command})


def read_both(folder: Path) -> tuple[list[Row], list[Row]]:
    """Return the rows of stock torch, and those of patched torch."""
    lines = ((folder / f"{side}.jsonl").read_text().splitlines() for side in SIDES)
    stock, patched = ([json.loads(line) for line in found] for found in lines)
    return stock, patched
