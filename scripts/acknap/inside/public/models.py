"""Models whose peaks other people measured, as benchmarks/public_points.toml has them.

Runs inside an environment with torch and transformers; `named.build` takes `llama`,
`bert` and `dry_bert`.
"""

import importlib
import tomllib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from acknap.inside.models.records import Row

POINTS = Path(__file__).parents[4] / "benchmarks" / "public_points.toml"
_BATCH = 2


class _Sum(nn.Module):
    """The sum of a model's last hidden states, in the place of a loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any) -> Any:
        return self.model(input_ids=ids).last_hidden_state.sum()


def make(facts: Row, **options: Any) -> tuple[nn.Module, Any]:
    """Return a model and its input.

    Args:
        facts: Of the model, as the file has them.
        options: Of its config, beside those of the file.
    """
    transformers: Any = importlib.import_module("transformers")
    config = transformers.AutoConfig.for_model(
        facts["kind"], **facts["config"], **options
    )
    more = {"add_pooling_layer": False} if facts["kind"] == "bert" else {}
    model = transformers.MODEL_MAPPING[type(config)](config, **more)
    return _Sum(model), torch.empty(_BATCH, facts["length"], dtype=torch.long)


def llama() -> tuple[nn.Module, Any]:
    """Return the Llama and its input."""
    return make(_facts("llama32"))


def bert() -> tuple[nn.Module, Any]:
    """Return the BERT and its input."""
    return make(_facts("bert32"))


def dry_bert() -> tuple[nn.Module, Any]:
    """Return the BERT without dropout, and its input."""
    dry = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return make(_facts("bert32"), **dry)


def _facts(name: str) -> Row:
    found: Row = tomllib.loads(POINTS.read_text())["model"][name]
    return found
