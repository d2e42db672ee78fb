# Owner(s): ["module: functorch"]
"""The runtime estimator that knows FLOPs and bytes."""

from unittest import mock

import torch
import torch._functorch.config as config
from torch._functorch import partitioners
from torch._functorch._activation_checkpointing.roofline import estimate_roofline
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


def function(x, a, table):
    y = x @ a
    z = y.t().sin() + y.t()
    return z.sum(1), table[torch.arange(4)].exp()


def capture(dtype=torch.float32):
    captured = []
    choose = partitioners.choose_saved_values_set

    def record(joint_graph, node_info, **_):
        captured.append((joint_graph, node_info))
        return choose(joint_graph, node_info, memory_budget=1)

    arguments = (
        torch.rand(64, 32, dtype=dtype, requires_grad=True),
        torch.rand(32, 16, dtype=dtype, requires_grad=True),
        torch.rand(1000, 8, dtype=dtype, requires_grad=True),
    )
    torch._dynamo.reset()
    with mock.patch.object(partitioners, "choose_saved_values_set", record):
        torch.compile(function, backend="aot_eager_decomp_partition")(*arguments)
    ((graph, info),) = captured
    return graph, info


def estimate(graph, name):
    """The estimate of the first op of a name."""
    for node in graph.nodes:
        packet = getattr(node.target, "_overloadpacket", None)
        if packet is not None and packet.__name__ == name:
            return estimate_roofline(node)
    raise AssertionError(name)


class TestRoofline(TestCase):
    # FLOPs and bytes per second; picoseconds are 1e12 of their quotients.
    @config.patch(activation_memory_budget_roofline=(1e12, 1e12))
    def test_arithmetic_bounds_a_product(self):
        graph, _ = capture()
        self.assertEqual(estimate(graph, "mm"), 2 * 64 * 32 * 16)

    @config.patch(activation_memory_budget_roofline=(1e15, 1e12))
    @parametrize("dtype", (torch.float32, torch.bfloat16))
    def test_traffic_bounds_what_is_elementwise(self, dtype):
        graph, _ = capture(dtype)
        size = dtype.itemsize
        self.assertEqual(estimate(graph, "sin"), 2 * 64 * 16 * size)
        self.assertEqual(estimate(graph, "add"), 3 * 64 * 16 * size)
        self.assertEqual(estimate(graph, "sum"), (64 + 1) * 16 * size)
        self.assertEqual(estimate(graph, "mm"), (64 * 32 + 32 * 16 + 64 * 16) * size)

    @config.patch(activation_memory_budget_roofline=(1e12, 1e12))
    def test_views_are_free(self):
        graph, _ = capture()
        self.assertEqual(estimate(graph, "permute"), 0)

    @config.patch(activation_memory_budget_roofline=(1e15, 1e12))
    def test_a_lookup_reads_what_it_returns(self):
        graph, _ = capture()
        self.assertEqual(estimate(graph, "index"), 2 * 4 * 8 * 4 + 4 * 8)

    def test_without_figures_ten_flops_weigh_a_byte(self):
        graph, _ = capture()
        moved = (64 * 32 + 32 * 16 + 64 * 16) * 4
        self.assertEqual(estimate(graph, "mm"), max(2 * 64 * 32 * 16, 10 * moved))

    @parametrize("given", ((0, 1), (1,), 5, ("a", "b"), (1, -1)))
    def test_figures_that_are_none_are_refused(self, given):
        graph, _ = capture()
        with config.patch(activation_memory_budget_roofline=given):
            with self.assertRaisesRegex(RuntimeError, "pair of positive numbers"):
                estimate(graph, "sin")

    def test_is_an_estimator_of_the_partitioner(self):
        graph, _ = capture()
        for node in graph.find_nodes(
            op="call_function", target=torch.ops.aten.sin.default
        ):
            with config.patch(activation_memory_budget_runtime_estimator="roofline"):
                self.assertEqual(
                    partitioners.get_runtime(node), estimate_roofline(node)
                )

    @parametrize("objective", ("saved", "peak"))
    def test_plans_are_made_with_it(self, objective):
        graph, info = capture()
        with config.patch(
            activation_memory_budget_runtime_estimator="roofline",
            activation_memory_budget_objective=objective,
            activation_memory_budget_solver="exact",
        ):
            saved = partitioners.choose_saved_values_set(graph, info, 0.3)
        self.assertTrue(saved)


instantiate_parametrized_tests(TestRoofline)

if __name__ == "__main__":
    run_tests()
