"""What the right answer is: reference optima, and the check of a solver's answer.

The references share no code and no method with the solvers under test: a float64 table
over capacities where it fits, else a list of undominated sets after fixing items by
their bound; every subset for the smallest problems.
"""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from acknap.knapsack.families import SCALE, Problem

# The contract's slack on the budget: it forgives the rounding of normalised sizes.
SLACK = Fraction(1, 10**12)
# A bound that is so little above a value proves it.
PROVEN = 1e-12
# Relative error of a float64 sum that does not count as a difference.
TOLERANCE = 1e-11

_TABLE_CELLS = 4e8
_MOST_STATES = 2_000_000

Floats = NDArray[np.float64]
Number = TypeVar("Number", float, Fraction)


@dataclass(frozen=True)
class Check:
    """How good one answer is.

    Attributes:
        value: float64 sum of the saved runtimes.
        used: Memory of the saved items over the budget.
        over: By what share the answer exceeds what its solver promises to keep.
        excess: By what share it exceeds the budget itself.
        optimum: Best value under what the solver promises; None: no reference.
        loss: 1 - value / optimum, 0 if they agree.
        runtime_error: Relative error of the runtime that the solver returned.
    """

    value: float
    used: float
    over: float
    excess: float
    optimum: float | None
    loss: float | None
    runtime_error: float | None

    @property
    def right(self) -> bool:
        """Whether the answer keeps the budget and is the best there is."""
        return not self.over and (self.loss is None or self.loss == 0)

    def record(self) -> dict[str, Any]:
        """Return what the raw record keeps."""
        kept = asdict(self) | {"right": self.right}
        return {key: value for key, value in kept.items() if value is not None}


def check(
    problem: Problem,
    budget: float,
    quantised: bool,
    saved: list[int],
    runtime: float | None,
    optimum: float | None,
) -> Check:
    """Check one answer against the budget and the optimum of the solver's problem.

    Args:
        problem: What was solved.
        budget: The capacity.
        quantised: Whether the solver promises the capacity in units, not the budget.
        saved: The items that it saves.
        runtime: The value that it claims.
        optimum: The best value of the problem that it solves; None: no reference.
    """
    value = float(np.sum(np.array([problem.runtimes[i] for i in saved]), dtype=float))
    memory = problem.exact_memory(saved)
    beyond = excess(memory, Fraction(budget))
    over = beyond
    if quantised:
        units, capacity = problem.units(), Fraction(round(budget * SCALE))
        over = excess(Fraction(sum(units[i] for i in saved)), capacity)
    loss = None
    if optimum is not None:
        loss = 1 - value / optimum if optimum else 0.0
        loss = 0.0 if abs(loss) <= TOLERANCE else loss
    error = None
    if runtime is not None:
        error = abs(runtime - value) / (value or 1.0)
    used = float(memory / Fraction(budget)) if budget else 0.0
    return Check(value, used, over, beyond, optimum, loss, error)


def excess(used: Number, allowed: Number) -> float:
    """Return by what share more is used than allowed: the one rule for "over"."""
    if used <= allowed * (1 + SLACK):
        return 0.0
    return float(used / allowed - 1) if allowed else float("inf")


def extra_recomputation(
    value: float | None, best: float | None, total: float
) -> float | None:
    """Return by what share more is recomputed than the optimum has to.

    None: no answer, no reference, or the optimum recomputes nothing.
    """
    if value is None or best is None or total - best <= PROVEN * total:
        return None
    return max(0.0, (total - value) / (total - best) - 1)


def optimum(problem: Problem, budget: float, *, quantised: bool) -> float | None:
    """Return the largest runtime that can be saved; None if it cannot be had here."""
    values = np.array(problem.runtimes)
    if not quantised:
        weights = np.array(problem.memory)
        return by_list(weights, values, budget * (1 + float(SLACK)))
    capacity = round(budget * SCALE)
    units = np.array(problem.units())
    if len(units) * capacity <= _TABLE_CELLS:
        return by_table(units, values, capacity)
    return by_list(units.astype(float), values, float(capacity))


def small_optimum(problem: Problem, budget: float, *, quantised: bool) -> float | None:
    """Return the same for at most 20 items whose memory is in whole units."""
    del quantised  # the two problems are one
    units, capacity = np.array(problem.units(), dtype=float), round(budget * SCALE)
    return by_subsets(units, np.array(problem.runtimes), capacity)


def by_table(weights: NDArray[np.int64], values: Floats, capacity: int) -> float:
    """Fill one row of best values by capacity, item by item."""
    row = np.zeros(capacity + 1)
    for weight, value in zip(weights.tolist(), values.tolist(), strict=True):
        if weight <= capacity:
            taken = row[: capacity + 1 - weight] + value
            np.maximum(row[weight:], taken, out=row[weight:])
    return float(row[-1])


def by_subsets(weights: Floats, values: Floats, capacity: float) -> float:
    """Try every subset of at most 20 items."""
    totals, sums = np.zeros(1), np.zeros(1)
    for weight, value in zip(weights, values, strict=True):
        totals = np.concatenate((totals, totals + weight))
        sums = np.concatenate((sums, sums + value))
    return float(sums[totals <= capacity].max())


def by_list(weights: Floats, values: Floats, capacity: float) -> float | None:
    """Keep the sets that no lighter set matches and that can still beat the best.

    Nemhauser and Ullmann's list, over the items that Dantzig's bound leaves open. None
    if the list grows beyond what a benchmark can afford.
    """
    usable = (weights <= capacity) & (values > 0)
    free = float(values[usable & (weights == 0)].sum())
    usable &= weights > 0
    w, v = weights[usable], values[usable]
    order = np.argsort(-v / w, kind="stable")
    w, v = w[order], v[order]
    if w.sum() <= capacity:
        return free + float(v.sum())
    # Items that are in all or in none of the better sets, by the price of the break.
    full = int(np.searchsorted(np.cumsum(w), capacity, side="right"))
    price = v[full] / w[full]
    low = _greedy(w, v, capacity)
    high = v[:full].sum() + (capacity - w[:full].sum()) * price
    gains = v - price * w
    open_ = np.abs(gains) <= high - low + 1e-9 * high / len(v) + 1e-12 * high
    certain = (gains > 0) & ~open_
    capacity -= float(w[certain].sum())
    base = float(v[certain].sum())
    w, v = _pieces(w[open_], v[open_])
    best = max(low - base, 0.0)
    # Sums may differ by their rounding; sets that much below the best are kept.
    rounding = 1e-14 * high

    total_w = np.concatenate(([0.0], np.cumsum(w)))
    total_v = np.concatenate(([0.0], np.cumsum(v)))
    ratios = np.append(v / w, 0.0)
    used, got = np.zeros(1), np.zeros(1)
    for k, (weight, value) in enumerate(zip(w, v, strict=True)):
        # Fill each set with the items from k on, by ratio: a set, and a bound.
        room = capacity - used
        stop = np.searchsorted(total_w, total_w[k] + room, side="right") - 1
        filled = got + total_v[stop] - total_v[k]
        best = max(best, float(filled.max()))
        rest = room - (total_w[stop] - total_w[k])
        keep = filled + rest * ratios[stop] >= best - rounding
        used, got = used[keep], got[keep]
        if not len(used):
            break
        fits = used + weight <= capacity
        used = np.concatenate((used, used[fits] + weight))
        got = np.concatenate((got, got[fits] + value))
        order = np.lexsort((-got, used))
        used, got = used[order], got[order]
        keep = np.append(True, got[1:] > np.maximum.accumulate(got)[:-1])
        used, got = used[keep], got[keep]
        if len(used) > _MOST_STATES:
            return None
    return free + base + max(best, float(got.max(initial=0.0)))


def _pieces(weights: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Join identical items into pieces of 1, 2, 4, ... of them, by falling ratio."""
    pairs, counts = np.unique(np.stack((weights, values)), axis=1, return_counts=True)
    w, v = [], []
    for (weight, value), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
        left, size = count, 1
        while left:
            size = min(size, left)
            w.append(weight * size)
            v.append(value * size)
            left -= size
            size *= 2
    w_all, v_all = np.array(w), np.array(v)
    order = np.argsort(-v_all / w_all, kind="stable")
    return w_all[order], v_all[order]


def _greedy(weights: Floats, values: Floats, capacity: float) -> float:
    """Take items by ratio, skipping those that do not fit any more."""
    value = 0.0
    for weight, gain in zip(weights.tolist(), values.tolist(), strict=True):
        if weight <= capacity:
            capacity -= weight
            value += gain
    return value
