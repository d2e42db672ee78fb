"""The command lines of what measures models or random programs, and reports."""

import importlib
import sys
from typing import Annotated

import typer
from typer import Option

from acknap.cli.options import Both, Models, Out, Record, table

app = typer.Typer()

# Each command with the module that has its STUDY, the usual release, and what it does.
_STUDIES = {
    "blocks": (
        "models.blocks",
        "v2.13.0",
        "Measure live bytes if each block of a model is compiled.",
    ),
    "peaks": (
        "peaks.peaks",
        "v2.10.0",
        "Compare the peak of a step: released, with exact, and bounded.",
    ),
    "by-hand": (
        "peaks.by_hand",
        "v2.10.0",
        "Compare plans by the peak with checkpointing that people write by hand.",
    ),
    "limits": (
        "peaks.limits",
        "v2.10.0",
        "Train within limits in bytes, and measure what is allocated.",
    ),
    "public": (
        "peaks.public",
        "v2.10.0",
        "Compare simulated peaks with those that others measured on a GPU.",
    ),
    "optimum": (
        "peaks.optimum",
        "v2.10.0",
        "Compare plans by the peak of small graphs with the optimum.",
    ),
}


def _add(name: str, module: str, usual: str, does: str) -> None:
    @app.command(name, help=does, rich_help_panel="Reproduce")
    def run(
        models: Models = None,
        target: Both = usual,
        out: Out = None,
        record: Record = False,
    ) -> None:
        study = importlib.import_module(f"acknap.{module}").STUDY
        sys.exit(study.run(*table(), target, models or [], out, record=record))


for _name, _row in _STUDIES.items():
    _add(_name, *_row)


@app.command(rich_help_panel="Reproduce")
def fuzz(
    programs: Annotated[int, Option(min=1, help="How many.")] = 100,
    first: Annotated[int, Option(min=0, help="The seed of the first one.")] = 0,
    target: Both = "v2.10.0",
    out: Out = None,
) -> None:
    """Run random training programs, and look for plans that are wrong.

    About half a second a program on two cores; those that fail, and the first 500, are
    run in stock torch, too. It goes on where it was stopped, also with more programs.
    """
    from acknap.suite.fuzz import run_fuzz

    sys.exit(run_fuzz(*table(), target, range(first, first + programs), out))
