"""The command line. Heavy modules are imported by the command that needs them."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.cli import docker, studies
from acknap.cli.options import (
    Both,
    Json,
    Out,
    Patched,
    Python,
    Record,
    release,
    table,
)
from acknap.knapsack.contenders import SOLVER_NAMES

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_INTERRUPTED = 130


def _version(asked: bool) -> None:
    if asked:
        from acknap.series.listing import version

        print(version(*table()))
        raise typer.Exit


@app.callback()
def harness(
    version: Annotated[
        bool,
        Option(
            "--version",
            help="Say what state of package and series this is.",
            callback=_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Knapsack solvers for PyTorch's activation checkpointing: patches and proof."""


@app.command(rich_help_panel="Apply")
def targets() -> None:
    """List the releases, each with its series."""
    from acknap.series.listing import list_targets

    list_targets(*table())


@app.command(rich_help_panel="Apply")
def apply(
    target: Annotated[str, Argument(help="A release: v2.10.0.")],
    directory: Annotated[
        Path,
        Argument(help="A new directory, or a PyTorch git checkout.", metavar="DIR"),
    ],
    checkout: Annotated[
        Path | None, Option(help="Take the released files from this PyTorch checkout.")
    ] = None,
) -> None:
    """Make a small git tree with the series on top, or patch a PyTorch checkout."""
    from acknap.series.tree import apply as job

    print(job(*release(target), directory, checkout))


@app.command(rich_help_panel="Apply")
def install(python: Python = None) -> None:
    """Put the series into a torch that is installed, in place."""
    from acknap.install.install import install as job

    print(job(*table(), python))


@app.command(rich_help_panel="Apply")
def uninstall(python: Python = None) -> None:
    """Give a torch that install changed its own files back."""
    from acknap.install.install import uninstall as job

    print(job(*table(), python))


@app.command(rich_help_panel="Apply")
def status(python: Python = None) -> None:
    """Say whether a torch has the series: exit status 0 yes, 1 no, 2 neither."""
    from acknap.install.install import status as job

    sys.exit(job(*table(), python))


@app.command(rich_help_panel="Apply")
def wheel(
    target: Patched = "v2.10.0",
    source: Annotated[
        Path | None,
        Option(
            "--from",
            help="Patch this wheel, instead of the one that pip would install for "
            "the harness's Python.",
            metavar="WHEEL",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(help="Where it goes, instead of build/wheels.", metavar="DIR"),
    ] = None,
    plugin: Annotated[
        bool,
        Option("--plugin", help="The package for an unpatched torch, and its sdist."),
    ] = False,
) -> None:
    """Write a wheel of a release with the series in it."""
    if plugin:
        if source is not None:
            raise HarnessError("--plugin takes no wheel of PyTorch: leave out --from")
        from acknap.plugin.build import write_plugin

        print(*write_plugin(*table(), out), sep="\n")
        return
    from acknap.install.wheel import write_wheel

    print(write_wheel(*release(target), source, out))


@app.command(rich_help_panel="Model")
def capture(
    model: Annotated[
        str,
        Argument(
            help="decoder, encoder, convnet, moe, module:function, "
            "or transformers:NAME?option=value&..."
        ),
    ],
    budget: Annotated[
        str | None, Option(help="Also part the graph at these budgets: 0.1,0.25,0.5.")
    ] = None,
    out: Annotated[Path, Option(help="The folder for the files.")] = Path("captured"),
    target: Annotated[
        str, Option(help="The release whose partitioner is asked.")
    ] = "v2.10.0",
) -> None:
    """Record the knapsacks that the partitioner states for a model."""
    from acknap.models.capture import run_capture

    sys.exit(run_capture(*table(), model, budget, out, target))


@app.command("try", rich_help_panel="Model")
def try_(
    model: Annotated[str, Argument(help="As capture takes it.")],
    budget: Annotated[
        str, Option(help="Shares of what can be saved, or taken off the peak.")
    ] = "0.1,0.3",
    no_run: Annotated[
        bool, Option("--no-run", help="Only count the plans: no step is taken.")
    ] = False,
    out: Annotated[
        Path | None, Option(help="The folder for table, picture and record.")
    ] = None,
    target: Both = "v2.10.0",
) -> None:
    """Train a model by each plan: released, series, by hand; bytes and seconds."""
    from acknap.models.tried import run_try

    sys.exit(run_try(*table(), model, budget, out, target, run=not no_run))


@app.command(rich_help_panel="Model")
def solve(
    file: Annotated[
        Path, Argument(help="What capture wrote.", metavar="INSTANCE.json")
    ],
    budget: Annotated[str, Option(help="Such as 0.1,0.25,0.5.")],
    solver: Annotated[
        str | None,
        Option(help=f"Such as dp,stock.ilp: of {', '.join(SOLVER_NAMES)}."),
    ] = None,
    explain: Annotated[
        bool, Option("--explain", help="Print the optimal plan by operator.")
    ] = False,
    plot: Annotated[
        Path | None, Option(help="Draw the frontier.", metavar="FILE.svg")
    ] = None,
    target: Both = "v2.10.0",
) -> None:
    """Compare the solvers on one captured knapsack."""
    from acknap.models.solve import run_solve

    status = run_solve(
        *table(), file, budget, solver, target, explain=explain, plot=plot
    )
    sys.exit(status)


@app.command(rich_help_panel="Verify")
def check(
    target: Annotated[
        str | None, Option(help="Only this release, instead of all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove that the patches apply to every release and match their sources."""
    from acknap.series.check import run_check

    sys.exit(run_check(*table(), target, as_json))


@app.command(rich_help_panel="Verify")
def compare(
    target: Patched = "v2.10.0",
    against: Annotated[
        str | None, Option(help="The stock release, if another one.")
    ] = None,
    checkout: Annotated[
        Path | None,
        Option(help="Also run upstream's own tests from this PyTorch checkout."),
    ] = None,
    out: Out = None,
    record: Record = False,
    as_json: Json = False,
) -> None:
    """Run the suite on a stock and on a patched release and say what differs."""
    from acknap.suite.compare import run_compare

    status = run_compare(
        *table(), target, against, checkout, out, as_json, record=record
    )
    sys.exit(status)


@app.command(rich_help_panel="Verify")
def plugin(
    target: Annotated[str, Option(help="The release.")] = "v2.13.0",
    out: Out = None,
    record: Record = False,
) -> None:
    """Test the package for an unpatched torch on a stock release."""
    from acknap.suite.plugin import run_plugin

    sys.exit(run_plugin(*table(), target, out, record=record))


@app.command(rich_help_panel="Reproduce")
def bench(
    claims: Annotated[
        list[str] | None,
        Argument(
            help="Names in benchmarks/claims.toml; all if none.", metavar="[CLAIM]..."
        ),
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="A short list of points: about 3 minutes.")
    ] = False,
    listed: Annotated[
        bool, Option("--list", help="Only name the claims, and say what each is.")
    ] = False,
    target: Both = "v2.10.0",
    record: Record = False,
) -> None:
    """Measure the published claims and ours; goes on where it was stopped."""
    if listed:
        from acknap.bench.claims import names

        print(names(Layout.default()))
        return
    from acknap.bench.run import run_bench

    sys.exit(run_bench(*table(), claims or [], target, quick=quick, record=record))


@app.command(rich_help_panel="Reproduce")
def report(
    name: Annotated[
        str | None,
        Argument(
            help="bench or bench-quick; the newest record in build/ if none.",
            metavar="[NAME]",
        ),
    ] = None,
    record: Annotated[
        bool,
        Option("--record", help="The record in results/, and README.md with it."),
    ] = False,
) -> None:
    """Draw tables, plots and a page from what bench measured."""
    from acknap.report.page import run_report

    sys.exit(run_report(Layout.default(), name, record=record))


@app.command(rich_help_panel="Maintain")
def export(
    tree: Annotated[
        Path | None,
        Argument(
            help="An edited tree made by apply. Without it, only new files count.",
            metavar="[DIR]",
        ),
    ] = None,
    series: Annotated[
        str | None, Option(help="Only this series: v2.10.", metavar="NAME")
    ] = None,
) -> None:
    """Rewrite patches/ from a tree, torch_overlay/ and test/functorch/."""
    from acknap.series.export import export_all

    for name, changed in export_all(*table(), series, tree):
        print(f"patches/{name}: {'rewritten' if changed else 'unchanged'}")


@app.command(rich_help_panel="Maintain")
def canary() -> None:
    """Say which patch does not apply to the newest pre-release of PyTorch."""
    from acknap.series.canary import run_canary

    sys.exit(run_canary(*table()))


@app.command(rich_help_panel="Maintain")
def test() -> None:
    """Run linters, the harness's tests, check, and the suite on patched releases."""
    from acknap.suite.selftest import run_test

    sys.exit(run_test(Layout.default()))


app.add_typer(docker.app, name="docker", rich_help_panel="Verify")
app.add_typer(studies.app)


def main() -> None:
    """Run the command line; errors become one line and an exit status."""
    try:
        app(prog_name="scripts/harness")
    except HarnessError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:  # Typer says nothing
            print("interrupted; run the command again to continue", file=sys.stderr)
        raise


def _fail(message: str) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
