"""Checkpointing as people write it by hand, around the layers of a model.

Runs inside an environment with torch.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from acknap.inside.models.block_models import blocks

_aten: Any = torch.ops.aten
# torchtitan's list of ops whose results are saved, those of several ranks left out.
# With biases a product is an addmm, which stands for its mm, and a CPU has an attention
# of its own.
_PRODUCTS = {_aten.mm.default, _aten.addmm.default}
_SAVED = {
    *_PRODUCTS,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten.max.default,
}


class _Segment(nn.Module):
    """Layers that are computed again in the backward, as one."""

    def __init__(self, layers: Sequence[nn.Module], **options: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.options = options

    def forward(self, x: Any, *arguments: Any, **keywords: Any) -> Any:
        def run(x: Any) -> Any:
            for layer in self.layers:
                x = layer(x, *arguments, **keywords)
            return x

        return checkpoint(run, x, use_reentrant=False, **self.options)


def each_layer(layers: nn.ModuleList) -> list[nn.Module]:
    """Checkpoint every layer."""
    return [_Segment([layer]) for layer in layers]


def second_layers(layers: nn.ModuleList) -> list[nn.Module]:
    """Checkpoint every second layer; nothing of the others is computed again."""
    return [layer if i % 2 else _Segment([layer]) for i, layer in enumerate(layers)]


def pairs(layers: nn.ModuleList) -> list[nn.Module]:
    """Checkpoint two layers at a time."""
    return [_Segment(layers[i : i + 2]) for i in range(0, len(layers), 2)]


def selective(layers: nn.ModuleList) -> list[nn.Module]:
    """Save what torchtitan saves of each layer: costly ops, every second product."""
    return [_Segment([layer], context_fn=_contexts) for layer in layers]


def _contexts() -> Any:
    count = 0

    def policy(_context: Any, op: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        nonlocal count
        count += op in _PRODUCTS
        is_second = op in _PRODUCTS and count % 2 == 0
        if op in _SAVED and not is_second:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


WAYS: dict[str, Callable[[nn.ModuleList], list[nn.Module]]] = {
    "each layer": each_layer,
    "every second layer": second_layers,
    "pairs of layers": pairs,
    "selective": selective,
}


def apply(way: str, model: nn.Module) -> None:
    """Checkpoint the layers of a model: the members of its one list of modules."""
    (found,) = (
        (owner, name, child)
        for owner in model.modules()
        for name, child in owner.named_children()
        if isinstance(child, nn.ModuleList)
    )
    owner, name, layers = found
    setattr(owner, name, nn.ModuleList(WAYS[way](layers)))


def checkpoint_blocks(model: nn.Module) -> int:
    """Checkpoint each block that a model repeats, in place; return how many there are.

    Blocks stay what they are to the model that holds them, with all their attributes.
    """
    found = [block for _, block in blocks(model)]
    for block in found:
        kind: Any = type(block)
        block.__class__ = _checkpointed(kind)
    return len(found)


@cache
def _checkpointed(kind: Any) -> Any:
    """Return a module's type whose forward is computed again in the backward."""

    def forward(self: nn.Module, *arguments: Any, **keywords: Any) -> Any:
        def run(*arguments: Any, **keywords: Any) -> Any:
            return kind.forward(self, *arguments, **keywords)

        return checkpoint(run, *arguments, use_reentrant=False, **keywords)

    return type(kind.__name__, (kind,), {"forward": forward})
