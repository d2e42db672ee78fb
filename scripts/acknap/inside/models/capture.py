"""Capture a model's knapsacks in one interpreter with torch, on request.

Reads one JSON request a line from standard input and answers each with one line on
standard output, as solvers.py does:

    {"op": "describe"}                       versions
    {"op": "capture", "model": "decoder"}    the knapsacks of its graphs
    {"op": "measure", "graph": 0, "solver": "dp", "budget": 0.3, "file": null}
    {"op": "peak", "graph": 0}               of the partition that was measured last

`file` holds a function exact_knapsack, which is called in place of the solver that the
partitioner would choose, and lies beside what it imports. The first folder on the
command line is worked in; all are searched for modules.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

# Isolated, Python does not look beside this file.
sys.path += [*sys.argv[2:], str(Path(__file__).parents[3])]

import torch

from acknap.inside.models.joint_graphs import trace
from acknap.inside.models.partition import Graph, Solver, solvers
from acknap.inside.peaks.emitted import Emitted
from acknap.inside.serve import FOLDER, answers_apart, serve, version

# A user's module hides all that is not loaded yet, as in a script of theirs.
os.chdir(sys.argv[1])
sys.path.insert(0, sys.argv[1])


class Worker:
    """The graphs of the captured model, and requests on them."""

    def __init__(self) -> None:
        self._graphs: list[Graph] = []

    def describe(self) -> dict[str, Any]:
        """Say what this environment has."""
        transformers = version("transformers")
        versions = {"torch": torch.__version__, "transformers": transformers}
        return {"solvers": solvers(), "versions": versions}

    def capture(self, model: str) -> dict[str, Any]:
        """Trace a model and return the knapsacks of its graphs."""
        self._graphs = [Graph(joint) for joint in trace(model)]
        return {"graphs": [_knapsack(graph) for graph in self._graphs]}

    def measure(
        self, graph: int, solver: str, budget: float, file: str | None
    ) -> dict[str, Any]:
        """Part one of the graphs with one solver and budget."""
        function = _exact_knapsack(Path(file)) if file else None
        return self._graphs[graph].measure(solver, budget, function)

    def peak(self, graph: int) -> dict[str, Any]:
        """Return the peak of one of the graphs as it was parted last."""
        parted = self._graphs[graph]
        emitted = Emitted(parted.joint)
        found = emitted.measure(parted.saved)
        again = found["again"] / max(emitted.total, 1)
        return {"peak": found["peak"], "again": again}


def _exact_knapsack(file: Path) -> Solver:
    """Import the solver as a module of this torch, which may lack it."""
    package: Any = importlib.import_module(FOLDER)
    if str(file.parent) not in package.__path__:
        package.__path__.append(str(file.parent))
    module: Any = importlib.import_module(f"{FOLDER}.{file.stem}")
    function: Solver = module.exact_knapsack
    return function


def _knapsack(graph: Graph) -> dict[str, Any]:
    more_aggressive, aggressive, *_ = (*graph.exits, None, None)
    return {
        "joint_nodes": len(graph.joint.graph.nodes),
        "exit_ratio_more_aggressive": more_aggressive,
        "exit_ratio_aggressive": aggressive,
        "min_act_GB": graph.least / 1e9,
        "max_act_GB": graph.most / 1e9,
        "unbudgeted": graph.unbudgeted,
        "memory": graph.memory,
        "runtimes": graph.runtimes,
        "bytes": graph.sizes(),
        "ops": [str(node.target) for node in graph.nodes],
    }


if __name__ == "__main__":
    answers = answers_apart()
    torch.set_num_threads(1)
    serve(Worker(), answers)
