"""`compare`: one suite on a stock release and on a patched one, test by test."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from acknap.base.errors import HarnessError
from acknap.base.files import require_folder, scratch
from acknap.base.layout import Layout
from acknap.series.patches import load
from acknap.suite import categories, fixed, new_files, run
from acknap.suite.comparison import Comparison, print_summary, to_json, write
from acknap.torches import environments
from acknap.torches.environments import Environment
from acknap.torches.inspect import Interpreter, inspect
from acknap.upstream.targets import Targets

# Upstream's own tests of activation checkpointing, in a checkout.
UPSTREAM_TESTS = "test/functorch/test_ac*.py"
UPSTREAM = "upstream"


def run_compare(
    layout: Layout,
    targets: Targets,
    target: str,
    against: str | None,
    checkout: Path | None,
    out: Path | None,
    as_json: bool,
    *,
    record: bool = False,
) -> int:
    """Compare a patched target with a stock release and report what differs.

    Args:
        layout: The repository.
        targets: The release table.
        target: Name of the patched target.
        against: Name of the stock target, the same release if None.
        checkout: A PyTorch checkout whose own tests are run too.
        out: Folder of report and logs, instead of one under build/.
        as_json: Print the JSON report instead of the summary.
        record: Whether the report goes into one under results/.

    Returns:
        0 if nothing regressed, fails or is missing and every claim holds, else 1.

    Raises:
        HarnessError: The runs prove nothing.
    """
    patched, stock = targets.get(target), targets.get(against or target)
    name = f"compare-{patched.name}-against-{stock.name}"
    folder = layout.output(name, out, record=record)
    logs = layout.output(name, out, record=False)
    require_folder(folder)
    claimed = fixed.load(layout.suite.parent / "fixed.toml")
    command = _command(patched.name, stock.name, checkout)
    comparison = Comparison(patched.name, stock.name, command)
    with _upstream_suite(layout, checkout) as upstream:
        suites = {"suite": layout.suite} | ({UPSTREAM: upstream} if upstream else {})
        imports = {name: new_files.of_suite(path) for name, path in suites.items()}
        every = {
            one for of in imports.values() for found in of.values() for one in found
        }
        made = environments.stock(layout, stock), environments.patched(layout, patched)
        sides = [(one, inspect(one, every)) for one in made]
        before, after = (found.faults for _, found in sides)
        series = load(layout, patched.series).touched
        for suite, path in suites.items():
            new = new_files.new_files(imports[suite], before, after, series)
            _add_suite(comparison, sides, new, path, logs / suite)
    comparison.problems += fixed.broken(claimed, comparison.rows)
    if comparison.problems:
        run.forget(logs)  # what failed may have failed by chance
    write(comparison, folder)
    if as_json:
        print(to_json(comparison), end="")
    else:
        print_summary(comparison, Console())
        print(f"Report: {layout.relative(folder / 'compare.md')}")
        print(f"Logs: {layout.relative(logs)}")
    return 1 if comparison.problems else 0


def _add_suite(
    comparison: Comparison,
    sides: Sequence[tuple[Environment, Interpreter]],
    new: Mapping[str, list[str]],
    suite: Path,
    logs: Path,
) -> None:
    """Run a suite on stock, but for what stock cannot have, then on patched.

    Args:
        comparison: What the runs are added to.
        sides: Stock and patched.
        new: The test files that stock cannot have, each with what stock lacks.
        suite: The folder with the tests.
        logs: The folder for what pytest says; it has the suite's name.
    """
    stock, patched = (
        run.run_once(*side, suite, logs / side[0].kind, left_out)
        for side, left_out in zip(sides, (new, ()), strict=True)
    )
    own = logs.name != UPSTREAM
    prefix = "" if own else f"{UPSTREAM}/"
    rows = categories.rows(stock.outcomes, patched.outcomes, new, prefix)
    comparison.runs += [(logs.name, stock), (logs.name, patched)]
    comparison.new_files |= {prefix + file: names for file, names in new.items()}
    comparison.rows += rows
    comparison.problems += categories.faults(rows, own=own)


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
    with scratch() as folder:
        for path in files:
            shutil.copy(path, folder)
        yield folder


def _command(target: str, against: str, checkout: Path | None) -> str:
    command = f"./scripts/harness compare --target {target}"
    if against != target:
        command += f" --against {against}"
    return command + (" --checkout DIR" if checkout else "")
