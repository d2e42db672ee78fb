"""What the plots show, taken from a record."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acknap.bench.finished import Answers, Run, Speed
from acknap.bench.plan_memory import ROWS_UNITS, TABLE_UNITS
from acknap.bench.record import Record
from acknap.knapsack.contenders import VARIANTS
from acknap.knapsack.frontier import Frontier, Points
from acknap.knapsack.truth import PROVEN
from acknap.report.delivered import runs
from acknap.report.memory import memory_points, rows_law, table_law
from acknap.report.speed import training_runs
from acknap.report.stats import median_seconds

RECOMPUTE = ("stock.dp", "stock.hirschberg", "stock.greedy", "patched.exact")
_MEMORY = ("stock.dp", "stock.hirschberg", "patched.hirschberg", "patched.exact")
_WIDTH = 1_000_000
_LEAST = 5e4  # bytes; less cannot be told from nothing


class MemoryByN(NamedTuple):
    """Peaks measured at W = 1e6, and the laws at the publication's W.

    Attributes:
        published: n and peak of the exact solver at the publication's size, measured.
    """

    measured: Mapping[str, Points]
    laws: Mapping[str, Points]
    published: Points


def memory_by_n(record: Record) -> MemoryByN | None:
    """Return peak memory by n."""
    table, rows = table_law(record), rows_law(record)
    if table is None or rows is None:
        return None
    measured = {name: _peaks(record, name, _WIDTH) for name in _MEMORY}
    n = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
    width = TABLE_UNITS + 1.0
    laws = {
        "stock.dp": [(x, table((x + 1) * width, width)) for x in n],
        "stock.hirschberg": [(x, rows(width)) for x in n],
    }
    kept = {name: points for name, points in measured.items() if points}
    return MemoryByN(kept, laws, _peaks(record, "patched.exact", ROWS_UNITS))


def _peaks(record: Record, contender: str, units: int) -> Points:
    """Return n and peak at a capacity, of random items, repeated or not."""
    return [
        (float(point.sizes["n"]), max(point.peak, _LEAST))
        for point in memory_points(record, contender, units=units)
        if point.problem[0] == "r"
    ]


def time_by_n(record: Record) -> dict[str, Points]:
    """Return milliseconds by n, random items, W = 10,000."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for point in record.of("size-speed", Speed):
        for contender in point.seconds:
            if seconds := median_seconds(point.seconds, contender):
                found[contender].append((float(point.sizes["n"]), 1e3 * seconds))
    return dict(found)


def share_of_time(
    found: Mapping[str, Points], base: str, contender: str
) -> tuple[float, float]:
    """Return the largest n that both solved, and the share of the base's time."""
    times, bases = dict(found.get(contender, ())), dict(found.get(base, ()))
    both = times.keys() & bases.keys()
    n = max(both, default=0.0)
    return n, times[n] / bases[n] if both else 0.0


class UsedByBudget(NamedTuple):
    """Memory of the saved set by budget, on one model.

    Attributes:
        used: By the solvers that use the same, joined.
    """

    model: str
    used: Mapping[tuple[str, ...], Points]


def used_by_budget(record: Record) -> UsedByBudget | None:
    """Return how much of the budget each solver uses, while not everything fits."""
    for point in record.of("pictured-budget", Answers):
        used: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for row in point.rows:
            best = point.optimum(row) or 0.0
            if not row.failed and best < point.total * (1 - PROVEN):
                used[row.contender].append((row.budget, row.budget * row.used))
        return UsedByBudget(point.name, _joined(used))
    return None


def _joined(lines: Mapping[str, Points]) -> dict[tuple[str, ...], Points]:
    """Join solvers whose lines cannot be told apart in a plot."""
    groups: list[tuple[list[str], Points]] = []
    for name, points in lines.items():
        for names, others in groups:
            pairs = zip(points, others, strict=False)
            if len(points) == len(others) and all(
                math.isclose(y, other, rel_tol=2e-3) for (_, y), (_, other) in pairs
            ):
                names.append(name)
                break
        else:
            groups.append(([name], points))
    return {tuple(names): points for names, points in groups}


def extra_by_model(record: Record) -> dict[str, dict[str, float]]:
    """Return the worst extra recomputation in %, by model and solver.

    Budgets that a solver exceeds do not count, nor those at which nothing has to be
    recomputed.
    """
    found: dict[str, dict[str, float]] = {}
    for point in record.of("real", Answers):
        extras = found.setdefault(point.name, {})
        for name in RECOMPUTE:
            kept = (row for row in point.by(name) if not row.failed and not row.excess)
            known = [extra for row in kept if (extra := point.extra(row)) is not None]
            if known:
                extras[name] = 100 * max(known)
    return found


def frontier(record: Record) -> Frontier | None:
    """Return the optimum by budget, and the sets of some solvers that keep to it."""
    for point in record.of("pictured-frontier", Answers):
        best = [
            (float(budget), 100 * (1 - value / point.total))
            for budget, value in point.best.items()
            if value is not None
        ]
        kept: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for row in point.rows:
            if row.contender in RECOMPUTE and not row.failed and not row.excess:
                share = 100 * (1 - row.value / point.total)
                kept[row.contender].append((row.budget, share))
        return Frontier(point.name, best, kept) if best else None
    return None


def training(record: Record) -> list[Run]:
    """Return the runs of the training, the smaller budgets first."""
    return sorted(training_runs(record), key=lambda run: run.budget)


def same_losses(runs: Sequence[Run]) -> bool:
    """Whether the curves of all runs lie on one another."""
    steps = zip(*(run.losses for run in runs), strict=True)
    return all(max(losses) <= (1 + 1e-4) * min(losses) for losses in steps)


def delivered(record: Record) -> Mapping[str, tuple[Points, Points]]:
    """Return budget and excess in % of each run by variant: within, and over.

    What has to be saved takes the budget's place where it is more.
    """
    found: dict[str, tuple[Points, Points]] = {}
    for variant in VARIANTS:
        sides: tuple[list[tuple[float, float]], ...] = ([], [])
        for _, _, row in runs(record, variant):
            above = 100 * ((row.live or 0) / row.allowed - 1)
            over = bool(row.excess("live"))  # rounding is not over
            sides[over].append((row.budget, above if over else min(above, 0.0)))
        if any(sides):
            found[variant] = sides[0], sides[1]
    return found


def spread(points: Sequence[tuple[float, float]], ticks: Sequence[float]) -> Points:
    """Return points beside the number of their tick, so that none hides another."""
    marks = []
    for place, tick in enumerate(ticks):
        values = sorted(y for x, y in points if x == tick)
        for rank, y in enumerate(values):
            marks.append((place + 0.7 * ((rank + 0.5) / len(values) - 0.5), y))
    return marks
