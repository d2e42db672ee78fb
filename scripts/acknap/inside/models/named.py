"""Models to capture: built in, a user's, or a transformers config by its name.

Runs inside an environment with torch, under `torch.device("meta")`: tensors have a
shape and no content, so that the size of a model costs nothing.
"""

import contextlib
import importlib
import io
import sys
from collections.abc import Mapping
from typing import Any

import torch

from acknap.inside.models.builtin import BUILT_IN, LARGE, Built

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
_MOST = 400  # characters of an error


class ModelError(Exception):
    """There is no such model, or building it failed."""


def build(model: str) -> Built:
    """Build a model.

    Args:
        model: A key of `BUILT_IN`, `module:function`, or
            `transformers:NAME?option=value&...`.

    Raises:
        ModelError: With what is wrong in one line.
    """
    kind, _, rest = model.partition(":")
    if model in BUILT_IN:
        torch.set_default_dtype(torch.bfloat16)
        return BUILT_IN[model](LARGE)
    if not kind or not rest:
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
        text = one_line(error)
        if "meta" in text:
            text += " (it is called on the meta device: its tensors have no content)"
        raise ModelError(f"{module}:{name}: {text}") from error
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise ModelError(f"{module}:{name} must return a pair: the model, its inputs")
    made, inputs = found
    if not callable(made):
        kind = type(made).__name__
        raise ModelError(f"{module}:{name}: the model, a {kind}, is not callable")
    if isinstance(inputs, Mapping):
        return Built(made, (), dict(inputs))
    several = isinstance(inputs, tuple | list)
    return Built(made, tuple(inputs) if several else (inputs,), {})


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
        batch = _count(options, "batch") or _BATCH.get(task, 4)
        length = _count(options, "length")
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
            raise ModelError(f"transformers:{name}: {one_line(error)}") from error
    if length is None:
        length = min(_LENGTH, getattr(config, "max_position_embeddings", _LENGTH))
    return Built(made, (), _inputs(task, config, batch, length))


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


def _count(options: dict[str, Any], name: str) -> int | None:
    """Take a whole number from the options; None if it is not there."""
    value = options.pop(name, None)
    if value is not None and (not isinstance(value, int) or value < 1):
        raise ModelError(f"{name}={value} is no whole number above 0")
    return value


def one_line(error: BaseException) -> str:
    """Say what failed, and why, which torch says at the end of a long message."""
    # What dynamo says after the reason: a stack, and how to be told more.
    said, _, _ = str(error).partition("\n\nfrom user code:")
    text = " ".join(said.split())
    if len(text) > _MOST:
        text = f"{text[: _MOST // 4]} ... {text[-_MOST * 3 // 4 :]}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
