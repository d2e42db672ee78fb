"""Where steps of training run, and how bytes and seconds are counted there.

Runs inside an environment with torch, which is handed over.
"""

import gc
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

Step = Callable[[], object]


class Device(Protocol):
    """A device.

    Attributes:
        kind: As torch names it.
        name: The machine's.
    """

    kind: str
    name: str

    def count_bytes(self, step: Step) -> int:
        """Run a step; return the most bytes that were allocated at once for it."""
        ...

    def count_seconds(self, step: Step) -> float:
        """Run a step; return how long it took, by the clock."""
        ...

    def free(self) -> None:
        """Give back what nobody uses."""
        ...


class Cpu:
    """The CPU, whose allocator is watched by the profiler."""

    kind = "cpu"

    def __init__(self, allocations: Callable[[Step], Any]) -> None:
        """Watch with `steps.allocations`."""
        self._allocations = allocations
        self.name = f"{_processor()}, CPU"

    def count_bytes(self, step: Step) -> int:
        gc.collect()
        return max(self._allocations(step).live, default=0)

    def count_seconds(self, step: Step) -> float:
        start = time.perf_counter()
        step()
        return time.perf_counter() - start

    def free(self) -> None:
        gc.collect()


class Cuda:
    """The current CUDA device, whose caching allocator counts for itself."""

    kind = "cuda"

    def __init__(self, cuda: Any) -> None:
        """Ask `torch.cuda`."""
        self._cuda = cuda
        self.name = str(cuda.get_device_name())

    def count_bytes(self, step: Step) -> int:
        self.free()
        self._cuda.synchronize()
        before = self._cuda.memory_allocated()
        self._cuda.reset_peak_memory_stats()
        step()
        self._cuda.synchronize()
        return int(self._cuda.max_memory_allocated() - before)

    def count_seconds(self, step: Step) -> float:
        start, end = (self._cuda.Event(enable_timing=True) for _ in range(2))
        self._cuda.synchronize()
        start.record()
        step()
        end.record()
        self._cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def free(self) -> None:
        gc.collect()
        self._cuda.empty_cache()


def _processor() -> str:
    """Return the processor's name; Linux alone tells it to a reader."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [x.partition(":")[2] for x in lines if x.startswith("model name")]
    return names[0].strip() if names else platform.processor() or platform.machine()
