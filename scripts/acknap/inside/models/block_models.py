"""Small models that run on a CPU, and the blocks that they repeat.

Runs inside an environment with torch. Same kinds as the captured models.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from acknap.inside.models.builtin import Built, Experts, Gated, Language, Layer, Net
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


def _language(causal: bool, make_feed: Callable[[], nn.Module]) -> Built:
    layers: list[nn.Module] = [
        Layer(64, 4, make_feed(), causal=causal) for _ in range(3)
    ]
    tokens, targets = (torch.empty(4, 64, dtype=torch.long) for _ in range(2))
    return Built(Language(256, 64, layers), (tokens, targets), {})


def _decoder() -> Built:
    return _language(True, lambda: Gated(64, 176))


def _encoder() -> Built:
    def feed() -> nn.Module:
        parts = (nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
        return nn.Sequential(*parts, nn.Dropout(0.1))

    return _language(False, feed)


def _moe() -> Built:
    return _language(True, lambda: Experts(64, 128, 4))


def _convnet() -> Built:
    images = tuple(torch.empty(2, 3, 32, 32) for _ in range(2))
    return Built(Net(16, 3), images, {})


BUILT_IN = {"decoder": _decoder, "encoder": _encoder, "moe": _moe, "convnet": _convnet}
MODELS = (*BUILT_IN, *LIBRARY)
# These do not run under autocast, compiled or not.
FLOAT32_ONLY = ("moe",)


def make(name: str) -> Built:
    """Build a model, with numbers that are the same in every environment."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    made = BUILT_IN[name]() if name in BUILT_IN else _library(LIBRARY[name])
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


def _library(name: str) -> Built:
    return build(f"transformers:{name}")


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
