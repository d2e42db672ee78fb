"""Budgets for those who call `torch.compile` themselves: trainers, and their users."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from acknap._budget import Budget, Objective
from acknap._doors import make_door

# From PyTorch 2.12 on options are those of a thread: another one cannot put them back.
_own = threading.local()


@contextmanager
def budget(budget: Budget, objective: Objective = "saved") -> Iterator[None]:
    """Plan what is compiled in the block within a budget.

    A model is compiled when it is first called, so this first call, such as
    `trainer.train()`, has to be in the block. What was compiled before keeps its plan.

    Args:
        budget: A share from 0 to 1; bytes, as an int above 1 or a text such as "8GB",
            "512MB" or "2GiB"; or "device", what is free on the CUDA device at the
            first compile, less a tenth.
        objective: What a share is a share of: "saved", the bytes that the forward saves
            for the backward, or "peak", what of the peak can be planned away. Bytes
            always bound the peak.

    Raises:
        ValueError: The budget or the objective cannot be understood.
        RuntimeError: "device" without a CUDA device, or Inductor has a partitioner of
            somebody else.
    """
    with make_door(budget, objective).open():
        yield


def enable(budget: Budget, objective: Objective = "saved") -> None:
    """Plan what this thread compiles from now on within a budget.

    It takes the place of the thread's earlier one. Arguments and errors are those of
    `budget`.
    """
    door = make_door(budget, objective)
    disable()
    opened = door.open()
    opened.__enter__()
    _own.opened = opened


def disable() -> None:
    """End what `enable` began in this thread; without it nothing happens."""
    if opened := vars(_own).pop("opened", None):
        opened.__exit__(None, None, None)
