"""Models to capture: built in, a user's, or a transformers config by its name.

Runs inside an environment with torch, under `torch.device("meta")`: tensors have a
shape and no content, so that the size of a model costs nothing.
"""

import contextlib
import importlib
import io
import itertools
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

_IMAGE = "IMAGE_CLASSIFICATION"
_PAIRS = "SEQ_TO_SEQ_CAUSAL_LM"
# The tasks that a transformers config is tried for, in this order, and the sizes of
# its inputs where the name does not give them.
_TASKS = {
    _IMAGE: "AutoModelForImageClassification",
    _PAIRS: "AutoModelForSeq2SeqLM",
    "MASKED_LM": "AutoModelForMaskedLM",
    "CAUSAL_LM": "AutoModelForCausalLM",
}
_BATCH = {_IMAGE: 32}
_LENGTH = 1024


class ModelError(Exception):
    """There is no such model, or building it failed."""


class Built(NamedTuple):
    """A model and what it is called with."""

    model: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


class Norm(nn.Module):
    """Root mean square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x * scale).to(x.dtype) * self.weight


class Attention(nn.Module):
    """Multi-head attention with one projection in and one out."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 3 * width, bias=False)
        self.outer = nn.Linear(width, width, bias=False)
        self.heads, self.causal = heads, causal

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (p.view(shape).transpose(1, 2) for p in self.inner(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.outer(y.transpose(1, 2).reshape(batch, length, width))


class Gated(nn.Module):
    """A gated feed-forward layer."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Every token goes through two of the experts; all have room for an equal share."""

    def __init__(self, width: int, inner: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, width, inner))
        self.down = nn.Parameter(torch.empty(experts, inner, width))

    def forward(self, x: Any) -> Any:
        tokens = x.reshape(-1, x.shape[-1])
        experts = self.router.out_features
        # The expert chooses its tokens, so that all shapes are known.
        share = self.router(tokens).softmax(-1).T
        weight, chosen = share.topk(2 * len(tokens) // experts, dim=-1)
        picked = tokens[chosen]
        done = torch.bmm(F.gelu(torch.bmm(picked, self.up)), self.down)
        done = (done * weight.unsqueeze(-1)).reshape(-1, x.shape[-1])
        mixed = torch.zeros_like(tokens).index_add(0, chosen.reshape(-1), done)
        return mixed.view_as(x)


class Layer(nn.Module):
    """Attention, then a feed-forward part, each on a normed branch."""

    def __init__(
        self, width: int, heads: int, feed: nn.Module, *, causal: bool
    ) -> None:
        super().__init__()
        self.first, self.second = Norm(width), Norm(width)
        self.attention = Attention(width, heads, causal=causal)
        self.feed = feed

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.first(x))
        return x + self.feed(self.second(x))


class Language(nn.Module):
    """Embedding, layers, and the loss of predicting a token at every place."""

    def __init__(self, vocabulary: int, width: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(*layers)
        self.norm = Norm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any, targets: Any) -> Any:
        logits = self.head(self.norm(self.layers(self.embedding(tokens))))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, entering: int, leaving: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(entering, leaving, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(leaving, leaving, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(leaving) for _ in range(2))
        self.shortcut = nn.Conv2d(entering, leaving, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.shortcut(x))


class Net(nn.Module):
    """A U of convolutions: down to small images, up again beside what was there."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(depth)]
        self.enter = Block(3, width, 1)
        steps = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(Block(a, b, 2) for a, b in steps)
        self.up = nn.ModuleList(Block(a + b, a, 1) for a, b in reversed(steps))
        self.leave = nn.Conv2d(width, 3, 1)

    def forward(self, image: Any, target: Any) -> Any:
        x, passed = self.enter(image), []
        for block in self.down:
            passed.append(x)
            x = block(x)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat((x, passed.pop()), 1))
        return F.mse_loss(self.leave(x), target)


def _language(causal: bool, make_feed: Callable[[], nn.Module], layers: int) -> Built:
    width, heads, vocabulary, length = 2048, 16, 32000, 2048
    made: list[nn.Module] = [
        Layer(width, heads, make_feed(), causal=causal) for _ in range(layers)
    ]
    tokens, targets = (torch.empty(4, length, dtype=torch.long) for _ in range(2))
    return Built(Language(vocabulary, width, made), (tokens, targets), {})


def _decoder() -> Built:
    return _language(True, lambda: Gated(2048, 5632), 8)


def _encoder() -> Built:
    def feed() -> nn.Module:
        parts = (nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048))
        return nn.Sequential(*parts, nn.Dropout(0.1))

    return _language(False, feed, 8)


def _convnet() -> Built:
    images = (torch.empty(8, 3, 256, 256) for _ in range(2))
    return Built(Net(64, 5), tuple(images), {})


def _moe() -> Built:
    return _language(True, lambda: Experts(2048, 4096, 8), 6)


BUILT_IN = {"decoder": _decoder, "encoder": _encoder, "convnet": _convnet, "moe": _moe}


def build(model: str) -> Built:
    """Build a model.

    Args:
        model: A key of `BUILT_IN`, `module:function`, or
            `transformers:NAME?option=value&...`.

    Raises:
        ModelError: With what is wrong in one line.
    """
    kind, separator, rest = model.partition(":")
    if model in BUILT_IN:
        torch.set_default_dtype(torch.bfloat16)
        return BUILT_IN[model]()
    if not separator or not kind or not rest:
        raise ModelError(
            f"unknown model {model!r}: give one of {', '.join(BUILT_IN)}, "
            "module:function, or transformers:NAME"
        )
    if kind == "transformers":
        return _transformers(rest)
    return _users(kind, rest)


def _users(module: str, name: str) -> Built:
    """Call a user's function; what it prints goes to standard error."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = getattr(importlib.import_module(module), name)()
    except (Exception, SystemExit) as error:
        text = _one_line(error)
        if "meta" in text:
            text += " (it is called on the meta device: its tensors have no content)"
        raise ModelError(f"{module}:{name}: {text}") from error
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise ModelError(f"{module}:{name} must return a pair: the model, its inputs")
    made, inputs = found
    if not callable(made):
        raise ModelError(
            f"{module}:{name}: the model, a {_kind(made)}, is not callable"
        )
    if isinstance(inputs, Mapping):
        return Built(made, (), dict(inputs))
    if isinstance(inputs, tuple | list):
        return Built(made, tuple(inputs), {})
    return Built(made, (inputs,), {})


def _transformers(text: str) -> Built:
    """Make a model of a config of the library's, with the options that are named."""
    name, _, query = text.partition("?")
    options = dict(_option(part) for part in query.split("&") if part)
    dtype = str(options.pop("dtype", "bfloat16"))
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise ModelError(f"transformers:{name}: {dtype} is no dtype of torch")
    torch.set_default_dtype(getattr(torch, dtype))
    # It warns of much that does not matter here.
    with contextlib.redirect_stderr(io.StringIO()):
        library: Any = importlib.import_module("transformers")
        known = library.CONFIG_MAPPING
        if name not in known:
            raise ModelError(f"transformers has no model type {name!r}")
        task = _task(name)
        batch = options.pop("batch", _BATCH.get(task, 4))
        length = options.pop("length", None)
        chosen = {}
        if "attention" in options:
            chosen["attn_implementation"] = options.pop("attention")
        try:
            usual = library.AutoConfig.for_model(name)
            for option in options:
                if not hasattr(usual, option):
                    raise ModelError(f"the config of {name} has no {option!r}")
            config = library.AutoConfig.for_model(name, **options, use_cache=False)
            made = getattr(library, _TASKS[task]).from_config(config, **chosen)
        except (ValueError, TypeError, AttributeError, ImportError) as error:
            raise ModelError(f"transformers:{name}: {_one_line(error)}") from error
    if length is None:
        length = min(_LENGTH, getattr(config, "max_position_embeddings", _LENGTH))
    return Built(made, (), _inputs(task, config, int(batch), int(length)))


def _task(name: str) -> str:
    names: Any = importlib.import_module("transformers.models.auto.modeling_auto")
    for task in _TASKS:
        if name in getattr(names, f"MODEL_FOR_{task}_MAPPING_NAMES"):
            return task
    raise ModelError(
        f"transformers:{name} is for none of: image classification, sequence to "
        "sequence, masked and causal language models; write a module:function for it"
    )


def _inputs(task: str, config: Any, batch: int, length: int) -> dict[str, Any]:
    if task == _IMAGE:
        size = getattr(config, "image_size", 224)
        height, width = (size, size) if isinstance(size, int) else size
        channels = getattr(config, "num_channels", 3)
        return {
            "pixel_values": torch.empty(batch, channels, height, width),
            "labels": torch.empty(batch, dtype=torch.long),
        }
    tokens, labels = (torch.empty(batch, length, dtype=torch.long) for _ in range(2))
    found = {"input_ids": tokens, "labels": labels}
    if task == _PAIRS:
        found["decoder_input_ids"] = torch.empty_like(labels)
    return found


def _option(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ModelError(f"option {text!r} is not name=value")
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            return name, convert(value)
    return name, {"true": True, "false": False}.get(value.lower(), value)


def _kind(value: object) -> str:
    return type(value).__name__


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
