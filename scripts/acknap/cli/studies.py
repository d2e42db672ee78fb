"""The command lines of what measures models or random programs, and reports."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from acknap.cli.options import Both, Models, Out, Patched, table

app = typer.Typer()


@app.command(rich_help_panel="Reproduce")
def blocks(models: Models = None, target: Both = "v2.13.0", out: Out = None) -> None:
    """Measure live bytes if each block of a model is compiled."""
    from acknap.models.blocks import STUDY

    sys.exit(STUDY.run(*table(), target, models or [], out))


@app.command(rich_help_panel="Reproduce")
def peaks(models: Models = None, target: Both = "v2.10.0", out: Out = None) -> None:
    """Compare the peak of a step: released, with exact, and bounded."""
    from acknap.peaks.peaks import STUDY

    sys.exit(STUDY.run(*table(), target, models or [], out))


@app.command("by-hand", rich_help_panel="Reproduce")
def by_hand(models: Models = None, target: Both = "v2.10.0", out: Out = None) -> None:
    """Compare plans by the peak with checkpointing that people write by hand."""
    from acknap.peaks.by_hand import STUDY

    sys.exit(STUDY.run(*table(), target, models or [], out))


@app.command(rich_help_panel="Reproduce")
def limits(models: Models = None, target: Patched = "v2.10.0", out: Out = None) -> None:
    """Train within limits in bytes, and measure what is allocated."""
    from acknap.peaks.limits import STUDY

    sys.exit(STUDY.run(*table(), target, models or [], out))


@app.command(rich_help_panel="Reproduce")
def public(models: Models = None, target: Both = "v2.10.0", out: Out = None) -> None:
    """Compare simulated peaks with those that others measured on a GPU."""
    from acknap.peaks.public import STUDY

    sys.exit(STUDY.run(*table(), target, models or [], out))


@app.command(rich_help_panel="Reproduce")
def optimum(
    models: Models = None, target: Patched = "v2.10.0", out: Out = None
) -> None:
    """Compare plans by the peak of small graphs with the optimum."""
    from acknap.peaks.optimum import STUDY

    sys.exit(STUDY.run(*table(), target, models or [], out))


@app.command(rich_help_panel="Reproduce")
def fuzz(
    programs: Annotated[int, Option(min=1, help="How many.")] = 100,
    first: Annotated[int, Option(min=0, help="The seed of the first one.")] = 0,
    target: Both = "v2.10.0",
    out: Annotated[
        Path | None, Option(help="Where it goes, instead of build/.")
    ] = None,
) -> None:
    """Run random training programs, and look for plans that are wrong.

    About a second a program on two cores; those that fail, and the first 500, are run
    in stock torch, too. It goes on where it was stopped, also with more programs.
    """
    from acknap.suite.fuzz import run_fuzz

    sys.exit(run_fuzz(*table(), target, range(first, first + programs), out))
