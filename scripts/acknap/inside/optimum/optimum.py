"""Plans by the peak of small graphs, held against the optimum.

Runs inside an environment with patched torch and scipy::

    python -I -B optimum.py OUTPUT.jsonl [--packages DIR] [--models NAME...]

A line per graph and target. Lines that OUTPUT holds are left out.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

# Isolated, Python does not look beside this file.
sys.path.append(str(Path(__file__).parents[3]))

import torch
import torch._functorch.partitioners as partitioners
from torch._functorch import config
from torch.nn import functional as F  # noqa: N812

from acknap.inside.known import OPTIMUM as MODELS
from acknap.inside.models.builtin import BUILT_IN, Experts, Norm, Residual, Sizes
from acknap.inside.models.joint_graphs import trace
from acknap.inside.models.partition import OBJECTIVE, options, versions
from acknap.inside.models.records import Row, parse, read
from acknap.inside.optimum.bound import Bound, bound
from acknap.inside.optimum.program import Program
from acknap.inside.peak_search import one_search

# Between the lowest peak that was found, 0, and that of the default plan, 1.
TARGETS = (0.02, 0.1, 0.2, 0.4)
# Of the solver, for one target.
_SECONDS = 300.0

_SIZES = Sizes(256, 4, 1, 2048, 256, 4, (16, 2), (4, 3, 64, 64))


def decoder() -> Any:
    """Return the built-in decoder with one layer, and its inputs."""
    return _built_in("decoder")


def moe() -> Any:
    """Return the built-in mixture of experts with one layer, and its inputs."""
    return _built_in("moe")


def convnet() -> Any:
    """Return the built-in U of convolutions, of two levels, and its inputs."""
    return _built_in("convnet")


def _built_in(name: str) -> Any:
    built = BUILT_IN[name](_SIZES)
    return built.model, built.arguments


def residual() -> Any:
    """Return three residual convolutions, and a batch of images."""
    return Residual(12, 3), torch.empty(4, 12, 48, 48)


class Perceptron(torch.nn.Module):
    """Linear layers of widths that differ, with GELU between them."""

    def __init__(self, widths: list[int]) -> None:
        super().__init__()
        self.steps = torch.nn.ModuleList(
            torch.nn.Linear(a, b) for a, b in pairwise(widths)
        )

    def forward(self, x: Any) -> Any:
        for step in self.steps:
            x = F.gelu(step(x))
        return x.square().mean()


def perceptron() -> Any:
    """Return a perceptron of 8 layers, and a batch."""
    return Perceptron([64, *(64 * (1 + k % 3) for k in range(8))]), torch.empty(512, 64)


class Routed(torch.nn.Module):
    """Two layers of experts on normed branches."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(Norm(width) for _ in range(2))
        self.feeds = torch.nn.ModuleList(Experts(width, experts) for _ in range(2))

    def forward(self, x: Any) -> Any:
        for norm, feed in zip(self.norms, self.feeds, strict=True):
            x = x + feed(norm(x))
        return x.square().mean()


def experts() -> Any:
    """Return two layers of experts, and a batch of texts."""
    return Routed(64, 4), torch.empty(2, 128, 64)


def rows(model: str, known: set[float]) -> Iterator[Row]:
    """Bound the plans of a model's largest joint graph at the targets not yet known."""
    joint = max(trace(model), key=lambda one: len(one.graph.nodes))
    with one_search() as found, config.patch(options() | {OBJECTIVE: "peak"}):
        partitioners.choose_saved_values_set(*joint, memory_budget=0.0)
    # The series has it, and released torch, where MODELS is read, has not.
    from torch._functorch._activation_checkpointing.peak_memory import Timeline

    search = found["search"]
    schedule = search.planner._schedule
    fixed = [
        is_bound and base not in search._default_run
        for base, is_bound in enumerate(search._is_bound)
    ]
    program = Program(schedule, fixed)
    total = sum(search.runtime[i] for i in schedule.forward)
    lowest, highest = search.lowest.peak, search.default.peak
    for share in TARGETS:
        if share in known:
            continue
        target = lowest + int(share * (highest - lowest))
        start = time.process_time()
        plan = search.planner.frontier.find(target)
        timeline = Timeline(schedule, search.runtime, plan.saved)
        least = bound(program, search.runtime, total, target, plan.runtime, _SECONDS)
        yield {
            "target": share,
            "limit": target,
            "peak": plan.peak,
            "runtime": plan.runtime,
            "bound": least.bound,
            "found": least.found,
            "better": _better(least, schedule, search.runtime, target),
            "broken": program.count_broken(timeline, target),
            "variables": least.variables,
            "seconds": time.process_time() - start,
            "total": total,
            "nodes": len(joint.graph.nodes),
        }


def _better(
    least: Bound, schedule: Any, runtime: list[float], target: int
) -> float | None:
    """Return the runtime of the program's solution, if it is a plan for the target."""
    if least.saved is None:
        return None
    from torch._functorch._activation_checkpointing.peak_memory import Timeline

    timeline = Timeline(schedule, runtime, least.saved)
    return timeline.runtime if timeline.peak <= target else None


def main() -> None:
    """Measure what is missing."""
    arguments = parse(argparse.ArgumentParser(), MODELS)
    old = read(arguments.output)
    with arguments.output.open("a") as output:
        for number, name in enumerate(arguments.models, 1):
            known = {row["target"] for row in old if row["model"] == name}
            if known >= {*TARGETS}:
                continue
            for row in rows(MODELS[name], known):
                output.write(json.dumps({"model": name} | row | versions()) + "\n")
                output.flush()
            print(f"{number}/{len(arguments.models)} {name}", flush=True)


if __name__ == "__main__":
    main()
