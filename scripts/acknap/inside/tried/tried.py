"""Plan and train a user's model in one interpreter with torch, on request.

Reads one JSON request a line from standard input and answers each with one line on
standard output, as models/capture.py does, with the same command line:

    {"op": "describe"}                               torch, and the device
    {"op": "open", "model": "decoder"}               what tells its graphs from others
    {"op": "plan", "way": "exact", "budget": 0.3}    bytes and recomputation of a plan
    {"op": "train", "way": "exact", "budget": 0.3}   bytes and seconds of steps by it
"""

import math
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path

# Isolated, Python does not look beside this file.
sys.path += [*sys.argv[2:], str(Path(__file__).parents[3])]

import torch
import torch._dynamo

from acknap.inside.models.partition import versions
from acknap.inside.models.records import Row
from acknap.inside.serve import answers_apart, serve
from acknap.inside.steps import allocations, error
from acknap.inside.tried.devices import Cpu, Cuda, Device
from acknap.inside.tried.plans import BY_HAND, NO_BUDGET, Plans, options
from acknap.inside.tried.trained import Function, Trained

# A user's module hides all that is not loaded yet, as in a script of theirs.
os.chdir(sys.argv[1])
sys.path.insert(0, sys.argv[1])

_ROUNDS = (3, 9)  # of steps that are timed, at least and at most
_SECONDS = 20  # after which no round more begins


class Worker:
    """A model: its plans, and it in training once that is asked for."""

    def __init__(self) -> None:
        on_card = torch.cuda.is_available()
        self._device: Device = Cuda(torch.cuda) if on_card else Cpu(allocations)
        self._steps: _Steps | None = None

    def describe(self) -> Row:
        """Say what this environment and machine have."""
        return {"torch": torch.__version__, "device": self._device.name}

    def open(self, model: str) -> Row:
        """Trace a model; it is the one that is meant from now on."""
        self._model, self._plans, self._steps = model, Plans(model), None
        return {"graph": self._plans.graph, "code": versions()["code"]}

    def plan(self, way: str, budget: float) -> Row:
        """Plan the model's graphs in one way."""
        return self._plans.measure(way, budget)

    def train(self, way: str, budget: float) -> Row:
        """Train the model by a plan."""
        try:
            if self._steps is None:
                self._steps = _Steps(self._model, self._device)
            return self._steps.measure(way, budget)
        except torch.OutOfMemoryError:
            self._device.free()  # for the next plan
            raise


class _Steps:
    """Steps of one model: eager, without a budget, and by a plan."""

    def __init__(self, model: str, device: Device) -> None:
        self._device = device
        self._trained = Trained(model, device.kind)
        self._free = self._compiled(NO_BUDGET, 1.0)
        self._eager = self._result(self._trained.eager)
        # Compiled code draws other random numbers than eager torch does.
        other = self._result(self._trained.eager, seed=2)
        if self._eager and other and error(other, self._eager) > _allowed(other):
            self._eager = None
        self._default = self._result(self._free)

    def measure(self, way: str, budget: float) -> Row:
        """Compile the model by a plan, and take steps.

        Returns:
            `measured`, the most bytes that are allocated at once for a step,
            `seconds` of a step, `ratio`, its time as a share of one without a budget
            (None where memory does not suffice for that),
            `off`, how far loss and gradients are from eager's or, if that is less,
            from those without a budget, and `allowed`, how far rounding can take them.
        """
        trained, device = self._trained, self._device
        function = self._free if way == NO_BUDGET else self._compiled(way, budget)
        found = trained.result(function)
        measured = device.count_bytes(lambda: trained.step(function))
        others = (self._eager, None if function is self._free else self._default)
        errors = [error(found, one) for one in others if one]
        seconds, ratio = self._time(function)
        return {
            "measured": measured,
            "seconds": seconds,
            "ratio": ratio,
            "off": min(errors, default=None),
            "allowed": _allowed(found),
        }

    def _compiled(self, way: str, budget: float) -> Function:
        trained = self._trained
        function = trained.by_hand() if way == BY_HAND else trained.eager
        return trained.compiled(function, options(way, budget))

    def _result(self, function: Function, seed: int = 1) -> list[torch.Tensor] | None:
        """Return loss and gradients; None if memory does not suffice."""
        try:
            return self._trained.result(function, seed)
        except torch.OutOfMemoryError:
            self._device.free()
            return None

    def _time(self, function: Function) -> tuple[float, float | None]:
        """Return the seconds of a step, and their ratio to those without a budget."""
        spent: dict[str, list[float]] = {"other": [], "own": []}
        begin = time.monotonic()
        least, most = _ROUNDS
        pairs = [("other", self._free), ("own", function)]
        if self._default is None:
            pairs = pairs[1:]
        for number in range(most):
            if number >= least and time.monotonic() - begin > _SECONDS:
                break
            for key, one in pairs if number % 2 else pairs[::-1]:
                seconds = self._device.count_seconds(partial(self._trained.step, one))
                spent[key].append(seconds)
        ratios = [*map(float.__truediv__, spent["own"], spent["other"])]
        ratio = statistics.median(ratios) if ratios else None
        return statistics.median(spent["own"]), ratio


def _allowed(found: list[torch.Tensor]) -> float:
    """Return how far rounding can take a result: half of the digits, by custom."""
    return math.sqrt(max(torch.finfo(one.dtype).eps for one in found))


if __name__ == "__main__":
    answers = answers_apart()
    # What is compiled for the plans before does not count against a plan.
    torch._dynamo.config.recompile_limit = 1000
    torch._dynamo.config.accumulated_recompile_limit = 10_000
    serve(Worker(), answers)
