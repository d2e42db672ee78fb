"""Exact 0/1 knapsack for the activation-memory budget.

Memory and runtimes become int64 in units so fine that all rounding stays within the
tolerances below; from there on sums are exact. Identical items (layers repeat)
form one *type* with a number of copies. Filling the budget by falling runtime / memory
up to the first type that does not fit, the *break type*, gives the *break solution* and
Dantzig's upper bound [1]. Two stages take turns until the proof is closed:

1. Best-first branch and bound on the break type settles real graphs, and runtimes of
   widely different size, in tens of nodes.
2. A list of undominated changes of the break solution (Nemhauser and Ullmann [2]),
   grown outwards from the break type (Pisinger [3]) over the copies that no bound can
   fix (Martello and Toth [4]), settles many distinct items and correlated ones.

Work is counted, not timed: the answer is the same on every rank. Should it run out
(on adversarial instances only), the best set found comes with a certified gap.

Feasibility: sets of up to ``max_memory`` are all considered (up to 2^18 items), and a
set of more than ``max_memory * (1 + 2**-40)`` (9e-13) is never returned. The slack
forgives the rounding of normalised sizes: five items of 0.1 fit into 0.5, six do not.

Ties: items without runtime are not saved, items without memory are (if they have a
runtime), of identical items those with the lowest index come first. All else depends
on the (memory, runtime) pairs only, not on their order.

[1] Dantzig, Discrete-variable extremum problems, Operations Research 5 (1957).
[2] Nemhauser, Ullmann, Discrete dynamic programming and capital allocation,
    Management Science 15 (1969).
[3] Pisinger, A minimal algorithm for the 0-1 knapsack problem, Operations Research 45
    (1997).
[4] Martello, Toth, Knapsack Problems (1990), chapter 2.
"""

import heapq
import logging
import math
from array import array
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate, chain, compress
from operator import add, mul
from typing import NamedTuple, TypeAlias

import torch


log = logging.getLogger(__name__)

# The work of each round: branching steps with few types, with more of them (the list is
# better then), and list cells. The first rounds are for ordinary instances, the last
# keeps any input under about 3 seconds and 250 MB.
_ROUNDS = (
    (3_000, 500, 100_000),
    (5_000, 5_000, 500_000),
    (60_000, 60_000, 8_000_000),
)
_FEW_TYPES = 256
_MAX_STATES = 2**17
_STEP_CELLS = 1_000  # the fixed cost of a step of the list, in cells
_BATCH = 512  # a step adds pieces until the list has so many states
_LARGE = 512  # from this length on torch is faster than Python

_Limits: TypeAlias = dict[int, tuple[int, int]]  # type -> fewest and most copies
# (-bound, -serial, break type, its copies, weight, profit, limits)
_Node: TypeAlias = tuple[int, int, int, int, int, int, _Limits]
# (type, copies, weight, profit, bound) of each piece
_Pieces: TypeAlias = tuple[
    torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, list[float]
]


class KnapsackPlan(NamedTuple):
    """The answer for one budget, with its certificate.

    Attributes:
        runtime: float64 sum of the runtimes of the saved items.
        saved: indices of the saved items, ascending.
        recomputable: the other indices, ascending.
        upper_bound: no set that fits into the budget has a larger runtime.
        gap: ``upper_bound`` minus the runtime of ``saved``.
        optimal: whether the gap is 0 (integer runtimes with a sum below 2^53) or at
            most 1e-12 of the runtime (all others).
        marginal_runtime: runtime per unit of memory of the first type that does not
            fit, by falling ratio: the worth of more budget. 0 if everything fits.
    """

    runtime: float
    saved: list[int]
    recomputable: list[int]
    upper_bound: float
    gap: float
    optimal: bool
    marginal_runtime: float


class _Types(NamedTuple):
    """Distinct items by falling runtime / memory, both positive."""

    memory: "array[float]"
    runtime: "array[float]"
    start: list[int]  # items[start[k] : start[k + 1]] are the copies of type k
    items: list[int]


def exact_knapsack(
    memory: list[float], runtimes: list[float], max_memory: float
) -> tuple[float, list[int], list[int]]:
    """Chooses the items to save so that their total runtime is largest.

    Args:
        memory: what saving each of the n items takes, in any unit.
        runtimes: what recomputing each item costs, in any unit.
        max_memory: the budget, in the unit of ``memory``.

    Returns:
        The runtime of the saved items, their indices and the other indices, ascending.

    Raises:
        ValueError: if the lengths differ or a number is negative or not finite.

    O(n log n) time and O(n) memory, plus the search, bounded by ``_ROUNDS``.
    """
    plan = ExactKnapsack(memory, runtimes).solve(max_memory)
    if not plan.optimal:
        log.warning(
            "exact_knapsack stopped at runtime %g: the optimum is at most %g higher",
            plan.runtime,
            plan.gap,
        )
    return plan.runtime, plan.saved, plan.recomputable


class ExactKnapsack:
    """Items prepared once, to be solved for one budget after another.

    Args:
        memory: what saving each of the n items takes, in any unit.
        runtimes: what recomputing each item costs, in any unit.

    Raises:
        ValueError: if the lengths differ or a number is negative or not finite.

    O(n log n) time, O(n) memory.
    """

    def __init__(self, memory: list[float], runtimes: list[float]) -> None:
        if len(memory) != len(runtimes):
            raise ValueError(
                "memory and runtimes must have the same length, "
                f"got {len(memory)} and {len(runtimes)}"
            )
        m, r = _checked("memory", memory), _checked("runtimes", runtimes)
        self._runtimes = r
        self._free = [i for i, x in enumerate(m) if not x and r[i]] if 0.0 in m else []
        self._types = (_group if len(m) <= _LARGE else _group_large)(m, r)
        self._divisor = 0  # of integer runtimes whose sum float64 can hold
        if sum(r) < 2**53 and all(x.is_integer() for x in self._types.runtime):
            self._divisor = math.gcd(*map(int, self._types.runtime)) or 1

    def solve(self, max_memory: float) -> KnapsackPlan:
        """Solves for one budget.

        Args:
            max_memory: the budget, in the unit of ``memory``.

        Returns:
            The saved set and its certificate.

        Raises:
            ValueError: if ``max_memory`` is negative or not finite.

        O(n) time and memory, plus the search, bounded by ``_ROUNDS``.
        """
        max_memory = float(max_memory)
        if not (math.isfinite(max_memory) and max_memory >= 0):
            raise ValueError(
                f"max_memory must be finite and not negative, got {max_memory}"
            )
        types, n = self._types, len(self._runtimes)
        search = _Search(types, n, self._divisor, max_memory)
        search.run()
        keep = bytearray(n)
        for i in self._free:
            keep[i] = 1
        for start, stop in zip(types.start, map(add, types.start, search.copies())):
            for i in types.items[start:stop]:
                keep[i] = 1
        gap, marginal = search.bound - search.value, 0.0
        if search.b < len(types.memory) and not search.exact:
            gap += n  # rounding up may add 1 per item to the value
        if search.margin < len(types.memory):
            marginal = types.runtime[search.margin] / types.memory[search.margin]
        try:
            runtime = math.fsum(compress(self._runtimes, keep))
            gap_runtime = search.to_runtime(gap)
        except OverflowError:
            runtime = gap_runtime = math.inf
        return KnapsackPlan(
            runtime=runtime,
            saved=list(compress(range(n), keep)),
            recomputable=[i for i, kept in enumerate(keep) if not kept],
            upper_bound=runtime + gap_runtime,
            gap=gap_runtime,
            optimal=gap * 10**12 <= (0 if search.exact else search.value),
            marginal_runtime=marginal,
        )


class _Relaxation:
    """The best profit for a capacity, if items may be split, as Dantzig's bound.

    Args:
        weight: of one copy of each type, by falling profit / weight.
        profit: of one copy of each type.
        count: copies of each type.

    The sums end before they overflow; the last slope then continues.
    O(n) time and memory, O(log n) for one capacity.
    """

    def __init__(
        self, weight: torch.Tensor, profit: torch.Tensor, count: torch.Tensor
    ) -> None:
        total, zero = weight * count, weight.new_zeros(1)
        end = int((total.cumsum(0, dtype=torch.float64) < 2**61).sum())
        self.weight = torch.cat((zero, total[:end].cumsum(0)))
        self.profit = torch.cat((zero, (profit * count)[:end].cumsum(0)))
        self.slope = torch.cat((profit.double() / weight, zero.double()))[: end + 1]

    def __call__(self, capacity: torch.Tensor) -> torch.Tensor:
        # In parts of 200: torch starts threads for more, which a busy machine delays.
        parts = (capacity[i : i + 200] for i in range(0, len(capacity), 200))
        found = [torch.searchsorted(self.weight, x, right=True) for x in parts]
        k = torch.cat(found or [capacity]).sub_(1)
        rest = (capacity - self.weight.index_select(0, k)).double()
        rest.mul_(self.slope.index_select(0, k))
        return rest.add_(self.profit.index_select(0, k))


class _Search:
    """The search for one budget, with the best set so far and an upper bound.

    The types are rounded to integers. Weights are rounded down (to at least 1), the
    capacity is raised by 2^-41 of the budget, which is more than n + 1 units: every set
    of up to ``max_memory`` fits, and a set that fits exceeds it by less than 2^-40.
    Profits are exact if runtimes are integers, else rounded up to a unit below 2^-58 of
    the optimum, so that all bounds are valid.

    The best set has all copies of the types before ``full`` and none of the others,
    except where ``changed`` tells another number of copies.

    Args:
        types: the distinct items.
        n: the number of items.
        divisor: common divisor of integer runtimes, 0 if they are not integers.
        max_memory: the budget.
    """

    def __init__(self, types: _Types, n: int, divisor: int, max_memory: float) -> None:
        digits = 60 - math.frexp(max_memory)[1]
        budget = int(math.ldexp(max_memory, digits))
        capacity = max(0, budget + min(budget >> 41, (budget >> 40) - n))
        weight = _scaled(types.memory, 2.0 * max_memory, digits, math.floor)
        count = [b - a for a, b in zip(types.start, types.start[1:])]
        self.margin = -1  # the break type with the items too large for the budget
        if max(map(mul, weight, count), default=0) > capacity:
            sums = list(accumulate(map(mul, weight, count)))
            self.margin = bisect_right(sums, capacity)
            count = [min(c, capacity // w) for w, c in zip(weight, count)]
        self.weight_sum: list[int] = [0, *accumulate(map(mul, weight, count))]
        self.b = bisect_right(self.weight_sum, capacity) - 1  # the break type
        if self.margin < 0:
            self.margin = self.b
        if divisor:
            digits = 0
            profit = [int(r) // divisor for r in types.runtime]
        else:
            # The types before the break fit, and the break type fits alone, so that
            # they are worth 1 to 2 optima. 2^-64 keeps a sum from overflowing.
            reach = types.runtime[: self.b + 1]
            most = sum(map(mul, reach, count))
            digits = 60 - math.frexp(most)[1]
            if math.isinf(most):
                part = sum(r * 2.0**-64 * c for r, c in zip(reach, count))
                digits = 60 - 64 - math.frexp(part)[1]
            profit = _scaled(types.runtime, most, digits, math.ceil)
        self.profit_sum: list[int] = [0, *accumulate(map(mul, profit, count))]
        self.types, self.capacity = types, capacity
        self.weight, self.profit, self.count = weight, profit, count
        self.exact, self.divisor, self.digits = divisor > 0, divisor or 1, digits

        self.value = self.full = self.steps = 0
        self.bound = self.profit_sum[-1]
        self.changed: dict[int, int] = {}
        self.nodes: list[_Node] = []
        self.closed = 0  # the largest bound of a node that was not worth a search

    def run(self) -> None:
        """Runs the stages until the bound is met or their work is used up."""
        self._add_node(self.b, self.weight_sum[self.b], self.profit_sum[self.b], {})
        for few, many, cells in _ROUNDS:
            if self.bound > self._enough():
                self._branch(few if len(self.count) <= _FEW_TYPES else many)
            if self.bound > self._enough():
                self._grow(cells)

    def copies(self) -> list[int]:
        """The number of copies of each type in the best set. O(types)."""
        copies = self.count[: self.full] + [0] * (len(self.count) - self.full)
        for k, number in self.changed.items():
            copies[k] = number
        return copies

    def to_runtime(self, profit: int) -> float:
        """Converts a profit. Raises OverflowError beyond float64."""
        return math.ldexp(profit * self.divisor, -self.digits)

    def _enough(self) -> int:
        """The bound up to which the best set counts as optimal."""
        return self.value + (0 if self.exact else self.value >> 42)

    def _add_node(self, k: int, weight: int, profit: int, limits: _Limits) -> None:
        """Queues a node: finds its break type from ``k`` on, its set and its bound.

        ``weight`` and ``profit`` are the totals with the types before ``k`` at their
        most copies and the others at their fewest. O(distance to the break) time.
        """
        low = copies = gain = 0
        while k < len(self.count):
            self.steps += 1
            low, high = limits.get(k, (0, self.count[k]))
            more = weight + (high - low) * self.weight[k]
            if more > self.capacity:
                copies, rest = divmod(self.capacity - weight, self.weight[k])
                gain = rest * self.profit[k] // self.weight[k]
                weight += copies * self.weight[k]
                profit += copies * self.profit[k]
                break
            weight = more
            profit += (high - low) * self.profit[k]
            k += 1
        if profit > self.value:
            self.value, self.full = profit, k
            self.changed = {j: limit[j < k] for j, limit in limits.items()}
            if k < len(self.count):
                self.changed[k] = low + copies
        if profit + gain <= self._enough():
            self.closed = max(self.closed, profit + gain)
        else:
            # Of equal bounds the newest comes first: it is nearest to a full set.
            bound, serial = profit + gain, self.steps
            node = (-bound, -serial, k, low + copies, weight, profit, limits)
            heapq.heappush(self.nodes, node)

    def _branch(self, max_steps: int) -> None:
        """Best-first branch and bound on the number of copies of the break type.

        Each branching settles the one type that the relaxation splits. O(log(nodes) +
        depth + distance between the break types) time and O(depth) memory per node.
        """
        max_steps += self.steps
        while self.nodes and self.steps < max_steps:
            if -self.nodes[0][0] <= self._enough():
                break
            _, _, k, copies, weight, profit, limits = heapq.heappop(self.nodes)
            low, high = limits.get(k, (0, self.count[k]))
            self._add_node(k + 1, weight, profit, {**limits, k: (low, copies)})
            # One copy more than fits: the types of the lowest ratio make room.
            limits = {**limits, k: (copies + 1, high)}
            weight += self.weight[k]
            profit += self.profit[k]
            while weight > self.capacity and k > 0:
                k -= 1
                self.steps += 1
                low, high = limits.get(k, (0, self.count[k]))
                weight -= (high - low) * self.weight[k]
                profit -= (high - low) * self.profit[k]
            if weight <= self.capacity:
                self._add_node(k, weight, profit, limits)
        top = -self.nodes[0][0] if self.nodes else 0
        self.bound = min(self.bound, max(self.value, self.closed, top))

    def _pieces(self) -> _Pieces:
        """The copies that a better set may remove or add, in pieces of 1, 2, 4, ...

        Removed are copies of the types before the break type, added are copies of the
        others. A piece counts if Dantzig's bound with that change exceeds the best
        value. O(p log n) time for p pieces.
        """
        weight, profit, count = (
            torch.frombuffer(array("q", x), dtype=torch.int64)
            for x in (self.weight, self.profit, self.count)
        )
        pieces = torch.frexp(count.double()).exponent.long()
        kind = torch.arange(len(count), device="cpu").repeat_interleave(pieces)
        index = torch.arange(len(kind), device="cpu")
        power = 1 << (index - (pieces.cumsum(0) - pieces)[kind])
        size = torch.minimum(power, count[kind] - power + 1)
        size[kind < self.b] *= -1
        dw, dp = size * weight[kind], size * profit[kind]
        relaxation = _Relaxation(weight, profit, count)
        bound = relaxation(self.capacity - dw).add_(dp)
        keep = (bound >= self._enough() + 1 - self._margin()).nonzero().view(-1)
        return kind[keep], size[keep], dw[keep], dp[keep], bound[keep].tolist()

    def _margin(self) -> float:
        """More than what float64 may round off a bound."""
        return self.bound * 2.0**-48

    def _grow(self, max_cells: int) -> None:
        """Lists the undominated changes of the break solution, piece by piece.

        A state is the (weight, profit) of a change. It goes if another one weighs no
        more and is worth as much, or if its bound, with the remaining pieces, is no
        better than the best set. Too long a list keeps the states of the highest
        bounds; the highest bound dropped then limits the certificate. O(cells
        log(cells)) time, 8 bytes per cell and 150 per state.
        """
        kind, size, dw, dp, bounds = self._pieces()
        one = torch.ones_like(dw)
        remaining, margin = _Relaxation(dw.abs(), dp.abs(), one), self._margin()
        base, room = self.profit_sum[self.b], self.capacity - self.weight_sum[self.b]
        last = len(remaining.weight) - 1
        lo = hi = center = int((kind < self.b).sum())
        beat = self._enough() - base
        weight = profit = dw.new_zeros(1)
        steps: list[tuple[int, list[int], torch.Tensor]] = []
        dropped, cells, found = -math.inf, 0, None
        while len(weight) and (lo > 0 or hi < len(bounds)):
            states = width = len(weight)
            added: list[int] = []
            while (lo > 0 or hi < len(bounds)) and (not added or width < _BATCH):
                if lo > 0 and (hi == len(bounds) or hi - center > center - lo):
                    lo -= 1
                    k = lo
                else:
                    k = hi
                    hi += 1
                if bounds[k] >= base + beat + 1 - margin:
                    added.append(k)
                    width *= 2
                    weight = torch.cat((weight, weight + dw[k]))
                    profit = torch.cat((profit, profit + dp[k]))
            cells += width + _STEP_CELLS
            weight, order = weight.sort(stable=True)
            profit = profit.index_select(0, order)
            most, where = profit.cummax(0)
            edge = min(hi, last)
            least = room - int(remaining.weight[lo])
            ends = weight.new_tensor([room, 2 * room - least])
            fit, end = torch.searchsorted(weight, ends, right=True).tolist()
            if not end:
                break
            if fit and int(most[fit - 1]) > beat:
                value = base + int(most[fit - 1])
                found = (len(steps), int(order[where[fit - 1]]), value)
                beat = value + (self._enough() - self.value) - base
            bound = room - weight[:end]
            bound[:fit] += remaining.weight[edge]
            bound[fit:] += remaining.weight[lo]
            bound = remaining(bound).add_(profit[:end])
            bound[:fit] -= remaining.profit[edge]
            bound[fit:] -= remaining.profit[lo]
            keep = bound >= beat + 1 - margin
            keep[1:].logical_and_(profit[1:end] > most[: end - 1])
            index = keep.nonzero().view(-1)
            limit = _MAX_STATES if cells < max_cells else 0
            if len(index) > limit:
                best, rank = bound.index_select(0, index).sort(
                    stable=True, descending=True
                )
                dropped = max(dropped, float(best[limit]))
                index = index.index_select(0, rank[:limit].sort().values)
            steps.append((states, added, order.index_select(0, index)))
            weight = weight.index_select(0, index)
            profit = profit.index_select(0, index)
        if found:
            # Walk back the list to the set of the best state.
            step, state, self.value = found
            changed: dict[int, int] = {}
            for i in range(step, -1, -1):
                states, added, _ = steps[i]
                # The list was doubled once for each piece.
                pieces, state = divmod(state, states)
                for j, piece in enumerate(added):
                    if pieces >> j & 1:
                        k = int(kind[piece])
                        before = self.count[k] if k < self.b else 0
                        changed[k] = changed.get(k, before) + int(size[piece])
                if i:
                    state = int(steps[i - 1][2][state])
            self.full, self.changed = self.b, changed
        if dropped > beat:
            beat = math.ceil(dropped + margin)
        self.bound = max(self.value, min(self.bound, base + beat))


def _checked(name: str, values: list[float]) -> "array[float]":
    """Converts to float64, finite and not negative. O(n) time, 8 bytes per item."""
    floats = array("d", values)
    if floats and not (math.isfinite(sum(floats)) and min(floats) >= 0):
        for i, x in enumerate(floats):  # a sum may overflow, a number may not
            if not (math.isfinite(x) and x >= 0):
                raise ValueError(
                    f"{name}[{i}] must be finite and not negative, got {x}"
                )
    return floats


def _scaled(
    values: "array[float]", most: float, exponent: int, rounded: Callable[[float], int]
) -> list[int]:
    """min(value, most) * 2^exponent as integers of 62 bits, at least 1. O(n)."""
    # In two steps, because 2^exponent may overflow.
    a, b = 2.0 ** min(exponent, 1000), 2.0 ** max(exponent - 1000, 0)
    if len(values) <= _LARGE:
        return [rounded(min(x, most) * a * b) or 1 for x in values]
    scaled = torch.frombuffer(values, dtype=torch.float64).clamp(max=most) * a * b
    integers = (scaled.ceil() if rounded is math.ceil else scaled.floor()).long()
    return integers.clamp(min=1).tolist()


def _group(memory: "array[float]", runtimes: "array[float]") -> _Types:
    """Groups identical items and sorts the types. O(n + types log(types)) time."""
    groups: dict[tuple[float, float], list[int]] = {}
    for i, pair in enumerate(zip(memory, runtimes)):
        if pair[0] and pair[1]:
            groups.setdefault(pair, []).append(i)
    order = [items[0] for items in groups.values()]
    order.sort(key=lambda i: runtimes[i] / memory[i], reverse=True)
    ratio = [runtimes[i] / memory[i] for i in order]
    ties = [k for k in range(len(order) - 1) if ratio[k] == ratio[k + 1]]
    _untie(order, memory, runtimes, ratio, ties)
    m = array("d", [memory[i] for i in order])
    r = array("d", [runtimes[i] for i in order])
    copies = [groups[pair] for pair in zip(m, r)]
    start = list(accumulate(map(len, copies), initial=0))
    return _Types(m, r, start, list(chain.from_iterable(copies)))


def _group_large(memory: "array[float]", runtimes: "array[float]") -> _Types:
    """The same for many items, vectorised. O(n log n) time."""
    m = torch.frombuffer(memory, dtype=torch.float64)
    r = torch.frombuffer(runtimes, dtype=torch.float64)
    order = ((m > 0) & (r > 0)).nonzero().view(-1)
    ratio, rank = torch.sort(r[order] / m[order], descending=True, stable=True)
    order = order[rank]
    new = _differs_from_previous(m[order], r[order])
    tie = new[1:] & (ratio[1:] == ratio[:-1])
    items: list[int] = order.tolist()
    if bool(tie.any()):
        ties = tie.nonzero().view(-1).tolist()
        _untie(items, memory, runtimes, ratio.tolist(), ties)
        order = torch.tensor(items, device="cpu")
        new = _differs_from_previous(m[order], r[order])
    start = new.nonzero().view(-1)
    kinds = [array("d", x[order[start]].tolist()) for x in (m, r)]
    return _Types(kinds[0], kinds[1], [*start.tolist(), len(items)], items)


def _differs_from_previous(m: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    new = torch.ones_like(m, dtype=torch.bool)
    new[1:] = (m[1:] != m[:-1]) | (r[1:] != r[:-1])
    return new


def _untie(
    order: list[int],
    memory: "array[float]",
    runtimes: "array[float]",
    ratio: list[float],
    ties: list[int],
) -> None:
    """Sorts items of equal float64 runtime / memory by the exact quotient.

    Division rounds monotonically, so no other items can be out of order.

    Args:
        order: item indices by falling quotient, changed in place.
        memory: memory of the items.
        runtimes: runtimes of the items.
        ratio: the quotients in this order.
        ties: positions of a quotient equal to the next, one or more of each tie.

    O(n log n) time.
    """
    stop = 0
    for k in ties:
        if k < stop:
            continue
        start, stop = k, k + 1
        while start and ratio[start - 1] == ratio[k]:
            start -= 1
        while stop < len(order) and ratio[stop] == ratio[k]:
            stop += 1
        unit = math.frexp(ratio[k])[1] if 0 < ratio[k] < math.inf else -2200

        def quotient(i: int, unit: int = unit) -> int:
            # Different quotients of 53-bit numbers differ by more than 2^-107.
            a, x = math.frexp(runtimes[i])
            b, y = math.frexp(memory[i])
            return (int(a * 2**53) << (112 + x - y - unit)) // int(b * 2**53)

        part = sorted(order[start:stop], key=runtimes.__getitem__, reverse=True)
        order[start:stop] = sorted(part, key=quotient, reverse=True)
