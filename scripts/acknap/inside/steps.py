"""What a step of training allocates on the CPU, and how two results differ.

Runs inside an environment with torch.
"""

import itertools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

# The profiler's own words.
os.environ.setdefault("KINETO_LOG_LEVEL", "9")


@dataclass(frozen=True)
class Allocations:
    """What the CPU's allocator gave out while something ran.

    Attributes:
        events: All that the profiler saw.
        times: When bytes were given out or came back, in order.
        live: How many were given out after each of these times.
    """

    events: Sequence[Any]
    times: Sequence[int]
    live: Sequence[int]


def allocations(run: Callable[[], object]) -> Allocations:
    """Run something, and return what the CPU's allocator gave out meanwhile."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    events = seen.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    # Those of one time stay in the order in which they came.
    changes.sort(key=lambda change: change[0])
    live = list(itertools.accumulate(size for _, size in changes))
    return Allocations(events, [when for when, _ in changes], live)


def error(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """Return the difference of two results, as a share of the second one's norm.

    Of the whole: the gradient of a bias that changes nothing is noise.
    """
    pairs = list(zip(found, expected, strict=True))
    difference = sum(float((a - b).double().square().sum()) for a, b in pairs)
    norm = sum(float(b.double().square().sum()) for _, b in pairs)
    return math.sqrt(difference / norm) if norm else math.sqrt(difference)
