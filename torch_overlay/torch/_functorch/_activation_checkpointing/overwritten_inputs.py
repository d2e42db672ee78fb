"""Keeps the backward from reading inputs that the forward has overwritten.

In a joint graph every read of an input gives the value that the input had when the
forward began. What the graph saves for the backward is the input's memory, though, and
there a mutation takes place when the forward ends: by a ``copy_`` at the end of the
graph, or by the runtime, which copies an output of the forward into the input. What is
computed again from such an input in the backward is computed from the new value.
"""

import torch
import torch.fx as fx
from torch._functorch._aot_autograd.descriptors import (
    AOTInput,
    AOTOutput,
    InputMutationAOTOutput,
    SubclassGetAttrAOTInput,
    SubclassGetAttrAOTOutput,
)
from torch._functorch.partitioners import _has_tag_must_be_in_backward, must_recompute
from torch.utils import _pytree as pytree
from torch.utils._ordered_set import OrderedSet
from torch.utils.checkpoint import CheckpointPolicy


def force_save_reads_of_overwritten_inputs(joint_module: fx.GraphModule) -> None:
    """Marks what the forward reads from an input that it overwrites as MUST_SAVE.

    Views share the input's memory, so that those who read a view are marked in place of
    the view. The mark bans the recomputation of a node; what follows from it can be
    saved in its place. Nodes of checkpointed regions keep the policy that their user
    gave them.

    An input that the backward itself takes as an argument stays as it is: there is
    nothing else that could be saved, and eager mode refuses such a backward.

    Args:
        joint_module: The joint graph of forward and backward, changed in place.

    Time and memory: linear in the size of the graph.
    """
    graph = joint_module.graph
    overwritten = _get_overwritten_inputs(graph)
    if not overwritten:
        return
    backward = get_backward_nodes(graph)
    for node, mutation in overwritten.items():
        readers = _get_readers(node)
        # A graph that is not functional uses the new value, too (FSDP).
        if mutation is None or not any(reader > mutation for reader in readers):
            for reader in readers - backward:
                force_save(reader)


def force_save(node: fx.Node) -> None:
    """Marks a node that returns tensors as MUST_SAVE, unless its user has a policy."""
    if get_tensors(node) and not must_recompute(node):
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def get_tensors(node: fx.Node) -> list[torch.Tensor]:
    """The tensors that a node returns; split returns several."""
    values = node.meta.get("val")
    if not isinstance(values, (tuple, list)):
        values = (values,)
    return [value for value in values if isinstance(value, torch.Tensor)]


def get_storages(node: fx.Node) -> dict[int, torch.UntypedStorage]:
    """The storages of the tensors that a node returns, by their identity."""
    storages = (
        tensor.untyped_storage()
        for tensor in get_tensors(node)
        if torch._C._has_storage(tensor)
    )
    return {storage._cdata: storage for storage in storages}


def _get_overwritten_inputs(graph: fx.Graph) -> dict[fx.Node, fx.Node | None]:
    """The inputs that are overwritten, with the copy_ that does it in the graph."""
    inputs = graph.find_nodes(op="placeholder")
    (output,) = graph.find_nodes(op="output")
    # Joint graphs that AOTAutograd did not make have no descriptions.
    descs = pytree.arg_tree_leaves(output.meta.get("desc", ()))
    by_runtime = OrderedSet(
        desc for desc in map(_get_overwritten_desc, descs) if desc is not None
    )
    overwritten: dict[fx.Node, fx.Node | None] = {
        node: None for node in inputs if node.meta.get("desc") in by_runtime
    }
    for node in graph.find_nodes(
        op="call_function", target=torch.ops.aten.copy_.default
    ):
        destination = node.args[0]
        if (
            isinstance(destination, fx.Node)
            and destination.op == "placeholder"
            and not _has_tag_must_be_in_backward(node)
        ):
            overwritten.setdefault(destination, node)
    return overwritten


def _get_overwritten_desc(desc: AOTOutput | None) -> AOTInput | None:
    """The input that the runtime copies an output into."""
    if isinstance(desc, InputMutationAOTOutput):
        return desc.mutated_input
    if isinstance(desc, SubclassGetAttrAOTOutput):
        base = _get_overwritten_desc(desc.base)
        return base and SubclassGetAttrAOTInput(base, desc.attr)
    return None


def _get_readers(node: fx.Node) -> OrderedSet[fx.Node]:
    """The nodes that read the memory of a node, by themselves or through a view."""
    storage = next(iter(get_storages(node)), None)
    readers: OrderedSet[fx.Node] = OrderedSet()
    views = [node]
    while views:
        view = views.pop()
        for user in view.users:
            if user.op == "output" or user.target is torch.ops.aten.copy_.default:
                continue
            if storage is not None and storage in get_storages(user):
                views.append(user)
            else:
                readers.add(user)
    return readers


def get_backward_nodes(graph: fx.Graph) -> OrderedSet[fx.Node]:
    """The nodes that depend on a gradient."""
    backward: OrderedSet[fx.Node] = OrderedSet()
    for node in graph.nodes:
        if (node.op == "placeholder" and "tangents" in str(node.target)) or any(
            source in backward for source in node.all_input_nodes
        ):
            backward.add(node)
    return backward
