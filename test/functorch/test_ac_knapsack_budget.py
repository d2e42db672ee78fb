# Owner(s): ["module: functorch"]
"""dp_knapsack_sliding_hirschberg is optimal within the quantized budget."""

import random

from torch._functorch._activation_checkpointing.knapsack import (
    dp_knapsack_sliding_hirschberg,
)
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
    TestCase,
)


# The solver's quantization: memory and budget are rounded to this many units.
UNITS = 10000

# Candidates of the min-cut partitioner for three real models, as rows of
# (bytes, flops, multiplicity), and the bytes that make up a budget of 1.
GRAPHS = {
    "llama_80_layers": (
        103893483532,
        [
            (1050673152, 8607114461184, 1),
            (234881024, 1924145348608, 160),
            (67108864, 1, 1),
            (67108864, 549755813888, 160),
            (67108864, 1924145348608, 80),
            (8388608, 68719476736, 160),
            (16384, 1, 163),
            (4096, 1, 2),
            (8, 1, 1),
        ],
    ),
    "bert_base": (
        23052941596,
        [
            (2000289792, 768111280128, 1),
            (402653184, 12884901888, 12),
            (201326592, 77309411328, 12),
            (50331648, 19327352832, 49),
            (50331648, 12884901888, 12),
            (50331648, 77309411328, 12),
            (786432, 1, 24),
            (196608, 1, 12),
            (131072, 1, 26),
            (65536, 1, 2),
            (16384, 1, 2),
            (512, 1, 1),
            (8, 1, 1),
        ],
    ),
    "qwen3moe_8_layers": (
        2806804492,
        [
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
        ],
    ),
}


def brute_force(units, runtimes, budget):
    """Largest total runtime of a set of at most `budget` units, by enumeration."""
    sets = [(0, 0)]
    for unit, runtime in zip(units, runtimes):
        sets += [(used + unit, value + runtime) for used, value in sets]
    return max(value for used, value in sets if used <= budget)


class TestHirschbergBudget(TestCase):
    def solve_units(self, units, runtimes, budget):
        """Solves a problem given in whole units and returns (units used, runtime)."""
        _, saved, recomputable = dp_knapsack_sliding_hirschberg(
            [u / UNITS for u in units], runtimes, budget / UNITS
        )
        self.assertEqual(sorted(saved + recomputable), list(range(len(units))))
        return sum(units[i] for i in saved), sum(runtimes[i] for i in saved)

    @parametrize(
        "units,runtimes,budget,optimum",
        [
            subtest(([1, 5], [3, 9], 5, 9), name="two_items"),
            subtest(([1, 1, 1], [1, 1, 1], 1, 1), name="three_equal_items"),
            subtest(
                ([25, 5, 22, 26], [25, 2, 27, 28], 72, 57), name="four_items_of_72"
            ),
            subtest(
                (
                    [2, 19, 25, 2, 14, 3, 9, 7],
                    [47, 21, 12, 8, 12, 45, 24, 2],
                    29,
                    128,
                ),
                name="eight_items_of_29",
            ),
            subtest(
                ([8, 26, 10, 26], [10, 12, 36, 17], 69, 65), name="four_items_of_69"
            ),
        ],
    )
    def test_issue_197871_hirschberg(self, units, runtimes, budget, optimum):
        used, runtime = self.solve_units(units, runtimes, budget)
        self.assertLessEqual(used, budget)
        self.assertEqual(runtime, optimum)

    @parametrize("seed", range(4))
    def test_brute_force_hirschberg(self, seed):
        rng = random.Random(seed)
        for _ in range(100):
            n = rng.randint(1, 10)
            units = [rng.randint(0, 30) for _ in range(n)]
            runtimes = [rng.randint(0, 20) for _ in range(n)]
            budget = rng.randint(0, sum(units) + 1)
            used, runtime = self.solve_units(units, runtimes, budget)
            self.assertLessEqual(used, budget)
            self.assertEqual(runtime, brute_force(units, runtimes, budget))

    @parametrize("n", [33, 100, 400])
    def test_every_split_keeps_its_unit_hirschberg(self, n):
        # With items of one unit, each unit that a split gives away is one item more.
        used, runtime = self.solve_units([1] * n, [1] * n, n // 3)
        self.assertEqual((used, runtime), (n // 3, n // 3))

    @parametrize("budget", [0.02, 0.05, 0.1, 0.25, 0.5])
    @parametrize("graph", sorted(GRAPHS))
    def test_real_graph_within_quantized_budget_hirschberg(self, graph, budget):
        total, rows = GRAPHS[graph]
        memory = [size / total for size, _, count in rows for _ in range(count)]
        runtimes = [flops for _, flops, count in rows for _ in range(count)]
        _, saved, recomputable = dp_knapsack_sliding_hirschberg(
            memory, runtimes, budget
        )
        self.assertEqual(sorted(saved + recomputable), list(range(len(memory))))
        used = sum(round(memory[i] * UNITS) for i in saved)
        self.assertLessEqual(used, round(budget * UNITS))


instantiate_parametrized_tests(TestHirschbergBudget)

if __name__ == "__main__":
    run_tests()
