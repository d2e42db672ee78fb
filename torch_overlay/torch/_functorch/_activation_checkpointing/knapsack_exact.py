"""Exact 0/1 knapsack for the activation-memory budget.

Memory and runtimes become integers, in units so fine that all rounding stays within the
tolerances below; from there on sums are exact. Normalised sizes become the multiples of
a common unit that they were before the division. Filling the budget by falling runtime
/ memory up to the first item that does not fit, the *break*, gives the *break solution*
and Dantzig's upper bound [1]. Three stages take turns until the proof is closed:

1. Best-first branch and bound on the break settles repeated layers, and runtimes of
   widely different size, in tens of nodes. Without it the solver takes three times
   longer on captured graphs, and some runtimes from 1 to 1e13 end unproven.
2. A list of undominated changes of the break solution (Nemhauser and Ullmann [2]),
   grown outwards from the break (Pisinger [3]) over the items that no bound can decide
   (Martello and Toth [4]), settles many distinct items and correlated ones. Items of
   the same size are listed in one step: the best of them come first.
3. A table over the capacity (Bellman [5]), where a gap of more than 1e-4 is left. In
   units of the sizes it proves its set; in larger ones it still finds a good one.
   First go the items that cannot be in the best set unless more others of less memory
   and more runtime are than fit beside them: of a few large ones few remain.

Work is counted, not timed: the answer is the same on every rank. Should it run out
(on adversarial instances only), the best set found comes with a certified gap. It is
never worse than that of taking items by falling ratio while they fit, and nothing
fits beside it. Up to 100,000 items take less than 3 seconds and 250 MB; a million take
about 15 seconds and 0.3 GB. No operation is large enough for torch to share it out
to threads: neither their number nor the load of other cores matters.

An item of infinite runtime is saved if it fits at all, before anything else; of those
as many as fit, the smallest first.

Feasibility: up to 2^18 items, sets of up to ``max_memory`` are all considered, and a
set of more than ``max_memory * (1 + 2**-40)`` (9e-13) is never returned. The slack
forgives the rounding of normalised sizes: five items of 0.1 fit into 0.5, six do not.

Ties: items without runtime are not saved, items without memory are (if they have a
runtime), of identical items those with the lowest index come first. All else depends
on the (memory, runtime) pairs only, not on their order, if the set is proven.

[1] Dantzig, Discrete-variable extremum problems, Operations Research 5 (1957).
[2] Nemhauser, Ullmann, Discrete dynamic programming and capital allocation,
    Management Science 15 (1969).
[3] Pisinger, A minimal algorithm for the 0-1 knapsack problem, Operations Research 45
    (1997).
[4] Martello, Toth, Knapsack Problems (1990), chapter 2.
[5] Bellman, Dynamic Programming (1957).
"""

import heapq
import logging
import math
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, chain, compress, groupby
from operator import gt, itemgetter, lt, mul, truediv
from typing import NamedTuple, TypeAlias

import torch


log = logging.getLogger(__name__)

# The work of each round, in branching steps and list cells. The first round is for
# ordinary instances, the second and the table together keep any input under about 3
# seconds and 250 MB.
_ROUNDS = ((1_000, 100_000), (40_000, 7_000_000))
# The list settles more types than this faster, but wants a good set to begin with: then
# the first round branches so many steps.
_MANY_TYPES, _FEW_STEPS = 128, 200
_MAX_STATES = 2**17
_STEP_CELLS = 1_000  # the fixed cost of a step of the list, in cells
_BATCH = 768  # a step adds runs until the list has so many states,
_MAX_RUN = 2**13  # and one run adds at most so many if it is long
_TABLE_CELLS = 300_000_000
_LEAST_STEPS = 64  # few pieces have no longer rows than so many
_CLOSE = 1e-4  # a gap that is not worth a table in larger units
_MAX_TYPES = 2**14  # more are not looked at for dominated ones, nor listed
# Torch shares larger tensors out to threads, whose start and barriers take longer than
# the work, much longer where other processes hold the cores.
_PIECE = 2**15 - 1
_SEARCHED = 200  # the same for searchsorted
_BITS = 60  # of the budget and of the optimum as integers
_OVER = 2**61  # more than fits, even after all removals: sums stop here

# width of the list before it, and the pieces of one weight: added and removed
_Run: TypeAlias = tuple[int, list[list["_Piece"]]]
# weights and profits of states, and where they come from if it is not their order
_Block: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
# states that are kept, and their bounds
_Kept: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
_Limits: TypeAlias = dict[int, tuple[int, int]]  # type -> fewest and most copies
# (-bound, -serial, break type, its copies, weight, profit, limits)
_Node: TypeAlias = tuple[int, int, int, int, int, int, _Limits]


class KnapsackPlan(NamedTuple):
    """The answer for one budget, with its certificate.

    Attributes:
        runtime: float64 sum of the runtimes of the saved items.
        saved: indices of the saved items, ascending.
        recomputable: the other indices, ascending.
        upper_bound: no set that fits into the budget has a larger runtime, up to the
            rounding to float64.
        gap: ``upper_bound`` minus the runtime of ``saved``, infinite ones left out.
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

    memory: torch.Tensor
    runtime: torch.Tensor
    items: list[list[int]]  # the indices of the copies of each type, ascending
    copies: torch.Tensor  # how many of each type
    exact: bool  # whether all runtimes are integers whose sum float64 can hold
    unit: float  # all memory is a multiple of it; 0 if it is not known


class _Piece(NamedTuple):
    """Copies of a type that a change adds (or removes: then all but k is negative)."""

    k: int
    copies: int
    weight: int
    profit: int
    bound: float  # of all sets with this change


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
        ValueError: if the lengths differ or a number is negative, NaN or complex, or
            an infinite memory.

    An item of infinite runtime is saved if it fits at all, before anything else.

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
        ValueError: if the lengths differ or a number is negative, NaN or complex, or
            an infinite memory.

    O(n log n) time, O(n) memory.
    """

    def __init__(self, memory: list[float], runtimes: list[float]) -> None:
        if len(memory) != len(runtimes):
            raise ValueError(
                "memory and runtimes must have the same length, "
                f"got {len(memory)} and {len(runtimes)}"
            )
        m, r = _numbers("memory", memory), _numbers("runtimes", runtimes, math.inf)
        self._runtimes = r
        items: defaultdict[tuple[float, float], list[int]] = defaultdict(list)
        for i, item in enumerate(zip(m, r)):
            items[item].append(i)
        self._free = [i for x in items if not x[0] and x[1] for i in items[x]]
        urgent = sorted(x for x in items if x[0] and x[1] == math.inf)
        self._urgent = [(x[0], items.pop(x)) for x in urgent]
        worth = sum(r)
        if worth == math.inf:
            worth = sum(x for x in r if x < math.inf)
        self._types = _sorted(items, sum(m), worth)

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
        max_memory = _number("max_memory", max_memory)
        if not 0 <= max_memory < math.inf:
            raise ValueError(
                f"max_memory must be finite and not negative, got {max_memory}"
            )
        n = len(self._runtimes)
        urgent, max_memory = self._urgent_first(max_memory)
        search = _Search(self._types, max_memory)
        search.run()
        keep = bytearray(n)
        for i in chain(self._free, urgent):
            keep[i] = 1
        items = self._types.items
        for i in chain(*items[: search.full]):
            keep[i] = 1
        for k, number in search.exceptions().items():
            for j, i in enumerate(items[k]):
                keep[i] = j < number
        gap = search.bound - search.value
        if search.b < len(search.count) and not self._types.exact:
            gap += sum(keep)  # rounding up may add 1 per saved item to the value
        try:
            runtime = math.fsum(compress(self._runtimes, keep))
            gap_runtime = math.ldexp(gap, -search.digits)
        except OverflowError:
            runtime = gap_runtime = math.inf
        return KnapsackPlan(
            runtime=runtime,
            saved=list(compress(range(n), keep)),
            recomputable=[i for i, kept in enumerate(keep) if not kept],
            upper_bound=runtime + gap_runtime,
            gap=gap_runtime,
            optimal=gap * 10**12 <= (0 if self._types.exact else search.value),
            marginal_runtime=search.marginal,
        )

    def _urgent_first(self, max_memory: float) -> tuple[list[int], float]:
        """The items of infinite runtime to save, and the budget that they leave.

        The smallest ones are the most that fit, and leave most to the others.
        """
        if not self._urgent:
            return [], max_memory
        room = Fraction(max_memory)
        slack = room / 2**41
        saved: list[int] = []
        for memory, items in self._urgent:
            copies = min(len(items), int((room + slack) / Fraction(memory)))
            room -= copies * Fraction(memory)
            saved += items[:copies]
        return saved, float(max(room, 0))


class _Relaxation:
    """The best profit for a capacity, if items may be split, as Dantzig's bound.

    Args:
        weight: of one copy of each type, by falling profit / weight.
        profit: of one copy of each type.
        limit: the sums end here, before they overflow; the last slope then continues.
    """

    def __init__(
        self, weight: torch.Tensor, profit: torch.Tensor, limit: float
    ) -> None:
        self.each, self.limit = (weight, profit), limit
        self.slope = torch.zeros(1, dtype=torch.float64, device="cpu")
        if weight.numel():
            slope = _piecewise(lambda w, p: p.double() / w, weight, profit)
            self.slope = torch.cat((*_parts(slope, _PIECE), self.slope))

    def fill(self, count: torch.Tensor) -> None:
        """Takes another number of copies of each type, 0 or more. O(n) time."""
        weight, profit = (_piecewise(torch.mul, x, count) for x in self.each)
        total = _piecewise(torch.Tensor.double, weight).cumsum(0)
        end = int(torch.searchsorted(total, self.limit))
        self.weight, self.profit = (_sums_from_0(x[:end]) for x in (weight, profit))

    def __call__(self, capacity: torch.Tensor) -> torch.Tensor:
        """The bound for each capacity. O(log n) time for one."""
        return self._bound(capacity, _search(self.weight, capacity, True).sub_(1))

    def of_descending(self, capacity: torch.Tensor) -> torch.Tensor:
        """The same for capacities in falling order: O(1) time for one of many."""
        if capacity.numel() <= _SEARCHED:
            return self(capacity)
        ends = torch.stack((capacity[-1], capacity[0]))
        first, last = torch.searchsorted(self.weight, ends, right=True).tolist()
        steps = self.weight[first:last]
        if len(steps) > len(capacity):
            return self(capacity)
        # Where the steps are among the capacities tells how many are below each.
        ascending = capacity.flip(0)
        where = _search(ascending, steps, False)
        below = where.bincount(minlength=len(capacity)).cumsum(0)
        return self._bound(capacity, below.flip(0).add_(first - 1))

    def _bound(self, capacity: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        rest = (capacity - self.weight.index_select(0, k)).double()
        rest.mul_(self.slope.index_select(0, k))
        return rest.add_(self.profit.index_select(0, k))


class _Search:
    """The search for one budget, with the best set so far and an upper bound.

    The types are rounded to integers. The capacity is raised by 2^-41 of the budget,
    which is more than all rounding of weights: every set of up to ``max_memory`` fits,
    and a set that fits exceeds it by less than 2^-40. Profits are exact if runtimes are
    integers, else rounded up to a unit below 2^-58 of the optimum, so that all bounds
    are valid.

    The best set has all copies of the types before ``full`` and none of the others,
    with exceptions.

    Args:
        types: the distinct items.
        max_memory: the budget.

    O(n) time.
    """

    def __init__(self, types: _Types, max_memory: float) -> None:
        self.exact, self.lattice = types.exact, types.unit > 0
        self.types = types
        if types.unit:
            budget = min(max_memory / types.unit, 2.0**53)
            weight = _piecewise(lambda x: _rounded(x / types.unit), types.memory)
        else:
            digits = _BITS - math.frexp(max_memory)[1]
            budget = math.ldexp(max_memory, digits)
            weight = _piecewise(lambda x: _rounded(_scaled(x, digits)), types.memory)
        self.capacity = int(budget * (1 + 2.0**-41))
        self.weight, copies = weight.tolist(), types.copies.tolist()
        count = _piecewise(
            lambda c, w: torch.minimum(c, self.capacity // w), types.copies, weight
        )
        self.count = count.tolist()
        n = len(copies)
        # Not all copies of these types fit, even alone.
        fewer = map(lt, self.count, copies)
        self.fewer = {k: self.count[k] for k in compress(range(n), fewer)}
        self._find_break()
        first = min([self.b, *self.fewer])
        self.marginal = 0.0
        if first < n:
            self.marginal = float(types.runtime[first] / types.memory[first])

        self.digits = 0 if self.exact else self._profit_digits(types.runtime.tolist())
        profit = _piecewise(
            lambda x: x.long() if self.exact else _rounded_up(_scaled(x, self.digits)),
            types.runtime,
        )
        self.columns, self.profit = (weight, profit), profit.tolist()
        # The best set: all copies of the types before `full`, but for `changed`.
        self.value = self.full = self.steps = 0
        self.changed: dict[int, int] = {}
        self.bound = sum(map(mul, self.profit[: self.b + 1], self.count))
        self._restart()

    def _find_break(self) -> None:
        """Finds the break type, and the weight of the types before it."""
        b = total = 0
        for more in map(mul, self.weight, self.count):
            if total + more > self.capacity:
                break
            total += more
            b += 1
        self.b, self.base_weight = b, total

    def _restart(self) -> None:
        """Begins the tree of the branch and bound anew."""
        self.base = sum(map(mul, self.profit[: self.b], self.count))
        self.nodes: list[_Node] = []
        self.closed = 0  # the largest bound of a node that was not worth a search
        self._add_node(self.b, self.base_weight, self.base, {})

    def _profit_digits(self, runtime: list[float]) -> int:
        """The binary digits after the point that give the optimum ``_BITS`` of them."""
        # The types before the break fit together, and the break type fits alone: they
        # are worth 1 to 2 optima. Shares, because the sum may overflow.
        copies = self.count[: self.b + 1]
        most = max(compress(runtime, copies), default=0.0)
        if not most:
            return 0
        share = sum(r / most * c for r, c in zip(runtime, copies))
        return _BITS - math.frexp(most)[1] - math.frexp(share)[1]

    def run(self) -> None:
        """Runs the stages until the bound is met or their work is used up."""
        many = len(self.count) > _MANY_TYPES
        for i, (steps, cells) in enumerate(_ROUNDS):
            if i and self._gap_is_wide():
                self._offer_greedy()
                self._drop_dominated()
                if not self.proven():
                    self._tabulate(exactly=True)
            if not self.proven():
                self._branch(min(steps, _FEW_STEPS) if many and i == 0 else steps)
            if not self.proven():
                _List(self, self._pieces(), cells).run()
        if not self.proven():
            self._offer_greedy()
        if self._gap_is_wide():
            self._tabulate(exactly=False)
        if self.bound > self.value:
            self._fill()

    def _tabulate(self, exactly: bool) -> None:
        """Runs the table, if it has few enough cells or may have larger units."""
        if exactly and not (
            self.lattice and self.capacity * _LEAST_STEPS <= _TABLE_CELLS
        ):
            return
        table = _Table(self, self._pieces())
        if table.exact or not exactly:
            table.run()

    def proven(self) -> bool:
        return self.bound <= self.enough()

    def _gap_is_wide(self) -> bool:
        return self.bound - self.value > self.value * _CLOSE

    def _offer_greedy(self) -> None:
        """Takes items by falling ratio, the first of equal ones first, if they fit.

        So no caller does better with a plain greedy rule. O(n log n) time.
        """
        ratio = list(
            map(truediv, self.types.runtime.tolist(), self.types.memory.tolist())
        )
        copies: dict[int, int] = {}
        room, value = self.capacity, 0
        for _, equal in groupby(range(len(ratio)), ratio.__getitem__):
            items = ((i, k) for k in equal for i in self.types.items[k])
            for _, k in sorted(items):
                if self.weight[k] <= room:
                    room -= self.weight[k]
                    value += self.profit[k]
                    copies[k] = copies.get(k, 0) + 1
        if value > self.value:
            self.value, self.full, self.changed = value, 0, copies

    def _fill(self) -> None:
        """Adds to the best set what still fits, by falling ratio. O(n) time."""
        copies = [c if k < self.full else 0 for k, c in enumerate(self.count)]
        for k, c in self.changed.items():
            copies[k] = c
        room = self.capacity - sum(map(mul, self.weight, copies))
        for k, weight in enumerate(self.weight):
            more = 0
            if weight <= room:
                more = min(int(self.types.copies[k]) - copies[k], room // weight)
            if more > 0:
                room -= more * weight
                self.value += more * self.profit[k]
                self.changed[k] = copies[k] + more
        self.bound = max(self.bound, self.value)

    def _drop_dominated(self) -> None:
        """Lowers the count of types that an optimal set does not need, and restarts.

        A type that weighs no more and is worth as much as another one dominates it: a
        set that has the other and not all copies of the first can swap. So all copies
        of all that dominate a type have to fit beside it. O(n log n) time.
        """
        n = len(self.count)
        if n > _MAX_TYPES:
            return
        copies = self.types.copies.tolist()
        rank = {p: i for i, p in enumerate(sorted(set(self.profit), reverse=True), 1)}
        tree = [0] * (len(rank) + 1)  # Fenwick's: weight by rank of the profit
        for k in sorted(range(n), key=lambda k: (self.weight[k], -self.profit[k], k)):
            weight, i = self.weight[k], rank[self.profit[k]]
            if k >= self.b:
                room, j = self.capacity, i
                while j:
                    room -= tree[j]
                    j &= j - 1
                fit = max(0, room // weight)
                if fit < self.count[k]:
                    if k < self.full:
                        self.changed.setdefault(k, self.count[k])
                    self.count[k] = self.fewer[k] = fit
            while i < len(tree):
                tree[i] += weight * copies[k]
                i += i & -i
        self._find_break()
        self._restart()
        self._lower_bound()

    def exceptions(self) -> dict[int, int]:
        """The copies in the best set of the types that ``full`` does not tell."""
        return {k: c for k, c in self.fewer.items() if k < self.full} | self.changed

    def enough(self) -> int:
        """The bound up to which the best set counts as optimal."""
        return self.value + (0 if self.exact else self.value >> 42)

    def margin(self) -> float:
        """More than what float64 may round off a bound."""
        return self.bound * 2.0**-48

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
                weight += copies * self.weight[k]
                profit += copies * self.profit[k]
                # The types are in order up to 2^-49 only.
                gain = rest * self.profit[k] + (profit * self.weight[k] >> 48)
                gain //= self.weight[k]
                break
            weight = more
            profit += (high - low) * self.profit[k]
            k += 1
        if profit > self.value:
            self.value, self.full = profit, k
            self.changed = {j: limit[j < k] for j, limit in limits.items()}
            if k < len(self.count):
                self.changed[k] = low + copies
        if profit + gain <= self.enough():
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
            if -self.nodes[0][0] <= self.enough():
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
        self._lower_bound()

    def _lower_bound(self) -> None:
        """Takes the highest bound of the tree, if that is lower."""
        top = -self.nodes[0][0] if self.nodes else 0
        self.bound = min(self.bound, max(self.value, self.closed, top))

    def _pieces(self) -> list[_Piece]:
        """The copies that a better set may remove or add, in pieces of 1, 2, 4, ...

        Removed are copies of the types before the break type, added are copies of the
        others. A piece counts if Dantzig's bound with that change exceeds the best
        value. O(p log n) time for p pieces.
        """
        weight, profit = self.columns
        count = _int64(self.count)
        relaxation = _Relaxation(weight, profit, 4.0 * self.capacity)
        relaxation.fill(count)
        least = self.enough() + 1 - self.margin()
        # What is lost at the ratio of the break type tells of most that they change
        # nothing.
        price = self.profit[self.b] / self.weight[self.b]
        most = self.base + (self.capacity - self.base_weight) * price
        types: list[int] = []
        losses: list[torch.Tensor] = []
        for start in range(0, len(self.count), _PIECE):
            part = slice(start, start + _PIECE)
            lost = weight[part].clamp(max=self.capacity).double().mul_(-price)
            lost.add_(profit[part])
            lost[: max(0, self.b - start)].neg_()
            keep = (lost >= least - most).logical_and_(count[part] > 0)
            keep = keep.nonzero().view(-1)
            losses.append(lost.index_select(0, keep))
            types += keep.add_(start).tolist()
        first = max(0, bisect_left(types, self.b) - _MAX_TYPES // 2)
        lost = torch.cat(losses)
        others = chain(
            _parts(lost[:first], _PIECE), _parts(lost[first + _MAX_TYPES :], _PIECE)
        )
        least_lost = max((float(x.max()) for x in others if len(x)), default=-math.inf)
        self.left_out = most + least_lost
        types = types[first : first + _MAX_TYPES]
        changes = [
            (k, c, c * self.weight[k], c * self.profit[k])
            for k in types
            for c in self._split(k)
        ]
        found: list[_Piece] = []
        for start in range(0, len(changes), _PIECE):
            part = changes[start : start + _PIECE]
            _, _, dw, dp = zip(*part)
            bound = relaxation(self.capacity - _int64(dw)).add_(_int64(dp)).tolist()
            found += (_Piece(*x, y) for x, y in zip(part, bound) if y >= least)
        return found

    def _split(self, k: int) -> list[int]:
        """The copies of a type in pieces of 1, 2, 4, ... and the rest."""
        sign = -1 if k < self.b else 1
        left, piece = self.count[k], 1
        pieces: list[int] = []
        while left:
            piece = min(piece, left)
            pieces.append(sign * piece)
            left -= piece
            piece *= 2
        return pieces


class _List:
    """The undominated changes of the break solution.

    A state is the (weight, profit) of a change. It goes if another one weighs no more
    and is worth as much, or if its bound, with the pieces to come, is no better than
    the best set. Too long a list keeps the states of the highest bounds; the highest
    bound dropped then limits the certificate.

    Args:
        search: gets the best set and the bound.
        pieces: what may change.
        max_cells: the work after which the list is given up.

    O(cells log(cells)) time, 8 bytes per cell and 150 per state.
    """

    def __init__(self, search: _Search, pieces: list[_Piece], max_cells: int) -> None:
        self.search, self.pieces, self.max_cells = search, pieces, max_cells
        self.room = search.capacity - search.base_weight
        self.beat = search.enough() - search.base
        self.margin = search.margin()
        self.weight = self.profit = _int64([0])
        # For each step its runs, and the position of each state in the product of the
        # list and the runs.
        self.steps: list[tuple[list[_Run], torch.Tensor]] = []
        self.cells, self.dropped = 0, search.left_out - search.base
        self.found: tuple[int, int] | None = None  # step and state of the best set

    def run(self) -> None:
        """Adds all pieces, or gives up, and reports to the search."""
        search = self.search
        unit = self._best_unit() if search.lattice else 1
        pieces = self.pieces
        while pieces and self.weight.numel():
            part = _Part(pieces, unit, 4.0 * search.capacity)
            while part.runs and self.weight.numel():
                self._step(part)
            pieces, unit = part.later, 1
        if self.found:
            self._restore(*self.found)
        if self.dropped > self.beat:
            self.beat = math.ceil(self.dropped + self.margin)
        search.bound = max(search.value, min(search.bound, search.base + self.beat))

    def _best_unit(self) -> int:
        """The unit of the first part whose relaxation bounds the changes best."""
        units: list[int] = []
        unit = 0
        for size in sorted({abs(x.weight) for x in self.pieces}, reverse=True):
            unit = math.gcd(unit, size)
            if unit not in units:
                units.append(unit)
        return min(units, key=self._bound_in_units, default=1)

    def _bound_in_units(self, unit: int) -> float:
        """What changes can gain if the pieces of whole units fill whole units. O(p)."""
        gain, room = 0.0, self.room
        for x in self.pieces:
            if x.weight % unit:
                gain += max(x.profit, 0)
                room -= min(x.weight, 0)
        room -= room % unit
        for x in self.pieces:
            if x.weight > 0 and x.weight % unit == 0:
                if x.weight > room:
                    return gain + room * x.profit / x.weight
                room -= x.weight
                gain += x.profit
        return gain

    def _step(self, part: "_Part") -> None:
        """Adds the next runs, and drops dominated and hopeless states."""
        width = self.weight.numel()
        if width <= _PIECE // 3:
            runs = self._add_runs(part)
            part.relax()
            blocks: Iterable[_Block] = [(self.weight, self.profit, None)]
        else:
            runs = [(width, self._next_run(part, 1))]
            part.relax()
            blocks = self._blocks(runs[0][1], self.room + part.removable)
        self.cells += _STEP_CELLS + len(part.pieces)
        kept: list[_Kept] = []
        most = -_OVER
        for block in blocks:
            self.cells += len(block[0])
            states, most = self._prune(part, *block, most)
            kept.append(states)
        self.weight, self.profit, origin = self._best(kept)
        self.steps.append((runs, origin))

    def _next_run(self, part: "_Part", longest: int) -> list[list[_Piece]]:
        """The next run, without the pieces that the best set has made hopeless."""
        least = self.search.base + self.beat + 1 - self.margin
        sides = part.next_run(longest)
        return [[x for x in side if x.bound >= least] for side in sides]

    def _add_runs(self, part: "_Part") -> list[_Run]:
        """Combines the states with the first 0, 1, 2, ... pieces of the next runs.

        Other choices of pieces of the same weight are dominated.
        """
        runs: list[_Run] = []
        while part.runs and (not runs or self.weight.numel() < _BATCH):
            sides = self._next_run(part, max(1, _MAX_RUN // self.weight.numel()))
            runs.append((self.weight.numel(), sides))
            if sides[0] or sides[1]:
                for_weight, for_profit = self._changes(sides)
                self.weight = self._sums(self.weight, for_weight)
                self.profit = self._sums(self.profit, for_profit)
        return runs

    @staticmethod
    def _changes(sides: list[list[_Piece]]) -> tuple[list[int], list[int]]:
        """Weight and profit of the first 0, 1, 2, ... pieces of each side."""
        weight, profit = [0], [0]
        for side in sides:
            weight += (min(x, _OVER) for x in accumulate(x.weight for x in side))
            profit += (min(x, _OVER) for x in accumulate(x.profit for x in side))
        return weight, profit

    @staticmethod
    def _sums(states: torch.Tensor, change: list[int]) -> torch.Tensor:
        sums = _int64(change).unsqueeze(1) + states
        return sums.view(-1).clamp_(max=_OVER)

    def _blocks(self, sides: list[list[_Piece]], most: int) -> Iterator[_Block]:
        """The states of up to ``most`` with each change of a run, in sorted blocks.

        No block has more than ``_PIECE`` states.
        """
        changes = list(zip(*self._changes(sides)))
        # Of each changed list, itself sorted, every stride-th weight tells where to
        # part them all: between 8 of those weights no list has more than 9 strides.
        stride = _PIECE // (8 + len(changes))
        samples = self.weight[stride - 1 :: stride].tolist()
        samples = sorted(x + change for x in samples for change, _ in changes)
        limits = sorted({x for x in samples[7::8] if x < most} | {most})
        ends = [
            torch.searchsorted(
                self.weight, _int64([x - change for x in limits]), right=True
            ).tolist()
            for change, _ in changes
        ]
        starts = [0] * len(changes)
        for stops in zip(*ends):
            weight: list[torch.Tensor] = []
            profit: list[torch.Tensor] = []
            origin: list[torch.Tensor] = []
            for k, (i, j) in enumerate(zip(starts, stops)):
                weight.append(self.weight[i:j] + changes[k][0])
                profit.append(self.profit[i:j] + changes[k][1])
                first = k * self.weight.numel()
                origin.append(torch.arange(first + i, first + j, device="cpu"))
            yield torch.cat(weight), torch.cat(profit), torch.cat(origin)
            starts = stops

    def _prune(
        self,
        part: "_Part",
        weight: torch.Tensor,
        profit: torch.Tensor,
        origin: torch.Tensor | None,
        before: int,
    ) -> tuple[_Kept, int]:
        """Notes the best set and drops dominated and hopeless states.

        ``before`` is the most profit of all lighter blocks; returned is that with this.
        """
        weight, order = weight.sort(stable=True)
        profit = profit.index_select(0, order)
        if origin is not None:
            order = origin.index_select(0, order)
        most, where = profit.cummax(0)
        ends = weight.new_tensor([self.room, self.room + part.removable])
        fit, end = torch.searchsorted(weight, ends, right=True).tolist()
        if fit and int(most[fit - 1]) > self.beat:
            self.found = len(self.steps), int(order[where[fit - 1]])
            search = self.search
            search.value = search.base + int(most[fit - 1])
            self.beat = search.enough() - search.base
        bound = part.bound(self.room - weight[:end]).add_(profit[:end])
        keep = bound >= self.beat + 1 - self.margin
        most.clamp_(min=before)
        keep[:1].logical_and_(profit[: min(end, 1)] > before)
        keep[1:].logical_and_(profit[1 : max(end, 1)] > most[: max(end - 1, 0)])
        index = keep.nonzero().view(-1)
        kept = self._select((weight, profit, order, bound), index)
        return kept, int(most[-1]) if len(most) else before

    @staticmethod
    def _select(states: _Kept, index: torch.Tensor) -> _Kept:
        weight, profit, origin, bound = (x.index_select(0, index) for x in states)
        return weight, profit, origin, bound

    def _best(
        self, kept: list[_Kept]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The states of the highest bounds, as one list. O(states) time."""
        limit = _MAX_STATES if self.cells < self.max_cells else 0
        total = sum(len(bound) for *_, bound in kept)
        if total > limit:
            # A sample tells the bound from which on there are about so many.
            stride = -(-total // (_PIECE // 2))
            sample = torch.cat([bound[::stride] for *_, bound in kept])
            sample = sample.sort(descending=True).values
            least = float(sample[min(limit // stride, len(sample) - 1)])
            if not limit:
                least = max(float(bound.max()) for *_, bound in kept if len(bound))
            self.dropped = max(self.dropped, least)
            ties = limit - sum(int((bound > least).sum()) for *_, bound in kept)
            shorter: list[_Kept] = []
            for states in kept:
                *_, bound = states
                above = (bound > least).nonzero().view(-1)
                tied = (bound == least).nonzero().view(-1)[: max(0, ties)]
                ties -= len(tied)
                index = torch.cat((above, tied)).sort().values
                shorter.append(self._select(states, index))
            kept = shorter
        weight, profit, origin, *_ = (torch.cat(x) for x in zip(*kept))
        return weight, profit, origin

    def _restore(self, step: int, state: int) -> None:
        """Walks back the list to the set of a state."""
        search = self.search
        changed: dict[int, int] = {}
        for i in range(step, -1, -1):
            for width, (added, removed) in reversed(self.steps[i][0]):
                option, state = divmod(state, width)
                chosen = added[:option]
                if option > len(added):
                    chosen = removed[: option - len(added)]
                for piece in chosen:
                    before = search.count[piece.k] if piece.k < search.b else 0
                    changed[piece.k] = changed.get(piece.k, before) + piece.copies
            if i:
                state = int(self.steps[i - 1][1][state])
        search.full, search.changed = search.b, changed


class _Part:
    """The pieces to be listed next: those whose weight is a multiple of ``unit``.

    Large sizes are often multiples of a unit that all small ones together hardly fill.
    Then room for half a unit is worth no more than the small ones. Without this bound
    large graphs whose runtimes differ by 0.1 % end unproven.

    Args:
        pieces: in the order of the types.
        unit: of the weights of this part.
        limit: more than any capacity that is asked for.

    O(p log(p)) time for p pieces.
    """

    def __init__(self, pieces: list[_Piece], unit: int, limit: float) -> None:
        self.unit = unit
        self.pieces = [x for x in pieces if x.weight % unit == 0]
        self.later = [x for x in pieces if x.weight % unit]
        self.spare_room = -sum(min(x.weight, 0) for x in self.later)
        self.spare_profit = sum(max(x.profit, 0) for x in self.later)
        self.center = sum(x.weight < 0 for x in self.pieces)
        self.left = array("q", [1]) * len(self.pieces)  # 0 once a piece is listed
        size = _int64([abs(x.weight) for x in self.pieces])
        value = _int64([abs(x.profit) for x in self.pieces])
        self.sums = _Relaxation(size, value, limit)
        runs: dict[int, tuple[list[int], list[int]]] = {}
        nearest = sorted(
            range(len(self.pieces)), key=lambda i: abs(i - self.center + 0.5)
        )
        for i in nearest:
            weight = self.pieces[i].weight
            runs.setdefault(abs(weight), ([], []))[weight < 0].append(i)
        self.runs = list(runs.values())

    def next_run(self, longest: int) -> list[list[_Piece]]:
        """Pieces of one weight, the nearest to the break first: added and removed."""
        sides = [side[:longest] for side in self.runs[0]]
        for side in self.runs[0]:
            del side[:longest]
        if not any(self.runs[0]):
            del self.runs[0]
        for i in chain(*sides):
            self.left[i] = 0
        return [[self.pieces[i] for i in side] for side in sides]

    def relax(self) -> None:
        """Takes the listed pieces out of the relaxation. O(p) time."""
        self.sums.fill(torch.frombuffer(self.left, dtype=torch.int64))
        k = min(self.center, len(self.sums.weight) - 1)
        self.removed, self.lost = int(self.sums.weight[k]), int(self.sums.profit[k])
        self.removable = self.removed + self.spare_room

    def bound(self, room: torch.Tensor) -> torch.Tensor:
        """What the pieces to come can add, if they may take ``room``."""
        room = room + self.spare_room
        room -= room % self.unit
        bound = self.sums.of_descending(room.add_(self.removed))
        return bound.add_(self.spare_profit - self.lost)


class _Table:
    """The pieces by dynamic programming over the capacity, in few enough units.

    A cell of the row holds a profit and, below it, which of the last 8 pieces give it:
    then the larger of two numbers is found in one operation, and one byte for 8 pieces
    is kept for the way back. Where the units of the weights are too many, larger ones
    are taken, changes are rounded so that they fit, and the bound stays as it is.

    Args:
        search: gets the best set and the bound.
        pieces: what may change.

    O(``_TABLE_CELLS``) time, 1 bit per cell and 8 bytes per unit of capacity.
    """

    def __init__(self, search: _Search, pieces: list[_Piece]) -> None:
        self.search, self.pieces = search, pieces
        self.unit = exact = math.gcd(*(x.weight for x in pieces)) or 1
        while (cells := self._measure()) > _TABLE_CELLS:
            self.unit = max(self.unit + 1, self.unit * cells // _TABLE_CELLS)
        self.exact = self.unit == exact

    def _measure(self) -> int:
        """Sorts the pieces by size in units, and counts the cells. O(n log n) time."""
        unit = self.unit
        sized = [
            (x.weight // -unit if x.weight < 0 else -(-x.weight // unit), x)
            for x in self.pieces
        ]
        sized.sort(key=itemgetter(0))
        self.sized = [x for x in sized if x[0]]  # without a size it stays
        self.fills = list(accumulate(w for w, _ in self.sized))
        total = self.fills[-1] if self.fills else 0
        room = self.search.capacity - self.search.base_weight
        room = room // unit + sum(w for w, x in self.sized if x.weight < 0)
        self.capacity = min(room, total)
        # A piece can change only what the smaller ones fill, and of that only what the
        # larger ones can leave.
        self.ranges = [
            (max(0, self.capacity - total + fill), min(self.capacity, fill))
            for fill in self.fills
        ]
        steps = zip(self.ranges, self.sized)
        cells = sum(max(0, high + 1 - max(low, w)) for (low, high), (w, _) in steps)
        return cells + _LEAST_STEPS * self.capacity

    def run(self) -> None:
        """Fills the table and reports to the search."""
        search = self.search
        profits = [abs(x.profit) for _, x in self.sized]
        shift = max(0, sum(profits).bit_length() - 53)
        best, taken = self._solve([-(-p >> shift) for p in profits])
        changed: dict[int, int] = {}
        value = search.base
        for (_, x), take in zip(self.sized, taken):
            if take != (x.weight < 0):  # a removed piece is taken if it stays
                before = search.count[x.k] if x.k < search.b else 0
                changed[x.k] = changed.get(x.k, before) + x.copies
                value += x.profit
        if value > search.value:
            search.value, search.full, search.changed = value, search.b, changed
        if self.exact and search.left_out < search.value:
            most = search.base + sum(min(0, x.profit) for _, x in self.sized)
            most += best << shift
            search.bound = max(search.value, min(search.bound, most))

    def _solve(self, profits: list[int]) -> tuple[int, list[bool]]:
        """The most profit, and which pieces give it."""
        row = torch.empty(self.capacity + 1, dtype=torch.int64, device="cpu")
        work = torch.empty(_PIECE, dtype=torch.int64, device="cpu")
        decisions: list[torch.Tensor] = []
        row[0] = total = filled = 0
        for k, ((low, high), (size, _)) in enumerate(zip(self.ranges, self.sized)):
            bit = k % 8
            # What the smaller pieces do not fill has all of them.
            for part in _parts(row[filled + 1 : high + 1], _PIECE):
                part.fill_((total << 8) + (1 << bit) - 1)
            filled, total = high, total + profits[k]
            gain = (profits[k] << 8) + (1 << bit)
            first = max(low, size)
            for end in range(high + 1, first, -_PIECE):
                start = max(first, end - _PIECE)
                here = row[start:end]
                more = torch.add(
                    row[start - size : end - size], gain, out=work[: end - start]
                )
                torch.maximum(here, more, out=here)
            if bit == 7 or k == len(profits) - 1:
                byte = torch.empty(high + 1 - low, dtype=torch.uint8, device="cpu")
                parts = (_parts(x, _PIECE) for x in (byte, row[low : high + 1]))
                for bits, part in zip(*parts):
                    bits.copy_(part)
                    part.bitwise_and_(-256)
                decisions.append(byte)
        return int(row[filled]) >> 8, self._taken(decisions)

    def _taken(self, decisions: list[torch.Tensor]) -> list[bool]:
        taken = [False] * len(self.sized)
        c = self.capacity
        for group in range(len(decisions) - 1, -1, -1):
            last = min(8 * group + 8, len(taken)) - 1
            if c >= self.fills[last]:
                taken[: last + 1] = [True] * (last + 1)
                break
            byte = int(decisions[group][c - self.ranges[last][0]])
            for k in range(8 * group, last + 1):
                taken[k] = bool(byte >> (k % 8) & 1)
                c -= taken[k] * self.sized[k][0]
        return taken


def _parts(values: torch.Tensor, size: int) -> list[torch.Tensor]:
    """The values in slices of that size."""
    if values.numel() <= size:
        return [values]
    return [values[i : i + size] for i in range(0, len(values), size)]


def _piecewise(
    function: Callable[..., torch.Tensor], *columns: torch.Tensor
) -> torch.Tensor:
    """Applies a function of each row to columns."""
    if columns[0].numel() <= _PIECE:
        return function(*columns)
    parts = zip(*(_parts(column, _PIECE) for column in columns))
    return torch.cat([function(*part) for part in parts])


def _search(ascending: torch.Tensor, values: torch.Tensor, right: bool) -> torch.Tensor:
    parts = _parts(values, _SEARCHED)
    found = [torch.searchsorted(ascending, part, right=right) for part in parts]
    return torch.cat(found) if len(found) > 1 else found[0]


def _sums_from_0(values: torch.Tensor) -> torch.Tensor:
    sums = torch.empty(len(values) + 1, dtype=values.dtype, device="cpu")
    sums[0] = 0
    torch.cumsum(values, 0, out=sums[1:])
    return sums


def _rounded(values: torch.Tensor) -> torch.Tensor:
    """To integers from 1 to ``_OVER``. Torch's own rounding starts threads early."""
    return values.clamp(max=_OVER).add_(0.5).long().clamp_(min=1)


def _rounded_up(values: torch.Tensor) -> torch.Tensor:
    values = values.clamp(max=_OVER)
    whole = values.long()
    return whole.add_(whole.double() < values).clamp_(min=1)


def _int64(values: Sequence[int]) -> torch.Tensor:
    return _tensor(array("q", values), torch.int64)


def _float64(values: list[float]) -> torch.Tensor:
    return _tensor(array("d", values), torch.float64)


def _tensor(values: "array[int] | array[float]", dtype: torch.dtype) -> torch.Tensor:
    if not values:  # frombuffer wants at least one
        return torch.zeros(0, dtype=dtype, device="cpu")
    return torch.frombuffer(values, dtype=dtype)


def _scaled(values: torch.Tensor, digits: int) -> torch.Tensor:
    """values * 2**digits, which float64 may hold when it does not hold 2**digits."""
    return values * 2.0 ** (digits // 2) * 2.0 ** (digits - digits // 2)


def _numbers(name: str, values: list[float], end: float | None = None) -> list[float]:
    """Converts each number once to float64, not negative, and finite unless ``end``.

    O(n) time and memory.
    """
    floats: list[float] = []
    plain = values and {float, int}.issuperset(map(type, values))
    if plain and min(values) >= 0 and max(values) <= 1e308:  # float() cannot fail
        floats = list(map(float, values))
    else:
        floats = [_number(f"{name}[{i}]", x) for i, x in enumerate(values)]
    if floats and not (sum(floats) < math.inf and min(floats) >= 0):
        for i, x in enumerate(floats):  # a sum may overflow, a number may not
            if not (0 <= x < math.inf or x == end):
                raise ValueError(
                    f"{name}[{i}] must be finite and not negative, got {x}"
                )
    return floats


def _number(name: str, value: float) -> float:
    """Converts to float64: numbers and what converts to one, but no strings."""
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        number = complex(value)
    except OverflowError:
        raise ValueError(
            f"{name} must be finite, got more than float64 holds"
        ) from None
    if number.imag != 0:
        raise ValueError(f"{name} must be real, got {value}")
    return number.real


def _sorted(
    items: dict[tuple[float, float], list[int]], memory: float, runtime: float
) -> _Types:
    """Sorts distinct items by falling runtime / memory. O(n log n) time.

    Args:
        items: the indices of the copies of each (memory, runtime).
        memory: of all items.
        runtime: of all items.
    """
    types = [x for x in items if x[0] and x[1]]
    types.sort(key=lambda x: x[1] / x[0], reverse=True)
    ratio = [r / m for m, r in types]
    is_sorted = all(map(gt, ratio, ratio[1:]))
    if types and not (is_sorted and ratio[-1] > 2.0**-969 and ratio[0] < math.inf):
        types.sort(key=_quotient, reverse=True)
    indices = [items[x] for x in types]
    sizes, values = [x[0] for x in types], [x[1] for x in types]
    return _Types(
        memory=_float64(sizes),
        runtime=_float64(values),
        items=indices,
        copies=_int64(list(map(len, indices))),
        exact=runtime < 2**53 and all(map(float.is_integer, values)),
        unit=_unit(sizes, memory),
    )


def _quotient(item: tuple[float, float]) -> tuple[float, ...]:
    """A key for runtime / memory, which float64 cannot always hold or tell apart."""
    (a, x), (b, y) = map(math.frexp, item)
    mantissa, exponent = math.frexp(b / a)
    # Of equal ratios sizes are mixed, so that changes around the break fill any room.
    mixed = a * 1e6 * (5**0.5 - 1) % 1
    return exponent + y - x, mantissa, mixed, *item


def _unit(sizes: list[float], total: float) -> float:
    """The largest number that divides all sizes up to 2^-50, or 0.

    Normalised sizes are fractions with a common denominator, rounded. O(n) time.
    """
    unit = min(sizes, default=0.0)
    while unit > total * 2.0**-50:
        for size in sizes:
            multiple = size / unit
            if abs(multiple - round(multiple)) > multiple * 2.0**-50:
                break
        else:
            return unit
        denominator = Fraction(multiple).limit_denominator(2**20).denominator
        if denominator == 1:
            break
        unit /= denominator
    return 0.0
