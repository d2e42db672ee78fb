"""The command `fuzz`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from acknap.base.layout import Layout
from acknap.upstream.targets import Targets


def fuzz(
    programs: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    first: Annotated[int, typer.Option(min=0, help="The seed of the first one.")] = 0,
    target: Annotated[
        str, typer.Option(help="The release, as published and patched.")
    ] = "v2.10.0",
    out: Annotated[
        Path | None, typer.Option(help="Where it goes, instead of build/.")
    ] = None,
) -> None:
    """Run random training programs, and look for plans that are wrong.

    About a second a program on two cores; those that fail, and the first 500, are run
    in stock torch, too. It goes on where it was stopped, also with more programs.
    """
    from acknap.suite.fuzz import run_fuzz

    layout = Layout.default()
    seeds = range(first, first + programs)
    sys.exit(run_fuzz(layout, Targets.load(layout), target, seeds, out))
