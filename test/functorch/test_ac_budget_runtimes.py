# Owner(s): ["module: functorch"]
"""Whatever number a runtime estimator returns, the partitioner makes a plan."""

import math
import unittest
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


SOLVERS = {
    "dp": "dp_knapsack",
    "greedy": "greedy_knapsack",
    "ilp": "ilp_knapsack",
    "dp_knapsack_sliding_hirschberg": "dp_knapsack_sliding_hirschberg",
    "exact": "exact_knapsack",
}

# Of three products of one size one need not be recomputed. The estimates are X, 5 and
# 1: which one it is, by X.
CASES = {
    "six": (lambda: 6, 0),
    "four": (lambda: 4.0, 1),
    "true": (lambda: True, 1),
    "tensor": (lambda: torch.tensor(7.0), 0),
    "infinite": (lambda: math.inf, 0),
    "more_than_float32": (lambda: 10**50, 0),
    "more_than_float64": (lambda: 10**400, 0),
    "negative": (lambda: -1, 1),
    "minus_infinite": (lambda: -math.inf, 1),
    "less_than_float64": (lambda: -(10**400), 1),
    "nan": (lambda: math.nan, 1),
}


def function(x, a, b, c):
    return sum((x @ matrix).sin().sum() for matrix in (a, b, c))


def run(solver, dynamic=False):
    """Which products are not recomputed, the gradients, and those of eager."""
    kept = []
    split = partitioners._extract_fwd_bwd_modules

    def record(joint, *args, **kwargs):
        modules = split(joint, *args, **kwargs)
        products = [n.name for n in joint.graph.nodes if "mm" in str(n.target)][:3]
        nodes = modules[1].graph.nodes
        recomputed = {n.name for n in nodes if n.op != "placeholder"}
        kept.extend(i for i, name in enumerate(products) if name not in recomputed)
        return modules

    torch._dynamo.reset()
    args = [torch.rand(32, 32, requires_grad=True) for _ in range(4)]
    with (
        config.patch(
            activation_memory_budget=0.4,
            activation_memory_budget_solver=solver,
            enable_autograd_cache=False,
        ),
        mock.patch.object(partitioners, "_extract_fwd_bwd_modules", record),
    ):
        compiled = torch.compile(
            function, backend="aot_eager_decomp_partition", dynamic=dynamic
        )
        gradients = torch.autograd.grad(compiled(*args), args)
    return kept, gradients, torch.autograd.grad(function(*args), args)


def estimated(*estimates):
    """Makes the estimator return some values, one after the other."""
    remaining = iter(estimates)
    return mock.patch.object(
        partitioners, "estimate_runtime", lambda _: next(remaining, 0.0)
    )


class TestRuntimes(TestCase):
    def require(self, solver):
        if not hasattr(partitioners, SOLVERS[solver]):
            self.skipTest(f"the release has no solver {solver}")

    @parametrize("solver", list(SOLVERS))
    @parametrize("case", list(CASES))
    def test_plan(self, case, solver):
        self.require(solver)
        estimate, wanted = CASES[case]
        with estimated(estimate(), 5, 1):
            kept, gradients, expected = run(solver)
        self.assertEqual(kept, [wanted])
        self.assertEqual(gradients, expected)

    @parametrize("estimate", (-1, math.nan))
    def test_a_warning_names_the_node(self, estimate):
        with (
            self.assertLogs("torch._functorch.partitioners", "WARNING") as logs,
            estimated(5, estimate, 1),
        ):
            run("greedy")
        (line,) = (line for line in logs.output if "estimate" in line)
        self.assertIn("mm_1", line)

    @parametrize("estimate", (None, "many", 1j))
    def test_what_is_no_number_is_refused_by_name(self, estimate):
        message = "estimate of mm_1 is not a number"
        with self.assertRaisesRegex(Exception, message), estimated(5, estimate, 1):
            run("greedy")

    @unittest.skipIf(
        not hasattr(partitioners, "CustomRuntimeEstimator"),
        "the release has no custom estimators",
    )
    @parametrize("solver", list(SOLVERS))
    def test_custom_estimator(self, solver):
        """Of a class that users write; with dynamic shapes its sizes are symbols."""

        class Estimator(partitioners.CustomRuntimeEstimator):
            def __call__(self, node):
                if node.name == "mm":
                    return math.inf
                return node.meta["val"].numel() - 10**6

            def uuid(self):
                return None

        self.require(solver)
        estimator = Estimator()
        with config.patch(activation_memory_budget_runtime_estimator=estimator):
            kept, gradients, expected = run(solver, dynamic=True)
        self.assertEqual(kept, [0])
        self.assertEqual(gradients, expected)


instantiate_parametrized_tests(TestRuntimes)

if __name__ == "__main__":
    run_tests()
