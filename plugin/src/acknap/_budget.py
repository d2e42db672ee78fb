"""What a user asks for: a share, a number of bytes, or what the device has free."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import torch

Budget: TypeAlias = float | int | str
Objective: TypeAlias = Literal["saved", "peak"]

DEVICE = "device"
# Of what is free, left for what a plan does not count: kernels' workspaces, fragments.
DEVICE_MARGIN = 0.1
# Free bytes are rounded down to these, so that another run may find its cached plan.
DEVICE_STEP = 64 * 2**20

# Of a limit in bytes, left for Inductor: what it fuses holds some values longer than is
# planned. In three plans of a Llama it allocated 5 % less to 9 % more.
INDUCTOR_MARGIN = 0.1

_UNITS = {"B": 1}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS |= {f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?b|b)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """A budget as it was understood.

    Attributes:
        share: From 0 to 1, or None if bytes were asked for.
        limit: The most bytes of the peak, or None.
        objective: What a share is a share of: the bytes that the forward saves, or what
            of the peak can be planned away.
        asked: What the user wrote.
    """

    share: float | None
    limit: int | None
    objective: Objective
    asked: str

    def at_compile(self) -> "Request":
        """The same with the bytes that the device has free now, if they are meant."""
        if self.asked != DEVICE:
            return self
        limit = _free_bytes()
        return replace(self, limit=limit, asked=f"{DEVICE}, {limit} bytes")

    def for_inductor(self) -> "Request":
        """The same, with `INDUCTOR_MARGIN` of the bytes left free."""
        if self.limit is None:
            return self
        limit = int(self.limit * (1 - INDUCTOR_MARGIN))
        return replace(self, limit=limit, asked=f"{self.asked}, a tenth for Inductor")

    def options(self) -> dict[str, Any]:
        """The planner's options for it."""
        return {
            "activation_memory_budget": 1 if self.share is None else self.share,
            "activation_memory_budget_solver": "exact",
            "activation_memory_budget_objective": self.objective,
            "activation_memory_budget_bytes": self.limit,
            "activation_memory_budget_count_storages": None,
        }


def understand(budget: Budget, objective: Objective = "saved") -> Request:
    """Read a budget.

    Args:
        budget: A share from 0 to 1; bytes, as an int above 1 or a text such as "8GB",
            "512MB" or "2GiB"; or "device": what the CUDA device has free at the first
            compile, less `DEVICE_MARGIN` of it.
        objective: Of a share, see `Request`. Bytes always bound the peak.

    Raises:
        ValueError: It is none of these.
        RuntimeError: "device" without a CUDA device.
    """
    if objective not in get_args(Objective):
        raise ValueError(f'objective is "saved" or "peak", not {objective!r}')
    if budget == DEVICE:
        _require_cuda()
        return Request(None, None, "peak", DEVICE)
    if isinstance(budget, str):
        return Request(None, _parse(budget), "peak", budget)
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise ValueError(f"a budget is a number or a text, not {budget!r}")
    if 0 <= budget <= 1:
        return Request(float(budget), None, objective, f"{budget:g}")
    if isinstance(budget, int) and budget > 1:
        return Request(None, budget, "peak", f"{budget} bytes")
    raise ValueError(
        f"a budget is a share from 0 to 1 or whole bytes above 1, not {budget!r}"
    )


def _parse(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(
            f'a budget is a text such as "8GB", "512MB" or "2GiB", or "device", '
            f"not {text!r}"
        )
    number, unit = match.groups()
    return math.floor(float(number) * _UNITS[unit.upper()])


def _require_cuda() -> None:
    if not torch.cuda.is_available():
        raise RuntimeError(
            'the budget "device" needs a CUDA device: on a CPU name bytes: "8GB"'
        )


def _free_bytes() -> int:
    free, _total = torch.cuda.mem_get_info()
    # What the allocator holds and nobody uses is free, too.
    free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return int(free * (1 - DEVICE_MARGIN)) // DEVICE_STEP * DEVICE_STEP
