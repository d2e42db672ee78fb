"""Keeps the backward from drawing other random numbers than the forward did."""

import torch
import torch.fx as fx
from torch._functorch._activation_checkpointing.overwritten_inputs import force_save


def force_save_random_ops(joint_module: fx.GraphModule) -> None:
    """Marks what ops that draw random numbers return as MUST_SAVE.

    The mark bans their recomputation. The cut saves what they return, or something
    smaller that follows from it: the mask of a dropout in place of its numbers, or the
    seeds from which Inductor's functional generators draw the same numbers again.

    Random ops of checkpointed regions keep the policy that their user gave them: their
    generator's state is saved and replayed.

    Args:
        joint_module: The joint graph of forward and backward, changed in place.

    Time: linear in the size of the graph. Memory: none.
    """
    for node in joint_module.graph.nodes:
        if node.op == "call_function" and is_random(node):
            force_save(node)


def is_random(node: fx.Node) -> bool:
    """Whether a second run of a node can return something else.

    Attention is random if its dropout is not known to be off. Higher-order ops are if
    one of their graphs is.
    """
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return (
            torch.Tag.nondeterministic_seeded in target.tags
            and _get_argument(node, "dropout_p") != 0.0
        )
    if isinstance(target, torch._ops.HigherOrderOperator):
        return any(
            is_random(inner)
            for graph in _get_subgraphs(node)
            for inner in graph.nodes
            if inner.op == "call_function"
        )
    return False


def _get_argument(node: fx.Node, name: str) -> object:
    """The value of an argument by its name, or None if the op does not take it."""
    for i, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if argument.name == name:
            if i < len(node.args):
                return node.args[i]
            return node.kwargs.get(name, argument.default_value)
    return None


def _get_subgraphs(node: fx.Node) -> list[fx.Graph]:
    module = node.graph.owning_module
    graphs = []
    for argument in node.all_input_nodes:
        if argument.op == "get_attr" and module is not None:
            value = getattr(module, str(argument.target), None)
            if isinstance(value, fx.GraphModule):
                graphs.append(value.graph)
    return graphs
