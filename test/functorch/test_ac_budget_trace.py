# Owner(s): ["module: functorch"]
"""The partitioner tells what it delivered for a memory budget."""

import itertools
import json
import logging
import random
from unittest import mock

import torch
import torch._functorch.config as config
from torch._functorch import partitioners
from torch._functorch._activation_checkpointing import ac_logging_utils
from torch._functorch._activation_checkpointing.memory_budget_report import (
    knapsack_upper_bound,
)
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


def narrow(x, y, a, b, c):
    """Of the first product, 2048 bytes, the backward needs a cast of 1024."""
    products = ((x @ a).bfloat16(), y @ b, y @ c)
    return sum(p.sin().sum().float() for p in products)


def compile_step(budget, count_storages=True):
    """The joint graphs that one compilation parts."""
    graphs = []
    choose = partitioners.choose_saved_values_set

    def record(joint_graph, *args, **kwargs):
        graphs.append(joint_graph)
        return choose(joint_graph, *args, **kwargs)

    torch._dynamo.reset()
    shapes = ((16, 64), (16, 8), (64, 32), (8, 16), (8, 64))
    args = [torch.rand(shape, requires_grad=True) for shape in shapes]
    with (
        config.patch(
            activation_memory_budget=budget,
            activation_memory_budget_solver="greedy",
            activation_memory_budget_count_storages=count_storages,
            enable_autograd_cache=False,
        ),
        mock.patch.object(partitioners, "choose_saved_values_set", record),
    ):
        torch.compile(narrow, backend="aot_eager_decomp_partition")(*args)
    return graphs


class TestBudgetTrace(TestCase):
    def lines(self, *args):
        with self.assertLogs("torch._functorch.partitioners", "INFO") as logs:
            compile_step(*args)
            logging.getLogger("torch._functorch.partitioners").info("the end")
        return [x for x in logs.output if "activation memory budget" in x]

    def test_knapsack(self):
        (line,) = self.lines(0.4)
        inputs = 4 * (16 * 64 + 16 * 8 + 64 * 32 + 8 * 16 + 8 * 64)
        kept = 1024 + 1024 + 4096  # by the default plan, beside the inputs
        for words in (
            "Memory Budget 0.4,",
            "Branch knapsack,",
            f"Default Storages Bytes {inputs + kept},",
            f"Allowed Storages Bytes {inputs + 0.4 * kept:.6g},",
            # The knapsack keeps the first product. The cut saves its cast and, with
            # what is left, the second product.
            f"Knapsack Memory {2048 / kept:.6g},",
            f"Saved Memory {(1024 + 1024) / kept:.6g},",
            f"Saved Storages Bytes {inputs + 1024 + 1024}",
            f"Recomputed Runtime {2 * 16 * 8 * 64},",
            f"Total Runtime {2 * 16 * (64 * 32 + 8 * 16 + 8 * 64)},",
            f"Knapsack Runtime Upper Bound {65536 + (0.4 * kept - 2048) * 4:.6g}",
        ):
            self.assertIn(words, line + ",")

    @parametrize("count_storages", (True, False))
    @parametrize("budget", (0.0, 0.3, 0.99))
    def test_one_line_whatever_branch(self, budget, count_storages):
        (line,) = self.lines(budget, count_storages)
        self.assertIn(f"Memory Budget {budget:.6g},", line)
        self.assertIn(f"Counts Storages {count_storages}", line)
        self.assertEqual("Branch knapsack" in line, budget > 0 or count_storages)
        self.assertIn("Saved Storages Bytes", line)

    def test_no_line_for_a_budget_of_1(self):
        self.assertEqual(self.lines(1.0), [])

    def test_structured_trace(self):
        """The artifact that debug_partitioner writes has it, too."""
        with mock.patch.object(partitioners, "AOT_PARTITIONER_DEBUG", True):
            payloads = []

            def record(_name, metadata_fn, *, payload_fn=lambda: None, **_):
                if metadata_fn().get("name") == "min_cut_information":
                    payloads.append(json.loads(payload_fn()))

            with mock.patch.object(ac_logging_utils, "trace_structured", record):
                compile_step(0.4)
        (payload,) = payloads
        self.assertEqual(payload["Branch"], "knapsack")
        self.assertEqual(payload["Memory Budget"], 0.4)
        self.assertIn("Allowed Storages Bytes", payload)
        self.assertIn("Joint Graph Size", payload)

    def test_upper_bound(self):
        rng = random.Random(0)
        for _ in range(200):
            n = rng.randint(0, 8)
            memory = [rng.choice([0, 1, 2, 3, 5, 8]) for _ in range(n)]
            runtimes = [rng.choice([0, 1, 2, 7, 10**9]) for _ in range(n)]
            budget = rng.randint(0, 20)
            bound = knapsack_upper_bound(memory, runtimes, budget)
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
