# Owner(s): ["module: functorch"]
"""greedy_knapsack takes items by runtime per memory, free ones first."""

import random

from torch._functorch._activation_checkpointing.knapsack import greedy_knapsack
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


class TestGreedy(TestCase):
    def solve(self, memory, runtimes, max_memory):
        """Solves a problem, checks the set and returns it."""
        runtime, saved, recomputable = greedy_knapsack(memory, runtimes, max_memory)
        self.assertEqual(sorted(saved + recomputable), list(range(len(memory))))
        self.assertTrue(sum(memory[i] for i in saved) <= max_memory)
        self.assertEqual(runtime, float(sum(runtimes[i] for i in saved)))
        return sorted(saved)

    def test_free_item_is_saved(self):
        self.assertEqual(self.solve([0.5, 0.0], [3.0, 1.0], 0.5), [0, 1])

    def test_free_item_is_saved_when_nothing_else_fits(self):
        self.assertEqual(self.solve([0.5, 0.0, 0.7], [3.0, 1.0, 9.0], 0.2), [1])

    def test_free_items_without_any_budget(self):
        self.assertEqual(self.solve([0.0, 0.1, 0.0], [1.0, 2.0, 3.0], 0.0), [0, 2])

    def test_free_item_without_runtime(self):
        self.assertEqual(self.solve([0.0, 0.1], [0.0, 2.0], 0.1), [0, 1])

    def test_best_ratio_first(self):
        self.assertEqual(self.solve([0.75, 0.5, 0.25], [6, 8, 3], 0.75), [1, 2])

    def test_later_item_fills_the_rest(self):
        self.assertEqual(self.solve([0.5, 0.5, 0.25], [9, 6, 1], 0.75), [0, 2])

    def test_no_items(self):
        self.assertEqual(greedy_knapsack([], [], 0.5), (0.0, [], []))

    @parametrize("seed", range(3))
    def test_free_items_of_random_instances_are_saved(self, seed):
        rng = random.Random(seed)
        for _ in range(100):
            n = rng.randint(1, 30)
            memory = [rng.choice([0.0, rng.random()]) for _ in range(n)]
            runtimes = [float(rng.randint(0, 9)) for _ in range(n)]
            saved = self.solve(memory, runtimes, rng.random() * sum(memory))
            free = {i for i in range(n) if memory[i] == 0}
            self.assertTrue(free <= set(saved))


instantiate_parametrized_tests(TestGreedy)

if __name__ == "__main__":
    run_tests()
