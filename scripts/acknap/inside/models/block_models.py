"""Small models that run on a CPU, and the blocks that they repeat.

Runs inside an environment with torch. Same kinds as the captured models.
"""

import itertools
from typing import Any

import torch
from torch import nn

from acknap.inside.models.builtin import BUILT_IN, Built, Sizes
from acknap.inside.models.named import build

_TEXT = "batch=4&length=64&vocab_size=256&dtype=float32"
_WIDE = f"hidden_size=64&intermediate_size=176&num_attention_heads=4&{_TEXT}"
_LLAMA = f"num_hidden_layers=3&num_key_value_heads=2&{_WIDE}"
_DRY = "hidden_dropout_prob=0&attention_probs_dropout_prob=0"
_BERT = f"bert?num_hidden_layers=3&{_WIDE}"
_GPT2 = f"gpt2?n_layer=3&n_embd=64&n_head=4&n_positions=64&{_TEXT}"
_T5 = f"t5?num_layers=2&d_model=64&d_ff=176&d_kv=16&num_heads=4&{_TEXT}"
_IMAGES = "batch=4&image_size=32&dtype=float32"
_VIT = "num_hidden_layers=3&hidden_size=64&intermediate_size=176&num_attention_heads=4"

# A model of the transformers library, by its name with options.
LIBRARY = {
    "bert": _BERT,
    "bert, no dropout": f"{_BERT}&{_DRY}",
    "gpt2": _GPT2,
    "gpt2, no dropout": f"{_GPT2}&resid_pdrop=0.0&embd_pdrop=0.0&attn_pdrop=0.0",
    "llama": f"llama?{_LLAMA}",
    "llama, eager attention": f"llama?attention=eager&{_LLAMA}",
    "qwen3": f"qwen3?head_dim=16&{_LLAMA}",
    "vit": f"vit?patch_size=4&{_VIT}&{_IMAGES}",
    "t5": _T5,
    "t5, no dropout": f"{_T5}&dropout_rate=0.0",
}


_SMALL = Sizes(64, 4, 3, 256, 64, 4, (16, 3), (2, 3, 32, 32))
MODELS = ("decoder", "encoder", "moe", "convnet", *LIBRARY)
# These do not run under autocast, compiled or not.
FLOAT32_ONLY = ("moe",)


def make(name: str) -> Built:
    """Build a model, with numbers that are the same in every environment."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    if name in LIBRARY:
        return fill(build(f"transformers:{LIBRARY[name]}"))
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
