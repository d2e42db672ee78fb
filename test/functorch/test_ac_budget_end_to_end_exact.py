# Owner(s): ["module: functorch"]
"""torch.compile with the exact solvers of the activation memory budget."""

from test_ac_budget_end_to_end import BudgetTests, InductorTests, ParetoTests

from torch._functorch._activation_checkpointing.knapsack_exact import exact_knapsack
from torch.testing._internal.common_utils import run_tests, TestCase


class TestExact(BudgetTests, ParetoTests, InductorTests, TestCase):
    solver = "exact"

    def check_solve(self, solve):
        super().check_solve(solve)
        _, *plan = exact_knapsack(solve.memory, solve.runtimes, solve.max_memory)
        self.assertEqual([solve.saved, solve.recomputable], plan)


class TestDynamicMemoryBudgetExact(BudgetTests, TestCase):
    solver = "dynamic_memory_budget_exact"


if __name__ == "__main__":
    run_tests()
