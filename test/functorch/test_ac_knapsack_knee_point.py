# Owner(s): ["module: functorch"]
"""dynamic_memory_budget_exact chooses a budget with the exact solver."""

import operator
import random

import torch._functorch.config as config
from torch._functorch import partitioners
from torch._functorch._activation_checkpointing.graph_info_provider import (
    GraphInfoProvider,
)
from torch._functorch._activation_checkpointing.knapsack_evaluator import (
    KnapsackEvaluator,
)
from torch._functorch._activation_checkpointing.knapsack_exact import (
    exact_knapsack,
    ExactKnapsack,
)
from torch.fx.graph import Graph
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


def chain(n):
    """A joint graph of n recomputable nodes, one after the other."""
    graph = Graph()
    nodes = [graph.placeholder("x")]
    for _ in range(n):
        nodes.append(graph.call_function(operator.neg, (nodes[-1],)))
    graph.output(nodes[-1])
    return graph, nodes[1:]


def random_layers(rng):
    """Memory and runtimes of a few kinds of item that repeat."""
    kinds = [(rng.randint(1, 50), rng.randint(1, 10**9)) for _ in range(6)]
    items = kinds * 5
    total = sum(memory for memory, _ in items)
    return [memory / total for memory, _ in items], [float(r) for _, r in items]


class TestKneePoint(TestCase):
    def solve(self, name, memory, runtimes, max_memory):
        graph, nodes = chain(len(memory))
        with config.patch(activation_memory_budget_solver=name):
            return partitioners._optimize_runtime_with_given_memory(
                graph, memory, runtimes, max_memory, None, nodes
            )

    def knee_point(self, memory, runtimes, max_memory):
        """The budget that KnapsackEvaluator chooses, each budget solved anew."""
        graph, nodes = chain(len(memory))
        provider = GraphInfoProvider.inialize_from_graph(
            joint_graph=graph,
            all_recomputable_banned_nodes=nodes,
            recorded_knapsack_input_memories=memory,
            recorded_knapsack_input_runtimes=runtimes,
        )
        return KnapsackEvaluator(provider).get_knee_point_memory_budget(
            knapsack_algo=exact_knapsack, max_mem_budget=max_memory
        )

    @parametrize("max_memory", [0.1, 0.3, 0.6])
    @parametrize("seed", range(3))
    def test_set_is_the_optimum_at_the_knee_point(self, seed, max_memory):
        memory, runtimes = random_layers(random.Random(seed))
        knee = self.knee_point(memory, runtimes, max_memory)
        self.assertLessEqual(knee, max_memory)
        self.assertEqual(
            self.solve("dynamic_memory_budget_exact", memory, runtimes, max_memory),
            exact_knapsack(memory, runtimes, knee),
        )

    @parametrize("seed", range(3))
    def test_prepared_items_give_the_same_plans(self, seed):
        memory, runtimes = random_layers(random.Random(seed))
        prepared = ExactKnapsack(memory, runtimes)
        for percent in range(101):
            budget = percent / 100
            self.assertEqual(
                prepared.solve(budget)[:3], exact_knapsack(memory, runtimes, budget)
            )

    @parametrize("kind", ["dp", "exact"])
    def test_warning_names_the_solver(self, kind):
        memory, runtimes = random_layers(random.Random(0))
        name = f"dynamic_memory_budget_{kind}"
        with self.assertLogs(partitioners.log, "WARNING") as logs:
            self.solve(name, memory, runtimes, 0.3)
        self.assertIn(f"{name} is an experimental solver", logs.output[0])


instantiate_parametrized_tests(TestKneePoint)

if __name__ == "__main__":
    run_tests()
