"""Steps of training within a limit in bytes, and the bytes that they allocate.

Runs inside an environment with patched torch::

    python -I -B limits.py OUTPUT.jsonl [--packages DIR] [--models NAME...]

A line per model, backend and limit, and one without a limit. Models that OUTPUT holds
are left out. Bytes are those that the CPU's allocator had given out since the step
began: inputs, activations, tangents and gradients; parameters and buffers were there
before. Counted at all times, they are with what kernels take for themselves, and at the
ends of the ops without it.
"""

import gc
import itertools
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

# Isolated, Python does not look beside this file.
sys.path.append(str(Path(__file__).parents[3]))
import torch
import torch._functorch.partitioners as partitioners
import torch._inductor.config as inductor
import torch._inductor.memory as inductor_memory
from torch._functorch import config

from acknap.inside.known import LIMITS as MODELS
from acknap.inside.limits.trained import Trained
from acknap.inside.models import records
from acknap.inside.models.joint_graphs import Joint, treat_attention_as_on_cuda
from acknap.inside.models.partition import options, versions
from acknap.inside.models.records import Row
from acknap.inside.peaks.emitted import Emitted
from acknap.inside.steps import allocations, error

BACKENDS = ("aot_eager_decomp_partition", "inductor")
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the way from the lowest peak to the default
ROUNDS = 7  # of steps that are timed
NO_LIMIT = 10**15

Step = Callable[..., Any]


class _Watch:
    """Notes what is planned while a model is compiled, and what Inductor expects."""

    def __init__(self) -> None:
        self.plans: list[Row] = []
        self.estimates: list[int] = []
        self._choose: Any = partitioners.choose_saved_values_set
        self._estimate: Any = inductor_memory.reorder_for_peak_memory

    def choose(self, graph: Any, node_info: Any, memory_budget: float = 1) -> Any:
        """Plan a graph, and measure the graphs that are emitted."""
        saved = self._choose(graph, node_info, memory_budget=memory_budget)
        emitted = Emitted(Joint(graph, node_info))
        plan = emitted.measure(list(saved)) | {"total": emitted.total}
        report: Any = getattr(graph, "_memory_budget_report", {})
        for key in ("Planned", "Lowest", "Default"):
            plan[key.lower()] = report.get(f"{key} Peak Bytes")
        self.plans.append(plan)
        return saved

    def order(self, nodes: Any, *arguments: Any, **keywords: Any) -> Any:
        """Order the nodes of one of Inductor's graphs, and note its own estimate."""
        found = self._estimate(nodes, *arguments, **keywords)
        freeable = inductor_memory.get_freeable_input_buf(found, arguments[2])
        peak, _ = inductor_memory.estimate_peak_memory(found, freeable, arguments[3])
        self.estimates.append(peak)
        return found


def compiled(trained: Trained, backend: str, limit: int | None) -> tuple[Step, Row]:
    """Compile a model's loss and take one step.

    Args:
        trained: The model.
        backend: One of `BACKENDS`.
        limit: In bytes; None for torch's default plan.

    Returns:
        The function, and its plan.
    """
    torch._dynamo.reset()
    watch = _Watch()
    asked = options() | {"enable_autograd_cache": False}
    asked["activation_memory_budget_bytes"] = limit
    function = torch.compile(trained.loss, backend=backend, dynamic=False)
    with (
        config.patch(asked),
        inductor.patch(fallback_random=True, fx_graph_cache=False),
        mock.patch.object(partitioners, "choose_saved_values_set", watch.choose),
        mock.patch.object(inductor_memory, "reorder_for_peak_memory", watch.order),
    ):
        trained.reset()
        trained.step(function)
    (plan,) = watch.plans
    return function, plan | {"estimate": max(watch.estimates, default=None)}


def allocated(trained: Trained, function: Step) -> Row:
    """Return the most bytes that are allocated at once while a step runs.

    Returns:
        `measured` at all times, and `held` at the ends of the graphs' ops.
    """
    trained.reset()
    gc.collect()
    seen = allocations(lambda: trained.step(function))
    ops = [e for e in seen.events if e.name().startswith(("aten::", "prims::"))]
    ends = (bisect_right(seen.times, end) for end in _outermost_ends(ops))
    held = max(seen.live[count - 1] for count in ends if count)
    return {"measured": max(seen.live), "held": held}


def _outermost_ends(events: list[Any]) -> Iterator[int]:
    """Return the times at which events end that lie in no other."""
    last = 0
    for event in sorted(events, key=lambda e: (e.start_ns(), -e.end_ns())):
        if event.start_ns() >= last:
            last = event.end_ns()
            yield last


def result(trained: Trained, function: Step) -> list[torch.Tensor]:
    """Return the loss of a step, and its gradients."""
    trained.reset()
    loss = trained.step(function)
    gradients = (one.grad for one in trained.parameters.values())
    return [torch.tensor(loss), *(g.clone() for g in gradients if g is not None)]


def ratio(trained: Trained, function: Step, other: Step) -> float:
    """Return the time of a step as a share of another's; the two take turns."""
    spent: dict[Step, list[float]] = {function: [], other: []}
    for _, (one, seconds) in itertools.product(range(ROUNDS), spent.items()):
        start = time.process_time()
        trained.step(one)
        seconds.append(time.process_time() - start)
    return median(spent[function]) / median(spent[other])


def rows(name: str, _stock: list[Row]) -> Iterator[Row]:
    """Measure a model: with each backend, without a limit and within each of them."""
    treat_attention_as_on_cuda()
    trained = Trained(name)
    _, ends = compiled(trained, BACKENDS[0], NO_LIMIT)
    lowest, way = ends["lowest"], ends["default"] - ends["lowest"]
    more = {"lowest": lowest, "default": ends["default"]} | versions()
    for backend in BACKENDS:
        free, plan = compiled(trained, backend, None)
        expected = [result(trained, one) for one in (trained.loss, free)]
        without = {"backend": backend, "share": None, "limit": None} | plan | more
        yield without | allocated(trained, free)
        for share in SHARES:
            limit = lowest + int(share * way)
            function, plan = compiled(trained, backend, limit)
            found = result(trained, function)
            row: Row = (
                {"backend": backend, "share": share, "limit": limit} | plan | more
            )
            row |= allocated(trained, function)
            row["error"], row["change"] = (error(found, one) for one in expected)
            if backend == "inductor":
                row["time"] = ratio(trained, function, free)
            yield row


if __name__ == "__main__":
    records.write(MODELS, rows)
