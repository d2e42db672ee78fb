"""Plans of one joint graph, by the way that they are made, and plans that beat others.

Runs inside an environment with torch, stock or patched.
"""

import math
import time
from typing import Any

import torch._functorch.partitioners as partitioners
from torch._functorch import config

from acknap.inside.models.joint_graphs import Joint
from acknap.inside.models.partition import OBJECTIVE, options
from acknap.inside.models.records import Row
from acknap.inside.peaks.emitted import Emitted

BY_PEAK = hasattr(config, OBJECTIVE)  # the series is in this torch
BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
STEPS = 40  # of budgets for the peak


def plan(joint: Joint, way: str, budget: float) -> Row:
    """Plan a joint graph.

    Args:
        joint: The graph.
        way: A solver, dp or exact, or `peak`, or `default` for none.
        budget: From 0 to 1; of the peak if that is the way.

    Returns:
        The way, the budget, the seconds that it took, and the values that are saved;
        of a plan by its peak also what was promised, the limit and the lowest peak.
    """
    chosen = options()
    chosen["activation_memory_budget_solver"] = "exact" if way == "exact" else "dp"
    if way == "peak":
        chosen[OBJECTIVE] = "peak"
    start = time.process_time()
    with config.patch(chosen):
        saved = partitioners.choose_saved_values_set(*joint, memory_budget=budget)
    seconds = time.process_time() - start
    row = {"way": way, "budget": budget, "seconds": seconds, "saved": list(saved)}
    if way == "peak":
        report: Any = joint.graph._memory_budget_report
        row |= {
            "promised": report["Planned Peak Bytes"],
            "limit": report["Target Peak Bytes"],
            "lowest": report["Lowest Peak Bytes"],
        }
    return row


def beat(emitted: Emitted, search: Any, row: Row) -> Row:
    """Plan for the peak of another plan, and for no more than what it recomputes.

    Args:
        emitted: Of the joint graph.
        search: As `one_search` found it.
        row: The other plan.

    Returns:
        The lowest peak at no more recomputation than the other's, the least
        recomputation at no higher peak (inf if there is none), and those of the other;
        of the first also its step.
    """
    frontier, schedule = search.planner.frontier, search.planner._schedule
    slack = len(schedule.nodes)  # an op without a formula counts one
    fast = (one for one in frontier.plans if one.runtime <= row["again"] + slack)
    plans = (("peak", next(fast, None)), ("again", frontier.find(row["peak"])))
    found = {
        "way": f"peak for {row['way']}",
        "budget": row["budget"],
        "of_peak": row["peak"],
        "of_again": row["again"],
        "total": row["total"],
    }
    for key, one in plans:
        saved = schedule.get_saved_values(one.saved) if one else None
        found[key] = emitted.measure(saved)[key] if saved else math.inf
        if saved and key == "peak":
            found["step"] = emitted.follow(saved)
    return found
