# Owner(s): ["module: functorch"]
"""The partitioner tells what it delivered for a memory budget."""

import itertools
import random
from unittest import mock

import torch
import torch._functorch.config as config
from torch._functorch import partitioners
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


def narrow(x, y, a, b, c):
    """Of the first product, 2048 bytes, the backward needs 256."""
    products = ((x @ a)[:, :4], y @ b, y @ c)
    return sum(p.sin().sum() for p in products)


def partition(budget):
    """The reports of one run of the partitioner."""
    reports = []

    def record(name, metadata_fn, *, payload_fn=lambda: None, **_):
        metadata = metadata_fn()
        if name == "artifact" and metadata["name"] == "activation_memory_budget":
            reports.append(payload_fn())

    torch._dynamo.reset()
    shapes = ((16, 64), (16, 8), (64, 32), (8, 16), (8, 64))
    args = [torch.rand(shape, requires_grad=True) for shape in shapes]
    with (
        config.patch(
            activation_memory_budget=budget, activation_memory_budget_solver="greedy"
        ),
        mock.patch.object(partitioners, "trace_structured", record),
    ):
        torch.compile(narrow, backend="aot_eager_decomp_partition")(*args)
    return reports


class TestBudgetTrace(TestCase):
    def test_report(self):
        (report,) = partition(0.4)
        size = 256 + 1024 + 4096
        expected = {
            "Memory Budget": 0.4,
            # The knapsack keeps the first product. The cut saves what is needed of it
            # and, with what is left, the second product.
            "Knapsack Memory": 2048 / size,
            "Saved Memory": (256 + 1024) / size,
            "Saved Storages Memory": (256 + 1024) / size,
            "Saved Storages Bytes": 256 + 1024,
            "Recomputed Runtime": 2 * 16 * 8 * 64,
            "Total Runtime": 2 * 16 * (64 * 32 + 8 * 16 + 8 * 64),
            "Knapsack Runtime Upper Bound": 65536 + (0.4 * size - 2048) * 4,
        }
        self.assertEqual(report, expected)

    def test_debug_log(self):
        with self.assertLogs("torch._functorch.partitioners", "DEBUG") as logs:
            partition(0.4)
        (line,) = [x for x in logs.output if "activation memory budget" in x]
        self.assertIn("'Memory Budget': 0.4", line)
        self.assertIn("'Saved Storages Bytes': 1280", line)

    @parametrize("budget", (1.0, 0.0))
    def test_no_report_without_a_knapsack(self, budget):
        self.assertEqual(partition(budget), [])

    def test_upper_bound(self):
        rng = random.Random(0)
        for _ in range(200):
            n = rng.randint(0, 8)
            memory = [rng.choice([0, 1, 2, 3, 5, 8]) for _ in range(n)]
            runtimes = [rng.choice([0, 1, 2, 7, 10**9]) for _ in range(n)]
            budget = rng.randint(0, 20)
            bound = partitioners._knapsack_upper_bound(memory, runtimes, budget)
            values = [
                sum(runtimes[i] for i in items)
                for k in range(n + 1)
                for items in itertools.combinations(range(n), k)
                if sum(memory[i] for i in items) <= budget
            ]
            self.assertGreaterEqual(bound, max(values))
            if sum(memory) <= budget:
                self.assertEqual(bound, sum(runtimes))


instantiate_parametrized_tests(TestBudgetTrace)

if __name__ == "__main__":
    run_tests()
