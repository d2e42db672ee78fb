"""Bytes that stay alive after the forward because a plan saves something.

Runs inside an environment with torch, stock or patched. Counted here from the graph
alone, so that what torch itself counts can be checked against it.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch._functorch.partitioners as partitioners


class Live:
    """Counts what plans of one joint graph keep alive.

    A storage counts once, and in full if a view of it is saved. Parameters and buffers
    stay alive anyway and do not count, nor do saved values that no backward needs.

    Attributes:
        least: What a budget of 0 allows: the inputs that the default plan keeps alive.
        most: What a budget of 1 allows: all that it keeps alive.
    """

    def __init__(self, node_info: Any, default: Iterable[Any]) -> None:
        """Take the measure of a graph.

        Args:
            node_info: The partitioner's of the joint graph.
            default: What the plan without a budget saves.
        """
        self._goals = [n for n in node_info.required_bw_nodes if n.op != "output"]
        static = node_info.static_lifetime_input_nodes
        self._kept_anyway = {s for node in static for s in storages(node)}
        self._entering = {s for node in node_info.inputs for s in storages(node)}
        kept = self._kept(default)
        self.most = float(sum(kept.values()))
        self.least = float(sum(b for s, b in kept.items() if s in self._entering))

    def count(self, saved: Iterable[Any]) -> float:
        """Return the bytes that a plan keeps alive."""
        return float(sum(self._kept(saved).values()))

    def share(self, saved: Iterable[Any]) -> float:
        """Return the budget that a plan would need; 0 if no budget changes a thing."""
        unit = self.most - self.least
        return (self.count(saved) - self.least) / unit if unit else 0.0

    def apart(self, nodes: Iterable[Any]) -> float:
        """Return the bytes of storages behind some nodes, but for those of inputs."""
        found = {s: size for node in nodes for s, size in storages(node).items()}
        return float(sum(b for s, b in found.items() if s not in self._entering))

    def recomputed(self, saved: Iterable[Any]) -> set[Any]:
        """Return the nodes that the backward computes, those of the forward again."""
        return self._reached(saved) - set(saved)

    def _kept(self, saved: Iterable[Any]) -> dict[int, int]:
        saved = list(saved)
        needed = self._reached(saved)
        found: dict[int, int] = {}
        for node in saved:
            if node in needed:
                found |= storages(node)
        return {s: size for s, size in found.items() if s not in self._kept_anyway}

    def _reached(self, saved: Iterable[Any]) -> set[Any]:
        """Return what the backward reads, directly or to compute something again."""
        kept, reached = set(saved), set()
        todo = list(self._goals)
        while todo:
            node = todo.pop()
            if node not in reached:
                reached.add(node)
                if node not in kept:
                    todo.extend(node.all_input_nodes)
        return reached


def storages(node: Any) -> dict[int, int]:
    """Return the storages behind a node's tensors, with their bytes."""
    values = node.meta.get("val")
    found: dict[int, int] = {}
    for value in values if isinstance(values, tuple | list) else (values,):
        if isinstance(value, torch.Tensor):
            try:
                storage = value.untyped_storage()
            except (NotImplementedError, RuntimeError):  # sparse, or a wrapper
                found[id(node)] = int(partitioners._size_of(node))
                continue
            size = storage.nbytes()
            # A size that is a symbol: the tensor's, by its hint.
            known = isinstance(size, int)
            found[storage._cdata] = size if known else int(partitioners._size_of(node))
    return found
