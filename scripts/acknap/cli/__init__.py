"""The command line. Heavy modules are imported by the command that needs them."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.cli import docker
from acknap.cli.options import (
    Both,
    Json,
    Models,
    Out,
    Patched,
    Python,
    release,
    table,
)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Knapsack solvers for PyTorch's activation checkpointing: patches and proof.",
)

_INTERRUPTED = 130


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


@app.command(rich_help_panel="Model")
def solve(
    file: Annotated[
        Path, Argument(help="What capture wrote.", metavar="INSTANCE.json")
    ],
    budget: Annotated[str, Option(help="Such as 0.1,0.25,0.5.")],
    solver: Annotated[str | None, Option(help="Such as dp,stock.ilp,exact.")] = None,
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
    out: Annotated[
        Path | None, Option(help="Where the report goes, instead of results/.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the suite on a stock and on a patched release and say what differs."""
    from acknap.suite.compare import run_compare

    sys.exit(run_compare(*table(), target, against, checkout, out, as_json))


@app.command(rich_help_panel="Verify")
def plugin(
    target: Annotated[str, Option(help="The release.")] = "v2.13.0",
    out: Annotated[
        Path | None, Option(help="Where the record goes, instead of results/.")
    ] = None,
) -> None:
    """Test the package for an unpatched torch on a stock release."""
    from acknap.suite.plugin import run_plugin

    sys.exit(run_plugin(*table(), target, out))


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
    target: Both = "v2.10.0",
) -> None:
    """Measure the published claims and ours; goes on where it was stopped."""
    from acknap.bench.run import run_bench

    sys.exit(run_bench(*table(), claims or [], target, quick=quick))


@app.command(rich_help_panel="Reproduce")
def report(
    name: Annotated[
        str | None,
        Argument(
            help="bench or bench-quick, under results/; the newest if none.",
            metavar="[NAME]",
        ),
    ] = None,
) -> None:
    """Draw tables, plots and a page from what bench measured."""
    from acknap.report.page import run_report

    sys.exit(run_report(Layout.default(), name))


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
def test() -> None:
    """Run linters, the harness's tests, check, and the suite on patched releases."""
    from acknap.suite.selftest import run_test

    sys.exit(run_test(Layout.default()))


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


app.add_typer(docker.app, name="docker", rich_help_panel="Verify")


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
