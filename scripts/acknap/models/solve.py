"""`solve`: every solver on one captured knapsack, as a table."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Column, Table

from acknap.base.errors import HarnessError
from acknap.base.files import write_atomic
from acknap.base.layout import Layout
from acknap.base.progress import say, working
from acknap.base.text import short
from acknap.knapsack import instance_file, truth
from acknap.knapsack.contenders import ALL, SOLVER_NAMES, USUAL, Contender
from acknap.knapsack.families import Problem
from acknap.knapsack.instance_file import Instance
from acknap.knapsack.session import Session
from acknap.knapsack.truth import Check, extra_recomputation
from acknap.models.budgets import parse
from acknap.torches import environments
from acknap.torches.inspect import inspect
from acknap.torches.worker import WorkerError
from acknap.upstream.targets import Targets

_LIMIT = 60.0  # seconds of one solve
_PERCENT = 100
_CURVE = 100  # budgets of a plot
_UNITS = {"flops": "flop", "profile": "ms"}
_LEGEND = """\
used: share of the budget. kept: runtime that is not recomputed. extra: recomputation
above the optimum's; - if that is none, or over. gap: how far the kept runtime is from
the bound that exact proves.
stock: as released. patched: with the series.
"""


class Best(NamedTuple):
    """What the exact solver proves for a budget."""

    saved: list[int]
    value: float
    bound: float


class Row(NamedTuple):
    """One solver's answer; `check` is None if it failed."""

    budget: float
    contender: str
    best: Best
    failed: str = ""
    check: Check | None = None
    seconds: float = 0.0


def run_solve(
    layout: Layout,
    targets: Targets,
    file: Path,
    budgets: str,
    solvers: str | None,
    target: str,
    *,
    explain: bool,
    plot: Path | None,
) -> int:
    """Solve an instance and print what each solver makes of it.

    Args:
        layout: The repository.
        targets: The release table.
        file: The instance.
        budgets: Shares of the memory, such as "0.1,0.25".
        solvers: Names such as "dp,stock.ilp"; without a side, all sides that have it.
        target: The release, stock and patched.
        explain: Also print the optimal plan by operator.
        plot: Where to draw the frontier.

    Returns:
        0, or 1 if the numbers are too large for any solver.

    Raises:
        HarnessError: The file is no instance, or an environment cannot be made.
    """
    instance, asked = instance_file.load(file), parse(budgets)
    contenders = list(USUAL) if solvers is None else choose(solvers)
    if plot and (plot.suffix != ".svg" or not plot.absolute().parent.is_dir()):
        raise HarnessError(f"--plot {plot}: name an .svg file in a folder that exists")
    lists = {"memory": instance.memory, "runtimes": instance.runtimes}
    for name, values in (lists | {"bytes": instance.sizes}).items():
        if not math.isfinite(_PERCENT * sum(values)):
            say(f"{file}: the sum of {name} is too large for a float: scale it down")
            return 1
    release = targets.get(target)
    found = environments.stock(layout, release), environments.patched(layout, release)
    for environment in found:
        inspect(environment)
    console = Console(soft_wrap=True)
    with Session({one.kind: one.python for one in found}) as session:
        solving = Solving(session, instance)
        with working(f"Solving {instance.name}, solvers: {len(contenders)}"):
            rows = [solving(name, budget) for budget in asked for name in contenders]
        console.print(table(instance, rows), _LEGEND, sep="")
        for row in rows:
            if row.failed:
                say(f"{row.contender} at {row.budget:g}: {row.failed}")
        if explain:
            for budget in asked:
                console.print(plan(instance, solving.bests([budget])[0], budget))
                console.print(worth(instance, solving.price(budget)))
        if plot:
            with working("Drawing the frontier"):
                write_atomic(plot, draw(solving, rows, asked).encode())
            print(plot)
    return 0


def choose(text: str) -> list[str]:
    """Return the contenders of a list of names.

    Raises:
        HarnessError: There is no such solver.
    """
    chosen: dict[str, None] = {}
    for name in (part.strip() for part in text.split(",")):
        found = [one for one in ALL if name in (one, Contender.of(one).solver)]
        if not found:
            raise HarnessError(
                f"unknown solver {name!r}: give {', '.join(SOLVER_NAMES)}, or one of "
                "a side, such as stock.dp or patched.dp"
            )
        chosen |= dict.fromkeys(found)
    return list(chosen)


class Solving:
    """The solvers of both environments on one instance."""

    def __init__(self, session: Session, instance: Instance) -> None:
        self.problem = Problem(instance.name, instance.memory, instance.runtimes)
        self._session = session
        self._best: dict[float, Best] = {}

    def __call__(self, contender: str, budget: float) -> Row:
        """Solve with one solver, and check its answer."""
        row = Row(budget, contender, self.bests([budget])[0])
        if not self._session.has(contender):
            return row._replace(failed="this release has none")
        task = (contender, self.problem, [budget], _LIMIT)
        try:
            self._session.solve(*task)  # warm up
            answer = self._session.solve(*task)
        except WorkerError as error:
            return row._replace(failed=str(error))
        saved, runtime, *_ = answer["answers"][0]
        quantised = Contender.of(contender).row.quantised
        check = truth.check(self.problem, budget, quantised, saved, runtime, None)
        return row._replace(check=check, seconds=answer["seconds"])

    def bests(self, budgets: Sequence[float]) -> list[Best]:
        """Return the exact solver's sets and certificates, the items prepared once."""
        new = [budget for budget in budgets if budget not in self._best]
        if new:
            task = ("patched.prepared", self.problem, new, _LIMIT * len(new))
            try:
                answers = self._session.solve(*task)["answers"]
            except WorkerError as error:
                name = self.problem.spec
                raise HarnessError(f"exact fails on {name}: {error}") from error
            for budget, answer in zip(new, answers, strict=True):
                self._best[budget] = Best(*answer[:3])
        return [self._best[budget] for budget in budgets]

    def price(self, budget: float) -> float:
        """Return the runtime that a unit more of memory would spare."""
        worker = self._session.worker("patched")
        worker.load(self.problem)
        return float(worker.ask({"op": "price", "budget": budget})["price"])


def table(instance: Instance, rows: Iterable[Row]) -> Table:
    """Return a line per budget and solver."""
    pairs = set(zip(instance.memory, instance.runtimes, strict=True))
    made = _table(
        f"{instance.name}: {len(instance.memory)} items, {len(pairs)} distinct, "
        f"{sum(instance.sizes) / 1e6:,.1f} MB",
        "budget",
        Column("solver", no_wrap=True),
        *("used %", "over %", "kept %", "extra %", "gap %", "ms"),
    )
    for row in rows:
        cells = _cells(row, sum(instance.runtimes))
        made.add_row(short(row.budget), row.contender, *cells)
    return made


def _table(title: str, *columns: Column | str) -> Table:
    """Return a table without rows; a column that is but a name holds numbers."""
    made = [
        Column(one, justify="right", no_wrap=True) if isinstance(one, str) else one
        for one in columns
    ]
    table = Table(*made, title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.title_justify = "left"
    return table


def _cells(row: Row, total: float) -> tuple[str, ...]:
    check, best = row.check, row.best
    if check is None:
        return ("-", "-", "-", "-", "failed", "-")
    over = bool(check.excess)
    extra = extra_recomputation(check.value, best.value, total)
    if check.value >= best.value:  # also where nothing has to be recomputed
        extra = 0.0
    gap = (best.bound - check.value) / (best.bound or 1.0)
    return (
        f"{100 * check.used:.2f}",
        f"{100 * check.excess:.2f}" if over else "no",
        f"{100 * check.value / (total or 1.0):.2f}",
        "-" if over or extra is None else f"{100 * extra:.2f}",
        "-" if over else "proven" if gap <= truth.PROVEN else f"{100 * gap:.2g}",
        short(1e3 * row.seconds),
    )


def plan(instance: Instance, best: Best, budget: float) -> Table:
    """Return the optimal plan by operator."""
    unit = _UNITS.get(instance.estimator, instance.estimator)
    names = ("saved", "MB", unit, "recomputed", "MB", unit)
    made = _table(f"Plan at {budget:g}", Column("operator", overflow="fold"), *names)
    saved = set(best.saved)
    groups: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for item, op in enumerate(instance.ops):
        groups[op][item not in saved].append(item)

    def size(items: Iterable[int]) -> float:
        return sum(instance.sizes[i] for i in items) / 1e6

    # The largest first.
    for op, sides in sorted(groups.items(), key=lambda one: -size(chain(*one[1]))):
        cells: list[str] = []
        for items in sides:
            cost = sum(instance.runtimes[i] for i in items)
            cells += [str(len(items)), f"{size(items):,.1f}", f"{cost:.3g}"]
        made.add_row(op, *cells)
    return made


def worth(instance: Instance, price: float) -> str:
    """Say what one more MB is worth, by the runtime per unit of memory."""
    unit = _UNITS.get(instance.estimator, instance.estimator)
    share = sum(instance.memory) / (sum(instance.sizes) or 1.0)
    per_mb = price * share * 1e6
    total = sum(instance.runtimes) or 1.0
    if per_mb > total:
        return "One more MB would be more than all items take.\n"
    return (
        f"One more MB would spare about {per_mb:.3g} {unit}, "
        f"{100 * per_mb / total:.2g} % of the runtime of all items.\n"
    )


def draw(solving: Solving, rows: Iterable[Row], budgets: Sequence[float]) -> str:
    """Return the frontier with the solvers on it, as SVG."""
    from acknap.knapsack import frontier  # slow to import, seldom needed

    total = sum(solving.problem.runtimes) or 1.0
    end = min(1.0, 1.05 * max(*budgets, sum(solving.problem.memory)))
    grid = [end * step / _CURVE for step in range(1, _CURVE + 1)]
    curve = [
        (budget, 100 * (1 - best.value / total))
        for budget, best in zip(grid, solving.bests(grid), strict=True)
    ]
    kept: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.check is not None:
            left = 100 * (1 - row.check.value / total)
            kept[row.contender].append((row.budget * row.check.used, left))
    found = frontier.Frontier(solving.problem.spec, [(0.0, 100.0), *curve], kept)
    return frontier.draw(found, budgets)
