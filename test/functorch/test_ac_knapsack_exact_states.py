# Owner(s): ["module: functorch"]
"""Tests of the exact knapsack solver's list of undominated changes, and of its table.

Each stage has to find the optimum alone, in small steps too, and to certify what it
leaves out.
"""

import contextlib
import itertools
import logging
import math
import random
from fractions import Fraction
from unittest import mock

from test_ac_knapsack_exact import (
    brute_force,
    FAMILIES,
    flops,
    groups,
    huge_ranges,
    large_items,
    normalised_ties,
    one_of_many,
    pisinger,
    PlanTestCase,
    small_floats,
    small_integers,
    subnormals,
    table,
    total,
)

import torch
from torch._functorch._activation_checkpointing import (
    knapsack,
    knapsack_exact,
    knapsack_exact_branch,
    knapsack_exact_items,
    knapsack_exact_states,
    knapsack_exact_table,
)
from torch._functorch._activation_checkpointing.knapsack_exact import (
    exact_knapsack,
    ExactKnapsack,
)
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
)


MODULES = (
    knapsack_exact,
    knapsack_exact_items,
    knapsack_exact_states,
    knapsack_exact_table,
)


def dantzig_bound(items, capacity):
    """The best profit if items, by falling ratio, may be split."""
    bound = Fraction(0)
    for weight, profit in items:
        part = min(Fraction(1), Fraction(capacity, weight))
        bound += part * profit
        capacity -= part * weight
    return bound


def brute_force_changes(pieces, room):
    """The best profit of any pieces of at most that weight."""
    return max(
        sum(x.profit for x in chosen)
        for n in range(len(pieces) + 1)
        for chosen in itertools.combinations(pieces, n)
        if sum(x.weight for x in chosen) <= room
    )


@contextlib.contextmanager
def constants(**values):
    """The solver with these constants, in whichever of its modules they are."""
    with contextlib.ExitStack() as stack:
        for module in MODULES:
            names = values.keys() & vars(module)
            known = {name: values[name] for name in names}
            if known:
                stack.enter_context(mock.patch.multiple(module, **known))
        yield


def little_work(rounds):
    """The search with these rounds only, and tables of next to no cells."""
    return constants(_ROUNDS=rounds, _TABLE_CELLS=500, _LEAST_STEPS=1)


class ExactKnapsackStatesTest(PlanTestCase):
    @parametrize(
        "kind",
        (
            small_integers,
            small_floats,
            normalised_ties,
            huge_ranges,
            subnormals,
            flops,
            large_items,
            one_of_many,
        ),
        name_fn=lambda kind: kind.__name__,
    )
    @parametrize("stage", ("all", "branch_only", "list_only", "small_steps"))
    def test_optimal_and_feasible_on_every_small_instance(self, kind, stage):
        rng = random.Random(kind.__name__ + stage)
        list_only = {"_ROUNDS": ((0, 10**7),)}
        by_stage = {
            "all": {"_ROUNDS": knapsack_exact._ROUNDS},
            "branch_only": {"_ROUNDS": ((10**6, 0),)},
            "list_only": list_only,
            "small_steps": {**list_only, "_BATCH": 4, "_MAX_RUN": 4},
        }
        with constants(**by_stage[stage]):
            for _ in range(120):
                memory, runtimes, max_memory = kind(rng)
                optimum = brute_force(memory, runtimes, max_memory)
                self.check(memory, runtimes, max_memory, optimum)

    @parametrize("family", FAMILIES)
    @parametrize("fraction", (0.1, 0.5))
    def test_pisinger_family_equals_the_table(self, family, fraction):
        weights, values = pisinger(family, 50, 100, random.Random(family))
        capacity = int(fraction * sum(weights))
        self.check(weights, values, capacity, table(weights, values, capacity))

    @parametrize("family", FAMILIES)
    @parametrize("normalised", (False, True))
    def test_pisinger_family_is_proven_at_200_items(self, family, normalised):
        weights, values = pisinger(family, 200, 1000, random.Random(family))
        max_memory = sum(weights) // 2
        if normalised:
            max_memory /= sum(weights)
            weights = [w / sum(weights) for w in weights]
        plan = self.check(weights, values, max_memory)
        self.assertTrue(plan.optimal)
        value = float(total(values, plan.saved))
        self.assertEqual(plan.upper_bound, value, atol=0, rtol=0)

    @parametrize("noise", (0.001, 0.05))
    def test_few_sizes_with_all_runtimes_distinct_are_proven(self, noise):
        # As profiled: each layer takes its own time. A few tiny items cost nothing.
        rng = random.Random(0)
        kinds = ((2048, 0), (1 << 20, 1.0), (1 << 23, 8.0), (28 << 20, 28.0))
        items = [
            (m, 1e-12 + r * rng.uniform(1 - noise, 1 + noise))
            for _ in range(100)
            for m, r in kinds
        ]
        size = sum(m for m, _ in items)
        memory, runtimes = [m / size for m, _ in items], [r for _, r in items]
        for max_memory in (0.1, 0.25, 0.5):
            self.assertTrue(self.check(memory, runtimes, max_memory).optimal)

    def test_unnormalised_bytes_with_a_capacity_of_gigabytes_are_proven(self):
        rng = random.Random(0)
        memory = [rng.randint(1, 2_900_000) for _ in range(2000)]
        runtimes = [rng.random() for _ in memory]
        self.assertTrue(self.check(memory, runtimes, 1_450_000_000).optimal)

    def test_ten_thousand_items_are_proven(self):
        rng = random.Random(0)
        memory = [rng.random() / 5000 for _ in range(10_000)]
        runtimes = [rng.random() for _ in memory]
        self.assertTrue(self.check(memory, runtimes, 0.3).optimal)

    def test_work_that_runs_out_leaves_a_certified_gap_and_one_warning(self):
        rng = random.Random(0)
        weights, values = pisinger("strongly", 60, 1000, rng)
        capacity = sum(weights) // 2
        optimum = table(weights, values, capacity)
        with little_work(((5, 5_000),)):
            plan = self.check(weights, values, capacity)
            with self.assertLogs(knapsack_exact.__name__, logging.WARNING) as logs:
                result = exact_knapsack(weights, values, capacity)
        self.assertFalse(plan.optimal)
        self.assertGreaterEqual(plan.upper_bound, optimum)
        self.assertLessEqual(plan.runtime, optimum)
        self.assertEqual(plan.gap, plan.upper_bound - plan.runtime)
        self.assertEqual(result, (plan.runtime, plan.saved, plan.recomputable))
        self.assertEqual(len(logs.records), 1)
        self.assertIn(f"{plan.gap:g}", logs.output[0])

    @parametrize("kind", (small_integers, normalised_ties, flops))
    @parametrize("cells", (10**7, 300))
    def test_table_alone(self, kind, cells):
        rng = random.Random(cells)
        small = {"_ROUNDS": (), "_CLOSE": 0, "PIECE": 5}
        small |= {"_TABLE_CELLS": cells, "_LEAST_STEPS": 1}
        with constants(**small):
            for _ in range(150):
                memory, runtimes, max_memory = kind(rng)
                optimum = brute_force(memory, runtimes, max_memory)
                plan = self.check(memory, runtimes, max_memory)
                self.assertGreaterEqual(plan.upper_bound * (1 + 1e-15), optimum)
                if kind is small_integers and cells == 10**7:
                    self.assertEqual(plan.runtime, optimum)

    def test_bounds_in_float64_err_by_less_than_the_margin(self):
        rng = random.Random(0)
        memory = [rng.randint(1, 2**45) for _ in range(100)]
        runtimes = [rng.randint(1, 2**45) for _ in memory]
        types = ExactKnapsack(memory, runtimes)._types
        rounded = knapsack_exact_items.Knapsack(types, sum(memory) / 2)
        incumbent = knapsack_exact_branch.Incumbent(rounded)
        changes = knapsack_exact_states.Changes(rounded, incumbent)
        items = list(zip(rounded.weight, rounded.profit))
        for piece in changes.pieces:
            room = rounded.capacity - piece.weight
            exact = dantzig_bound(items, room) + piece.profit
            self.assertGreaterEqual(piece.bound + incumbent.margin, exact)

    def test_bound_of_a_part_counts_what_later_pieces_give(self):
        # One piece of two units can be added, and two small ones be removed for it.
        def piece(k, weight, profit):
            copies = 1 if weight > 0 else -1
            return knapsack_exact_states.Piece(k, copies, weight, profit, math.inf)

        pieces = [piece(0, -6, -7), piece(1, -5, -5), piece(2, 20, 19)]
        part = knapsack_exact_states._Part(pieces, 10, 1000.0)
        part.relax()
        self.assertEqual(len(part.later), 2)
        self.assertEqual(part.removable, 11)
        for room in range(30):
            best = brute_force_changes(pieces, room)
            bound = part.bound(torch.tensor([room]))
            self.assertGreaterEqual(float(bound), best)

    def test_80_layers_whose_runtimes_differ_by_a_thousandth(self):
        # Llama of 80 layers: large sizes are multiples of a unit that the others
        # hardly fill. No bound closes without that.
        attention, linear = (67108864, 549755813888), (67108864, 1924145348608)
        items = [(1050673152, 8607114461184)] + [(234881024, 1924145348608)] * 160
        items += [(67108864, 1)] + [attention, attention, linear] * 80
        items += [(8388608, 68719476736)] * 160 + [(16384, 1)] * 163
        items += [(4096, 1)] * 2 + [(8, 1)]
        rng = random.Random(2)
        size = 103893483532  # of all that can be saved
        memory = [m / size for m, _ in items]
        runtimes = [r * (1 + 1e-3 * rng.uniform(-1, 1)) for _, r in items]
        self.assertTrue(self.check(memory, runtimes, 0.4).optimal)

    @parametrize("seed", (0, 1))
    @parametrize("least", (1, 5_000))
    def test_sizes_of_one_ratio_are_listed_in_few_steps(self, seed, least):
        rng = random.Random(seed)
        sizes = [rng.randint(1, 10_000) for _ in range(200)]
        if least > 1:
            sizes = [rng.randint(least, 10_000) for _ in sizes]
        capacity = int(0.37 * sum(sizes)) | 1
        with constants(_ROUNDS=((0, 300_000),)):
            self.assertTrue(self.check(sizes, sizes, capacity).optimal)

    def test_blocks_of_a_long_list(self):
        rng = random.Random(0)
        small = {"_ROUNDS": ((0, 10**7),), "PIECE": 40, "_BATCH": 4, "_SEARCHED": 7}
        with constants(**small):
            for family in FAMILIES:
                weights, values = pisinger(family, 40, 200, rng)
                capacity = sum(weights) // 2
                self.check(weights, values, capacity, table(weights, values, capacity))

    @parametrize("number,above", ((2, 1e-3), (2, 0.1), (3, 0.0), (3, 1e-2)))
    @parametrize("seed", (0, 1))
    def test_large_and_small_items_are_proven(self, number, above, seed):
        rng = random.Random(seed)
        memory, runtimes = groups(rng, 800, 10**6, number, 0.3, above, 300)
        plan = self.check(memory, runtimes, 10**6)
        self.assertTrue(plan.optimal)

    @parametrize("rounds", ((), ((0, 0),), ((5, 5_000),)))
    def test_never_below_greedy_and_maximal(self, rounds):
        rng = random.Random(0)
        for kind in range(40):
            memory, runtimes = groups(rng, 60, 10**5, kind % 4 + 2, 0.3, 1e-3, 300)
            if kind % 2:
                runtimes = [2.5 * m for m in memory]
            greedy = knapsack.greedy_knapsack(memory, runtimes, 10**5)[0]
            with little_work(rounds):
                plan = self.check(memory, runtimes, 10**5)
            self.assertGreaterEqual(plan.runtime, greedy)
            left = 10**5 - sum(memory[i] for i in plan.saved)
            self.assertGreater(min(memory[i] for i in plan.recomputable), left)

    def test_long_runs_of_one_size_keep_each_step_short(self):
        rng = random.Random(0)
        memory = [rng.randint(20, 40) for _ in range(1000)]
        runtimes = [m + 2 + rng.random() / 1000 for m in memory]
        prune, lengths = knapsack_exact_states.StateList._prune, []

        def noting(states, *args):
            lengths.append(len(states.weight))
            return prune(states, *args)

        small = {"_BATCH": 500, "_MAX_RUN": 500, "_MAX_STATES": 500}
        with (
            constants(_ROUNDS=((0, 10**6),), **small),
            mock.patch.object(knapsack_exact_states.StateList, "_prune", noting),
        ):
            ExactKnapsack(memory, runtimes).solve(sum(memory) * 0.3)
        self.assertGreater(max(lengths), 500)
        self.assertLessEqual(max(lengths), 1500)

    def test_a_beam_that_drops_states_keeps_a_valid_bound(self):
        rng = random.Random(0)
        small = {"_ROUNDS": ((0, 10**6),), "_MAX_STATES": 20}
        with constants(**small):
            for _ in range(20):
                weights, values = pisinger("strongly", 40, 1000, rng)
                capacity = sum(weights) // 2
                plan = self.check(weights, values, capacity)
                self.assertGreaterEqual(
                    plan.upper_bound, table(weights, values, capacity)
                )

    def test_work_is_bounded_on_an_adversarial_instance(self):
        rng = random.Random(0)
        weights, values = pisinger("strongly", 400, 10**6, rng)
        with little_work(((500, 300_000),)):
            first = self.check(weights, values, sum(weights) // 2)
            second = self.check(weights, values, sum(weights) // 2)
        self.assertEqual(first, second)
        self.assertLess(first.gap, 0.01 * first.runtime)


instantiate_parametrized_tests(ExactKnapsackStatesTest)

if __name__ == "__main__":
    run_tests()
