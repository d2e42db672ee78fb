# Owner(s): ["module: functorch"]
"""What changes a plan for a memory budget is in the key of the AOTAutograd cache.

Each compilation is a fresh process; all have one folder of caches.
"""

import json
import os
import subprocess
import sys
import tempfile

import torch
from torch.testing._internal.common_utils import run_tests, TestCase


WORK = "work"  # the argument that makes this file a process that compiles


def work(options):
    """Compiles a step and says whether a cache had it."""
    import torch._functorch.config as config
    from torch._dynamo.utils import counters

    torch.manual_seed(0)
    x, a, b = (torch.rand(8, 8, requires_grad=True) for _ in range(3))

    def function(x, a, b):
        return ((x @ a).sin() @ b).cos().sum()

    with config.patch(
        enable_autograd_cache=True, activation_memory_budget=0.4, **options
    ):
        loss = torch.compile(function)(x, a, b)
        loss.backward()
    found = counters["aot_autograd"]
    print(
        json.dumps(
            {
                "hit": found["autograd_cache_hit"],
                "miss": found["autograd_cache_miss"],
                "bypass": found["autograd_cache_bypass"],
            }
        )
    )


class TestCacheKey(TestCase):
    def setUp(self):
        super().setUp()
        # Its import compiles a file to see whether it can.
        from torch.testing._internal.inductor_utils import HAS_CPU

        if not HAS_CPU:
            self.skipTest("Inductor needs a C++ compiler for the CPU")

    def compile_in_turn(self, *runs):
        """Whether each of some compilations was served from the cache."""
        hits = []
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
            for options in runs:
                output = subprocess.check_output(
                    [sys.executable, __file__, WORK, json.dumps(options)],
                    env=environment,
                    text=True,
                )
                found = json.loads(output.splitlines()[-1])
                self.assertEqual(found["bypass"], 0)
                self.assertEqual(found["hit"] + found["miss"], 1)
                hits.append(found["hit"] == 1)
        return hits

    def test_solver_and_estimator(self):
        hits = self.compile_in_turn(
            {},
            {"activation_memory_budget_solver": "greedy"},
            {"activation_memory_budget_runtime_estimator": "testing"},
        )
        self.assertEqual(hits, [False, False, False])


if __name__ == "__main__":
    if sys.argv[1:2] == [WORK]:
        work(json.loads(sys.argv[2]))
    else:
        run_tests()
