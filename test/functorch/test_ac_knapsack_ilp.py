# Owner(s): ["module: functorch"]
"""ilp_knapsack returns the set that the solver found, within the budget."""

import random
import unittest
from fractions import Fraction

from torch._functorch._activation_checkpointing.knapsack import ilp_knapsack
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
    TEST_SCIPY,
    TestCase,
)


# What the rounding of the normalized memory is forgiven, relative to the budget.
SLACK = 1 + Fraction(1, 10**12)


def brute_force(memory, runtimes, max_memory):
    """Largest total runtime of a set within max_memory, on the exact values."""
    sets = [(Fraction(0), 0)]
    for size, runtime in zip(map(Fraction, memory), runtimes):
        sets += [(used + size, value + runtime) for used, value in sets]
    return max(value for used, value in sets if used <= max_memory)


def integers(rng, n):
    return [rng.randint(0, 20) for _ in range(n)], [
        rng.randint(0, 20) for _ in range(n)
    ]


def floats(rng, n):
    return [rng.random() for _ in range(n)], [rng.random() for _ in range(n)]


def bytes_and_flops(rng, n):
    """Sizes from one counter to a logits tensor, normalized, beside flop counts."""
    sizes = [8, 4096, 16384, 33554432, 90177536, 262144000]
    flops = [1, 137438953472, 369367187456, 1073741824000]
    memory = [rng.choice(sizes) for _ in range(n)]
    total = sum(memory)
    return [m / total for m in memory], [rng.choice(flops) for _ in range(n)]


def milliseconds(rng, n):
    """Small memory and measured runtimes, both far below 1."""
    memory = [10 ** rng.uniform(-9, -3) for _ in range(n)]
    return memory, [1e-3 * rng.random() for _ in range(n)]


@unittest.skipUnless(TEST_SCIPY, "scipy is not installed")
class TestIlp(TestCase):
    def solve(self, memory, runtimes, max_memory):
        """Solves a problem, checks the set and returns it."""
        runtime, saved, recomputable = ilp_knapsack(memory, runtimes, max_memory)
        self.assertEqual(sorted(saved + recomputable), list(range(len(memory))))
        used = sum(Fraction(memory[i]) for i in saved)
        self.assertTrue(used <= Fraction(max_memory) * SLACK)
        exactly = {"rtol": 0, "atol": 0}
        self.assertEqual(runtime, float(sum(runtimes[i] for i in saved)), **exactly)
        return saved

    def test_item_that_the_solver_takes_is_saved(self):
        # HiGHS returns 1 - 1e-14 for the last item: taken, but not equal to 1.
        sizes = [90177536, 33554432, 8, 262144000]
        memory = [size / 385875976 for size in sizes]
        self.assertEqual(self.solve(memory, [1, 1, 2, 3], 0.75), [2, 3])

    def test_small_item_does_not_fit_into_no_budget(self):
        self.assertEqual(self.solve([7e-9], [1.0], 0.0), [])

    def test_small_item_does_not_fit_into_a_smaller_budget(self):
        self.assertEqual(self.solve([7e-9], [1.0], 5e-9), [])

    def test_small_items_fit_into_a_small_budget(self):
        self.assertEqual(self.solve([2e-9, 3e-9, 4e-9], [3, 4, 5], 7e-9), [1, 2])

    def test_small_runtimes_are_told_apart(self):
        self.assertEqual(self.solve([0.5, 0.5], [1.0e-9, 1.1e-9], 0.5), [1])

    def test_normalized_items_that_fill_the_budget(self):
        self.assertEqual(self.solve([0.1] * 5, [1] * 5, 0.5), [0, 1, 2, 3, 4])

    def test_no_items(self):
        self.assertEqual(ilp_knapsack([], [], 0.5), (0.0, [], []))

    def test_no_budget_keeps_free_items(self):
        self.assertEqual(self.solve([0.0, 0.2, 0.0], [1, 5, 2], 0.0), [0, 2])

    def test_no_runtimes(self):
        self.solve([0.1, 0.2], [0, 0], 0.15)

    def test_optimum_within_the_default_gap_of_another_set(self):
        # Two sets differ by 5e-5 of their runtime, less than HiGHS's default gap.
        self.assertEqual(self.solve([0.5, 0.5], [100000, 100005], 0.5), [1])

    @parametrize("seed", range(3))
    @parametrize(
        "family",
        [
            subtest(integers, name="integers"),
            subtest(floats, name="floats"),
            subtest(bytes_and_flops, name="bytes_and_flops"),
            subtest(milliseconds, name="milliseconds"),
        ],
    )
    def test_brute_force(self, family, seed):
        rng = random.Random(seed)
        for _ in range(50):
            memory, runtimes = family(rng, rng.randint(1, 7))
            share = rng.choice([0.0, 0.3, 0.5, rng.random(), 1.0])
            saved = self.solve(memory, runtimes, share * sum(memory))
            value = sum(runtimes[i] for i in saved)
            best = brute_force(memory, runtimes, share * sum(memory))
            # The solver's tolerances, in units of the largest runtime
            self.assertTrue(value >= best - 1e-11 * max(runtimes))


instantiate_parametrized_tests(TestIlp)

if __name__ == "__main__":
    run_tests()
