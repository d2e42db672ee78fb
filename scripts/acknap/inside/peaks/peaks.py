"""The peak of the graphs that are emitted for plans, and what they compute again.

Runs inside an environment with torch, stock or patched::

    python -I -B peaks.py OUTPUT.jsonl [--packages DIR] [--models NAME...]

A line per model, way to plan and budget. Models that OUTPUT holds are left out. Plans
by the peak are held against those of stock torch, in stock.jsonl beside OUTPUT. Nothing
is computed with.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

# Isolated, Python does not look beside this file.
sys.path.append(str(Path(__file__).parents[3]))

from acknap.inside.known import PEAKS as MODELS
from acknap.inside.models import records
from acknap.inside.models.joint_graphs import trace
from acknap.inside.models.partition import versions
from acknap.inside.models.records import Row
from acknap.inside.peak_search import one_search
from acknap.inside.peaks.emitted import Emitted
from acknap.inside.peaks.plans import BUDGETS, BY_PEAK, STEPS, beat, plan


def rows(name: str, stock: list[Row]) -> Iterator[Row]:
    """Measure the plans of a model, and those against stock's and ours."""
    # The one with the most nodes: others are ends of it.
    joint = max(trace(MODELS[name]), key=lambda j: len(j.graph.nodes))
    emitted, others = Emitted(joint), list(stock)
    more = {"total": emitted.total, "nodes": len(joint.graph.nodes)} | versions()
    asked = [("exact" if BY_PEAK else "dp", budget) for budget in BUDGETS]
    asked += [("default", 1.0)] * BY_PEAK
    asked += [("peak", k / STEPS) for k in range(STEPS) if BY_PEAK]
    with one_search() as found:
        for way, budget in asked:
            row = plan(joint, way, budget)
            saved = row.pop("saved")
            row |= emitted.measure(saved) | more
            if way == "dp":
                row["step"] = emitted.follow(saved)
            yield row
            if way in ("exact", "default"):
                others.append(row)
        for row in others:
            if BY_PEAK:
                yield beat(emitted, found["search"], row) | more


if __name__ == "__main__":
    records.write(MODELS, rows)
