"""The ways into PyTorch: which one the installed torch has, and a budget behind it."""

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from acknap._budget import Budget, Objective
from acknap._hooks import Pair
from acknap._partitioner import Partitioner
from acknap._release import installed

log = logging.getLogger("acknap")

_PARTITIONER = "custom_partitioner_fn"


@dataclass
class Door:
    """A budget, and the options of torch that bring it into a compile.

    Attributes:
        planner: Makes the plans; None if this torch has no way in.
        inductor: Options of `torch._inductor.config`.
        functorch: Options of `torch._functorch.config`.
    """

    planner: Partitioner | Pair | None
    inductor: dict[str, Any] = field(default_factory=dict)
    functorch: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Set the options for the block, in this context, and tell what came of it."""
        with (
            functorch_config.patch(self.functorch),
            inductor_config.patch(self.inductor),
            self.planner.watch() if self.planner else nullcontext(),
        ):
            yield


def make_door(budget: Budget, objective: Objective) -> Door:
    """Put a budget behind the best door that the installed torch has.

    Raises:
        ValueError: The budget or the objective cannot be understood.
        RuntimeError: "device" without a CUDA device, or Inductor has the partitioner of
            somebody else.
    """
    _require_free()
    match kind():
        case "private":
            planner = Partitioner(budget, objective=objective)
            return Door(planner, inductor={_PARTITIONER: planner})
        case "hooks":
            pair = Pair(budget, objective=objective)
            return Door(pair, functorch=pair.options())
        case "none":
            return Door(None)


@functools.cache
def kind() -> Literal["private", "hooks", "none"]:
    """Which door this torch has; what it does not promise is logged once."""
    reason = installed().reason or _fault("private")
    if not reason:
        return "private"
    if fault := _fault("hooks"):
        log.warning("%s, and its hooks fail (%s): no budget is kept", reason, fault)
        return "none"
    log.warning(
        "%s: by its documented hooks alone what the forward saves is bounded, not the "
        "peak, and random ops and overwritten inputs are as in that torch",
        reason,
    )
    return "hooks"


def _fault(door: str) -> str:
    """What the self-test finds wrong with a door; empty if it works."""
    try:
        from acknap import _self_test

        _self_test.run(door)
    except Exception as error:  # whatever a torch does that is not known
        log.debug("the self-test of the %s door fails", door, exc_info=True)
        return f"{type(error).__name__}: {error}"
    return ""


def _require_free() -> None:
    owner = getattr(inductor_config, _PARTITIONER, None)
    if owner is not None and not isinstance(owner, Partitioner):
        raise RuntimeError(
            f"torch._inductor.config.{_PARTITIONER} is {type(owner).__name__} already, "
            "and only one can part a graph: set it to None to plan with acknap"
        )
