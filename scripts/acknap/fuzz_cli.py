"""The command `fuzz`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from acknap.paths import Layout
from acknap.targets import Targets


def fuzz(
    programs: Annotated[int, typer.Option(min=1, help="How many, by their seeds.")] = (
        100
    ),
    target: Annotated[
        str, typer.Option(help="The release, as published and patched.")
    ] = "v2.10.0",
    out: Annotated[
        Path | None, typer.Option(help="Where it goes, instead of build/.")
    ] = None,
) -> None:
    """Run random training programs, and look for plans that are wrong.

    About four seconds a program on two cores. It goes on where it was stopped, also
    with more programs.
    """
    from acknap.fuzz import run_fuzz

    layout = Layout.default()
    sys.exit(run_fuzz(layout, Targets.load(layout), target, programs, out))
