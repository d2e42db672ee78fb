"""What lives while the graphs that are emitted for a plan run, and what runs again.

Runs inside an environment with torch, stock or patched. Nothing is computed with; what
lives is counted call by call, as an allocator would see it.
"""

import itertools
from functools import cache
from typing import Any

import torch
import torch._functorch.partitioners as partitioners

from acknap.inside.models.joint_graphs import Joint
from acknap.inside.models.live import storages
from acknap.inside.models.records import Row

PARTS = 400  # of a step, of which a picture shows the most bytes that live


class Emitted:
    """Measures the plans of one joint graph on what the partitioner emits for them."""

    def __init__(self, joint: Joint) -> None:
        self._joint = joint
        nodes = joint.graph.nodes
        (output,) = joint.graph.find_nodes(op="output")
        outputs = torch.utils._pytree.arg_tree_leaves(*output.args)
        gradients = _reading_tangents(joint.graph)
        # The backward's outputs begin with the first that depends on a tangent, and
        # those before it that are None; nothing else tells in every release.
        info = joint.node_info
        self._count = next(i for i, n in enumerate(outputs) if n in gradients)
        while self._count and outputs[self._count - 1] is None:
            self._count -= 1
        constants = [node for node in nodes if node.op == "get_attr"]
        static = [*info.static_lifetime_input_nodes, *constants]
        self._free = {s for node in static for s in storages(node)}
        entering = {s: size for n in info.inputs for s, size in storages(n).items()}
        self._entering = {s: b for s, b in entering.items() if s not in self._free}
        self._by_name = {node.name: node for node in nodes}
        self._forward = set(info.required_fw_nodes)
        self.total = sum(self._cost(node) for node in self._forward)

    def emit(self, saved: list[Any]) -> list[Any]:
        """Return the modules of the forward and the backward, as they would be run."""
        joint, sizes = self._joint, [n for n in saved if partitioners.is_sym_node(n)]
        forward, backward = partitioners._extract_fwd_bwd_modules(
            joint.graph.owning_module,
            [n for n in saved if n not in sizes],
            sizes,
            num_fwd_outputs=self._count,
            static_lifetime_input_nodes=joint.node_info.static_lifetime_input_nodes,
        )
        backward = partitioners.reordering_to_mimic_autograd_engine(backward)
        return [partitioners.raise_getitems(m) for m in (forward, backward)]

    def measure(self, saved: list[Any]) -> Row:
        """Return the most bytes that live, and the runtime that is spent again."""
        forward, backward = (module.graph for module in self.emit(saved))
        peak = max(map(max, self._live(forward, backward)))
        return {"peak": peak, "again": self._again(backward)}

    def follow(self, saved: list[Any]) -> Row:
        """Return what lives over a step, and the runtime that is spent again.

        Returns:
            `live`, the most bytes in each of `PARTS` parts of the step's calls,
            `forward`, how many parts the forward takes, and `again`.
        """
        graphs = [module.graph for module in self.emit(saved)]
        forward, backward = self._live(*graphs)
        calls = forward + backward
        bounds = [len(calls) * i // PARTS for i in range(PARTS + 1)]
        live = [max(calls[a : max(a + 1, b)]) for a, b in itertools.pairwise(bounds)]
        parts = PARTS * len(forward) // len(calls)
        return {"live": live, "forward": parts, "again": self._again(graphs[1])}

    def _again(self, backward: Any) -> float:
        computed = (self._by_name.get(n.name) for n in backward.nodes if _is_call(n))
        return sum(self._cost(n) for n in computed if n in self._forward)

    def _live(self, forward: Any, backward: Any) -> tuple[list[int], list[int]]:
        """Return the bytes that live at the start and each call of both graphs."""
        # The caller holds all inputs while the forward runs.
        held = sum(self._entering.values())
        apart = _live(forward, {*self._free, *self._entering})
        return [held + live for live in apart], _live(backward, self._free)

    @cache  # noqa: B019 -- as many nodes as the graph has
    def _cost(self, node: Any) -> float:
        if not _is_call(node) or not isinstance(node.target, torch._ops.OpOverload):
            return 0.0
        made = {*storages(node)}
        if not made or any(made <= {*storages(n)} for n in node.all_input_nodes):
            return 0.0
        return float(partitioners.estimate_runtime(node))


def _is_call(node: Any) -> bool:
    return bool(node.op == "call_function")


def _reading_tangents(graph: Any) -> set[Any]:
    found: set[Any] = set()
    for node in graph.nodes:
        is_tangent = node.op == "placeholder" and "tangents" in str(node.target)
        if is_tangent or not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _live(graph: Any, free: set[Any]) -> list[int]:
    """Return the bytes that live at the start and at each call.

    Values go after the last call that reads them.
    """
    readers = {node: len(node.users) for node in graph.nodes}
    holders: dict[Any, int] = {}
    alive = 0

    def hold(node: Any, by: int) -> None:
        nonlocal alive
        for storage, size in storages(node).items():
            if storage not in free:
                before = holders.get(storage, 0)
                holders[storage] = before + by
                alive += size * ((before + by > 0) - (before > 0))

    for node in graph.find_nodes(op="placeholder"):
        hold(node, 1)
    found = [alive]
    for node in graph.nodes:
        if _is_call(node):
            hold(node, 1)
            found.append(alive)
            if not readers[node]:
                hold(node, -1)
        if node.op != "output":
            for source in node.all_input_nodes:
                readers[source] -= 1
                if not readers[source] and source.op != "get_attr":
                    hold(source, -1)
    return found
