"""What partitions deliver of the budget: the numbers behind the claims on it.

Only runs in which the knapsack decides count. Shares are explained in
benchmarks/SCHEMA.md.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence

from acknap.base.text import short
from acknap.bench.finished import Answers, Partitions
from acknap.bench.record import Record
from acknap.models.parted import MEASURES, Parted
from acknap.report.memory import Number

# Runtime below this share of all items' is nothing: some items cost one operation.
_LEAST = 1e-6
# A share of the activations that is as good as none.
_NOTHING = 1e-3
# Small parameters, such as norms' weights, are left out of the saved set all the time.
_NOTICED = 0.01


def points(record: Record) -> list[Partitions]:
    """Return the points in which live bytes were counted: not those of old records."""
    found = record.of("delivered", Partitions)
    return [p for p in found if any(row.live is not None for row in p.rows)]


def runs(record: Record, contender: str) -> Iterator[tuple[str, float, Parted]]:
    """Return the runs of a contender: model, runtime of all items, what came out."""
    for point in points(record):
        for row in point.rows:
            if row.contender == contender and row.knapsack_used:
                yield point.name, point.total, row


def over(
    record: Record, contender: str, measures: Sequence[str] = ("ratio", "live")
) -> Number | None:
    """How many runs are over the budget by one of some measures."""
    found = [row for _, _, row in runs(record, contender)]
    if not found:
        return None
    words = []
    for measure in MEASURES:
        beyond = [e for row in found if (e := row.excess(measure))]
        worst = f", worst +{short(100 * max(beyond))} %" if beyond else ""
        words.append(f"{len(beyond)} by {measure}{worst}")
    count = sum(any(map(row.excess, measures)) for row in found)
    text = f"over the budget: {'; '.join(words)}; of {len(found)} runs"
    if forced := sum(row.allowed > row.budget for row in found):
        text += f", in {forced} of which what must be saved is more than the budget"
    return Number(count, text)


def kept_plans(record: Record, contender: str) -> Number | None:
    """How many partitions are over the budget although their plan is not."""
    found = [row for _, _, row in runs(record, contender)]
    if not found:
        return None
    broken = [row for row in found if row.is_broken]
    return Number(len(broken), f"{len(broken)} of {len(found)} runs")


def recompute(
    record: Record, base: str, contender: str, unforced: bool = False
) -> Number | None:
    """Recomputed runtime of a contender over the base's, geometric mean.

    Runs count in which the base is within the budget by ratio, bytes and live bytes.

    Args:
        record: The measurements.
        base: `side.solver`.
        contender: `side.solver`.
        unforced: Only of runs in which the contender may recompute nearly everything.
    """
    others = {
        (name, row.budget): row.recomputed
        for name, _, row in runs(record, contender)
        if not (unforced and row.least > _NOTHING)
    }
    ratios = [
        max(others[key], least) / max(row.recomputed, least)
        for name, total, row in runs(record, base)
        if (key := (name, row.budget)) in others
        and not any(map(row.excess, ("ratio", "bytes", "live")))
        and (least := _LEAST * total)
    ]
    words = "{middle:.4f} ({low:.3f} to {high:.3f}) over {n} runs"
    return _spread(ratios, statistics.geometric_mean, words)


def unit(record: Record, side: str) -> Number | None:
    """What a budget of 1 is, as a share of what is saved without a budget."""
    shares = [
        1 / point.unbudgeted[side]
        for point in points(record)
        if isinstance(point.unbudgeted, dict)
    ]
    words = "{low:.3f} to {high:.3f}, median {middle:.3f}, {n} models"
    return _spread(shares, statistics.median, words)


def flattered(record: Record, contender: str) -> Number | None:
    """By how much the partitioner's own ratio is below the share that stays alive."""
    found = [(row.live or 0) - row.ratio for _, _, row in runs(record, contender)]
    if not found:
        return None
    count = sum(difference > _NOTICED for difference in found)
    text = f"by up to {max(found):.3f}, by over {_NOTICED:g} in {count}"
    return Number(max(found), f"{text} of {len(found)} runs")


def extra_cuts(record: Record, contender: str) -> Number | None:
    """Mean of the min-cuts after the first one that carries out the plan."""
    cuts = [row.cuts - 1 for _, _, row in runs(record, contender)]
    if not cuts:
        return None
    mean = statistics.mean(cuts)
    return Number(mean, f"{short(mean)} a run, at most {max(cuts)}, {len(cuts)} runs")


def _spread(
    values: Sequence[float], middle: Callable[[Sequence[float]], float], words: str
) -> Number | None:
    """Return the middle of some values, in words with places for the spread."""
    if not values:
        return None
    found, low, high = middle(values), min(values), max(values)
    text = words.format(middle=found, low=low, high=high, n=len(values))
    return Number(found, text)


def extra_time(
    record: Record, base: str, contender: str, plain: bool = False
) -> Number | None:
    """Partition time of a contender above the base's, as a share of the base's.

    Args:
        record: The measurements.
        base: The one that it is compared to.
        contender: The one that may take longer.
        plain: Whether only runs without an extra cut count.
    """
    theirs = {(name, row.budget): row for name, _, row in runs(record, base)}
    shares = [
        # What no budget changes is the base's for both.
        (row.seconds - other.seconds) / (other.base_seconds + other.seconds)
        for name, _, row in runs(record, contender)
        if (other := theirs.get((name, row.budget))) and not (plain and row.cuts > 1)
    ]
    if not shares:
        return None
    middle, mean = statistics.median(shares), statistics.mean(shares)
    text = f"mean {100 * mean:+.2f} %, median {100 * middle:+.2f} %"
    return Number(mean, f"{text}, {len(shares)} runs")


def solver_share(record: Record, contender: str) -> Number | None:
    """The solver's share of the partition time, median of the runs."""
    shares = [
        row.solve_seconds / (row.base_seconds + row.seconds)
        for _, _, row in runs(record, contender)
    ]
    if not shares:
        return None
    middle = statistics.median(shares)
    low, high = (100 * f(shares) for f in (min, max))
    text = f"median {short(100 * middle)} %, {short(low)} to {short(high)} %"
    return Number(middle, f"{text}, {len(shares)} runs")


def models(record: Record, solvers: Sequence[str]) -> Number | None:
    """How many captured models every solver was tried on."""
    points = record.of("captured", Answers)
    full = [p for p in points if {row.contender for row in p.rows} >= {*solvers}]
    text = f"{len(full)} models, {len(solvers)} solvers"
    return Number(len(full), text) if points else None
