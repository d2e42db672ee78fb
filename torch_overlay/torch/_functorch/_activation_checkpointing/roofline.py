"""Estimates the runtime of an op by what it computes and by what it moves.

The roofline model: Williams, Waterman and Patterson, 2009.
"""

import functools

import torch
import torch.fx as fx
from torch._functorch import config, partitioners
from torch._functorch._activation_checkpointing.overwritten_inputs import get_tensors
from torch._functorch._activation_checkpointing.saved_storages import get_storage_sizes
from torch.utils.flop_counter import flop_registry


# FLOPs and bytes per second of a device that nothing is known of. Only their ratio
# decides on plans: ten FLOPs of float32 for each byte.
_UNKNOWN_DEVICE = 1e12, 1e11

# Of their first operand these read no more than they return.
_LOOKUPS = ("embedding", "gather", "index", "index_select")


def estimate_roofline(node: fx.Node) -> float:
    """The runtime of an op, by the slower of its arithmetic and its memory traffic.

    Every op reads its operands and writes its results once; views move nothing. What
    fusion spares is not known here, so that chains of pointwise ops are estimated too
    high. Symbolic sizes count by their hints.

    Args:
        node: An op of a joint graph.

    Returns:
        Picoseconds, as a whole number, so that sums do not depend on their order.

    Raises:
        RuntimeError: If ``config.activation_memory_budget_roofline`` is not None or a
            pair of positive numbers.
    """
    tensors = get_tensors(node)
    if not tensors:
        return 0.0
    flops_per_second, bytes_per_second = _get_device(tensors[0])
    seconds = max(
        _count_flops(node) / flops_per_second, _count_bytes(node) / bytes_per_second
    )
    return float(round(seconds * 1e12))


def _count_flops(node: fx.Node) -> float:
    if getattr(node.target, "_overloadpacket", None) not in flop_registry:
        return 0.0
    with config.patch(activation_memory_budget_runtime_estimator="flops"):
        return partitioners.get_runtime(node)


def _count_bytes(node: fx.Node) -> int:
    operands = [source for source in node.all_input_nodes if get_tensors(source)]
    made = get_storage_sizes(node).keys()
    for source in operands:
        made -= get_storage_sizes(source).keys()
    if not made:
        return 0
    sizes = [partitioners._size_of(source) for source in operands]
    written = partitioners._size_of(node)
    name = getattr(getattr(node.target, "_overloadpacket", None), "__name__", "")
    if name in _LOOKUPS and sizes:
        sizes[0] = min(sizes[0], written)
    return sum(sizes) + written


def _get_device(tensor: torch.Tensor) -> tuple[float, float]:
    given = config.activation_memory_budget_roofline
    if given is None:
        return _look_up(tensor.device.type, tensor.dtype)
    if (
        not isinstance(given, tuple)
        or len(given) != 2
        or not all(isinstance(value, (int, float)) and value > 0 for value in given)
    ):
        raise RuntimeError(
            "activation_memory_budget_roofline is a pair of positive numbers, FLOPs "
            f"and bytes per second, or None. The provided value is {given!r}"
        )
    return given


@functools.lru_cache(None)
def _look_up(device_type: str, dtype: torch.dtype) -> tuple[float, float]:
    flops, bandwidth = _UNKNOWN_DEVICE
    if device_type == "cuda":
        from torch._inductor.utils import get_device_tflops, get_gpu_dram_gbps

        known = (torch.float16, torch.bfloat16, torch.float32)
        try:
            tflops = get_device_tflops(dtype if dtype in known else torch.float32)
            return 1e12 * tflops, 1e9 * get_gpu_dram_gbps()
        except (ImportError, RuntimeError):  # no Triton, or a device it does not know
            pass
    # Half the bytes, twice the numbers.
    return flops * 4 / max(dtype.itemsize, 1), bandwidth
