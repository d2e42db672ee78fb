"""Small models that run on a CPU, and the blocks that they repeat.

Runs inside an environment with torch. Same kinds as the captured models.
"""

import itertools
from typing import Any

import torch
from torch import nn

from acknap.inside.known import BLOCKS_LIBRARY
from acknap.inside.models.builtin import BUILT_IN, Built, Sizes
from acknap.inside.models.named import build

_SMALL = Sizes(64, 4, 3, 256, 64, 4, (16, 3), (2, 3, 32, 32))
# These do not run under autocast, compiled or not.
FLOAT32_ONLY = ("moe",)


def make(name: str) -> Built:
    """Build a model, with numbers that are the same in every environment."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    if name in BLOCKS_LIBRARY:
        return fill(build(f"transformers:{BLOCKS_LIBRARY[name]}"))
    return fill(BUILT_IN[name](_SMALL))


def fill(made: Built) -> Built:
    """Give a model and its inputs numbers, by the seed before it was built."""
    made.model.train()
    with torch.no_grad():
        for parameter in made.model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.05)
        for tensor in (*made.arguments, *made.keywords.values()):
            if tensor.is_floating_point():
                tensor.normal_()
            else:  # a class of an image is 0 or 1
                tensor.random_(0, 2 if tensor.dim() == 1 else 256)
    return made


def blocks(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the blocks that a model repeats: the members of its outermost lists."""
    found: list[tuple[str, nn.Module]] = []

    def look(module: nn.Module, name: str) -> None:
        for part, child in module.named_children():
            path = f"{name}.{part}" if name else part
            members = list(child.named_children())
            kinds = {type(member) for _, member in members}
            if (
                isinstance(child, nn.ModuleList | nn.Sequential)
                and len(members) > 1
                and len(kinds) == 1
            ):
                found.extend((f"{path}.{key}", member) for key, member in members)
            else:
                look(child, path)

    look(model, "")
    return found


def storages(tensors: Any) -> dict[int, int]:
    """Return the storages behind some tensors, with their bytes."""
    every = (tensor.untyped_storage() for tensor in tensors)
    return {storage.data_ptr(): storage.nbytes() for storage in every}


def held(built: Built) -> dict[int, int]:
    """Return the storages that somebody else keeps: parameters, buffers, the batch."""
    model = built.model
    own = itertools.chain(model.parameters(), model.buffers())
    return storages([*own, *built.arguments, *built.keywords.values()])
