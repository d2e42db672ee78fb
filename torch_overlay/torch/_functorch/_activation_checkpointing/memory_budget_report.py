"""Says what was asked of a memory budget, what was planned, and what was delivered."""

import logging
import math
from collections.abc import Sequence

import torch.fx as fx


# The partitioner's, so that one name shows all.
log: logging.Logger = logging.getLogger("torch._functorch.partitioners")


def report_plan(joint_graph: fx.Graph) -> None:
    """Writes one line on the plan of a graph.

    Args:
        joint_graph: Its ``_memory_budget_report`` is a dictionary of what is said. The
            structured trace of ``debug_partitioner`` holds the same.
    """
    report = joint_graph._memory_budget_report  # type: ignore[attr-defined]
    words = ", ".join(
        f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in report.items()
    )
    log.info("activation memory budget: %s", words)


def knapsack_upper_bound(
    memory: Sequence[float], runtimes: Sequence[float], max_memory: float
) -> float:
    """No set of items within max_memory has a larger total runtime (Dantzig, 1957).

    Args:
        memory: The memory of each item.
        runtimes: The runtime of each item.
        max_memory: The capacity, in the unit of ``memory``.

    Time: n log n.
    """
    bound = 0.0
    items = sorted(
        zip(memory, runtimes),
        key=lambda item: item[1] / item[0] if item[0] else math.inf,
        reverse=True,
    )
    for size, runtime in items:
        if size > max_memory:
            return bound + runtime * max_memory / size
        bound += runtime
        max_memory -= size
    return bound
