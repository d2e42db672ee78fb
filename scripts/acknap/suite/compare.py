"""`compare`: one suite on a stock release and on a patched one, test by test."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from acknap.base.errors import HarnessError
from acknap.base.files import require_folder
from acknap.base.layout import Layout
from acknap.series.patches import load
from acknap.suite import categories, fixed, new_files, report, run
from acknap.suite.categories import Row
from acknap.suite.report import Comparison
from acknap.suite.run import SuiteRun
from acknap.torches import environments
from acknap.torches.environments import Environment
from acknap.torches.inspect import Import, Interpreter, inspect
from acknap.upstream.targets import Targets

# Upstream's own tests of activation checkpointing, in a checkout.
UPSTREAM_TESTS = "test/functorch/test_ac*.py"
UPSTREAM = "upstream"


@dataclass(frozen=True)
class Side:
    """One of the two environments, inspected."""

    environment: Environment
    interpreter: Interpreter

    @classmethod
    def of(cls, environment: Environment, imports: Iterable[Import]) -> "Side":
        """Inspect an environment, and try what a suite imports."""
        return cls(environment, inspect(environment, imports))


@dataclass(frozen=True)
class Pair:
    """The two sides of a comparison."""

    stock: Side
    patched: Side
    series: list[str]  # the files of torch/ that the series adds or touches
    out: Path


@dataclass(frozen=True)
class SuiteResult:
    """One suite on both sides."""

    name: str
    runs: tuple[SuiteRun, SuiteRun]
    new_files: dict[str, list[str]]
    rows: list[Row]
    faults: list[str]


def run_compare(
    layout: Layout,
    targets: Targets,
    target: str,
    against: str | None,
    checkout: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Compare a patched target with a stock release and report what differs.

    Args:
        layout: The repository.
        targets: The release table.
        target: Name of the patched target.
        against: Name of the stock target, the same release if None.
        checkout: A PyTorch checkout whose own tests are run too.
        out: Folder of the report, one under results/ if None.
        as_json: Print the JSON report instead of the summary.

    Returns:
        0 if nothing regressed, fails or is missing and every claim holds, else 1.

    Raises:
        HarnessError: The runs prove nothing.
    """
    patched, stock = targets.get(target), targets.get(against or target)
    name = f"compare-{patched.name}-against-{stock.name}"
    folder = out or layout.results / name
    require_folder(folder)
    claimed = fixed.load(layout.suite.parent / "fixed.toml")
    with _upstream_suite(layout, checkout) as upstream:
        suites = {"suite": layout.suite} | ({UPSTREAM: upstream} if upstream else {})
        found = [new_files.of_suite(path) for path in suites.values()]
        every = {one for suite in found for wanted in suite.values() for one in wanted}
        pair = Pair(
            Side.of(environments.stock(layout, stock), every),
            Side.of(environments.patched(layout, patched), every),
            load(layout, patched.series).touched,
            layout.build / name,
        )
        results = [_run_suite(pair, path, suite) for suite, path in suites.items()]
    rows = [row for result in results for row in result.rows]
    comparison = Comparison(
        target=patched.name,
        against=stock.name,
        command=_command(patched.name, stock.name, checkout),
        runs=tuple((result.name, run) for result in results for run in result.runs),
        new_files={
            file: lacking
            for result in results
            for file, lacking in result.new_files.items()
        },
        rows=tuple(rows),
        problems=(
            *(fault for result in results for fault in result.faults),
            *fixed.broken(claimed, rows),
        ),
    )
    report.write(comparison, folder)
    if as_json:
        print(report.as_json(comparison), end="")
    else:
        report.print_summary(comparison, Console())
        print(f"Report: {layout.relative(folder / 'compare.md')}")
        print(f"Logs: {layout.relative(pair.out)}")
    return 1 if comparison.problems else 0


def _run_suite(pair: Pair, folder: Path, name: str) -> SuiteResult:
    """Run a suite on stock, but for what stock cannot have, then on patched."""
    new = new_files.new_files(
        new_files.of_suite(folder),
        pair.stock.interpreter.faults,
        pair.patched.interpreter.faults,
        pair.series,
    )
    stock, patched = (
        run.run(
            side.environment,
            side.interpreter,
            folder,
            pair.out / name / side.environment.kind,
            leave_out=left_out,
            quiet=True,
        )
        for side, left_out in ((pair.stock, new), (pair.patched, ()))
    )
    own = name != UPSTREAM
    prefix = "" if own else f"{UPSTREAM}/"
    rows = categories.rows(stock.outcomes, patched.outcomes, new, prefix)
    return SuiteResult(
        name,
        (stock, patched),
        {prefix + file: lacking for file, lacking in new.items()},
        rows,
        categories.faults(rows, own=own),
    )


@contextmanager
def _upstream_suite(layout: Layout, checkout: Path | None) -> Iterator[Path | None]:
    """Give a folder with the checkout's own tests of this area, None without one."""
    if checkout is None:
        yield None
        return
    # A checkout that has the series holds our files too; they are run already.
    own = {path.name for path in layout.suite.iterdir()}
    files = [path for path in checkout.glob(UPSTREAM_TESTS) if path.name not in own]
    if not files:
        raise HarnessError(f"{checkout} is no PyTorch checkout: no {UPSTREAM_TESTS}")
    with tempfile.TemporaryDirectory(prefix="acknap-") as folder:
        for path in files:
            shutil.copy(path, folder)
        yield Path(folder)


def _command(target: str, against: str, checkout: Path | None) -> str:
    command = f"./scripts/harness compare --target {target}"
    if against != target:
        command += f" --against {against}"
    return command + (" --checkout DIR" if checkout else "")
