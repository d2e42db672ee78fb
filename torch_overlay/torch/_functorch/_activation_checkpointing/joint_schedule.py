"""A joint graph of forward and backward in arrays: what reads and allocates what."""

from collections.abc import Container, Iterable

import torch
import torch.fx as fx
from torch._functorch._activation_checkpointing.overwritten_inputs import (
    get_backward_nodes,
)
from torch._functorch._activation_checkpointing.saved_storages import get_storage_sizes
from torch._functorch.partitioners import _must_be_in_backward, NodeInfo


class UnsupportedGraphError(Exception):
    """A joint graph whose forward does not come before its backward."""


class JointSchedule:
    """The nodes of a joint graph by their number, and its storages by theirs.

    A node whose storages are all those of one of the nodes that it reads (a view, an
    item of a tuple) is no step of its own: what reads it reads its *base*. The backward
    has views of what the forward makes as steps, though.

    Storages of inputs of static lifetime and of constants stay alive anyway, so that
    nothing uses or makes them here. Symbolic sizes count by their hint.

    Args:
        graph: The joint graph.
        node_info: The partitioner's ``NodeInfo`` of it.

    Attributes:
        nodes: The nodes in the order of the graph.
        base: For each node the number of its base.
        is_given: Whether a node is there when the backward begins, whatever the plan:
            inputs, tangents, constants, and symbolic sizes, which are always saved.
        reads: For each base the bases that it reads, the given ones apart.
        uses: For each base the storages that it reads.
        makes: For each base the storages that it allocates.
        sizes: For each storage its bytes.
        maker: For each storage the base that allocates it, or -1 if the caller does.
        inputs, tangents: The storages that the caller allocates.
        results, gradients: The storages that the forward and the backward return.
        forward: The bases that the forward runs, whatever the plan.
        needed: The bases that the backward runs if nothing is saved.
        steps: Those of them that come with the gradients, in order: the others run
            only because of these.
        users: For each base the bases that read it, of those that the backward needs.
        readers: The same for each storage.

    Raises:
        UnsupportedGraphError: If the gradients do not come after the forward.

    Time and memory: linear in the size of the graph.
    """

    def __init__(self, graph: fx.Graph, node_info: NodeInfo) -> None:
        self.nodes = [node for node in graph.nodes if node.op != "output"]
        self._index = {node: i for i, node in enumerate(self.nodes)}
        self._backward_nodes = get_backward_nodes(graph)
        self.is_given = [self._get_is_given(node) for node in self.nodes]
        self._entering = {self._index[node] for node in node_info.inputs}
        self._number_storages()
        constants = [node for node in self.nodes if node.op == "get_attr"]
        self._tangents = [n for n in self._backward_nodes if n.op == "placeholder"]
        static = self._hold([*constants, *node_info.static_lifetime_input_nodes])
        self.tangents = self._hold(self._tangents) - static
        self.inputs = self._hold(node_info.inputs) - static - self.tangents
        self.results = self._hold(node_info.fwd_outputs) - static
        self.gradients = self._hold(node_info.bwd_outputs) - static
        self._find_bases()
        self._connect(static)
        self._find_steps(node_info)

    def _number_storages(self) -> None:
        numbers: dict[int, int] = {}
        self.sizes: list[int] = []
        self._held: list[tuple[int, ...]] = []
        for node in self.nodes:
            found = get_storage_sizes(node)
            for key, size in found.items():
                if numbers.setdefault(key, len(self.sizes)) == len(self.sizes):
                    self.sizes.append(size)
            self._held.append(tuple(numbers[key] for key in found))

    def _hold(self, nodes: Iterable[object]) -> set[int]:
        found = (self._held[self._index[n]] for n in nodes if isinstance(n, fx.Node))
        return {storage for held in found for storage in held}

    def _find_bases(self) -> None:
        # The emitted backward begins with the first node that reads a tangent.
        tangents = set(self._tangents)
        self._first = min(
            (i for i, n in enumerate(self.nodes) if tangents & {*n.all_input_nodes}),
            default=len(self.nodes),
        )
        self.base = list(range(len(self.nodes)))
        for i, node in enumerate(self.nodes):
            if node.op != "call_function" or is_mutable(node) or not self._held[i]:
                continue
            for source in node.all_input_nodes:
                k = self._index[source]
                if set(self._held[i]) <= set(self._held[k]):
                    # A view that is made in the backward is a step: what it is a view
                    # of has to be there by then.
                    base = self.base[k]
                    if self.is_given[base] or base >= self._first or i < self._first:
                        self.base[i] = base
                    break

    def _connect(self, static: set[int]) -> None:
        self.reads: list[tuple[int, ...]] = []
        self.uses: list[tuple[int, ...]] = []
        self.makes: list[tuple[int, ...]] = []
        self.maker = [-1] * len(self.sizes)
        self._holder = [-1] * len(self.sizes)
        known = static | self.inputs | self.tangents
        for i, node in enumerate(self.nodes):
            if len(self._held[i]) == 1 and isinstance(node.meta["val"], torch.Tensor):
                (storage,) = self._held[i]
                if self._holder[storage] < 0:
                    self._holder[storage] = i
            sources = [self._index[n] for n in node.all_input_nodes]
            bases = dict.fromkeys(self.base[k] for k in sources)
            used = dict.fromkeys(s for k in sources for s in self._held[k])
            is_step = self.is_step(i)
            made = [s for s in self._held[i] if is_step and s not in known]
            known.update(made)
            for storage in made:
                self.maker[storage] = i
            self.makes.append(tuple(made))
            if is_step:
                self.reads.append(tuple(b for b in bases if not self.is_given[b]))
                self.uses.append(tuple(s for s in used if s not in static))
            else:
                self.reads.append(())
                self.uses.append(())

    def _find_steps(self, node_info: NodeInfo) -> None:
        outputs = [n for n in node_info.bwd_outputs if isinstance(n, fx.Node)]
        self._roots = [*map(self._index.__getitem__, outputs)]
        self._roots += [i for i, n in enumerate(self.nodes) if _must_be_in_backward(n)]
        self.roots = sorted({self.base[i] for i in self._roots})
        self.roots = [b for b in self.roots if not self.is_given[b]]
        self.needed = self.get_run(())
        self.steps = [i for i in sorted(self.needed) if i >= self._first]
        forward = {self._index[n] for n in node_info.required_fw_nodes}
        self.forward = [i for i in sorted(forward) if self.is_step(i)]
        if not self.steps or not forward.isdisjoint(self.steps):
            raise UnsupportedGraphError
        self.users: list[list[int]] = [[] for _ in self.nodes]
        self.readers: list[list[int]] = [[] for _ in self.sizes]
        for i in sorted(self.needed):
            for b in self.reads[i]:
                self.users[b].append(i)
            for storage in self.uses[i]:
                self.readers[storage].append(i)

    def _get_is_given(self, node: fx.Node) -> bool:
        if node.op in ("placeholder", "get_attr"):
            return True
        is_size = isinstance(node.meta.get("val"), torch.SymInt)
        return is_size and node not in self._backward_nodes

    def is_step(self, i: int) -> bool:
        """Whether a node runs by itself: neither a view nor given."""
        return self.base[i] == i and not self.is_given[i]

    def get_run(self, saved: Iterable[int]) -> set[int]:
        """The bases that the backward runs if some bases are saved."""
        saved = set(saved)
        return self.reach((b for b in self.roots if b not in saved), saved)

    def reach(self, starts: Iterable[int], there: Container[int]) -> set[int]:
        """What has to run for some bases, these too, if other bases are there."""
        stack = list(starts)
        reached = set(stack)
        while stack:
            for b in self.reads[stack.pop()]:
                if b not in reached and b not in there:
                    reached.add(b)
                    stack.append(b)
        return reached

    def get_saved(self, saved_values: Iterable[fx.Node]) -> set[int]:
        """The bases that a plan saves.

        A base is saved once for all its views. One of several storages is not saved if
        the backward runs it in spite of that.
        """
        held = self._hold(saved_values)
        saved = {self.maker[storage] for storage in held} - {-1}
        while True:
            run = self.get_run(saved)
            used = {s for i in run for s in self.uses[i]} | self.gradients
            again = {b for b in saved if used & ({*self.makes[b]} - held)}
            if not again:
                return saved
            saved -= again

    def get_saved_values(self, saved: Iterable[int]) -> list[fx.Node]:
        """The nodes to save so that some bases are, in the order of the graph.

        Inputs and symbolic sizes that the backward reads are among them.
        """
        saved = set(saved)
        used = {s for i in self.get_run(saved) for s in self.uses[i]} | self.gradients
        values = {self._holder[s] for b in saved for s in self.makes[b] if s in used}
        stack = [i for i in self._roots if i not in values]
        reached = set(stack)
        while stack:
            for node in self.nodes[stack.pop()].all_input_nodes:
                i = self._index[node]
                if i not in reached and i not in values:
                    reached.add(i)
                    if not self.is_given[i]:
                        stack.append(i)
        # Of what is given, symbolic sizes are ops.
        values.update(
            i
            for i in reached
            if i in self._entering
            or (self.is_given[i] and self.nodes[i].op == "call_function")
        )
        return [self.nodes[i] for i in sorted(values)]


def is_mutable(node: fx.Node) -> bool:
    """Whether a node overwrites something that it reads."""
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target._schema.is_mutable
    )
