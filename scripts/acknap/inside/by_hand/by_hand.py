"""Plans by the peak beside the checkpointing that people write by hand.

Runs inside an environment with torch, stock or patched::

    python -I -B by_hand.py OUTPUT.jsonl [--packages DIR] [--models NAME...]

Stock torch makes the plans of hand-made checkpointing, and those of its budgets; with
the series, plans of the model without checkpointing are held against those that lie in
stock.jsonl beside OUTPUT. Nothing is computed with.
"""

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Isolated, Python does not look beside this file.
sys.path.append(str(Path(__file__).parents[3]))

from acknap.inside.by_hand import checkpointed
from acknap.inside.known import BY_HAND as MODELS
from acknap.inside.models import records
from acknap.inside.models.joint_graphs import trace
from acknap.inside.models.partition import versions
from acknap.inside.models.records import Row
from acknap.inside.peak_search import one_search
from acknap.inside.peaks.emitted import Emitted
from acknap.inside.peaks.plans import BUDGETS, BY_PEAK, STEPS, plan


def rows(name: str, stock: list[Row]) -> Iterator[Row]:
    """Measure the plans of a model: hand-made and stock's, or ours against those."""
    (joint,) = trace(MODELS[name])
    emitted = Emitted(joint)
    more = {"total": emitted.total} | versions()
    with one_search() as found:
        if BY_PEAK:
            asked = [("peak", k / STEPS) for k in range(STEPS)]
        else:
            asked = [("dp", budget) for budget in BUDGETS]
        for way, budget in [*asked, ("default", 1.0)]:
            row = plan(joint, way, budget)
            yield row | emitted.measure(row.pop("saved")) | more
        for row in stock:
            if "by_hand" in row:
                yield _against(emitted, found["search"], row) | more
    if not BY_PEAK:
        for way in checkpointed.WAYS:
            yield _by_hand(MODELS[name], way) | more


def _by_hand(model: str, way: str) -> Row:
    """Measure the plan of a model that is checkpointed by hand."""
    (joint,) = trace(model, change=functools.partial(checkpointed.apply, way))
    row = plan(joint, "default", 1.0)
    return {"way": way, "by_hand": True} | Emitted(joint).measure(row["saved"])


def _against(emitted: Emitted, search: Any, row: Row) -> Row:
    """Return the plan with no higher peak than another, or the one with the lowest."""
    ours = search.planner.frontier.find(row["peak"]) or search.lowest
    saved = search.planner._schedule.get_saved_values(ours.saved)
    of = {"of_peak": row["peak"], "of_again": row["again"]}
    return {"way": f"peak for {row['way']}"} | of | emitted.measure(saved)


if __name__ == "__main__":
    records.write(MODELS, rows)
