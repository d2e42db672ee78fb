"""Models that take a step of training in less than a second, with loss and gradients.

Runs inside an environment with torch.
"""

from collections.abc import Callable
from typing import Any

import torch

from acknap.inside.known import LIMITS
from acknap.inside.models.block_models import fill
from acknap.inside.models.builtin import BUILT_IN, Residual, Sizes
from acknap.inside.models.named import build

_NET = Sizes(0, 0, 0, 0, 0, 0, (16, 3), (4, 3, 64, 64))


def convnet() -> tuple[torch.nn.Module, Any]:
    """Return the built-in U of convolutions, of two levels, and its inputs."""
    built = BUILT_IN["convnet"](_NET)
    return built.model, built.arguments


def residual() -> tuple[torch.nn.Module, Any]:
    """Return residual convolutions, and a batch of images."""
    return Residual(12, 10), torch.empty(4, 12, 48, 48)


class Trained:
    """A model in training, and one batch for it.

    Attributes:
        parameters: Its parameters, by their names.
    """

    def __init__(self, name: str) -> None:
        """Build a model.

        Args:
            name: One of `LIMITS`.
        """
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(0)
        self._built = fill(build(LIMITS[name]))
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
