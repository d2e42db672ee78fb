"""What a plan of saved values keeps alive, counted in bytes of storages.

The partitioner's own count adds up the sizes of the saved nodes. That is neither what
autograd keeps, where two nodes are views of one storage or one is a slice of a larger
one, nor what the plan costs, where a saved input stays alive anyway.
"""

from collections.abc import Iterable, Sequence

import torch
import torch.fx as fx
from torch._functorch import config
from torch._functorch._activation_checkpointing.overwritten_inputs import (
    get_storages,
    get_tensors,
)
from torch._functorch.partitioners import _size_of, NodeInfo
from torch.utils._ordered_set import OrderedSet


# These keep their capacity in the bytes that they are given.
_SOLVERS = ("exact", "dynamic_memory_budget_exact")


def counts_storages() -> bool:
    """Whether plans are made and measured by storages: see the option's comment."""
    option = config.activation_memory_budget_count_storages
    if option is None:
        return config.activation_memory_budget_solver in _SOLVERS
    return option


class SavedStorages:
    """Counts the bytes that stay alive because nodes of a joint graph are saved.

    A storage counts once, and in full if a view of it is saved. Storages of inputs of
    static lifetime (parameters and buffers) don't count: they stay alive anyway.
    Symbolic sizes count by their hint.

    Args:
        node_info: The partitioner's ``NodeInfo`` of a joint graph.
    """

    def __init__(self, node_info: NodeInfo) -> None:
        self._backward = [n for n in node_info.required_bw_nodes if n.op != "output"]
        self._inputs, self._static = (
            OrderedSet(storage for node in nodes for storage in get_storage_sizes(node))
            for nodes in (node_info.inputs, node_info.static_lifetime_input_nodes)
        )

    def price(self, node: fx.Node) -> int:
        """The bytes that stay alive if a node is saved and no other is.

        The prices of some nodes add up to at least what they keep alive together.
        """
        return sum(self._keep([node]).values())

    def count(self, saved_values: Iterable[fx.Node]) -> int:
        """The bytes that saved values keep alive, of those that the backward needs.

        Time: linear in the size of the part of the graph that is recomputed.
        """
        return sum(self._keep(self._get_needed(saved_values)).values())

    def count_inputs(self, saved_values: Iterable[fx.Node]) -> int:
        """The bytes of inputs among those that saved values keep alive."""
        kept = self._keep(self._get_needed(saved_values))
        return sum(size for storage, size in kept.items() if storage in self._inputs)

    def is_view_of_input(self, node: fx.Node) -> bool:
        """Whether all tensors that a node returns are views of inputs."""
        found = get_storage_sizes(node)
        return bool(found) and all(storage in self._inputs for storage in found)

    def get_recomputed(self, saved_values: Iterable[fx.Node]) -> OrderedSet[fx.Node]:
        """The nodes that the backward computes if some values are saved."""
        saved = OrderedSet(saved_values)
        return self._walk(saved) - saved

    def _walk(self, saved: OrderedSet[fx.Node]) -> OrderedSet[fx.Node]:
        """What the backward reaches against the edges, not beyond saved values."""
        reached: OrderedSet[fx.Node] = OrderedSet()
        stack = list(self._backward)
        while stack:
            node = stack.pop()
            if node not in reached:
                reached.add(node)
                if node not in saved:
                    stack.extend(node.all_input_nodes)
        return reached

    def _get_needed(self, saved_values: Iterable[fx.Node]) -> list[fx.Node]:
        saved = OrderedSet(saved_values)
        needed = self._walk(saved)
        return [node for node in saved if node in needed]

    def _keep(self, nodes: Iterable[fx.Node]) -> dict[int, int]:
        """The storages that nodes keep alive, with their bytes."""
        storages: dict[int, int] = {}
        for node in nodes:
            storages.update(get_storage_sizes(node))
        return {s: size for s, size in storages.items() if s not in self._static}


def get_storage_sizes(node: fx.Node) -> dict[int, int]:
    """The storages of the tensors that a node returns, with their bytes."""
    if not all(map(torch._C._has_storage, get_tensors(node))):
        return {id(node): _size_of(node)}
    sizes = {}
    for key, storage in get_storages(node).items():
        size = storage.nbytes()
        if isinstance(size, torch.SymInt):
            size = size.node.hint or _size_of(node)
        sizes[key] = size
    return sizes


def drop_excess(
    memory: Sequence[float],
    runtimes: Sequence[float],
    saved: Sequence[int],
    max_memory: float,
) -> list[int]:
    """The items that a solver saves, without some if they are over the capacity.

    Solvers that round sizes can be over it, and custom ones. Those that save the least
    runtime for their memory go first.

    Args:
        memory: The memory of each item.
        runtimes: The runtime of each item.
        saved: The indices of the items that the solver saves.
        max_memory: The capacity, in the unit of ``memory``.

    Time: n log n.
    """
    limit = max_memory * (1 + 1e-12)
    used = sum(memory[i] for i in saved)
    dropped = set()
    for i in sorted(saved, key=lambda i: (runtimes[i] / max(memory[i], 1e-300), i)):
        if used <= limit:
            break
        if memory[i] > 0:
            dropped.add(i)
            used -= memory[i]
    return [i for i in saved if i not in dropped]
