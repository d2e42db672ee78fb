"""Solve knapsacks in one interpreter, on request. Runs inside a benchmark environment.

Standard library and what the environment holds only. Reads one JSON request a line from
standard input and answers each with one line on standard output:

    {"op": "describe"}                      which solvers there are, and versions
    {"op": "threads"}                       how many torch may use
    {"op": "load", "memory": [...], "runtimes": [...]}
    {"op": "solve", "solver": "dp", "budgets": [...], "number": 1, "limit": seconds}
    {"op": "batch", "solver": "dp", "problems": [[memory, runtimes, budget], ...]}
    {"op": "memory", "solver": "dp", "budgets": [...], "headroom": bytes or null}
    {"op": "compile", "file": "...", "solver": "dp", "budget": 0.3}
    {"op": "train", "steps": 5}             of the model that was compiled
    {"op": "price", "budget": 0.5}          runtime per unit of memory, by exact

Files named on the command line bring more solvers, in a table SOLVERS as below.
"""

import contextlib
import ctypes
import gc
import importlib
import math
import platform
import re
import resource
import runpy
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# Isolated, Python does not look beside this file.
sys.path.append(str(Path(__file__).parents[2]))

from acknap.inside.serve import FOLDER, answers_apart, code_hash, serve, version

PACKAGES = ("torch", "numpy", "scipy", "ortools")

Floats = list[float]
# The saved items, the runtime that the solver claims, an upper bound, and the items to
# recompute; None for what the solver does not return.
Answer = tuple[Sequence[int], float | None, float | None, Sequence[int] | None]
# (memory, runtimes, budgets, limit in seconds) -> one answer per budget
Solve = Callable[[Floats, Floats, Floats, float], list[Answer]]


class Solver(NamedTuple):
    """What all of the harness knows of a solver.

    Attributes:
        make: Gives the function that solves. It raises ImportError or AttributeError in
            an environment without it.
        title: Its name in tables, if it is not the one in records and commands.
        released: Whether the release has it, too.
        quantised: Whether it promises to keep the budget in units of 1/10,000, not the
            budget itself.
        listed: Whether tables of all solvers have it.
        answers: Whether it solves: a yardstick does not.
    """

    make: Callable[[], Solve]
    title: str = ""
    released: bool = True
    quantised: bool = False
    listed: bool = True
    answers: bool = True


def of_torch(module: str, name: str) -> Callable[[], Solve]:
    """Call a solver of torch once per budget."""

    def make() -> Solve:
        function: Any = getattr(importlib.import_module(f"{FOLDER}.{module}"), name)

        def solve(
            memory: Floats, runtimes: Floats, budgets: Floats, _: float
        ) -> list[Answer]:
            found = [function(memory, runtimes, budget) for budget in budgets]
            return [(saved, runtime, None, rest) for runtime, saved, rest in found]

        return solve

    return make


def prepared() -> Solve:
    """Prepare the items once, then ask for one budget after another."""
    module: Any = importlib.import_module(f"{FOLDER}.knapsack_exact")

    def solve(
        memory: Floats, runtimes: Floats, budgets: Floats, _: float
    ) -> list[Answer]:
        prepared = module.ExactKnapsack(memory, runtimes)
        plans = [prepared.solve(budget) for budget in budgets]
        return [(p.saved, p.runtime, p.upper_bound, p.recomputable) for p in plans]

    return solve


def sort_baseline() -> Solve:
    """Sort the items' ratios with torch: no solver, a yardstick for large n."""
    torch: Any = importlib.import_module("torch")

    def solve(
        memory: Floats, runtimes: Floats, budgets: Floats, _: float
    ) -> list[Answer]:
        columns = (torch.tensor(x, dtype=torch.float64) for x in (runtimes, memory))
        torch.sort(torch.div(*columns), descending=True)
        return [((), None, None, None)] * len(budgets)

    return solve


# A new solver is a row here and its function.
SOLVERS = {
    "dp": Solver(of_torch("knapsack", "dp_knapsack"), quantised=True),
    "hirschberg": Solver(
        of_torch("knapsack", "dp_knapsack_sliding_hirschberg"),
        "Hirschberg",
        quantised=True,
    ),
    "ilp": Solver(of_torch("knapsack", "ilp_knapsack")),
    "greedy": Solver(of_torch("knapsack", "greedy_knapsack")),
    "exact": Solver(of_torch("knapsack_exact", "exact_knapsack"), released=False),
    "prepared": Solver(prepared, released=False, listed=False),
    "sort": Solver(sort_baseline, listed=False, answers=False),
}


def available() -> dict[str, Solve]:
    """Return the solvers that this environment has."""
    found = {}
    rows = dict(SOLVERS)
    for file in sys.argv[1:]:
        rows |= runpy.run_path(file)["SOLVERS"]
    for name, row in rows.items():
        with contextlib.suppress(ImportError, AttributeError):
            found[name] = row.make()
    return found


def status(field: str) -> int:
    """Return a field of /proc/self/status in bytes."""
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {field}")
    return int(found[1]) * 1024


class Worker:
    """The loaded problem and the requests on it."""

    def __init__(self) -> None:
        self.solvers = available()
        self.problem: tuple[Floats, Floats] = ([], [])
        self.trainer: Any = None

    def describe(self) -> dict[str, Any]:
        """Say what this environment is."""
        torch = sys.modules.get("torch")
        return {
            "solvers": sorted(self.solvers),
            "code": code_hash(),
            "python": platform.python_version(),
            "git_version": torch.version.git_version if torch else None,
            "packages": {name: version(name) for name in PACKAGES},
        }

    def threads(self) -> dict[str, int]:
        """Say how many threads torch may use: the session's variables decide."""
        return {"threads": importlib.import_module("torch").get_num_threads()}

    def load(self, memory: Floats, runtimes: Floats) -> dict[str, Any]:
        """Take the problem of the requests that follow."""
        self.problem = (memory, runtimes)
        return {}

    def solve(
        self, solver: str, budgets: Floats, number: int, limit: float
    ) -> dict[str, Any]:
        """Solve ``number`` times without garbage collection; seconds are per time."""
        solve = self.solvers[solver]
        answers: list[Answer] = []
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        for _ in range(number):
            answers = solve(*self.problem, budgets, limit)
        seconds = (time.perf_counter() - start) / number
        gc.enable()
        return {"seconds": seconds, "answers": self._without_rest(answers)}

    def batch(
        self, solver: str, problems: list[tuple[Floats, Floats, float]]
    ) -> dict[str, Any]:
        """Solve many small problems; an answer is the saved items or an error."""
        answers: list[list[int] | str] = []
        for memory, runtimes, budget in problems:
            self.problem = (memory, runtimes)
            try:
                found = self.solvers[solver](memory, runtimes, [budget], math.inf)
                answers.append(list(self._without_rest(found)[0][0]))
            except Exception as error:  # a solver may raise anything
                answers.append(type(error).__name__)
        return {"answers": answers}

    def memory(
        self, solver: str, budgets: Floats, headroom: int | None
    ) -> dict[str, Any]:
        """Solve once and return how far the resident memory rose above its start.

        Pages of libraries that are read in for the first time do not count.
        """
        solve = self.solvers[solver]
        # Warm up, with items enough for whatever code a solver keeps for many.
        some = range(1000)
        weights = [(1 + i % 97) / 1e4 for i in some]
        solve(weights, [1.0 + i * 31 % 89 for i in some], [0.01], math.inf)
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        # Sets the peak, VmHWM, to the present size.
        Path("/proc/self/clear_refs").write_text("5")
        if headroom is not None:
            limit = status("VmSize") + headroom
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        files, before, start = status("RssFile"), status("VmHWM"), time.perf_counter()
        answers = solve(*self.problem, budgets, math.inf)
        seconds = time.perf_counter() - start
        return {
            "growth": status("VmHWM") - before - (status("RssFile") - files),
            "seconds": seconds,
            "answers": self._without_rest(answers),
        }

    def compile(self, file: str, solver: str, budget: float) -> dict[str, int]:
        """Compile a file's model; return the bytes that its forward pass saves."""
        self.trainer = runpy.run_path(file)["Trainer"](solver, budget)
        return {"saved_bytes": self.trainer.saved_bytes}

    def train(self, steps: int) -> dict[str, Any]:
        """Train that model on; seconds are per step."""
        start = time.perf_counter()
        losses = [self.trainer.step() for _ in range(steps)]
        seconds = (time.perf_counter() - start) / len(losses)
        return {"losses": losses, "seconds": seconds}

    def price(self, budget: float) -> dict[str, float]:
        """Return what a little more memory is worth at a budget."""
        module: Any = importlib.import_module(f"{FOLDER}.knapsack_exact")
        plan = module.ExactKnapsack(*self.problem).solve(budget)
        return {"price": plan.marginal_runtime}

    def _without_rest(self, answers: list[Answer]) -> list[Answer]:
        """Check that the items were parted in two, and keep the saved ones."""
        every = list(range(len(self.problem[0])))
        for saved, _, _, rest in answers:
            if rest is not None and sorted((*saved, *rest)) != every:
                raise ValueError("saved and recomputable are no partition of the items")
        return [(*answer[:3], None) for answer in answers]


def main() -> None:
    """Load what there is, then serve."""
    answers = answers_apart()
    worker = Worker()
    gc.collect()
    gc.freeze()  # what is loaded by now need not be looked through before every solve
    serve(worker, answers)


if __name__ == "__main__":
    main()
