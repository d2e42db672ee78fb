# Owner(s): ["module: functorch"]
"""A memory budget is a share of what the default plan keeps."""

from unittest import mock

import torch
import torch._functorch.config as config
import torch.nn.functional as F
from torch._functorch import partitioners
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


BUDGETS = (0.1, 0.3, 0.5, 0.7, 0.9)


def target(x, a, b, unneeded):
    return ((x @ a).sin() @ b).cos().sum() + unneeded.sum()


def table(x, a, b, unneeded):
    rows = F.embedding(torch.arange(16) % 4, unneeded)[:, :1]
    return (((x + rows) @ a).sin() @ b).cos().sum()


def frozen(x, a, b, unneeded):
    with torch.no_grad():
        bias = unneeded.sum()
    return ((x @ a + bias).sin() @ b).cos().sum()


FUNCTIONS = {f.__name__: f for f in (target, table, frozen)}


def plan(function, rows, budget):
    """Names of saved values, the bytes that they keep and that the budget allows."""
    found = []
    choose = partitioners.choose_saved_values_set

    def record(joint_graph, node_info, **kwargs):
        saved = choose(joint_graph, node_info, **kwargs)
        found.append(([n.name for n in saved], joint_graph._memory_budget_report))
        return saved

    torch._dynamo.reset()
    args = [
        torch.rand(shape, requires_grad=True)
        for shape in ((16, 64), (64, 32), (32, 16))
    ]
    with (
        config.patch(
            activation_memory_budget=budget,
            activation_memory_budget_solver="greedy",
            activation_memory_budget_count_storages=True,
            enable_autograd_cache=False,
        ),
        mock.patch.object(partitioners, "choose_saved_values_set", record),
    ):
        compiled = torch.compile(function, backend="aot_eager_decomp_partition")
        compiled(*args, torch.rand(rows, 32))
    (result,) = found
    return result


class TestBudgetUnit(TestCase):
    @parametrize("budget", BUDGETS)
    @parametrize("function", list(FUNCTIONS))
    def test_inputs_that_the_backward_does_not_need(self, function, budget):
        small, large = (plan(FUNCTIONS[function], rows, budget) for rows in (4, 400))
        self.assertEqual(small[0], large[0])

    @parametrize("budget", BUDGETS)
    def test_a_lower_budget_keeps_less(self, budget):
        """A share of what can be saved, so that 0.9 is not a tenth."""
        _, report = plan(target, 400, budget)
        _, default = plan(target, 400, 0.999)
        if report["Branch"] == "knapsack":
            low = 4 * (16 * 64 + 64 * 32 + 32 * 16)
            high = default["Default Storages Bytes"]
            allowed = low + budget * (high - low)
            self.assertEqual(report["Allowed Storages Bytes"], allowed)


instantiate_parametrized_tests(TestBudgetUnit)

if __name__ == "__main__":
    run_tests()
