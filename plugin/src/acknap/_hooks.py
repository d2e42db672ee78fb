"""The smaller door: PyTorch's hooks for a solver and an estimator of runtimes.

For a torch whose partitioner is not known. PyTorch cuts the graph itself, then asks for
the runtime of each candidate and for the set to save.
"""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._inductor.custom_graph_pass import (
    CustomKnapsackSolver,
    CustomRuntimeEstimator,
)
from torch.utils._ordered_set import OrderedSet
from torch.utils.flop_counter import flop_registry

from acknap._budget import Budget, Objective, understand
from acknap._release import installed
from acknap._report import Report, current_graph, publish

log = logging.getLogger("acknap")

# How often a capacity is lowered until the plan fits.
_ROUNDS = 6
# Below every plan's share: PyTorch then asks the solver, which has its own capacity.
_ALWAYS_ASK = 1e-9


class Pair:
    """An exact plan within a budget of saved bytes.

    Args:
        budget: As for `Partitioner`. Bytes bound what the forward saves.
        objective: "peak" is not possible here; the share is one of saved bytes.
        tell: Gets the report of each plan.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        objective: Objective = "saved",
        tell: Callable[[Report], None] = publish,
    ) -> None:
        self.request = understand(budget, objective).at_compile()
        self.plans = 0
        self._tell = tell
        self.runtimes: dict[Any, float] = {}

    def options(self) -> dict[str, Any]:
        """The options of `torch._functorch.config`."""
        share = self.request.share
        return {
            "activation_memory_budget": _ALWAYS_ASK if share is None else share,
            "activation_memory_budget_solver": _Solver(self),
            "activation_memory_budget_runtime_estimator": _Estimator(self),
        }

    def uuid(self) -> tuple[str, ...]:
        """What decides on a plan, for the keys of the compile caches."""
        return (*installed().stamp(), repr(sorted(self.request.options().items())))

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Warn if no plan was asked for in the block."""
        before = self.plans
        yield
        if self.plans == before:
            log.warning(
                "budget %s: PyTorch asked for no plan: its own were small enough, or "
                "came from a cache, or nothing with a backward was compiled",
                self.request.asked,
            )

    def choose(
        self, memory: list[float], capacity: float, graph: Any, info: Any, nodes: Any
    ) -> list[int]:
        """The numbers of the nodes to save."""
        unit = _unit(memory, nodes)
        if self.request.limit is not None:
            capacity = self.request.limit / unit
        runtimes = [self.runtimes.get(node, 0.0) for node in nodes]
        saved = _solve(memory, runtimes, capacity)
        delivered = _cut(graph, info, nodes, saved)
        wanted = capacity * unit
        for _ in range(_ROUNDS):
            if delivered is None or delivered <= wanted:
                break
            # From what the set takes, not from what it may: else it can stay the same.
            capacity = sum(memory[i] for i in saved) - (delivered - wanted) / unit
            saved = _solve(memory, runtimes, max(capacity, 0.0))
            delivered = _cut(graph, info, nodes, saved)
        self.plans += 1
        self._tell(
            Report(
                graph=current_graph(),
                asked=self.request.asked,
                way=_way(delivered, wanted),
                saved=None if delivered is None else int(delivered),
                details={"Allowed Bytes": int(wanted)},
            )
        )
        return saved


def _way(delivered: float | None, wanted: float) -> str:
    if delivered is None:
        return "exact set by the documented hooks, its cut is not known"
    if delivered > wanted:
        return "exact set by the documented hooks, over the budget"
    return "exact set by the documented hooks"


class _Solver(CustomKnapsackSolver):
    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    def __call__(
        self,
        memory: list[float],
        joint_graph: Any,
        max_memory: float,
        node_info: Any,
        all_recomputable_banned_nodes: Any,
    ) -> tuple[list[int], list[int]]:
        nodes = all_recomputable_banned_nodes
        try:
            saved = self._pair.choose(memory, max_memory, joint_graph, node_info, nodes)
        except Exception as error:  # a compile that worked may not start to fail
            log.warning("no plan (%s): all that may be saved is saved", error)
            saved = list(range(len(nodes)))
        kept = set(saved)
        return saved, [i for i in range(len(nodes)) if i not in kept]

    def uuid(self) -> tuple[str, ...]:
        return self._pair.uuid()


class _Estimator(CustomRuntimeEstimator):
    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    def __call__(self, node: Any) -> float:
        runtime = self._pair.runtimes[node] = _estimate(node)
        return runtime

    def uuid(self) -> tuple[str, ...]:
        return self._pair.uuid()


def _estimate(node: Any) -> float:
    """The FLOPs of a node; one if PyTorch has no formula for it."""
    formula = flop_registry.get(getattr(node.target, "_overloadpacket", None))
    if formula is None:
        return 1.0
    values = torch.fx.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
    return float(max(1, formula(*values[0], **values[1], out_val=node.meta["val"])))


def _solve(memory: list[float], runtimes: list[float], capacity: float) -> list[int]:
    exact = installed().module("_activation_checkpointing.knapsack_exact")
    return list(exact.exact_knapsack(memory, runtimes, capacity)[1])


def _unit(memory: list[float], nodes: Any) -> float:
    """The bytes that a memory of 1 stands for."""
    for size, node in zip(memory, nodes, strict=True):
        value = node.meta.get("val")
        if size > 0 and isinstance(value, torch.Tensor):
            return float(value.numel() * value.element_size() / size)
    return math.inf


def _cut(graph: Any, info: Any, nodes: Any, saved: list[int]) -> float | None:
    """The bytes beyond the inputs that PyTorch's own cut saves; None if not known."""
    try:
        from torch._functorch import partitioners

        kept = {nodes[i] for i in saved}
        options = partitioners.MinCutOptions(*[False] * 5)
        recomputable = OrderedSet(node for node in nodes if node not in kept)
        values, _ = partitioners.solve_min_cut(graph, info, options, recomputable)
        size = partitioners._size_of
        return float(sum(map(size, values)) - sum(map(size, info.inputs)))
    except Exception as error:  # they are private, and this torch is not known
        log.info("the cut of a plan cannot be foreseen: %r", error)
        return None
