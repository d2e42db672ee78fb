# Owner(s): ["module: functorch"]
"""All ranks of a data-parallel training make the same plan, with every solver.

Each rank is a fresh process with a hash seed and a number of threads of its own.
"""

import contextlib
import copy
import functools
import json
import os
import subprocess
import sys
import tempfile
import unittest
from hashlib import sha256

from test_ac_budget_end_to_end import BACKEND, Decoder, recorded, tokens

import torch
import torch._functorch.config as config
import torch.distributed as dist
from torch._functorch._activation_checkpointing.knapsack_exact import (
    exact_knapsack,  # noqa: F401 - what the release lacks
)
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


SOLVERS = (
    "dp",
    "dp_knapsack_sliding_hirschberg",
    "dynamic_memory_budget_dp",
    "dynamic_memory_budget_exact",
    "exact",
    "greedy",
    "ilp",
)
BATCH = 4  # of all ranks together
WORK = "work"  # the argument that makes this file a rank
SECONDS = 300  # after which a launch has hung
# torchrun gives all ranks one environment; a shell gives each one its own.
SHELL = 'PYTHONHASHSEED=$RANK OMP_NUM_THREADS=$((RANK % 2 + 1)) exec "$0" "$@"'


def work(folder):
    """What a rank does: a step with each solver, and a file of what came out."""
    dist.init_process_group("gloo")
    results = {solver: step(solver) for solver in SOLVERS}
    results["setting"] = (os.environ["PYTHONHASHSEED"], torch.get_num_threads())
    with open(os.path.join(folder, f"{dist.get_rank()}.json"), "w") as file:
        json.dump(results, file)
    dist.destroy_process_group()


def step(solver):
    """One step on this rank's share of the batch."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    alone = Decoder(layers=2)
    model = copy.deepcopy(alone)
    batch = tokens(batch=BATCH)
    share = batch.chunk(dist.get_world_size())[dist.get_rank()]
    with (
        config.patch(
            activation_memory_budget=0.3,
            activation_memory_budget_runtime_estimator="flops",
            activation_memory_budget_solver=solver,
            enable_autograd_cache=False,
        ),
        recorded() as (solves, partitions),
    ):
        parallel = DistributedDataParallel(model)
        torch.compile(parallel, backend=BACKEND)(share).backward()
    alone(batch).backward()
    error = max(
        (p.grad - q.grad).abs().max().item() / q.grad.abs().max().item()
        for p, q in zip(model.parameters(), alone.parameters())
    )
    plans = [(p.saved, sorted(p.recomputed)) for p in partitions]
    digest = sha256(repr((solves, plans)).encode()).hexdigest()
    return {"asked": len(solves), "plan": digest, "gradient_error": error}


@functools.cache
def launch(ranks):
    """Runs `work` on so many ranks; returns torchrun's status, output and the files."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks)]
    command += ["--no-python", "sh", "-c", SHELL, sys.executable, __file__, WORK]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [*command, folder], stdout=log, stderr=subprocess.STDOUT
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS)
        finally:
            process.terminate()  # torchrun ends its ranks
            process.wait()
        log.seek(0)
        results = []
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name)) as file:
                results.append(json.load(file))
        return process.returncode, log.read(), results


@unittest.skipIf(
    not (dist.is_available() and dist.is_gloo_available()),
    "needs torch.distributed with gloo",
)
class TestDistributed(TestCase):
    def launch(self, ranks):
        status, output, results = launch(ranks)
        self.assertEqual(status, 0, output)
        self.assertEqual(len(results), ranks)
        return results

    @parametrize("ranks", [2, 4])
    def test_a_launch_of_ranks_that_differ(self, ranks):
        settings = [result["setting"] for result in self.launch(ranks)]
        self.assertEqual(settings, [[str(r), r % 2 + 1] for r in range(ranks)])

    @parametrize("ranks", [2, 4])
    @parametrize("solver", SOLVERS)
    def test_all_ranks_make_one_plan(self, solver, ranks):
        results = [result[solver] for result in self.launch(ranks)]
        self.assertGreaterEqual(results[0]["asked"], 1)
        self.assertEqual({result["plan"] for result in results}, {results[0]["plan"]})

    @parametrize("ranks", [2, 4])
    @parametrize("solver", SOLVERS)
    def test_gradients_are_those_of_one_process(self, solver, ranks):
        for result in self.launch(ranks):
            self.assertLess(result[solver]["gradient_error"], 1e-5)


instantiate_parametrized_tests(TestDistributed)

if __name__ == "__main__":
    if sys.argv[1:2] == [WORK]:
        work(sys.argv[2])
    else:
        run_tests()
