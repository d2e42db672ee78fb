"""Plans of a user's model, by the way that they are made; nothing is computed with.

Runs inside an environment with torch, stock or patched.
"""

import hashlib
from typing import Any

import torch
import torch._functorch.partitioners as partitioners
from torch import nn
from torch._functorch import config

from acknap.inside.by_hand.checkpointed import checkpoint_blocks
from acknap.inside.models.joint_graphs import Joint, trace
from acknap.inside.models.live import Live
from acknap.inside.models.named import ModelError
from acknap.inside.models.partition import OBJECTIVE, PEAK
from acknap.inside.models.records import Row
from acknap.inside.peaks.emitted import Emitted

NO_BUDGET, BY_HAND = "no budget", "by hand"


def options(way: str, budget: float) -> Row:
    """Return torch's options of a way to plan: all else is as torch has it by itself.

    Args:
        way: A solver, `PEAK`, `NO_BUDGET` or `BY_HAND`.
        budget: From 0 to 1; of the peak if that is the way.
    """
    if way in (NO_BUDGET, BY_HAND):
        return {"activation_memory_budget": 1.0}
    if way == PEAK:
        return {"activation_memory_budget": budget, OBJECTIVE: PEAK}
    solver = {"activation_memory_budget_solver": way}
    return {"activation_memory_budget": budget, **solver}


class Plans:
    """The joint graphs of a model, and how each plan of all of them measures.

    Attributes:
        graph: Tells the graphs from others: a digest of their nodes and shapes.
    """

    def __init__(self, model: str) -> None:
        """Trace a model.

        Raises:
            ModelError: It cannot be built or traced, or has nothing to train.
        """
        self._model = model
        self._measured = [_Measured(joint) for joint in trace(model)]
        nodes = [node for one in self._measured for node in one.joint.graph.nodes]
        text = "\n".join(map(_line, nodes))
        self.graph = hashlib.sha256(text.encode()).hexdigest()[:12]

    def measure(self, way: str, budget: float) -> Row:
        """Plan all graphs, and measure what the partitioner emits for the plans.

        Returns:
            `live`, the bytes that stay alive after the forward, and `share`, these as a
            share of what a budget is a share of; `peak`, the most bytes that live at
            once in one of the graphs' forward and backward; `again`, what is computed
            again as a share of the forward's floating point operations.
        """
        found = self._measured if way != BY_HAND else self._checkpointed()
        with config.patch(options(way, budget)):
            rows = [one.measure(config.activation_memory_budget) for one in found]
        total = {key: sum(row[key] for row in rows) for key in rows[0]}
        unit = sum(one.unit for one in self._measured)
        least = sum(one.live.least for one in self._measured)
        return {
            "live": total["live"],
            "share": (total["live"] - least) / unit if unit else 0.0,
            "peak": max(row["peak"] for row in rows),
            "again": total["again"] / max(total["total"], 1),
        }

    def _checkpointed(self) -> list["_Measured"]:
        """Trace the model with each of its repeated blocks checkpointed."""
        count = 0

        def change(model: Any) -> None:
            nonlocal count
            count = checkpoint_blocks(model) if isinstance(model, nn.Module) else 0

        joints = trace(self._model, change=change)
        if not count:
            raise ModelError(f"{self._model}: it repeats no block")
        return [_Measured(joint) for joint in joints]


class _Measured:
    """One joint graph, with what a budget is a share of.

    Attributes:
        live: Counts the bytes that a plan keeps alive.
        unit: The bytes between a budget of 0 and one of 1.
    """

    def __init__(self, joint: Joint) -> None:
        self.joint = joint
        self._emitted = Emitted(joint)
        self.live = Live(joint.node_info, self._saved(1.0))
        self.unit = self.live.most - self.live.least

    def measure(self, budget: float) -> Row:
        saved = self._saved(budget)
        row = {"live": self.live.count(saved), "total": self._emitted.total}
        return row | self._emitted.measure(saved)

    def _saved(self, budget: float) -> list[Any]:
        choose: Any = partitioners.choose_saved_values_set
        return list(choose(*self.joint, memory_budget=budget))


def _line(node: Any) -> str:
    value = node.meta.get("val")
    shape = (value.dtype, *value.shape) if isinstance(value, torch.Tensor) else value
    inputs = [one.name for one in node.all_input_nodes]
    return f"{node.name} {node.op} {node.target} {inputs} {shape}"
