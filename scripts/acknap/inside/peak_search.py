"""One search of a graph's plans by their peak for all budgets: the search knows none.

Runs inside an environment with torch, stock or patched.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock


@contextmanager
def one_search() -> Iterator[dict[str, Any]]:
    """Search a graph once until another one is planned; gives where the search is."""
    found: dict[str, Any] = {}
    peak_budget: Any = None
    with suppress(ImportError):  # stock has none
        name = "torch._functorch._activation_checkpointing.peak_budget"
        peak_budget = importlib.import_module(name)
    if peak_budget is None:
        yield found
        return
    search = peak_budget._Search

    def keep(graph: Any, node_info: Any, schedule: Any, default: Any) -> Any:
        key = graph, node_info, default
        if found.get("key") != key:
            found["search"] = search(graph, node_info, schedule, default)
            found["key"] = key
        return found["search"]

    with mock.patch.object(peak_budget, "_Search", keep):
        yield found
