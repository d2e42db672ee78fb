"""A user's model on a device, in training: built with numbers, stepped, compiled.

Runs inside an environment with torch.
"""

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._functorch import config
from torch._inductor.compile_fx import compile_fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from acknap.inside.by_hand.checkpointed import checkpoint_blocks
from acknap.inside.models.block_models import fill
from acknap.inside.models.builtin import BUILT_IN
from acknap.inside.models.named import ModelError, build

_EMPTY = {torch.empty, torch.empty_like, torch.Tensor.new_empty}

Function = Callable[..., Any]


class _Filled(TorchFunctionMode):
    """Gives tensors that are made without content one: random numbers, zeros of whole.

    A function that is written for `capture` may leave its inputs empty.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        if function in _EMPTY:
            with torch.no_grad():
                _ = found.normal_() if found.is_floating_point() else found.zero_()
        return found


class Trained:
    """A model in training, and one batch for it.

    Attributes:
        parameters: What gets gradients.
    """

    def __init__(self, name: str, device: str) -> None:
        """Build a model.

        Args:
            name: As `named.build` takes it.
            device: "cpu" or "cuda".

        Raises:
            ModelError: There is no such model, or its tensors have no content.
        """
        usual = torch.get_default_dtype()
        torch.manual_seed(0)
        try:
            with torch.device(device), _Filled():
                built = build(name)
                if name in BUILT_IN or name.startswith("transformers:"):
                    built = fill(built)
        finally:
            torch.set_default_dtype(usual)
        self._built = built
        inputs = pytree.tree_leaves((built.arguments, built.keywords))
        tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
        if isinstance(built.model, torch.nn.Module):
            built.model.train()
            tensors += built.model.parameters()
        if any(one.is_meta for one in tensors):
            raise ModelError(
                f"{name}: it has tensors on the meta device, which have no content: "
                "leave their device to the caller, or add --no-run"
            )
        self.parameters = [one for one in tensors if one.requires_grad and one.is_leaf]
        self.eager: Function = built.model

    def by_hand(self) -> Function:
        """Return the model with each of its repeated blocks checkpointed.

        Parameters and buffers are those of the model.
        """
        model = self._built.model
        own = itertools.chain(model.parameters(), model.buffers())
        twin: Function = copy.deepcopy(model, {id(one): one for one in own})
        checkpoint_blocks(twin)
        return twin

    def compiled(self, function: Function, options: Mapping[str, Any]) -> Function:
        """Compile a function with Inductor; nothing runs yet.

        Args:
            function: `eager`, or what `by_hand` returned.
            options: Of torch._functorch.config, whenever it compiles.
        """

        # One of its own: by it Dynamo tells what is compiled for whom.
        def backend(graph: Any, inputs: Any) -> Any:
            with config.patch(enable_autograd_cache=False, **options):
                return compile_fx(graph, inputs)

        made: Function = torch.compile(function, backend=backend, dynamic=False)
        return made

    def step(self, function: Function, seed: int = 1) -> float:
        """Run forward and backward, with gradients made anew; return the loss.

        Nobody but the step holds its inputs. A model that returns no loss, which is a
        single number, gets the sum of the means of all that it returns.
        """
        for parameter in self.parameters:
            parameter.grad = None
        torch.manual_seed(seed)
        outputs = _outputs(function(*self._batch(0), **self._batch(1)))
        loss = sum(float(one.detach().float().mean()) for one in outputs)
        torch.autograd.backward(
            outputs, [torch.full_like(one, 1 / one.numel()) for one in outputs]
        )
        return loss

    def _batch(self, part: int) -> Any:
        def cloned(one: Any) -> Any:
            if not isinstance(one, torch.Tensor):
                return one
            return one.detach().clone().requires_grad_(one.requires_grad)

        batch = (self._built.arguments, self._built.keywords)[part]
        return pytree.tree_map(cloned, batch)

    def result(self, function: Function, seed: int = 1) -> list[torch.Tensor]:
        """Return the loss of a step, and its gradients, on the CPU."""
        loss = self.step(function, seed)
        gradients = [one.grad for one in self.parameters if one.grad is not None]
        found = [torch.tensor(loss), *(one.to("cpu", copy=True) for one in gradients)]
        for parameter in self.parameters:
            parameter.grad = None
        return found


def _outputs(found: Any) -> list[torch.Tensor]:
    """Return what a gradient is taken of: the loss if there is one."""
    if isinstance(found, Mapping) and isinstance(found.get("loss"), torch.Tensor):
        return [found["loss"]]
    leaves = pytree.tree_leaves(found)
    outputs = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
    losses = [one for one in outputs if one.dim() == 0]
    return losses[:1] or outputs
