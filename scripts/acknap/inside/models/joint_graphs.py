"""Trace a model as torch.compile does, and keep the joint graphs it would part.

Runs inside an environment with torch. Nothing is computed: parameters and inputs are
fake tensors on the CPU.
"""

import contextlib
import gc
import sys
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch._functorch.partitioners as partitioners
from torch._dynamo import lookup_backend
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils import flop_counter

from acknap.inside.models.builtin import Built
from acknap.inside.models.named import ModelError, build, one_line

_operators: Any = partitioners.get_default_op_list
_ATTENTION: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

# Takes a graph of dynamo's and its inputs, and returns what to call in its place.
Backend = Callable[[Any, Any], Any]


class Joint(NamedTuple):
    """A joint graph of forward and backward, as the partitioner gets it."""

    graph: Any
    node_info: Any


def trace(
    model: str,
    *,
    backend: Backend | None = None,
    change: Callable[[torch.nn.Module], None] | None = None,
) -> list[Joint]:
    """Build a model and return its joint graphs.

    Args:
        model: As `named.build` takes it.
        backend: Makes the joint graphs of a graph of dynamo's, for inputs; torch's
            "aot_eager_decomp_partition" if None.
        change: Changes the model, a module, before it is traced.

    Raises:
        ModelError: The model cannot be built or traced, or has nothing to train.
    """
    gc.unfreeze()  # the graphs of the model before
    treat_attention_as_on_cuda()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    usual = torch.get_default_dtype()
    try:
        with torch.device("meta"):
            built = build(model)
        if isinstance(built.model, torch.nn.Module):
            built.model.train()
        if change:
            change(built.model)
        faked = _faked(built, mode)
        backend = backend or lookup_backend("aot_eager_decomp_partition")
        joints = _compile(model, faked, mode, backend)
    finally:
        torch.set_default_dtype(usual)
        torch._dynamo.reset()
    if not joints:
        raise ModelError(
            f"{model}: torch.compile made no graph with a backward: no parameter or "
            "input of the model requires a gradient"
        )
    gc.collect()
    gc.freeze()
    return joints


def _faked(built: Built, mode: FakeTensorMode) -> Built:
    """Replace all tensors by fake ones on the CPU; what was shared stays shared."""
    known: dict[int, Any] = {}

    def fake(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor):
            return tensor
        if id(tensor) not in known:
            made: Any = torch.empty_strided(
                tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu"
            )
            if isinstance(tensor, torch.nn.Parameter):
                made = torch.nn.Parameter(made, tensor.requires_grad)
            elif tensor.requires_grad:
                made.requires_grad_()
            known[id(tensor)] = made
        return known[id(tensor)]

    with mode:
        if isinstance(built.model, torch.nn.Module):
            for module in built.model.modules():
                for table in (module._parameters, module._buffers):
                    table.update({name: fake(one) for name, one in table.items()})
        arguments, keywords = pytree.tree_map(fake, (built.arguments, built.keywords))
    return Built(built.model, arguments, keywords)


def _compile(
    model: str, built: Built, mode: FakeTensorMode, backend: Backend
) -> list[Joint]:
    found: list[Joint] = []
    choose: Any = partitioners.choose_saved_values_set

    def keep(graph: Any, node_info: Any, **_: Any) -> Any:
        found.append(Joint(graph, node_info))
        return choose(graph, node_info, memory_budget=1)

    def part(graph: Any, inputs: Any) -> Any:
        # Dynamo made a fake mode for the graph, and 2.10 refuses inputs of another.
        context: Any = torch._guards.TracingContext.get()
        with mock.patch.object(context, "fake_mode", mode):
            return backend(graph, inputs)

    torch._dynamo.reset()
    run = torch.compile(built.model, backend=part, dynamic=False)
    kept = mock.patch.object(partitioners, "choose_saved_values_set", keep)
    try:
        # The model may print; standard output is for answers.
        with mode, contextlib.redirect_stdout(sys.stderr), kept:
            run(*built.arguments, **built.keywords)
    except Exception as error:
        raise ModelError(f"{model}: {one_line(error)}") from error
    return found


def treat_attention_as_on_cuda() -> None:
    """Give the CPU's scaled-dot-product attention the standing of CUDA's.

    The partitioner lists CUDA's operators as costly to compute and does not know the
    CPU's, which it would recompute for nothing.
    """
    if _ATTENTION not in flop_counter.flop_registry:  # newer releases know its cost
        flop_counter.register_flop_formula(_ATTENTION)(
            lambda q, k, v, *_, **__: flop_counter.sdpa_flop_count(q, k, v)
        )

    def listed() -> Any:
        found = _operators()
        found.compute_intensive_ops.add(_ATTENTION)
        found.recomputable_ops.discard(_ATTENTION)
        found.fusible_ops.discard(_ATTENTION)
        return found

    partitioners.get_default_op_list = listed
