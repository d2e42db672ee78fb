"""A budget as PyTorch's hook for partitioners takes it."""

import threading
from contextlib import AbstractContextManager
from typing import Any

from torch._functorch import config as functorch_config
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from acknap import _planner
from acknap._budget import Budget, Objective, Request, understand
from acknap._release import installed
from acknap._report import publish


class Partitioner(CustomPartitionerFn):
    """Parts a joint graph into forward and backward within a budget.

    It is what `torch._inductor.config.custom_partitioner_fn` takes, and what
    `aot_autograd(partition_fn=...)` takes for other backends.

    Args:
        budget: A share from 0 to 1, bytes, a text such as "8GB", or "device".
        objective: What a share is a share of: "saved", the bytes that the forward saves
            for the backward, or "peak", what of the peak can be planned away.

    Raises:
        ValueError: The budget or the objective is none of these.
        RuntimeError: "device" without a CUDA device, or this torch is not known.
    """

    def __init__(self, budget: Budget, *, objective: Objective = "saved") -> None:
        if installed().reason:
            raise RuntimeError(installed().reason)
        self._start(understand(budget, objective), is_resolved=False)

    def _start(self, request: Request, *, is_resolved: bool) -> None:
        self._request, self._is_resolved = request, is_resolved
        self._lock = threading.Lock()
        # How often a plan was made, and how often a cache's key was.
        self.plans = self.keys = 0

    @property
    def request(self) -> Request:
        """The budget; what the device has free is asked once, at the first compile."""
        with self._lock:
            if not self._is_resolved:
                self._request = self._request.at_compile()
                self._is_resolved = True
            return self._request

    def __call__(self, gm: Any, joint_inputs: Any, **keywords: Any) -> tuple[Any, Any]:
        """Part a joint graph; the keywords are those of PyTorch's own partitioner."""
        request = self.request
        if keywords.get("compiler") == "inductor":
            request = request.for_inductor()
        forward, backward, reports = _planner.partition(
            request, gm, joint_inputs, **keywords
        )
        for report in reports:
            self.plans += 1
            publish(report)
        return forward, backward

    def watch(self) -> AbstractContextManager[None]:
        """Tell in the block what came out of compiles that made no plan."""
        from acknap._watch import watch

        return watch(self)

    def uuid(self) -> tuple[str, ...]:
        """What decides on a plan, for the keys of the compile caches."""
        self.keys += 1
        options = sorted(self.request.for_inductor().options().items())
        return (*installed().stamp(), repr(options), _estimator())

    # Some releases pickle all of Inductor's options into their keys, others copy them.
    def __getstate__(self) -> dict[str, Any]:
        return {"_request": self.request}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._start(state["_request"], is_resolved=True)


def _estimator() -> str:
    """The name of torch's estimator of runtimes.

    An object in its place has its own part in the key; a name is missing there.
    """
    estimator = functorch_config.activation_memory_budget_runtime_estimator
    return estimator if isinstance(estimator, str) else ""
