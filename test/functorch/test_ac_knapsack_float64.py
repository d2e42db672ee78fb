# Owner(s): ["module: functorch"]
"""The dp solvers add runtimes in float64 and report the runtime of their own set."""

import random

from torch._functorch._activation_checkpointing.knapsack import (
    dp_knapsack,
    dp_knapsack_sliding_hirschberg,
)
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
    TestCase,
)


# The solvers' quantization: memory and budget are rounded to this many units.
UNITS = 10000

both_solvers = parametrize(
    "solver",
    [
        subtest(dp_knapsack, name="dp"),
        subtest(dp_knapsack_sliding_hirschberg, name="hirschberg"),
    ],
)

# Candidates of the min-cut partitioner for a mixture of experts of 8 layers, as rows
# of (bytes, flops, multiplicity). They need 0.67 of the memory that a budget of 1
# stands for; cheap items are 1 flop beside 1e12.
EXPERTS_TOTAL = 2806804492
EXPERTS = [
    (622329856, 1274531545088, 1),
    (67108864, 1, 8),
    (50331648, 1, 8),
    (16777216, 34359738368, 8),
    (8388608, 1, 9),
    (8388608, 34359738368, 8),
    (2097152, 4294967296, 16),
    (524288, 1073741824, 8),
    (262144, 1, 8),
    (196608, 1, 8),
    (32768, 1, 8),
    (8192, 1, 35),
    (2048, 1, 2),
    (512, 1, 8),
    (8, 1, 1),
]


def brute_force(units, runtimes, budget):
    """Largest total runtime of a set of at most `budget` units, by enumeration."""
    sets = [(0, 0)]
    for unit, runtime in zip(units, runtimes):
        sets += [(used + unit, value + runtime) for used, value in sets]
    return max(value for used, value in sets if used <= budget)


def integer_dp(units, runtimes, budget):
    """Largest total runtime of a set of at most `budget` units, in exact integers."""
    best = [0] * (budget + 1)
    for unit, runtime in zip(units, runtimes):
        for capacity in range(budget, unit - 1, -1):
            best[capacity] = max(best[capacity], best[capacity - unit] + runtime)
    return best[budget]


class TestFloat64(TestCase):
    def solve_units(self, solver, units, runtimes, budget):
        """Solves a problem given in whole units, checks it and returns the set."""
        runtime, saved, recomputable = solver(
            [u / UNITS for u in units], runtimes, budget / UNITS
        )
        self.assertEqual(sorted(saved + recomputable), list(range(len(units))))
        self.assertLessEqual(sum(units[i] for i in saved), budget)
        exactly = {"rtol": 0, "atol": 0}
        self.assertEqual(runtime, float(sum(runtimes[i] for i in saved)), **exactly)
        return sorted(saved)

    @both_solvers
    @parametrize("large", [2**24, 10**9, 10**13, 2**52])
    def test_small_runtime_beside_a_large_one(self, solver, large):
        saved = self.solve_units(solver, [1, 1, 1], [large, 1, 1], 3)
        self.assertEqual(saved, [0, 1, 2])

    @both_solvers
    def test_small_runtime_decides_between_equal_large_ones(self, solver):
        saved = self.solve_units(solver, [2, 2, 1], [2**30, 2**30 + 1, 2**29], 3)
        self.assertEqual(saved, [1, 2])

    @both_solvers
    def test_free_item_of_small_runtime(self, solver):
        saved = self.solve_units(solver, [0, 3, 0], [1, 2**24, 1], 3)
        self.assertEqual(saved, [0, 1, 2])

    @both_solvers
    def test_reported_runtime_is_that_of_the_saved_set(self, solver):
        # 0.1 has no float32 of the same value, so that a float32 sum shows.
        saved = self.solve_units(solver, [1] * 30, [0.1] * 30, 20)
        self.assertEqual(len(saved), 20)

    @both_solvers
    @parametrize("seed", range(3))
    def test_brute_force_with_runtimes_from_1_to_1e13(self, solver, seed):
        rng = random.Random(seed)
        for _ in range(100):
            n = rng.randint(1, 9)
            units = [rng.randint(0, 12) for _ in range(n)]
            runtimes = [int(10 ** rng.uniform(0, 13)) for _ in range(n)]
            budget = rng.randint(0, sum(units))
            saved = self.solve_units(solver, units, runtimes, budget)
            self.assertEqual(
                sum(runtimes[i] for i in saved), brute_force(units, runtimes, budget)
            )

    @both_solvers
    @parametrize("n", [20, 90])
    def test_integer_dp_with_runtimes_from_1_to_1e13(self, solver, n):
        rng = random.Random(n)
        units = [rng.randint(1, 40) for _ in range(n)]
        runtimes = [int(10 ** rng.uniform(0, 13)) for _ in range(n)]
        for budget in (30, 200, sum(units) // 2):
            saved = self.solve_units(solver, units, runtimes, budget)
            self.assertEqual(
                sum(runtimes[i] for i in saved), integer_dp(units, runtimes, budget)
            )

    @both_solvers
    def test_all_items_of_a_real_graph_are_saved_when_they_fit(self, solver):
        memory = [size / EXPERTS_TOTAL for size, _, k in EXPERTS for _ in range(k)]
        runtimes = [flops for _, flops, k in EXPERTS for _ in range(k)]
        runtime, saved, recomputable = solver(memory, runtimes, 0.7)
        self.assertEqual(sorted(saved), list(range(len(memory))))
        self.assertEqual(recomputable, [])
        self.assertEqual(runtime, float(sum(runtimes)), rtol=0, atol=0)


instantiate_parametrized_tests(TestFloat64)

if __name__ == "__main__":
    run_tests()
