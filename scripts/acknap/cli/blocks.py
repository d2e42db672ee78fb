"""The command `blocks`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from acknap.base.layout import Layout
from acknap.upstream.targets import Targets


def blocks(
    models: Annotated[
        list[str] | None,
        typer.Argument(help="Such as llama; all if none.", metavar="[MODEL]..."),
    ] = None,
    target: Annotated[
        str, typer.Option(help="The release, as published and patched.")
    ] = "v2.13.0",
    out: Annotated[
        Path | None, typer.Option(help="Where it goes, instead of results/.")
    ] = None,
) -> None:
    """Measure live bytes if each block of a model is compiled."""
    from acknap.models.blocks import run_blocks

    layout = Layout.default()
    sys.exit(run_blocks(layout, Targets.load(layout), target, models or [], out))
