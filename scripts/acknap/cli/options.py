"""What the command line of several commands has in common."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from acknap.base.layout import Layout
from acknap.upstream.targets import Target, Targets

Python = Annotated[
    str | None,
    Option(
        help="The Python, or the folder of a virtual environment, whose torch is "
        "meant. If none: the active environment's, else the python on PATH.",
        metavar="PATH",
    ),
]
Patched = Annotated[str, Option(help="The release to patch.")]
Both = Annotated[str, Option(help="The release, as published and patched.")]
Models = Annotated[
    list[str] | None,
    Argument(help="Their names; all if none.", metavar="[MODEL]..."),
]
Out = Annotated[Path | None, Option(help="Where it goes, instead of build/.")]
Record = Annotated[
    bool, Option("--record", help="Write into results/, to be committed.")
]
Json = Annotated[bool, Option("--json", help="Print JSON on stdout.")]


def table() -> tuple[Layout, Targets]:
    """The repository and its table of releases."""
    layout = Layout.default()
    return layout, Targets.load(layout)


def release(name: str) -> tuple[Layout, Target]:
    """The repository and one release."""
    layout, targets = table()
    return layout, targets.get(name)
