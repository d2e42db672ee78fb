# Owner(s): ["module: functorch"]
"""What KnapsackEvaluator finds does not depend on the hash seed."""

import itertools
import json
import os
import random
import subprocess
import sys

from torch._functorch._activation_checkpointing.graph_info_provider import (
    GraphInfoProvider,
)
from torch._functorch._activation_checkpointing.knapsack_evaluator import (
    KnapsackEvaluator,
)
from torch.testing._internal.common_utils import run_tests, TestCase


WORK = "work"  # the argument that makes this file a process that evaluates


def evaluate(memories, edges, saved):
    """What is found for a graph whose nodes are all recomputable."""
    names = [f"node{i}" for i in range(len(memories))]
    provider = GraphInfoProvider(
        graph_nodes_in_order=names,
        graph_edges=[(names[a], names[b]) for a, b in edges],
        all_recomputable_banned_nodes=names,
        recorded_knapsack_input_memories=memories,
        recorded_knapsack_input_runtimes=[1 / (i + 3) for i in range(len(names))],
    )
    others = [i for i in range(len(memories)) if i not in saved]
    return KnapsackEvaluator(provider).evaluate_knapsack_output(
        saved, others, account_for_backward_pass=True
    )


def work():
    """Prints what is found for graphs with many topological orders."""
    rng = random.Random(0)
    found = []
    for _ in range(20):
        n = 12
        memories = [rng.random() for _ in range(n)]
        edges = [
            (a, b)
            for a, b in itertools.combinations(range(n), 2)
            if rng.random() < 0.15
        ]
        saved = sorted(rng.sample(range(n), 4))
        found.append(sorted(evaluate(memories, edges, saved).items()))
    print(json.dumps(found))


class TestOrder(TestCase):
    def test_the_hash_seed_changes_nothing(self):
        """Neither the peak nor the last digit of a sum; see issue 196512."""
        found = {
            subprocess.check_output(
                [sys.executable, __file__, WORK],
                env={**os.environ, "PYTHONHASHSEED": str(seed)},
                text=True,
            ).splitlines()[-1]
            for seed in range(2)
        }
        self.assertEqual(len(found), 1)


if __name__ == "__main__":
    if sys.argv[1:2] == [WORK]:
        work()
    else:
        run_tests()
