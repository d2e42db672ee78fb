"""Models that take a step of training in less than a second, with loss and gradients.

Runs inside an environment with torch.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

from acknap.inside.models.block_models import fill
from acknap.inside.models.builtin import BUILT_IN, Built, Residual, Sizes
from acknap.inside.models.named import build

_TEXT = "vocab_size=512&length=256&batch=4&dtype=float32"
_WIDE = "num_hidden_layers=3&hidden_size=128&num_attention_heads=4"
# Of the transformers library, by name with options.
LIBRARY = {
    "llama": f"llama?{_WIDE}&intermediate_size=344&num_key_value_heads=4&{_TEXT}",
    "bert_dropout": f"bert?{_WIDE}&intermediate_size=512&{_TEXT}",
    "gpt2": "gpt2?n_layer=3&n_embd=128&n_head=4&n_positions=256&resid_pdrop=0"
    f"&embd_pdrop=0&attn_pdrop=0&{_TEXT}",
    "vit": f"vit?{_WIDE}&intermediate_size=512&hidden_dropout_prob=0&image_size=96"
    "&patch_size=8&batch=8&dtype=float32",
    "t5": "t5?num_layers=2&d_model=128&d_ff=512&d_kv=32&num_heads=4&dropout_rate=0"
    "&vocab_size=512&length=256&batch=4&dtype=float32",
}
_NET = Sizes(0, 0, 0, 0, 0, 0, (16, 3), (4, 3, 64, 64))


def _convnet() -> Built:
    return BUILT_IN["convnet"](_NET)


def _residual() -> Built:
    return Built(Residual(12, 10), (torch.empty(4, 12, 48, 48),), {})


_MAKERS: dict[str, Callable[[], Built]] = {
    **{n: functools.partial(build, f"transformers:{t}") for n, t in LIBRARY.items()},
    "convnet": _convnet,
    "residual": _residual,
}
MODELS = {name: name for name in _MAKERS}


class Trained:
    """A model in training, and one batch for it.

    Attributes:
        parameters: Its parameters, by their names.
    """

    def __init__(self, name: str) -> None:
        """Build a model.

        Args:
            name: One of `MODELS`.
        """
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(0)
        self._built = fill(_MAKERS[name]())
        model = self._built.model
        # Else the library warns that it takes this one, which breaks the graph.
        if getattr(model, "loss_type", "") is None:
            model.loss_type = "ForCausalLM"
        self.parameters = dict(model.named_parameters())
        self._start = {n: v.clone() for n, v in model.state_dict().items()}
        self.step(self.loss)  # the library notes in the model what its first step does

    def loss(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the loss of a batch, and nothing else that somebody could hold."""
        found = self._built.model(*arguments, **keywords)
        return found if isinstance(found, torch.Tensor) else found["loss"]

    def reset(self) -> None:
        """Take all gradients away, and what steps changed back."""
        self._built.model.zero_grad()
        self._built.model.load_state_dict(self._start)

    def step(self, function: Callable[..., Any]) -> float:
        """Run forward and backward; return the loss.

        Nobody but the step holds its inputs.

        Args:
            function: `loss`, or what it was compiled to.
        """
        torch.manual_seed(1)
        found = function(
            *(one.clone() for one in self._built.arguments),
            **{name: one.clone() for name, one in self._built.keywords.items()},
        )
        found.backward()
        return float(found.detach())
