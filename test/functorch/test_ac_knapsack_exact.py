# Owner(s): ["module: functorch"]
"""Tests of the exact knapsack solver for the activation-memory budget.

The oracles here share no code with the solver and use exact rationals: full
enumeration, a plain Nemhauser-Ullmann list, and the textbook table on integers.
"""

import json
import math
import os
import random
import subprocess
import sys
import unittest
from fractions import Fraction

import torch
import torch._functorch.config as config
from torch._functorch import partitioners
from torch._functorch._activation_checkpointing import knapsack
from torch._functorch._activation_checkpointing.knapsack_exact import (
    exact_knapsack,
    ExactKnapsack,
)
from torch._functorch._activation_checkpointing.knapsack_exact_branch import Incumbent
from torch._functorch._activation_checkpointing.knapsack_exact_items import Knapsack
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


SLACK = Fraction(1, 10**12)


def total(values, indices):
    return sum((Fraction(values[i]) for i in indices), Fraction(0))


def brute_force(memory, runtimes, max_memory):
    """The largest exact runtime of any set of at most max_memory."""
    best = [(Fraction(0), Fraction(0))]
    for m, r in zip(memory, runtimes):
        best += [
            (w + Fraction(m), p + Fraction(r))
            for w, p in best
            if w + Fraction(m) <= Fraction(max_memory)
        ]
    return max(p for _, p in best)


def nemhauser_ullmann(memory, runtimes, max_memory):
    """The same for more items: the list of undominated sets."""
    front = [(Fraction(0), Fraction(0))]
    for m, r in zip(memory, runtimes):
        taken = [(w + Fraction(m), p + Fraction(r)) for w, p in front]
        merged = sorted(front + taken, key=lambda s: (s[0], -s[1]))
        front, best = [], Fraction(-1)
        for w, p in merged:
            if w <= Fraction(max_memory) and p > best:
                front.append((w, p))
                best = p
    return front[-1][1]


def table(weights, values, capacity):
    """The textbook table on integers."""
    best = [0] * (capacity + 1)
    for w, v in zip(weights, values):
        for c in range(capacity, w - 1, -1):
            best[c] = max(best[c], best[c - w] + v)
    return best[capacity]


def small_integers(rng):
    n = rng.randint(0, 9)
    memory = [rng.randint(0, 12) for _ in range(n)]
    return memory, [rng.randint(0, 12) for _ in range(n)], rng.randint(0, 40)


def small_floats(rng):
    n = rng.randint(1, 9)
    memory = [rng.random() for _ in range(n)]
    return memory, [rng.random() for _ in range(n)], rng.random() * n / 2


def normalised_ties(rng):
    """Identical ratios and identical items, sizes rounded by the normalisation."""
    sizes = [rng.randint(1, 9) for _ in range(rng.randint(1, 9))]
    memory = [x / sum(sizes) for x in sizes]
    runtimes = [x * rng.choice([2.5, 2.5, 3.0]) for x in sizes]
    return memory, runtimes, sum(rng.sample(sizes, len(sizes) // 2)) / sum(sizes)


def huge_ranges(rng):
    n = rng.randint(1, 8)
    memory = [10.0 ** rng.uniform(-320, 300) for _ in range(n)]
    runtimes = [10.0 ** rng.uniform(-320, 300) for _ in range(n)]
    return memory, runtimes, rng.choice(memory)


def subnormals(rng):
    n = rng.randint(1, 8)
    memory = [rng.choice([0.0, 5e-324, 1e-323, 2e-323]) for _ in range(n)]
    runtimes = [rng.choice([5e-324, 1e-320, 1.0, 1e307, 1e308]) for _ in range(n)]
    return memory, runtimes, rng.choice([0.0, 1e-323, 3e-323, 1e-322])


def flops(rng):
    kinds = [(rng.randint(1, 99) / 128, rng.randint(1, 2**44)) for _ in range(3)]
    items = [rng.choice(kinds) for _ in range(rng.randint(1, 9))]
    return [m for m, _ in items], [r for _, r in items], rng.random() * 3


def large_items(rng):
    """One item fills the budget, so that sums of several are far beyond it."""
    size = rng.choice(((0.91, 0.97), (rng.random() * 0.1 + 0.85, 0.99)))
    memory = [0.0001234567] + [rng.choice(size) for _ in range(14)]
    closeness = 10.0 ** -rng.randint(1, 9)
    return memory, [1 + rng.random() * closeness for _ in memory], 0.9999


def one_of_many(rng):
    """Beside the first item one fits, and no bound tells which."""
    memory = [0.1, 0.901] + [rng.uniform(0.8955, 0.897) for _ in range(16)]
    runtimes = [10.0, 1.0] + [rng.uniform(0.9935, 0.994) for _ in range(16)]
    return [m * 0.9999 for m in memory], runtimes, 0.9999


def pisinger(family, n, bound, rng):
    """Pisinger's families of hard instances, as integers."""
    w = [rng.randint(1, bound) for _ in range(n)]
    tenth = bound // 10
    if family == "uncorrelated":
        return w, [rng.randint(1, bound) for _ in w]
    if family == "weakly":
        return w, [max(1, x + rng.randint(-tenth, tenth)) for x in w]
    if family == "strongly":
        return w, [x + tenth for x in w]
    if family == "inverse_strongly":
        return [x + tenth for x in w], w
    if family == "almost_strongly":
        noise = max(1, bound // 500)
        return w, [max(1, x + tenth + rng.randint(-noise, noise)) for x in w]
    if family == "subset_sum":
        return w, list(w)
    if family == "even_odd":
        w = [2 * x for x in w]
        return w, list(w)
    if family == "profit_ceiling":
        return w, [3 * -(-x // 3) for x in w]
    if family == "circle":
        return w, [
            max(1, int(2 / 3 * math.sqrt(4 * bound**2 - (x - 2 * bound) ** 2)))
            for x in w
        ]
    raise ValueError(family)


# name: (memory, runtimes, max_memory, the only best set)
CASES = {
    "empty_input": ([], [], 0.5, []),
    "single_item_fits": ([0.4], [3.0], 0.5, [0]),
    "single_item_fits_exactly": ([0.5], [3.0], 0.5, [0]),
    "single_item_does_not_fit": ([0.6], [3.0], 0.5, []),
    "everything_fits": ([0.1, 0.2, 0.1], [1.0, 2.0, 3.0], 0.5, [0, 1, 2]),
    "nothing_fits": ([0.6, 0.7, 0.8], [1.0, 2.0, 3.0], 0.5, []),
    "zero_budget": ([0.1, 0.2], [1.0, 2.0], 0.0, []),
    "zero_memory_is_free": ([0.0, 0.2, 0.0], [1.0, 9.0, 2.0], 0.1, [0, 2]),
    "zero_memory_at_zero_budget": ([0.0, 0.2], [1.0, 2.0], 0.0, [0]),
    "zero_runtimes_are_not_saved": ([0.1, 0.2, 0.3], [0.0, 0.0, 0.0], 1.0, []),
    "identical_items": ([0.25] * 4, [5.0] * 4, 0.5, [0, 1]),
    "equal_ratios": ([0.3, 0.5, 0.4], [3.0, 5.0, 4.0], 0.7, [0, 2]),
    "best_ratio_is_not_best": ([0.5, 0.3, 0.3], [10.0, 5.5, 5.5], 0.6, [1, 2]),
    "one_large_beats_two_small": ([0.3, 0.3, 0.6], [4.0, 4.0, 9.0], 0.6, [2]),
    "exact_sum_of_normalised_sizes": ([1 / 3] * 3, [1.0, 2.0, 3.0], 2 / 3, [1, 2]),
    "large_numbers": ([1e12, 2e12, 3e12], [1e15, 3e15, 5e15], 4e12, [0, 2]),
}

FAMILIES = (
    "uncorrelated",
    "weakly",
    "strongly",
    "inverse_strongly",
    "almost_strongly",
    "subset_sum",
    "even_odd",
    "profit_ceiling",
    "circle",
)


def layers(rng, distinct, copies):
    kinds = [(rng.randint(1, 999), rng.randint(1, 10**9)) for _ in range(distinct)]
    total_bytes = copies * sum(m for m, _ in kinds)
    items = kinds * copies
    return [m / total_bytes for m, _ in items], [r for _, r in items]


def groups(rng, n, capacity, number, small, above, spread):
    """Hard instances of Jooken, Leyman and De Causmaecker (EJOR 301, 2022).

    Of the large items one of each group fits, and all that is left open is small.
    """
    items = [
        int((0.5**i + above) * capacity)
        for i in range(1, number)
        for _ in range(int(n * (1 - small)) // (number - 1))
    ]
    items += [0] * (n - len(items))
    memory = [x + rng.randint(1, spread) for x in items]
    return memory, [x + rng.randint(1, spread) for x in items]


# Prints how many threads the solver starts, and how many torch may use afterwards.
THREADS = """
import os, random, torch
from torch._functorch._activation_checkpointing.knapsack_exact import ExactKnapsack
torch.set_num_threads(4)
rng = random.Random(0)
strong = [rng.randint(1, 10**6) for _ in range(2000)]
many = [rng.random() for _ in range(40_000)]
problems = [
    (strong, [x + 10**5 for x in strong]),
    ([x / sum(strong) for x in strong], [x + 0.1 for x in strong]),
    (many, [rng.random() for _ in many]),
    (strong, strong),
]
before = len(os.listdir("/proc/self/task"))
for memory, runtimes in problems:
    ExactKnapsack(memory, runtimes).solve(0.3 * sum(memory))
print(len(os.listdir("/proc/self/task")) - before, torch.get_num_threads())
"""


class PlanTestCase(TestCase):
    def check(self, memory, runtimes, max_memory, optimum=None):
        """Checks everything that a plan promises; the optimum if it is known."""
        plan = ExactKnapsack(memory, runtimes).solve(max_memory)
        n = len(memory)
        self.assertEqual(sorted(plan.saved + plan.recomputable), list(range(n)))
        self.assertEqual(plan.saved, sorted(plan.saved))
        self.assertEqual(plan.recomputable, sorted(plan.recomputable))
        used, value = total(memory, plan.saved), total(runtimes, plan.saved)
        self.assertLessEqual(used, Fraction(max_memory) * (1 + SLACK))
        if math.isfinite(plan.runtime):
            self.assertEqual(plan.runtime, float(value), atol=0, rtol=0)
        for i in range(n):
            if runtimes[i] == 0:
                self.assertNotIn(i, plan.saved)
            elif memory[i] == 0:
                self.assertIn(i, plan.saved)
        integers = all(float(r).is_integer() for r in runtimes)
        integers = integers and total(runtimes, range(n)) < 2**53
        if optimum is not None:
            self.assertTrue(plan.optimal)
            lowest = optimum if integers else optimum * (1 - SLACK)
            self.assertGreaterEqual(value, lowest)
            if math.isfinite(plan.upper_bound):
                self.assertGreaterEqual(plan.upper_bound * (1 + 1e-15), float(optimum))
            if math.isfinite(plan.gap):
                self.assertGreaterEqual(value + Fraction(plan.gap), optimum)
        if plan.optimal and integers:
            self.assertEqual(plan.gap, 0.0, atol=0, rtol=0)
            self.assertEqual(plan.upper_bound, plan.runtime, atol=0, rtol=0)
        return plan


class ExactKnapsackTest(PlanTestCase):
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
    def test_optimal_and_feasible_on_small_instances(self, kind):
        rng = random.Random(kind.__name__)
        for _ in range(120):
            memory, runtimes, max_memory = kind(rng)
            optimum = brute_force(memory, runtimes, max_memory)
            self.check(memory, runtimes, max_memory, optimum)

    @parametrize("n", (12, 25, 40, 60))
    @parametrize("integers", (True, False))
    def test_equals_nemhauser_ullmann_in_fractions(self, n, integers):
        rng = random.Random(n)
        for _ in range(3):
            memory = [rng.random() for _ in range(n)]
            runtimes = [rng.random() for _ in range(n)]
            if integers:
                runtimes = [math.ceil(50 * r) for r in runtimes]
            max_memory = sum(memory) * rng.choice((0.1, 0.3, 0.5))
            optimum = nemhauser_ullmann(memory, runtimes, max_memory)
            self.check(memory, runtimes, max_memory, optimum)

    @parametrize("distinct,copies", ((8, 80), (20, 100), (60, 12)))
    def test_repeated_layers_are_proven(self, distinct, copies):
        memory, runtimes = layers(random.Random(distinct), distinct, copies)
        for max_memory in (0.02, 0.1, 0.5, 0.9):
            self.assertTrue(self.check(memory, runtimes, max_memory).optimal)

    def test_runtimes_from_1_to_1e13_are_proven(self):
        rng = random.Random(0)
        memory = [10.0 ** rng.uniform(2, 9) for _ in range(500)]
        runtimes = [float(int(10 ** rng.uniform(0, 13))) for _ in memory]
        for fraction in (0.05, 0.25, 0.5):
            plan = self.check(memory, runtimes, fraction * sum(memory))
            self.assertTrue(plan.optimal)

    def test_five_items_of_a_tenth_fit_into_a_half_and_six_do_not(self):
        runtime, saved, recomputable = exact_knapsack([0.1] * 6, [1.0] * 6, 0.5)
        self.assertEqual((runtime, saved, recomputable), (5.0, [0, 1, 2, 3, 4], [5]))

    def test_integers_are_exact_up_to_53_bits(self):
        runtimes = [2**52, 1, 1, 2**51]
        self.check([1.0] * 4, runtimes, 3.0, 2**52 + 2**51 + 1)
        self.check([1.0, 1.0], [2.0**52 - 1, 2.0**52 - 2], 1.0, 2**52 - 1)

    def test_small_values_beside_large_ones_are_not_lost(self):
        # float32 would drop the ones: 2^24 + 1 = 2^24.
        self.check([0.1, 0.1, 0.1], [2.0**24, 1.0, 1.0], 0.3, 2**24 + 2)

    def test_items_below_a_ten_thousandth_are_not_free(self):
        plan = self.check([0.00004] * 20_001, [1.0] * 20_001, 0.01)
        self.assertEqual(len(plan.saved), 250)

    def test_sums_that_overflow_are_no_error(self):
        plan = self.check([1.0, 1.0, 1.0], [1e308, 1.5e308, 1e308], 2.0)
        self.assertEqual(plan.saved, [0, 1])
        plan = self.check([1.7e308] * 3, [1.0, 2.0, 3.0], 1.7e308)
        self.assertEqual(plan.saved, [2])

    def test_identical_items_are_taken_lowest_index_first(self):
        memory = [0.3, 0.1, 0.3, 0.1, 0.3, 0.1]
        plan = self.check(memory, [3.0, 2.0, 3.0, 2.0, 3.0, 2.0], 0.5)
        self.assertEqual(plan.saved, [0, 1, 3])

    def test_items_of_almost_equal_ratio_are_sorted_exactly(self):
        # All three quotients round to the same float64.
        memory = [3.0, 1.0, 3.0000000000000004]
        runtimes = [1.0, 1.0 / 3.0, 1.0000000000000002]
        for max_memory in (1.0, 3.0, 4.0, 6.0):
            optimum = brute_force(memory, runtimes, max_memory)
            self.check(memory, runtimes, max_memory, optimum)

    def test_permutation_gives_the_same_value(self):
        rng = random.Random(0)
        for n in (30, 600):
            sizes = [rng.randint(1, 60) for _ in range(n)]
            memory = [x / sum(sizes) for x in sizes]
            runtimes = [x + rng.choice((0.0, 0.1)) for x in sizes]
            expected = exact_knapsack(memory, runtimes, 0.4)[0]
            for _ in range(5):
                order = rng.sample(range(n), n)
                runtime = exact_knapsack(
                    [memory[i] for i in order], [runtimes[i] for i in order], 0.4
                )[0]
                self.assertEqual(runtime, expected, atol=0, rtol=0)

    @parametrize("exponent", (-1000, -30, 7, 900))
    def test_scaling_by_a_power_of_two_gives_the_same_set(self, exponent):
        rng = random.Random(0)
        for n in (40, 700):
            memory = [rng.uniform(0.5, 1) for _ in range(n)]
            runtimes = [rng.random() for _ in memory]
            expected = exact_knapsack(memory, runtimes, 0.3 * n)
            scaled = [math.ldexp(m, exponent) for m in memory]
            max_memory = math.ldexp(0.3 * n, exponent)
            result = exact_knapsack(scaled, runtimes, max_memory)
            self.assertEqual(result, expected, atol=0, rtol=0)

    def test_value_grows_with_the_budget(self):
        memory, runtimes = layers(random.Random(1), 12, 20)
        prepared = ExactKnapsack(memory, runtimes)
        values = [prepared.solve(i / 200).runtime for i in range(201)]
        self.assertEqual(values, sorted(values))
        self.assertEqual(values[0], 0.0)

    @parametrize("n", (60, 800))
    def test_prepared_answers_equal_single_solves(self, n):
        rng = random.Random(n)
        memory = [rng.choice((0.0, rng.random())) for _ in range(n)]
        runtimes = [rng.choice((0.0, rng.random())) for _ in range(n)]
        prepared = ExactKnapsack(memory, runtimes)
        for max_memory in (5.0, 0.0, 1e-3, 2.0, 5.0, 1e9):
            plan = prepared.solve(max_memory)
            single = exact_knapsack(memory, runtimes, max_memory)
            answer = (plan.runtime, plan.saved, plan.recomputable)
            self.assertEqual(answer, single, atol=0, rtol=0)

    def test_marginal_runtime_is_the_ratio_of_the_break_item(self):
        prepared = ExactKnapsack([2.0, 4.0, 8.0], [8.0, 8.0, 8.0])
        self.assertEqual(prepared.solve(1.0).marginal_runtime, 4.0)
        self.assertEqual(prepared.solve(3.0).marginal_runtime, 2.0)
        self.assertEqual(prepared.solve(7.0).marginal_runtime, 1.0)
        self.assertEqual(prepared.solve(14.0).marginal_runtime, 0.0)

    @unittest.skipUnless(os.path.isdir("/proc/self/task"), "counts threads in /proc")
    def test_no_thread_is_started(self):
        output = subprocess.run(
            [sys.executable, "-c", THREADS],
            env={**os.environ, "OMP_NUM_THREADS": "4"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        self.assertEqual(output.split(), ["0", "4"])

    @parametrize("threads,seed", ((1, 0), (2, 1), (4, 12345)))
    def test_same_answer_for_any_thread_count_and_hash_seed(self, threads, seed):
        memory, runtimes = layers(random.Random(5), 30, 40)
        script = (
            "import json, sys, torch\n"
            f"torch.set_num_threads({threads})\n"
            "from torch._functorch._activation_checkpointing.knapsack_exact import "
            "exact_knapsack\n"
            "print(json.dumps(exact_knapsack(*json.load(sys.stdin))))\n"
        )
        output = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps((memory, runtimes, 0.37)),
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        expected = exact_knapsack(memory, runtimes, 0.37)
        self.assertEqual(tuple(json.loads(output.splitlines()[-1])), expected)

    def test_a_default_device_and_dtype_do_not_matter(self):
        rng = random.Random(0)
        memory = [rng.random() for _ in range(700)]
        runtimes = [rng.random() for _ in memory]
        expected = exact_knapsack(memory, runtimes, 100.0)
        dtype = torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float16)
            with torch.device("meta"):
                self.assertEqual(exact_knapsack(memory, runtimes, 100.0), expected)
        finally:
            torch.set_default_dtype(dtype)

    def test_partitioner_selects_it_by_name(self):
        memory, runtimes = layers(random.Random(2), 8, 5)
        with config.patch(activation_memory_budget_solver="exact"):
            result = partitioners._optimize_runtime_with_given_memory(
                None, memory, runtimes, 0.3, None, []
            )
        self.assertEqual(result, exact_knapsack(memory, runtimes, 0.3))

    @parametrize("argument", ("memory", "runtimes"))
    @parametrize("bad", (math.nan, -math.inf, -1.0, -5e-324, 10**400, 1 + 2j))
    def test_number_out_of_range_is_named_with_its_index(self, argument, bad):
        lists = {"memory": [1.0] * 5, "runtimes": [1.0] * 5}
        lists[argument][3] = bad
        with self.assertRaisesRegex(ValueError, rf"^{argument}\[3\] must be"):
            exact_knapsack(lists["memory"], lists["runtimes"], 1.0)

    def test_infinite_memory_is_named(self):
        with self.assertRaisesRegex(ValueError, r"^memory\[1\] must be finite"):
            exact_knapsack([1.0, math.inf], [1.0, 1.0], 1.0)

    def test_infinite_runtimes_come_first(self):
        inf = math.inf
        prepared = ExactKnapsack([0.5, 0.2, 0.2, 0.1, 0.0], [inf, inf, 9.0, inf, inf])
        cases = (0.0, [4]), (0.1, [3, 4]), (0.5, [1, 2, 3, 4]), (0.9, [0, 1, 3, 4])
        for max_memory, expected in cases:
            plan = prepared.solve(max_memory)
            self.assertEqual(plan.saved, expected)
            self.assertEqual(plan.runtime, inf)
            self.assertEqual(plan.gap, 0.0)
            self.assertTrue(plan.optimal)
        tenths = ExactKnapsack([0.1] * 6, [inf] * 5 + [1.0]).solve(0.5)
        self.assertEqual(tenths.saved, [0, 1, 2, 3, 4])

    @parametrize("bad", (math.nan, math.inf, -1.0))
    def test_budget_out_of_range_is_named(self, bad):
        with self.assertRaisesRegex(ValueError, "^max_memory must be finite"):
            exact_knapsack([1.0], [1.0], bad)

    def test_lengths_that_differ_are_named(self):
        with self.assertRaisesRegex(ValueError, "memory and runtimes .* got 2 and 3"):
            exact_knapsack([1.0, 2.0], [1.0, 2.0, 3.0], 1.0)

    def test_negative_zero_integers_and_bools_are_numbers(self):
        result = exact_knapsack([-0.0, 1, True, 2.0], [1, True, -0.0, 3], 2)
        self.assertEqual(result, (4.0, [0, 3], [1, 2]))
        for strings in ((["1"], [1.0]), ([1.0], ["1"])):
            with self.assertRaises(TypeError):
                ExactKnapsack(*strings)

    @parametrize("case", CASES)
    def test_case(self, case):
        memory, runtimes, max_memory, saved = CASES[case]
        optimum = brute_force(memory, runtimes, max_memory)
        self.assertEqual(self.check(memory, runtimes, max_memory, optimum).saved, saved)
        runtime, kept, recomputable = exact_knapsack(memory, runtimes, max_memory)
        self.assertEqual(runtime, math.fsum(runtimes[i] for i in saved))
        self.assertEqual(kept, saved)
        self.assertEqual(sorted(kept + recomputable), list(range(len(memory))))

    def test_rounding_to_integers_keeps_its_direction(self):
        rng = random.Random(0)
        for _ in range(20):
            memory = [10.0 ** rng.uniform(-9, 0) for _ in range(60)]
            runtimes = [10.0 ** rng.uniform(-12, 0) for _ in memory]
            max_memory = rng.uniform(0.2, 0.8) * sum(memory)
            types = ExactKnapsack(memory, runtimes)._types
            rounded = Knapsack(types, max_memory)
            self.assertFalse(types.exact or types.unit)
            per_memory = Fraction(2) ** (60 - math.frexp(max_memory)[1])
            for m, weight in zip(types.memory.tolist(), rounded.weight):
                error = abs(weight - Fraction(m) * per_memory)
                self.assertLessEqual(error, 0.5 if weight < 2**52 else 1)
            slack = rounded.capacity - Fraction(max_memory) * per_memory
            self.assertGreaterEqual(slack, len(memory))
            self.assertLessEqual(slack, Fraction(max_memory) * per_memory / 2**40)
            per_runtime = Fraction(2) ** rounded.digits
            for r, profit in zip(types.runtime.tolist(), rounded.profit):
                above = profit - Fraction(r) * per_runtime
                self.assertGreaterEqual(above, 0)
                self.assertLess(above, 1)

    def test_gap_covers_the_rounding_of_runtimes(self):
        # Each saved item may have got up to one unit more than it is worth.
        prepared = ExactKnapsack([1.0] * 5, [0.1, 0.2, 0.3, 0.4, 0.5])
        rounded = Knapsack(prepared._types, 3.0)
        best = Incumbent(rounded)
        best.offer(rounded.break_profit, rounded.break_type, {}, rounded.count)
        best.lower(best.value)
        plan = prepared._certified(bytearray([0, 0, 1, 1, 1]), rounded, best)
        self.assertEqual(plan.gap, 3 * 2.0**-rounded.digits, atol=0, rtol=0)

    def test_gap_covers_what_was_too_close_to_be_searched(self):
        # The last item is worth 1e-11 more than the one before, but the bound without
        # it is closer than what is searched for.
        memory = [2.0**-10, 1.0, 1.0, 1 + 2.0**-36]
        runtimes = [1000.0, 1.0, 1.0, 1 + 2.0**-36 - 2.0**-40]
        max_memory = 2 + 2.0**-10 + 2.0**-35
        optimum = brute_force(memory, runtimes, max_memory)
        self.check(memory, runtimes, max_memory, optimum)

    @parametrize("seed", (207, 256, 618, 622, 650))
    def test_rounding_may_change_the_order_of_the_types(self, seed):
        # Sizes are multiples of a unit up to 2^-51, and runtimes have 53 bits.
        rng = random.Random(seed)
        n, unit = rng.randint(5, 16), 1 / rng.choice((1021, 977, 64, 331))
        sizes = [rng.randint(1, 40) for _ in range(n)]
        most = 2**53 // (sum(sizes) + 20)
        errors = (0, 0, 2**-52, -(2**-52), 2**-51, -(2**-51))
        memory = [x * unit * (1 + rng.choice(errors)) for x in sizes]
        runtimes = [x * most + rng.randint(0, 3) for x in sizes]
        capacity = rng.randint(max(sizes), sum(sizes))
        plan = self.check(memory, runtimes, capacity * unit)
        self.assertTrue(plan.optimal)
        self.assertEqual(plan.runtime, brute_force(sizes, runtimes, capacity))

    def test_bound_is_valid_proven_or_not(self):
        rng = random.Random(0)
        for family in FAMILIES:
            weights, values = pisinger(family, 300, 1000, rng)
            capacity = sum(weights) // 3
            plan = self.check(weights, values, capacity)
            optimum = table(weights, values, capacity)
            self.assertGreaterEqual(plan.upper_bound, optimum)
            self.assertLessEqual(plan.runtime, optimum)
            self.assertEqual(plan.gap, plan.upper_bound - plan.runtime)

    def test_never_below_greedy_and_maximal(self):
        rng = random.Random(0)
        for kind in range(8):
            memory, runtimes = groups(rng, 60, 10**5, kind % 4 + 2, 0.3, 1e-3, 300)
            if kind % 2:
                runtimes = [2.5 * m for m in memory]
            greedy = knapsack.greedy_knapsack(memory, runtimes, 10**5)[0]
            plan = self.check(memory, runtimes, 10**5)
            self.assertGreaterEqual(plan.runtime, greedy)
            left = 10**5 - sum(memory[i] for i in plan.saved)
            self.assertGreater(min(memory[i] for i in plan.recomputable), left)


instantiate_parametrized_tests(ExactKnapsackTest)

if __name__ == "__main__":
    run_tests()
