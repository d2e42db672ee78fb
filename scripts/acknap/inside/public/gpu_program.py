"""What a step on a GPU allocates, found without a GPU.

Runs inside an environment with a CUDA build of torch; no driver is needed. The emitted
forward and backward get tensors without content on a device "cuda". With `aot_eager`
their calls run one by one; with `inductor` Inductor writes its program for a card whose
figures it is told, and that runs with kernels that do nothing. What is allocated and
freed is written down, Python's own lifetimes included.
"""

import contextlib
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch._inductor.compile_fx as compile_fx
import torch._inductor.config as inductor_config
from torch._dynamo import device_interface
from torch._dynamo.backends.debugging import boxed_nop
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.node import map_aggregate
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from acknap.inside.public.allocator import Event

_DEVICE = torch.device("cuda", 0)
_GUARDS: Any = torch._C._dynamo.guards
_ATTENTION_BACKWARD: Any = (
    torch.ops.aten._scaled_dot_product_efficient_attention_backward.default
)
# Calls a compiled forward or backward with a list that it empties.
_Boxed = Callable[[list[Any]], Any]


class Card:
    """The GTX 1650 as torch describes it: NVIDIA's figures of a TU117."""

    name = "NVIDIA GeForce GTX 1650"
    major, minor = 7, 5
    multi_processor_count = 14
    warp_size = 32
    regs_per_multiprocessor = 65536
    max_threads_per_multi_processor = 1024
    max_threads_per_block = 1024
    shared_memory_per_block = 48 << 10
    shared_memory_per_block_optin = 64 << 10
    total_memory = 4 << 30
    L2_cache_size = 1 << 20
    is_integrated = 0
    gcnArchName = ""  # noqa: N815 -- torch's name


class _StopError(Exception):
    """The program is written: there is no need to go on."""


def run_step(backend: str, forward: Any, backward: Any) -> list[Event]:
    """Return what a forward and a backward allocate and free, in order.

    Parameters, buffers and the batch are there before and do not count. The gradients
    stay until the end.

    Args:
        backend: "aot_eager" or "inductor".
        forward: The module that the partitioner emitted. It is changed.
        backward: The same of the backward.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    primals = {
        n.name: _fake(n, mode) for n in forward.graph.find_nodes(op="placeholder")
    }
    with _card():
        run = _compile(backend, forward, [*primals.values()], mode, is_backward=False)
        recorder = _Recorder(primals.values())
        with mode, recorder:
            saved = list(run([*primals.values()]))
        # The loss comes first: it stays alive, and its gradient is of the same size.
        (output,) = forward.graph.find_nodes(op="output")
        names = [getattr(node, "name", "") for node in output.args[0]]
        known = primals | dict(zip(names, saved, strict=True))
        loss, first = saved[0], names[0]
        arguments = []
        for node in backward.graph.find_nodes(op="placeholder"):
            if node.name not in known:
                with mode, recorder:
                    known[node.name] = torch.empty_like(loss)
            arguments.append(known[node.name])
        run = _compile(backend, backward, arguments, mode, is_backward=True)
        for name in [*known]:
            if name != first and name not in primals:
                del known[name]
        saved.clear()
        with mode, recorder:
            gradients = run(arguments)
    events = [*recorder.events]
    del gradients
    return events


def _fake(node: Any, mode: FakeTensorMode) -> Any:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return value
    with mode:
        return torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=_DEVICE
        )


class _Recorder(TorchDispatchMode):
    """Writes down when storages come and go.

    Attributes:
        events: A number for each storage, and its bytes or, when it goes, None.
    """

    def __init__(self, there: Any) -> None:
        super().__init__()
        self.events: list[Event] = []
        self._count = 0
        self._held: dict[int, list[int]] = {}  # number and tensors, by the storage
        # They live as long as this, so that their storages are not taken for new ones.
        self._there = [one for one in there if isinstance(one, torch.Tensor)]
        self._known = {one.untyped_storage()._cdata for one in self._there}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        for one in pytree.tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self._hold(one)
        if func is _ATTENTION_BACKWARD:
            self._attend_backward(args[0])
        return result

    def _attend_backward(self, gradient: Any) -> None:
        """Write down what the kernel allocates itself, in float32.

        The product of the result and its gradient, and the sum of its rows; aten's
        native/transformers/cuda/attention_backward.cu, `launchKernel`.
        """
        product = int(gradient.numel()) * 4
        numbers = range(self._count + 1, self._count + 3)
        self._count += 2
        sizes = (product, product // int(gradient.shape[-1]))
        self.events += [*zip(numbers, sizes, strict=True)]
        self.events += [(number, None) for number in numbers]

    def _hold(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        if key not in self._held:
            self._count += 1
            self._held[key] = [self._count, 0]
            self.events.append((self._count, int(storage.nbytes())))
        self._held[key][1] += 1
        weakref.finalize(tensor, self._drop, key)

    def _drop(self, key: int) -> None:
        held = self._held[key]
        held[1] -= 1
        if not held[1]:
            self.events.append((held[0], None))
            del self._held[key]


def _compile(
    backend: str, module: Any, inputs: list[Any], mode: Any, *, is_backward: bool
) -> _Boxed:
    _move(module, inputs, mode)
    if backend == "aot_eager":
        run: _Boxed = boxed_nop(module, inputs)
        return run
    return _load(_write(module, inputs, mode, is_backward=is_backward))


def _move(module: Any, inputs: list[Any], mode: Any) -> None:
    """Have a module's values on the device."""

    def moved(value: Any) -> Any:
        return _DEVICE if isinstance(value, torch.device) else value

    for node in module.graph.nodes:
        node.meta = dict(node.meta)  # some are the joint graph's
        node.args = map_aggregate(node.args, moved)
        node.kwargs = map_aggregate(node.kwargs, moved)
    module.recompile()
    FakeTensorProp(module, mode).propagate(*inputs)


def _write(module: Any, inputs: list[Any], mode: Any, *, is_backward: bool) -> str:
    """Return the program that Inductor writes, without its kernels."""
    found = []

    def stop(lowering: Any) -> None:
        found.append(lowering.codegen()[0].value)
        raise _StopError

    context = torch._guards.TracingContext(mode)
    with (
        mock.patch.object(GraphLowering, "compile_to_module", stop),
        inductor_config.patch(force_disable_caches=True),
        torch._guards.tracing(context),
        contextlib.suppress(torch._inductor.exc.InductorError),
    ):
        compile_fx.compile_fx_inner(module, inputs, is_backward=is_backward, graph_id=0)
    (text,) = found
    # Kernels lie in strings of three quotes.
    return re.sub(r"'''.*?'''", "''", text, flags=re.DOTALL)


class _Kernels:
    """Stands for all kernels, Triton's and those of libraries: they do nothing."""

    def __getattr__(self, name: str) -> Any:
        return _Kernels()

    def __call__(self, *_: Any, **keywords: Any) -> Any:
        return keywords.get("out", self)


def _load(text: str) -> _Boxed:
    """Return the function of a program."""
    hooks: dict[str, Any] = {
        "_empty_strided_cuda": lambda size, stride, dtype: torch.empty_strided(
            size, stride, dtype=dtype, device=_DEVICE
        ),
        "_reinterpret_tensor": torch.as_strided,
        "assert_size_stride": lambda *_: None,
        "assert_alignment": lambda *_: None,
    }
    names: dict[str, Any] = {"__name__": "program"}
    kernels = _Kernels()
    with (
        mock.patch.multiple(_GUARDS, **hooks),
        mock.patch.multiple(AsyncCompile, triton=kernels, wait=kernels),
        mock.patch("torch._inductor.select_algorithm.extern_kernels", kernels),
    ):
        exec(compile(text, "program", "exec"), names)
    names["get_raw_stream"] = kernels
    run: _Boxed = names["call"]
    return run


@contextlib.contextmanager
def _card() -> Iterator[None]:
    """Let torch believe that there is a card."""

    def card(*_: Any) -> Any:
        return Card

    interface = device_interface.CudaInterface
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "get_compute_capability": lambda *_: 10 * Card.major + Card.minor,
        "is_triton_capable": lambda *_: True,
        "raise_if_triton_unavailable": lambda *_: None,
    }
    torchs: dict[str, Any] = {
        "torch.cuda._get_device_properties": card,
        "torch.cuda._lazy_init": lambda: None,
        "torch.cuda.get_device_capability": lambda *_: (Card.major, Card.minor),
        "torch.cuda.device_count": lambda: 1,
        "torch.cuda.current_device": lambda: 0,
        "torch.cuda.set_device": lambda *_: None,
        "torch.cuda._DeviceGuard": lambda *_: contextlib.nullcontext(),
        "torch._inductor.scheduler.has_triton": lambda: True,
        "torch.utils._triton.triton_hash_with_backend": lambda: "none",
    }
    with contextlib.ExitStack() as stack:
        for name, value in torchs.items():
            stack.enter_context(mock.patch(name, value, create=True))
        for name, value in answers.items():
            stack.enter_context(mock.patch.object(interface, name, staticmethod(value)))
        stack.enter_context(
            mock.patch.object(interface.Worker, "get_device_properties", card)
        )
        yield
