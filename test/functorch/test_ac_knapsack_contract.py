# Owner(s): ["module: functorch"]
"""What all knapsack solvers have in common: valid input, a feasible partition.

AC_KNAPSACK_FUZZ is the number of random instances per solver (default 400).
"""

import json
import math
import os
import random
import subprocess
import sys
import unittest
from fractions import Fraction

import torch
import torch._functorch.config as config
from torch._functorch import partitioners
from torch._functorch._activation_checkpointing.knapsack import (
    dp_knapsack,
    dp_knapsack_sliding_hirschberg,
    greedy_knapsack,
    ilp_knapsack,
)
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
    TEST_SCIPY,
    TestCase,
)


FUZZ = int(os.environ.get("AC_KNAPSACK_FUZZ", "400"))
# The quantization of the dp solvers: memory and budget are rounded to units.
UNITS = 10000
# What the rounding of the normalized memory is forgiven, relative to the budget.
SLACK = 1 + Fraction(1, 10**12)

# By the name that activation_memory_budget_solver knows
SOLVERS = {
    "dp": dp_knapsack,
    "dp_knapsack_sliding_hirschberg": dp_knapsack_sliding_hirschberg,
    "greedy": greedy_knapsack,
    "ilp": ilp_knapsack,
}
INF = math.inf
QUANTIZED = ("dp", "dp_knapsack_sliding_hirschberg")

every_solver = parametrize(
    "solver",
    [
        subtest(
            name,
            name="hirschberg" if "hirschberg" in name else name,
            decorators=[
                unittest.skipIf(
                    name == "ilp" and not TEST_SCIPY, "scipy is not installed"
                )
            ],
        )
        for name in SOLVERS
    ],
)

# Prints what every solver answers to the instances on its standard input.
REPLAY = """
import json, sys, torch
from torch._functorch._activation_checkpointing import knapsack
torch.set_num_threads(int(sys.argv[1]))
instances = json.load(sys.stdin)
answers = {}
for name in json.loads(sys.argv[2]):
    solver = getattr(knapsack, name)
    answers[name] = [solver(*instance) for instance in instances]
json.dump(answers, sys.stdout)
"""


def brute_force(weights, runtimes, capacity):
    """Largest total runtime of a set within the capacity, by enumeration."""
    sets = [(0, 0)]
    for weight, runtime in zip(weights, runtimes):
        sets += [(used + weight, value + runtime) for used, value in sets]
    return max(value for used, value in sets if used <= capacity)


def random_instance(rng):
    """At most 12 items: free, without runtime, equal, of one unit, over the budget."""
    n = rng.randint(0, 12)
    largest = rng.choice([1, 3, 30, 3000])
    memory = [rng.randint(0, largest) / UNITS for _ in range(n)]
    if rng.random() < 0.3:
        memory = [m * rng.random() for m in memory]
    runtimes = [rng.choice([0, 1, rng.randint(0, 50)]) for _ in range(n)]
    if rng.random() < 0.3:
        runtimes = [r * rng.random() for r in runtimes]
    budget = rng.choice([0.0, 0.5 * rng.random(), rng.random(), 1.0]) * sum(memory)
    return memory, runtimes, budget


class TestContract(TestCase):
    def solve(self, name, memory, runtimes, max_memory):
        """Solves a problem, checks the contract and returns the saved runtime."""
        runtime, saved, recomputable = SOLVERS[name](memory, runtimes, max_memory)
        self.assertEqual(sorted(saved + recomputable), list(range(len(memory))))
        if name in QUANTIZED:
            used = sum(round(memory[i] * UNITS) for i in saved)
            self.assertLessEqual(used, round(max_memory * UNITS))
        else:
            used = sum(Fraction(memory[i]) for i in saved)
            self.assertTrue(used <= Fraction(max_memory) * SLACK)
        value = math.fsum(runtimes[i] for i in saved)
        self.assertEqual(runtime, value, rtol=1e-14, atol=0)
        return value

    def check_optimum(self, name, memory, runtimes, max_memory):
        value = self.solve(name, memory, runtimes, max_memory)
        if name in QUANTIZED:
            units = [round(m * UNITS) for m in memory]
            best = brute_force(units, runtimes, round(max_memory * UNITS))
            self.assertEqual(value, best, rtol=1e-14, atol=0)
        elif name == "ilp":
            best = brute_force(map(Fraction, memory), runtimes, max_memory)
            # The solver's tolerance, in units of the largest runtime
            self.assertTrue(value >= best - 1e-11 * max(runtimes, default=0))

    @every_solver
    @parametrize(
        "memory,runtimes,max_memory,best",
        [
            subtest(([0.3, 0.2, 0.4, 0.1], [4, 3, 6, 1], 0.6, 9), name="some_fit"),
            subtest(([0.1] * 5, [5, 4, 3, 2, 1], 0.5, 15), name="all_fit_exactly"),
            subtest(([0.6, 0.7, 0.8], [7, 8, 9], 0.5, 0), name="none_fits"),
            subtest(([0.2, 0.5, 0.9], [4, 60, 600], 0.2, 4), name="one_fits"),
            subtest(([0.25] * 4, [7] * 4, 0.5, 14), name="equal_items"),
            subtest(([0.0, 0.3, 0.4], [2, 5, 6], 0.7, 13), name="free_item"),
            subtest(([0.2, 0.4, 0.6], [0, 5, 7], 0.6, 7), name="no_runtime"),
            subtest(([40, 50, 60], [8, 9, 11], 100, 19), name="not_normalized"),
            subtest(([0.25, 0.75, 1], [1.5, 2.5, 3.5], 1, 4), name="float_runtimes"),
            subtest(([], [], 0.4, 0), name="no_items"),
            subtest(([0.4, 0.5], [2, 3], 0, 0), name="no_budget"),
            subtest(([0, 0, 0], [4, 5, 6], 0, 15), name="free_items_without_budget"),
            subtest(([0.1, 0.2], [0, 0], 0.3, 0), name="no_runtimes"),
        ],
    )
    def test_fixed_case(self, solver, memory, runtimes, max_memory, best):
        value = self.solve(solver, memory, runtimes, max_memory)
        if solver == "greedy":
            self.assertLessEqual(value, best)
        else:
            self.assertEqual(value, best)

    @every_solver
    def test_random_instances_against_brute_force(self, solver):
        rng = random.Random(1)
        for _ in range(FUZZ):
            self.check_optimum(solver, *random_instance(rng))

    @every_solver
    def test_large_instance_is_feasible(self, solver):
        rng = random.Random(2)
        memory = [rng.random() / 100 for _ in range(300)]
        runtimes = [rng.randint(1, 1000) for _ in range(300)]
        for budget in (0.01, 0.3, 0.9):
            self.solve(solver, memory, runtimes, budget)

    @every_solver
    @parametrize("bad", [math.nan, -math.inf, -1.0, 10**400, 1 + 2j])
    @parametrize("argument", ["memory", "runtimes"])
    def test_number_without_meaning_is_named(self, solver, argument, bad):
        values = {"memory": [0.1, 0.2, 0.3], "runtimes": [1.0, 2.0, 3.0]}
        values[argument][1] = bad
        with self.assertRaisesRegex(ValueError, rf"{argument}\[1\]"):
            SOLVERS[solver](values["memory"], values["runtimes"], 0.5)

    @every_solver
    def test_infinite_memory_is_named(self, solver):
        with self.assertRaisesRegex(ValueError, r"memory\[1\]"):
            SOLVERS[solver]([0.1, math.inf], [1.0, 2.0], 0.5)

    @every_solver
    def test_number_is_converted_once(self, solver):
        class Once:
            calls = 0

            def __float__(self):
                self.calls += 1
                return 2.0 if self.calls == 1 else math.nan

        runtime, saved, _ = SOLVERS[solver]([0.1, 0.2], [1.0, Once()], 0.5)
        self.assertEqual((runtime, sorted(saved)), (3.0, [0, 1]))

    @every_solver
    @parametrize("number", [True, 3, torch.tensor(3), Fraction(3, 2)])
    def test_what_converts_to_a_float_is_a_number(self, solver, number):
        runtime, saved, _ = SOLVERS[solver]([0.2, 0.2], [1.0, number], 0.2)
        best = max(1.0, float(number))
        self.assertEqual(runtime, best)
        self.assertEqual(len(saved), 1)

    @every_solver
    def test_item_does_not_fit_however_large(self, solver):
        memory, runtimes = [1e300, 0.1, 1e308, 0.2], [5.0, 1.0, 6.0, 2.0]
        self.assertEqual(self.solve(solver, memory, runtimes, 0.5), 3.0)

    @every_solver
    @parametrize(
        "memory,runtimes,max_memory,best",
        [
            subtest(([0.1, 0.5, 0.4], [1, INF, 9], 0.5, [1]), name="fits"),
            subtest(([0.1, 0.6, 0.4], [1, INF, 9], 0.5, [0, 2]), name="too_large"),
            subtest(
                ([0.5, 0.125, 0.25, 0.25], [INF, 9, INF, INF], 0.625, [1, 2, 3]),
                name="most_of_them",
            ),
            subtest(([0.0, 0.5], [INF, 9], 0.0, [0]), name="free"),
            subtest(([0.1] * 6, [INF] * 5 + [1], 0.5, [0, 1, 2, 3, 4]), name="all"),
        ],
    )
    def test_infinite_runtime_comes_first(
        self, solver, memory, runtimes, max_memory, best
    ):
        runtime, saved, recomputable = SOLVERS[solver](memory, runtimes, max_memory)
        self.assertEqual(sorted(saved), best)
        self.assertEqual(sorted(saved + recomputable), list(range(len(memory))))
        self.assertEqual(runtime, sum(runtimes[i] for i in best))

    @every_solver
    @parametrize("bad", [math.nan, math.inf, -1.0])
    def test_budget_without_meaning_is_named(self, solver, bad):
        with self.assertRaisesRegex(ValueError, "max_memory"):
            SOLVERS[solver]([0.1], [1.0], bad)

    @every_solver
    @parametrize("lengths", [(2, 1), (1, 2), (0, 1)])
    def test_different_lengths_are_named(self, solver, lengths):
        memory, runtimes = ([0.1] * n for n in lengths)
        with self.assertRaisesRegex(ValueError, "memory and runtimes"):
            SOLVERS[solver](memory, runtimes, 0.5)

    @every_solver
    def test_numbers_whose_sum_overflows_are_valid(self, solver):
        self.solve(solver, [0.1, 0.2], [1e308, 1e308], 0.1)

    @every_solver
    def test_selected_by_name(self, solver):
        problem = [0.3, 0.2, 0.4, 0.1], [4, 3, 6, 1], 0.6
        with config.patch(activation_memory_budget_solver=solver):
            answer = partitioners._optimize_runtime_with_given_memory(
                None, *problem, None, []
            )
        self.assertEqual(answer, SOLVERS[solver](*problem))

    def test_unknown_name(self):
        with config.patch(activation_memory_budget_solver="no_such_solver"):
            with self.assertRaisesRegex(RuntimeError, "no_such_solver"):
                partitioners._optimize_runtime_with_given_memory(
                    None, [0.1], [1.0], 0.5, None, []
                )


# Prints how many threads the solvers start on a row of more than 32768 units.
THREADS = """
import os, random, torch
from torch._functorch._activation_checkpointing import knapsack
torch.set_num_threads(4)
rng = random.Random(0)
memory = [rng.randint(1, 40_000) / 10_000 for _ in range(40)]
runtimes = [m + 1 for m in memory]
before = len(os.listdir("/proc/self/task"))
for solver in (knapsack.greedy_knapsack, knapsack.dp_knapsack):
    solver(memory, runtimes, sum(memory) / 2)
print(len(os.listdir("/proc/self/task")) - before)
"""


@unittest.skipUnless(os.path.isdir("/proc/self/task"), "counts threads in /proc")
class TestThreads(TestCase):
    """No solve may wait for other threads: on a busy machine that takes long."""

    def test_no_thread_is_started(self):
        output = subprocess.run(
            [sys.executable, "-c", THREADS],
            env={**os.environ, "OMP_NUM_THREADS": "4"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        self.assertEqual(output.split(), ["0"])


class TestDeterminism(TestCase):
    """The same answers in processes of another hash seed and thread count."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rng = random.Random(3)
        cls.instances = [random_instance(rng) for _ in range(20)]
        memory = [rng.choice([1, 2, 8]) / 400 for _ in range(200)]
        runtimes = [rng.randint(1, 5) for _ in range(200)]
        cls.instances.append((memory, runtimes, 0.5))
        cls.names = [
            f.__name__ for f in SOLVERS.values() if f is not ilp_knapsack or TEST_SCIPY
        ]
        cls.answers = [cls.replay(threads=1, seed="1"), cls.replay(threads=2, seed="2")]

    @classmethod
    def replay(cls, threads, seed):
        process = subprocess.run(
            [sys.executable, "-c", REPLAY, str(threads), json.dumps(cls.names)],
            input=json.dumps(cls.instances),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(process.stdout)

    @every_solver
    def test_same_answer_in_every_process(self, solver):
        function = SOLVERS[solver]
        here = [list(function(*instance)) for instance in self.instances]
        for answers in self.answers:
            self.assertEqual(answers[function.__name__], here)


instantiate_parametrized_tests(TestContract)
instantiate_parametrized_tests(TestDeterminism)

if __name__ == "__main__":
    run_tests()
