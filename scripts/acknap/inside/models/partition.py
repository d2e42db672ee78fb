"""What a partition is asked for, what its knapsack uses, and what it delivers.

Runs inside an environment with torch, stock or patched. Memory is a share of what a
budget is a share of: as released the bytes that the partition without a budget saves,
less the inputs' bytes; where the series counts storages, with exact and by the peak,
those that it keeps alive, less those of inputs.
"""

import gc
import importlib
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch._functorch.partitioners as partitioners
from torch._functorch import config

from acknap.inside.models.joint_graphs import Joint
from acknap.inside.models.live import Live
from acknap.inside.serve import FOLDER, code_hash
from acknap.inside.solvers import SOLVERS

# The option of the series to make and measure plans by the storages that they keep.
COUNTING = "activation_memory_budget_count_storages"
# The option of the series to plan for the peak of a step, and what we call that.
OBJECTIVE = "activation_memory_budget_objective"
PEAK = "peak"
_ESTIMATOR: dict[str, Any] = {"activation_memory_budget_runtime_estimator": "flops"}
# The names of the solvers in torch's configuration.
NAMES = {"hirschberg": "dp_knapsack_sliding_hirschberg"}

# memory, runtimes, capacity -> runtime, saved and recomputable items
Solver = Callable[[list[float], list[float], float], tuple[float, list[int], list[int]]]


def solvers() -> list[str]:
    """Return the solvers that this torch has, and exact, which it can be handed."""
    found = []
    for name, row in SOLVERS.items():
        with suppress(ImportError, AttributeError):
            if name != "exact":
                row.make()
            if row.listed:
                found.append(name)
    return found


def options() -> dict[str, Any]:
    """Return torch's options of what is measured by storages, with every solver."""
    return _ESTIMATOR | ({COUNTING: True} if hasattr(config, COUNTING) else {})


@cache
def versions() -> dict[str, str]:
    """Return what tells one torch from another in a record: release, and code."""
    digest = sha256(Path(partitioners.__file__).read_bytes() + code_hash().encode())
    return {"torch": torch.__version__, "code": digest.hexdigest()[:12]}


class _StatedError(Exception):
    """The knapsack was stated: there is no need to go on."""


class Graph:
    """A joint graph with its knapsack; cuts that no budget changes are made once.

    Attributes:
        nodes: The items' nodes; none if no budget reaches the knapsack.
        memory: The items' memory as the solver gets it.
        runtimes: What recomputing each costs, in floating point operations.
        exits: The ratios of the partitions that the partitioner tries before the
            knapsack; it takes the first that is below the budget.
        unbudgeted: What the partition without a budget saves beside inputs, as a share
            of what a budget is a share of; 0 if nothing can be saved.
        least, most: Bytes of a budget of 0 and of 1.
    """

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        # What the series counts storages with; None in released torch.
        self._own: Any = None
        self._sets: dict[str, Any] = {}
        self._costs: dict[Any, float] = {}
        # Of the series only: the plan that keeps as little alive as it can.
        self._least: list[Any] | None = None
        self._least_seconds = 0.0
        # What the last partition saves.
        self.saved: list[Any] = []
        self.nodes: list[Any] = []
        self.memory: list[float] = []
        self.runtimes: list[float] = []
        self.inputs = set(joint.node_info.inputs)
        start = time.process_time()
        self._state()
        self._base_seconds = time.process_time() - start - self._least_seconds
        sets = [cut[0] for cut in self._sets.values()]
        self.live = Live(joint.node_info, sets[0])
        self._released = _Unit(_size(joint.node_info.inputs), _size(sets[0]), _size)
        self._unit = self._released
        if self._own is not None:
            of = (self._own.count_inputs(sets[0]), self._own.count(sets[0]))
            self._unit = _Unit(*map(float, of), self._own.count)
        self.least, self.most = self._unit.least, self._unit.most
        self.exits = [self._unit.ratio(saved) for saved in sets[1:3]]
        own = _size(node for node in sets[0] if node not in self.inputs)
        self.unbudgeted = own / self._unit.size if self.nodes else 0.0

    def sizes(self) -> list[float]:
        """Return the items' bytes."""
        return [_size([node]) for node in self.nodes]

    def _state(self) -> None:
        """Let the partitioner state the knapsack."""

        def state(
            _: Any, memory: list[float], runtimes: list[float], *rest: Any
        ) -> Any:
            self.memory, self.runtimes, self.nodes = memory, runtimes, rest[2]
            raise _StatedError

        # A budget that only an empty partition would keep.
        with config.patch(options()), suppress(_StatedError):
            self._part(1e-12, state, self._cut)

    def measure(
        self, solver: str, budget: float, function: Solver | None = None
    ) -> dict[str, Any]:
        """Part the graph with one solver and budget.

        Args:
            solver: The name, short or in torch's configuration; of the series also
                `PEAK`, for which the budget is of the peak.
            budget: The share of memory that is asked for.
            function: Called in place of the solver of that name. A callable in the
                configuration would not do: it gets no runtimes, and from 2.12 on has
                to be of a class of torch's.

        Returns:
            A record, see benchmarks/SCHEMA.md.
        """
        solve: Callable[..., Any] = partitioners._optimize_runtime_with_given_memory
        plans: list[Any] = []
        spent = {"solve_seconds": 0.0, "cut_seconds": 0.0}
        cuts = 0

        def solved(*arguments: Any) -> Any:
            start = time.process_time()
            found = function(*arguments[1:4]) if function else solve(*arguments)
            plans.append((arguments[1], found))
            spent["solve_seconds"] += time.process_time() - start
            return found

        def cut(*arguments: Any, **keywords: Any) -> Any:
            nonlocal cuts
            if not plans and not keywords:  # no budget changes what comes before
                if len(arguments) > 3:
                    spent["cut_seconds"] += self._least_seconds
                return self._cut(*arguments)
            start = time.process_time()
            found = self._solve_min_cut(*arguments, **keywords)
            spent["cut_seconds"] += time.process_time() - start
            cuts += 1
            return found

        with config.patch(_choice(solver)):
            counts = self._own is not None and (solver == PEAK or _counts())
            unit = self._unit if counts or not self._released.size else self._released
            self.saved = self._part(budget, solved, cut)
        record = {"solver": solver, "budget": budget, "knapsack_used": bool(plans)}
        record |= self._delivered(self.saved, unit)
        if counts and self._least is not None:
            record["least"] = self.live.share(self._least)
        if plans:
            memory, (_, kept, left) = plans[0]
            record["plan"] = sum(memory[i] for i in kept)
            record["plan_recomputed"] = sum(self.runtimes[i] for i in left)
            record |= {"solves": len(plans), "cuts": cuts, **spent}
            record["base_seconds"] = self._base_seconds
        return record

    def _delivered(self, saved: list[Any], unit: "_Unit") -> dict[str, float]:
        """Measure a saved set in four ways, and what it leaves to recompute."""
        own = [node for node in saved if node not in self.inputs]
        again = self.live.recomputed(saved)
        items = zip(self.nodes, self.runtimes, strict=True)
        return {
            "ratio": unit.ratio(saved),
            "bytes": _size(own) / unit.size,
            "storages": self.live.apart(own) / unit.size,
            "live": self.live.share(saved),
            "recomputed": sum(cost for node, cost in items if node in again),
        }

    def _cut(self, graph: Any, node_info: Any, options: Any, *rest: Any) -> Any:
        # The series prices nodes by a method of an object that is new each time.
        price: Any = getattr(options, "price", None)
        if price is not None:
            self._own = self._own or price.__self__
        plain = options if price is None else replace(options, price=None)
        key = repr((plain, price is None, *map(list, rest)))
        if key not in self._sets:
            start = time.process_time()
            self._sets[key] = self._solve_min_cut(graph, node_info, options, *rest)
            if rest:
                self._least = self._sets[key][0]
                self._least_seconds = time.process_time() - start
        return self._sets[key]

    def _estimate(self, node: Any) -> float:
        if node not in self._costs:
            self._costs[node] = self._estimate_runtime(node)
        return self._costs[node]

    def _part(
        self, budget: float, solve: Callable[..., Any], cut: Callable[..., Any]
    ) -> Any:
        """Let the partitioner work with functions of ours in the place of its own."""
        self._solve_min_cut: Any = partitioners.solve_min_cut
        self._estimate_runtime: Any = partitioners.estimate_runtime
        hooks: dict[str, Any] = {
            "solve_min_cut": cut,
            "estimate_runtime": self._estimate,
            "_optimize_runtime_with_given_memory": solve,
        }
        with (
            mock.patch.multiple(partitioners, **hooks),
            config.patch(_ESTIMATOR),
            _without_collector(),
        ):
            return partitioners.choose_saved_values_set(
                self.joint.graph, self.joint.node_info, memory_budget=budget
            )


def _choice(solver: str) -> dict[str, str]:
    if solver == PEAK:
        return {OBJECTIVE: "peak"}
    return {"activation_memory_budget_solver": NAMES.get(solver, solver)}


def _counts() -> bool:
    """Whether the series would plan by storages with the options that are set."""
    module = importlib.import_module(f"{FOLDER}.saved_storages")
    return bool(module.counts_storages())


class _Unit(NamedTuple):
    """What a budget is a share of: bytes of a budget of 0 and of 1, and of a plan."""

    least: float
    most: float
    bytes_of: Callable[[Iterable[Any]], float]

    @property
    def size(self) -> float:
        """What a share is a share of."""
        return self.most - self.least

    def ratio(self, saved: Iterable[Any]) -> float:
        """Return what a partition saves by the partitioner's own measure."""
        return (self.bytes_of(saved) - self.least) / self.size


def _size(nodes: Iterable[Any]) -> float:
    return float(sum(map(partitioners._size_of, nodes)))


@contextmanager
def _without_collector() -> Any:
    """Keep the garbage collector from running: it takes half of the time of a cut."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
