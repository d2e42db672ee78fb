"""Tells of compiles in which no plan was made, because a cache had one."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch._dynamo.callback import callback_handler
from torch._dynamo.utils import counters

from acknap._report import Report, current_graph, publish

if TYPE_CHECKING:
    from acknap._partitioner import Partitioner

log = logging.getLogger("acknap")


@contextmanager
def watch(planner: "Partitioner") -> Iterator[None]:
    """Publish what came out of each compile in the block that made no plan."""
    watcher = _Watcher(planner)
    callback_handler.register_end_callback(watcher)
    try:
        yield
    finally:
        callback_handler.remove_end_callback(watcher)
    watcher.close()


class _Watcher:
    def __init__(self, planner: "Partitioner") -> None:
        self._planner = planner
        self._seen = self._look()
        self._told = False

    def __call__(self, *_arguments: Any) -> None:
        """Compare with the last call; PyTorch calls at the end of a compile."""
        (plans, keys, hits), self._seen = self._seen, self._look()
        if self._seen[0] > plans:
            self._told = True
        elif self._seen[1] > keys and self._seen[2] > hits:
            self._told = True
            way = "as it was planned when the compile cache took it"
            asked = self._planner.request.asked
            publish(Report(current_graph(), asked, way, cache="hit"))

    def close(self) -> None:
        """Warn if the budget bounded nothing."""
        self()
        if not self._told:
            log.warning(
                "budget %s: nothing was planned, for Inductor compiled no forward with "
                "a backward here",
                self._planner.request.asked,
            )

    def _look(self) -> tuple[int, int, int]:
        hits = counters["aot_autograd"]["autograd_cache_hit"]
        return self._planner.plans, self._planner.keys, hits
