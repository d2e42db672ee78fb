"""Branch and bound of the exact knapsack solver, and the best set that is known."""

import heapq
from collections.abc import Iterator
from itertools import groupby
from operator import mul, truediv
from typing import TypeAlias

from torch._functorch._activation_checkpointing.knapsack_exact_items import (
    CLOSING,
    Knapsack,
    MARGIN,
    ORDER,
)


_MAX_TYPES = 2**14  # more are not looked at for dominated ones

_Limits: TypeAlias = dict[int, tuple[int, int]]  # type -> fewest and most copies
# A part of the tree: -bound, -serial, break type, copies of it, and the weight and the
# profit of its set: all that fits before and of the break type, the fewest copies after
# it. Of equal bounds the newest, nearest to a full set, is first. With a named tuple
# branching takes 13 % longer.
_Node: TypeAlias = tuple[int, int, int, int, int, int, _Limits]


class Incumbent:
    """The best set so far and the bound of all sets, which are written here only.

    All thresholds, in their order and in units of profit:

        value <= enough,  hopeful < enough + 1 <= bound until the set is proven

    Attributes:
        value: the profit of the set.
        enough: the bound up to which the set counts as optimal.
        bound: no set has more profit.
        hopeful: what a bound in float64 has to be for a better set to be below it. A
            bound in integers has to be above ``enough``.

    Args:
        knapsack: of which the sets are.
    """

    def __init__(self, knapsack: Knapsack) -> None:
        self._exact = knapsack.types.exact
        self.bound = knapsack.dantzig_bound()
        self.value = -1
        self.offer(0, 0, {}, knapsack.count)

    @property
    def proven(self) -> bool:
        return self.bound <= self.enough

    @property
    def margin(self) -> float:
        """More than what float64 may round off a bound."""
        return self.bound * MARGIN

    @property
    def hopeful(self) -> float:
        return self.enough + 1 - self.margin

    def enough_for(self, value: int) -> int:
        """The bound up to which a set of that profit would count as optimal."""
        return value if self._exact else value + (value >> CLOSING)

    def offer(
        self, value: int, full: int, changed: dict[int, int], count: list[int]
    ) -> None:
        """Takes a set if it is better.

        Args:
            value: the profit of the set.
            full: it has all copies of the types before this one and no others,
            changed: but for these types, of which it has so many copies.
            count: how many all copies of each type are. It may not change later.
        """
        if value > self.value:
            self.value, self.enough = value, self.enough_for(value)
            self.bound = max(self.bound, value)
            self._full, self._changed, self._count = full, changed, count

    def lower(self, bound: int) -> None:
        """Takes a bound of all sets that are not worse, if it is lower. O(1) time."""
        self.bound = max(self.value, min(self.bound, bound))

    def copies(self) -> list[int]:
        """The copies of each type in the set. O(n) time."""
        copies = self._count[: self._full]
        copies += [0] * (len(self._count) - self._full)
        for k, number in self._changed.items():
            copies[k] = number
        return copies


class BranchAndBound:
    """Best-first branch and bound on the number of copies of the break type.

    Each branching settles the one type that the relaxation splits. It can be stopped
    and run on.

    Args:
        knapsack: as it is now. A later `Knapsack.limit` takes a new tree.
        incumbent: gets better sets and the bound.
    """

    def __init__(self, knapsack: Knapsack, incumbent: Incumbent) -> None:
        self.weight, self.profit = knapsack.weight, knapsack.profit
        self.count, self.capacity = knapsack.count, knapsack.capacity
        self.incumbent = incumbent
        self.steps = 0
        self.nodes: list[_Node] = []
        self.closed = 0  # the largest bound of a node that was not worth a search
        self._add(knapsack.break_type, knapsack.break_weight, knapsack.break_profit, {})

    def run(self, max_steps: int) -> None:
        """Branches until the set is proven, or for so many steps.

        O(log(nodes) + depth + distance between the break types) time and O(depth)
        memory per node.
        """
        nodes, incumbent = self.nodes, self.incumbent
        max_steps += self.steps
        while nodes and self.steps < max_steps:
            if -nodes[0][0] <= incumbent.enough:
                break
            self._branch(heapq.heappop(nodes))
        self.report()

    def report(self) -> None:
        """Lowers the bound to the highest one of the tree."""
        top = -self.nodes[0][0] if self.nodes else 0
        self.incumbent.lower(max(self.closed, top))

    def _branch(self, node: _Node) -> None:
        """Parts its sets: no more copies of the break type than fit, or more."""
        _, _, k, copies, weight, profit, limits = node
        low, high = limits.get(k, (0, self.count[k]))
        self._add(k + 1, weight, profit, {**limits, k: (low, copies)})
        limits = {**limits, k: (copies + 1, high)}
        self._make_room(k, weight + self.weight[k], profit + self.profit[k], limits)

    def _make_room(self, k: int, weight: int, profit: int, limits: _Limits) -> None:
        """Queues a node for which the types of the lowest ratio before ``k`` make room.

        ``weight`` and ``profit`` are the totals of `_add`, above the capacity.
        """
        weights, profits, count = self.weight, self.profit, self.count
        capacity, start = self.capacity, k
        while weight > capacity and k > 0:
            k -= 1
            low, high = limits[k] if k in limits else (0, count[k])
            weight -= (high - low) * weights[k]
            profit -= (high - low) * profits[k]
        self.steps += start - k
        if weight <= capacity:
            self._add(k, weight, profit, limits)

    def _add(self, k: int, weight: int, profit: int, limits: _Limits) -> None:
        """Queues a node: finds its break type from ``k`` on, its set and its bound.

        ``weight`` and ``profit`` are the totals with the types before ``k`` at their
        most copies and the others at their fewest. O(distance to the break) time.
        """
        weights, profits, count = self.weight, self.profit, self.count
        incumbent, capacity, start = self.incumbent, self.capacity, k
        copies = gain = 0
        while k < len(count):
            low, high = limits[k] if k in limits else (0, count[k])
            more = weight + (high - low) * weights[k]
            if more > capacity:
                fit, rest = divmod(capacity - weight, weights[k])
                weight += fit * weights[k]
                profit += fit * profits[k]
                copies = low + fit
                order = profit * weights[k] >> ORDER
                gain = (rest * profits[k] + order) // weights[k]
                self.steps += 1
                break
            weight = more
            profit += (high - low) * profits[k]
            k += 1
        self.steps += k - start
        if profit > incumbent.value:
            changed = {j: limit[j < k] for j, limit in limits.items()}
            if k < len(count):
                changed[k] = copies
            incumbent.offer(profit, k, changed, count)
        bound = profit + gain
        if bound <= incumbent.enough:
            self.closed = max(self.closed, bound)
        else:
            node = (-bound, -self.steps, k, copies, weight, profit, limits)
            heapq.heappush(self.nodes, node)


def offer_greedy(knapsack: Knapsack, incumbent: Incumbent) -> None:
    """Takes items by falling ratio, the first of equal ones first, if they fit.

    So no caller does better with a plain greedy rule. O(n log n) time.
    """
    types = knapsack.types
    ratio = list(map(truediv, types.runtime.tolist(), types.memory.tolist()))
    copies: dict[int, int] = {}
    room, value = knapsack.capacity, 0
    for _, equal in groupby(range(len(ratio)), ratio.__getitem__):
        by_index = sorted((i, k) for k in equal for i in types.items[k])
        for _, k in by_index:
            if knapsack.weight[k] <= room:
                room -= knapsack.weight[k]
                value += knapsack.profit[k]
                copies[k] = copies.get(k, 0) + 1
    incumbent.offer(value, 0, copies, knapsack.count)


def offer_filled(knapsack: Knapsack, incumbent: Incumbent) -> None:
    """Adds to the best set what still fits, by falling ratio. O(n) time."""
    copies = incumbent.copies()
    room = knapsack.capacity - sum(map(mul, knapsack.weight, copies))
    value = incumbent.value
    for k, weight in enumerate(knapsack.weight):
        if weight <= room:
            left = len(knapsack.types.items[k]) - copies[k]
            more = min(left, room // weight)
            room -= more * weight
            value += more * knapsack.profit[k]
            copies[k] += more
    incumbent.offer(value, len(copies), {}, copies)


def drop_dominated(knapsack: Knapsack) -> bool:
    """Lowers the count of types that an optimal set does not need.

    A type that weighs no more and is worth as much as another one dominates it: a set
    that has the other and not all copies of the first can swap. So all copies of all
    that dominate a type have to fit beside it. O(n log n) time.

    Returns:
        Whether the types are few enough to be looked at.
    """
    n = len(knapsack.count)
    if n > _MAX_TYPES:
        return False
    count = [*knapsack.count]
    for k, room in _rooms_beside_dominating(knapsack):
        if k >= knapsack.break_type:
            count[k] = min(count[k], max(0, room // knapsack.weight[k]))
    knapsack.limit(count)
    return True


def _rooms_beside_dominating(knapsack: Knapsack) -> Iterator[tuple[int, int]]:
    """Each type, and the capacity that all that dominate it leave."""
    weight, profit = knapsack.weight, knapsack.profit
    copies = knapsack.types.copies.tolist()
    ranks = enumerate(sorted(set(profit), reverse=True), 1)
    rank = {worth: i for i, worth in ranks}
    tree = [0] * (len(rank) + 1)  # Fenwick's: weight by rank of the profit
    for k in sorted(range(len(weight)), key=lambda k: (weight[k], -profit[k], k)):
        i = j = rank[profit[k]]
        room = knapsack.capacity
        while j:
            room -= tree[j]
            j &= j - 1
        yield k, room
        while i < len(tree):
            tree[i] += weight[k] * copies[k]
            i += i & -i
