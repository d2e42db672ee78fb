"""Chooses what the forward saves so that the peak of a training step is bounded."""

import logging
import math
from collections.abc import Hashable

import torch
import torch.fx as fx
from torch._functorch import config, partitioners
from torch._functorch._activation_checkpointing.joint_schedule import (
    is_mutable,
    JointSchedule,
    UnsupportedGraphError,
)
from torch._functorch._activation_checkpointing.peak_memory import Timeline
from torch._functorch._activation_checkpointing.peak_planner import (
    get_waists,
    PeakPlan,
    PeakPlanner,
)
from torch._functorch._activation_checkpointing.random_ops import is_random
from torch._functorch._activation_checkpointing.saved_storages import SavedStorages
from torch._functorch.partitioners import (
    get_runtime,
    MinCutOptions,
    must_recompute,
    must_save,
    NodeInfo,
    solve_min_cut,
)
from torch._logging import trace_structured
from torch.utils.flop_counter import flop_registry


# The partitioner's, so that one name shows all.
log: logging.Logger = logging.getLogger("torch._functorch.partitioners")

# Every so manyth waist of the forward is saved by a plan that the search starts from.
_STEPS = (1, 2, 4, 8)


def bounds_peak(memory_budget: float) -> bool:
    """Whether a plan is made for its peak, and not for what it saves.

    Raises:
        RuntimeError: If an option has a value that it cannot have.
    """
    objective = config.activation_memory_budget_objective
    if objective not in ("saved", "peak"):
        raise RuntimeError(f"Not aware of memory budget objective: {objective}")
    limit = config.activation_memory_budget_bytes
    if limit is None:
        return objective == "peak" and memory_budget != 1
    if type(limit) is not int or limit < 0:
        raise RuntimeError(
            "activation_memory_budget_bytes is a number of bytes, as an int that is "
            f"not negative, or None. The provided value is {limit!r}"
        )
    return True


def choose_saved_values_by_peak(
    joint_graph: fx.Graph, node_info: NodeInfo, memory_budget: float
) -> list[fx.Node]:
    """Chooses what the forward saves for the backward.

    With ``config.activation_memory_budget_bytes`` no more bytes are live at once than
    that; else no more than the lowest peak that was found, plus the budget times what
    the default plan's peak is higher. Of the plans that were found, this is the one
    that recomputes the least. Where none has such a low peak, it is the one with the
    lowest, with a warning.

    Args:
        joint_graph: The joint graph of forward and backward. What was decided is put
            into its ``_memory_budget_report``.
        node_info: The partitioner's ``NodeInfo`` of it.
        memory_budget: From 0, the lowest peak, to 1, that of the default plan.

    Returns:
        The saved values in the order of the graph.

    Time: three min-cuts; the search's work is bounded.
    """
    if memory_budget > 1 or memory_budget < 0:
        raise RuntimeError(
            "The valid ranges for memory budget are 0 <= m <= 1. The provided value is "
            f"{memory_budget}"
        )
    default = partitioners._choose_saved_values_set(joint_graph, node_info)
    try:
        schedule = JointSchedule(joint_graph, node_info)
    except UnsupportedGraphError:
        joint_graph._memory_budget_report = {  # type: ignore[attr-defined]
            "Branch": "default plan: the gradients do not come after the forward"
        }
        return default
    search = _Search(joint_graph, node_info, schedule, default)
    limit = config.activation_memory_budget_bytes
    lowest, highest = search.lowest.peak, search.default.peak
    target = limit
    if target is None:
        target = lowest + int(memory_budget * (highest - lowest))
    plan = search.planner.frontier.find(min(target, highest)) or search.lowest
    timeline = Timeline(schedule, search.runtime, plan.saved)
    filled_by = timeline.describe_peak()
    report = {
        "Memory Budget": memory_budget if limit is None else f"{limit} bytes",
        "Branch": "peak",
        "Target Peak Bytes": target,
        "Planned Peak Bytes": plan.peak,
        "Lowest Peak Bytes": lowest,
        "Default Peak Bytes": highest,
        "Recomputed Runtime": plan.runtime,
        "Default Recomputed Runtime": search.default.runtime,
        "Forward Runtime": sum(search.runtime[i] for i in schedule.forward),
        "Peak Filled By": filled_by,
    }
    joint_graph._memory_budget_report = report  # type: ignore[attr-defined]
    trace_structured(
        "artifact",
        metadata_fn=lambda: {
            "name": "activation_memory_budget_peak",
            "encoding": "json",
        },
        payload_fn=lambda: report,
    )
    if plan.peak > target:
        words = ", ".join(f"{size} of {kind}" for kind, size in filled_by.items())
        log.warning(
            "activation_memory_budget_bytes is %d, and the lowest peak that was found "
            "for a graph is %d bytes (%s): that plan is used.",
            target,
            plan.peak,
            words,
        )
    return schedule.get_saved_values(plan.saved)


class _Search:
    """Plans of a joint graph, found from several starts.

    Attributes:
        runtime: For each base what it costs to compute it again.
        planner: Has the plans.
        default: The default plan, whose base tensors are saved, not views.
        lowest: The plan with the lowest peak.
    """

    def __init__(
        self,
        joint_graph: fx.Graph,
        node_info: NodeInfo,
        schedule: JointSchedule,
        default: list[fx.Node],
    ) -> None:
        # As without a budget, but what is cheap to recompute is recomputed ...
        options = MinCutOptions(
            ban_if_used_far_apart=False,
            ban_if_long_fusible_chains=False,
            ban_if_materialized_backward=False,
            ban_if_not_in_allowlist=False,
            ban_if_reduction=config.ban_recompute_reductions,
        )
        aggressive, _ = solve_min_cut(joint_graph, node_info, options)
        # ... and reductions, too, with what is saved weighed in bytes.
        options.ban_if_reduction = False
        options.price = SavedStorages(node_info).price
        least, _ = solve_min_cut(joint_graph, node_info, options)

        self._schedule = schedule
        first = schedule.get_saved(default)
        self._default_run = schedule.get_run(first)
        self._is_bound = [
            schedule.is_step(i) and _is_bound(node)
            for i, node in enumerate(schedule.nodes)
        ]
        self.runtime = self._estimate()
        savable = schedule.needed.intersection(schedule.forward)
        can_save = [
            i in savable and bool(schedule.makes[i]) and not must_recompute(node)
            for i, node in enumerate(schedule.nodes)
        ]
        self.planner = PeakPlanner(schedule, self.runtime, self._is_bound, can_save)
        self.default = self.planner.descend(first)
        waists, lasting = get_waists(schedule)
        # Few waists make long chains to recompute, many are much to save.
        starts = [
            lasting.union(waists[i::n]) for n in _STEPS for i in sorted({0, n // 2})
        ]
        starts += [schedule.get_saved(plan) for plan in (aggressive, least)]
        for saved in starts:
            start = self._complete(saved)
            if start is not None:
                self.planner.descend(start)
        self.planner.explore()
        self.lowest: PeakPlan = self.planner.frontier.plans[0]

    def _complete(self, saved: set[int]) -> set[int] | None:
        """A start that runs just what is bound that the default plan does, or None."""
        schedule = self._schedule
        saved = {b for b in saved if not must_recompute(schedule.nodes[b])}
        run: set[int] = set()
        stack = list(schedule.roots)
        while stack:
            i = stack.pop()
            if i in saved or i in run:
                continue
            if self._is_bound[i] and i not in self._default_run:
                saved.add(i)
            else:
                run.add(i)
                stack.extend(schedule.reads[i])
        bound = {i for i in self._default_run if self._is_bound[i]}
        if not bound <= run:
            return None
        return {b for b in saved if schedule.makes[b]}

    def _estimate(self) -> list[float]:
        """The runtimes of what can be computed again.

        Where the estimator has no more than the shapes to go by, it is asked once for
        all nodes that look alike.
        """
        schedule = self._schedule
        known: dict[Hashable, float] = {}
        runtime = [0.0] * len(schedule.nodes)
        for i in schedule.needed:
            node = schedule.nodes[i]
            is_free = i >= schedule.steps[0] or not _is_op(node)
            if is_free or (self._is_bound[i] and not must_recompute(node)):
                continue
            key = _get_likeness(node)
            if key not in known:
                known[key] = get_runtime(node)
            if known[key] == math.inf:
                self._is_bound[i] = True
            else:
                runtime[i] = known[key]
        return runtime


def _is_op(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload)


def _is_bound(node: fx.Node) -> bool:
    """Whether the backward runs a node if the default plan does, and only then."""
    if node.op != "call_function":
        return False
    if must_save(node) or must_recompute(node) or is_random(node) or is_mutable(node):
        return True
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        is_collective = target.namespace == "_c10d_functional"
        return is_collective and not config.unsafe_allow_optimization_of_collectives
    return isinstance(target, torch._ops.HigherOrderOperator)


def _get_likeness(node: fx.Node) -> Hashable:
    """The same for nodes of which an estimator says the same."""
    estimator = config.activation_memory_budget_runtime_estimator
    if not isinstance(estimator, str):
        return node
    packet = getattr(node.target, "_overloadpacket", None)
    if estimator == "testing" or (estimator == "flops" and packet not in flop_registry):
        return None
    return node.target, _describe((node.args, node.kwargs))


def _describe(value: object) -> Hashable:
    if isinstance(value, fx.Node):
        value = value.meta.get("val")
    if isinstance(value, torch.Tensor):
        # Symbolic sizes can't be hashed.
        return str(value.shape), str(value.stride()), value.dtype, value.device
    if isinstance(value, (tuple, list)):
        return tuple(map(_describe, value))
    if isinstance(value, dict):
        return tuple((key, _describe(item)) for key, item in value.items())
    return str(value)
