"""Exact 0/1 knapsack for the activation-memory budget.

Memory and runtimes become integers, in units so fine that all rounding stays within the
tolerances below; from there on sums are exact (knapsack_exact_items). Normalised sizes
become the multiples of a common unit that they were before the division. Filling the
budget by falling runtime / memory up to the first item that does not fit, the *break*,
gives the *break solution* and Dantzig's upper bound [1]. Three stages take
turns until the proof is closed:

1. Best-first branch and bound on the break (knapsack_exact_branch) settles repeated
   layers, and runtimes of widely different size, in tens of nodes. Without it the
   solver takes three times longer on captured graphs, and some runtimes from 1 to 1e13
   end unproven.
2. A list of undominated changes of the break solution (knapsack_exact_states; Nemhauser
   and Ullmann [2]), grown outwards from the break (Pisinger [3]) over the items that no
   bound can decide (Martello and Toth [4]), settles many distinct items and correlated
   ones. Items of the same size are listed in one step: the best of them come first.
3. A table over the capacity (knapsack_exact_table; Bellman [5]), where a gap of more
   than 1e-4 is left. In units of the sizes it proves its set; in larger ones it still
   finds a good one. First go the items that cannot be in the best set unless more
   others of less memory and more runtime are than fit beside them: of a few large ones
   few remain.

Work is counted, not timed: the answer is the same on every rank. Should it run out
(on adversarial instances only),
the best set found comes with a certified gap. It is never worse than that of taking
items by falling ratio while they fit, and nothing fits beside it.
Up to 100,000 items take less than 3 seconds and 250 MB; a million take
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

import logging
import math
from collections import defaultdict
from fractions import Fraction
from itertools import chain, compress
from typing import NamedTuple

from torch._functorch._activation_checkpointing.knapsack_exact_branch import (
    BranchAndBound,
    drop_dominated,
    Incumbent,
    offer_filled,
    offer_greedy,
)
from torch._functorch._activation_checkpointing.knapsack_exact_items import (
    Knapsack,
    number,
    numbers,
    sort_types,
)
from torch._functorch._activation_checkpointing.knapsack_exact_states import (
    Changes,
    StateList,
)
from torch._functorch._activation_checkpointing.knapsack_exact_table import tabulate


log = logging.getLogger(__name__)

# The work of each round, in branching steps and list cells. The first round is for
# ordinary instances, the second and the table together keep any input under about 3
# seconds and 250 MB.
_ROUNDS = ((1_000, 100_000), (40_000, 7_000_000))
_CLOSE = 1e-4  # a gap that is not worth a table in larger units


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
        m, r = numbers("memory", memory), numbers("runtimes", runtimes, math.inf)
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
        self._types = sort_types(items, sum(m), worth)
        # The types of which a set may have some copies without having all.
        self._repeated = [k for k, x in enumerate(self._types.items) if len(x) > 1]

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
        max_memory = number("max_memory", max_memory)
        if not 0 <= max_memory < math.inf:
            raise ValueError(
                f"max_memory must be finite and not negative, got {max_memory}"
            )
        urgent, max_memory = self._urgent_first(max_memory)
        knapsack = Knapsack(self._types, max_memory)
        best = _search(knapsack)
        keep = self._kept(urgent, best.copies())
        return self._certified(keep, knapsack, best)

    def _kept(self, urgent: list[int], copies: list[int]) -> bytearray:
        """1 for each item to save, else 0. O(n) time."""
        items = self._types.items
        keep = bytearray(len(self._runtimes))
        for i in chain(self._free, urgent, *compress(items, copies)):
            keep[i] = 1
        for k in self._repeated:
            if 0 < copies[k] < len(items[k]):
                for i in items[k][copies[k] :]:
                    keep[i] = 0
        return keep

    def _certified(
        self, keep: bytearray, knapsack: Knapsack, best: Incumbent
    ) -> KnapsackPlan:
        """The plan of a set, in the units of the caller. O(n) time."""
        exact = self._types.exact
        gap = best.bound - best.value
        if not (exact or knapsack.everything_fits):
            gap += sum(keep)  # rounding up may add 1 per saved item to the value
        try:
            runtime = math.fsum(compress(self._runtimes, keep))
            gap_runtime = math.ldexp(gap, -knapsack.digits)
        except OverflowError:
            runtime = gap_runtime = math.inf
        return KnapsackPlan(
            runtime=runtime,
            saved=list(compress(range(len(keep)), keep)),
            recomputable=[i for i, kept in enumerate(keep) if not kept],
            upper_bound=runtime + gap_runtime,
            gap=gap_runtime,
            optimal=gap * 10**12 <= (0 if exact else best.value),
            marginal_runtime=knapsack.marginal_runtime,
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


def _search(knapsack: Knapsack) -> Incumbent:
    """Runs the stages until the set is proven or their work is used up."""
    best = Incumbent(knapsack)
    tree = BranchAndBound(knapsack, best)
    for i, (steps, cells) in enumerate(_ROUNDS):
        if i and _gap_is_wide(best):
            offer_greedy(knapsack, best)
            if drop_dominated(knapsack):
                tree = BranchAndBound(knapsack, best)
                tree.report()
            if not best.proven:
                tabulate(knapsack, best, larger_units=False)
        if not best.proven:
            tree.run(steps)
        if not best.proven:
            StateList(Changes(knapsack, best), cells).run()
    if not best.proven:
        offer_greedy(knapsack, best)
    if _gap_is_wide(best):
        tabulate(knapsack, best, larger_units=True)
    if best.bound > best.value:
        offer_filled(knapsack, best)
    return best


def _gap_is_wide(best: Incumbent) -> bool:
    return best.bound - best.value > best.value * _CLOSE
