"""The private partitioner, and what it says of its plans."""

import functools
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from acknap import _config
from acknap._budget import Request
from acknap._release import installed
from acknap._report import Report, current_graph

_CHECKPOINTING = "_activation_checkpointing"
# Plans of larger graphs are not simulated for the report alone.
_MOST_NODES = 20_000

# Where the plans of a call of `partition` are told.
_telling: ContextVar[tuple[Request, list[Report]] | None] = ContextVar(
    "acknap telling", default=None
)


def partition(
    request: Request, gm: Any, joint_inputs: Any, **keywords: Any
) -> tuple[Any, Any, list[Report]]:
    """Part a joint graph into forward and backward within a budget.

    Args:
        request: The budget.
        gm: The joint graph's module.
        joint_inputs: Its inputs.
        keywords: What PyTorch hands to its own partitioner.

    Returns:
        Forward, backward, and a report for each plan: none where there was nothing to
        choose.
    """
    reports: list[Report] = []
    token = _telling.set((request, reports))
    try:
        with _config.patch(**request.options()):
            forward, backward = _partitioners().min_cut_rematerialization_partition(
                gm, joint_inputs, **keywords
            )
    finally:
        _telling.reset(token)
    return forward, backward, reports


@functools.cache
def _partitioners() -> ModuleType:
    """The private module, whose choice is told to `partition`."""
    module = installed().module("partitioners")
    choose = module.choose_saved_values_set

    @functools.wraps(choose)
    def choose_and_tell(
        joint_graph: Any, node_info: Any, *rest: Any, **more: Any
    ) -> Any:
        saved = choose(joint_graph, node_info, *rest, **more)
        if (telling := _telling.get()) is not None:
            request, reports = telling
            reports.append(_describe(request, joint_graph, node_info, saved))
        return saved

    module.choose_saved_values_set = choose_and_tell  # type: ignore[attr-defined]
    return module


def _describe(request: Request, graph: Any, node_info: Any, saved: Any) -> Report:
    """Tell a plan: what the planner says, and the peak if it does not say that."""
    details = graph._memory_budget_report
    storages = installed().module(f"{_CHECKPOINTING}.saved_storages")
    peak, filled_by = details.get("Planned Peak Bytes"), details.get("Peak Filled By")
    recomputed = None
    if (schedule := _schedule(graph, node_info)) is not None:
        bases = schedule.get_saved(saved)
        recomputed = _count_recomputed(schedule, bases)
        if peak is None:
            peak, filled_by = _simulate(schedule, bases)
    return Report(
        graph=current_graph(),
        asked=_asked(request, details),
        way=_way(details),
        limit=details.get("Target Peak Bytes"),
        peak=peak,
        saved=storages.SavedStorages(node_info).count(saved),
        recomputed=recomputed,
        filled_by=filled_by or {},
        details=dict(details),
    )


def _asked(request: Request, details: dict[str, Any]) -> str:
    """The budget, and that of a region of the model that is planned instead."""
    share = details["Memory Budget"]
    if request.limit is None and share not in (request.share, 1e-300):
        return f"{request.asked}, by the model {share:g}"
    return request.asked


def _way(details: dict[str, Any]) -> str:
    if details.get("Memory Budget") == 1:
        return "default plan: the budget is 1"
    return str(details["Branch"])


def _schedule(graph: Any, node_info: Any) -> Any:
    """The planner's schedule of a graph; None if it is too large, or has none."""
    schedules = installed().module(f"{_CHECKPOINTING}.joint_schedule")
    if len(graph.nodes) > _MOST_NODES:
        return None
    try:
        return schedules.JointSchedule(graph, node_info)
    except schedules.UnsupportedGraphError:
        return None


def _count_recomputed(schedule: Any, bases: set[int]) -> int:
    """How many operators of the forward the backward runs if some bases are saved."""
    first = schedule.steps[0]
    return sum(
        i < first and schedule.nodes[i].op == "call_function"
        for i in schedule.get_run(bases)
    )


def _simulate(schedule: Any, bases: set[int]) -> tuple[int, dict[str, int]]:
    """The peak, and what fills it, if some bases are saved."""
    timelines = installed().module(f"{_CHECKPOINTING}.peak_memory")
    timeline = timelines.Timeline(schedule, [0.0] * len(schedule.nodes), bases)
    return timeline.peak, timeline.describe_peak()
