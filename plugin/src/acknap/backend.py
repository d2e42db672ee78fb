"""`torch.compile(model, backend="acknap", options={"budget": "8GB"})`."""

import functools
from collections.abc import Mapping
from typing import Any

import torch

from acknap._budget import Budget, Objective
from acknap._doors import Door, make_door


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Any,
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """Compile a graph with Inductor within a budget, as a backend of `torch.compile`.

    Args:
        gm: What Dynamo captured.
        example_inputs: Its inputs.
        options: "budget", and "objective" if one is meant; the others are Inductor's.
        mode: As for Inductor.

    Raises:
        ValueError: There is no budget, or it cannot be understood.
    """
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    others = dict(options or {})
    if "budget" not in others:
        raise ValueError('backend "acknap" needs options={"budget": ...}')
    door = _door(others.pop("budget"), others.pop("objective", "saved"))
    patches = {**(list_mode_options(mode) if mode else {}), **others, **door.inductor}
    with door.open():
        return compile_fx(gm, example_inputs, config_patches=patches)


@functools.cache
def _door(budget: Budget, objective: Objective) -> Door:
    """One for all graphs: what the device has free is asked once."""
    return make_door(budget, objective)
