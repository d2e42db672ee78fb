"""Models whose peaks other people measured, of a GPU: a Llama and a BERT of 32 layers.

Runs inside an environment with torch and transformers; `named.build` takes them. Their
sizes are those of github.com/siddddd17/less-budget-more-memory.
"""

import importlib
from typing import Any

import torch
from torch import nn

_BATCH, _LENGTH, _VOCABULARY = 2, 1024, 1000


class _Sum(nn.Module):
    """The sum of a model's last hidden states, in the place of a loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Any) -> Any:
        return self.model(input_ids=tokens).last_hidden_state.sum()


def llama() -> tuple[nn.Module, Any]:
    """Return the Llama and its input."""
    transformers: Any = importlib.import_module("transformers")

    config = transformers.LlamaConfig(
        num_hidden_layers=32,
        hidden_size=256,
        intermediate_size=688,
        num_attention_heads=8,
        num_key_value_heads=8,
        vocab_size=_VOCABULARY,
        max_position_embeddings=_LENGTH,
        use_cache=False,
    )
    return _Sum(transformers.LlamaModel(config)), _tokens()


def bert(dropout: float = 0.1) -> tuple[nn.Module, Any]:
    """Return the BERT and its input."""
    transformers: Any = importlib.import_module("transformers")

    config = transformers.BertConfig(
        num_hidden_layers=32,
        hidden_size=192,
        intermediate_size=768,
        num_attention_heads=3,
        vocab_size=_VOCABULARY,
        max_position_embeddings=_LENGTH,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    return _Sum(model), _tokens()


def dry_bert() -> tuple[nn.Module, Any]:
    """Return the BERT without dropout, and its input."""
    return bert(0.0)


def _tokens() -> Any:
    return torch.empty(_BATCH, _LENGTH, dtype=torch.long)
