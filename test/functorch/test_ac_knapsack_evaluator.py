# Owner(s): ["module: functorch"]
"""The peak that KnapsackEvaluator finds in a simulated backward."""

import itertools
import random

from torch._functorch._activation_checkpointing.graph_info_provider import (
    GraphInfoProvider,
)
from torch._functorch._activation_checkpointing.knapsack_evaluator import (
    KnapsackEvaluator,
)
from torch.testing._internal.common_utils import run_tests, TestCase


def evaluator(memories, edges):
    """Of a graph whose nodes are all recomputable."""
    names = [f"node{i}" for i in range(len(memories))]
    return KnapsackEvaluator(
        GraphInfoProvider(
            graph_nodes_in_order=names,
            graph_edges=[(names[a], names[b]) for a, b in edges],
            all_recomputable_banned_nodes=names,
            recorded_knapsack_input_memories=memories,
            recorded_knapsack_input_runtimes=[1.0] * len(names),
        )
    )


class TestKnapsackEvaluator(TestCase):
    def test_a_saved_predecessor_is_not_recomputed(self):
        """From issue 196914: counted once more, it made the peak 1.25."""
        chain = [(0, 1), (1, 2)]
        found = evaluator([0.25, 0.5, 0.25], chain).evaluate_knapsack_output(
            [1], [0, 2], account_for_backward_pass=True
        )
        # The saved one, beside the last one while it is computed.
        self.assertEqual(found["peak_memory"], 0.75)

    def test_memory_ends_at_nothing(self):
        """Whatever is saved: each node is freed as often as it is counted."""
        rng = random.Random(1)
        for _ in range(100):
            n = rng.randint(2, 8)
            memories = [float(rng.randint(1, 9)) for _ in range(n)]
            edges = [
                (a, b)
                for a, b in itertools.combinations(range(n), 2)
                if rng.random() < 0.4
            ]
            saved = [i for i in range(n) if rng.random() < 0.5]
            made = evaluator(memories, edges)
            provider = made._graph_info_provider
            steps = made._get_backward_memory_from_topologically_sorted_graph(
                provider.recomputable_node_only_graph_with_larger_graph_context,
                provider.all_node_memories,
                {f"node{i}" for i in saved},
                sum(memories[i] for i in saved),
            )
            self.assertEqual(steps[-1][0], 0.0)


if __name__ == "__main__":
    run_tests()
