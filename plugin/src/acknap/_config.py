"""The options that the planner reads: torch's, under those of the plan being made.

In a patched torch this is `torch._functorch.config`. Here a plan's own options lie in a
context variable, so that threads do not see each other's and torch's stay as they are.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch._functorch import config as _torch

from acknap._release import installed

_patched: ContextVar[Mapping[str, Any] | None] = ContextVar("acknap", default=None)


def __getattr__(name: str) -> Any:
    """An option: of this plan, else of torch, else the default of the series."""
    patched = _patched.get() or {}
    if name in patched:
        return patched[name]
    try:
        return getattr(_torch, name)
    except AttributeError:
        if name in installed().options:
            return installed().options[name]
        raise


@contextmanager
def patch(**changes: Any) -> Iterator[None]:
    """Set options for the plans that are made in the block, in this context."""
    token = _patched.set({**(_patched.get() or {}), **changes})
    try:
        yield
    finally:
        _patched.reset(token)
