"""What was asked for a graph, what was planned, and the line that says it."""

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("acknap")


@dataclass(frozen=True)
class Report:
    """What became of a budget in one graph of forward and backward.

    Attributes:
        graph: The compile that it belongs to, as PyTorch's logs name it.
        asked: The budget, as it was written.
        way: How the plan was made: "peak", "knapsack", or why neither was needed. Of a
            compile that was loaded from the cache, that it was.
        limit: The most bytes of the peak that a plan may have; None if none were named.
        peak: The most bytes that are live at any step of the planned forward or
            backward: activations, gradients, tangents, inputs. None if it is not known.
        saved: The bytes that the forward saves for the backward; None if not known.
        recomputed: How many operators of the forward the backward runs again; None if
            it is not known.
        filled_by: What fills the peak: bytes by kind.
        cache: Whether the plan came from the compile cache: "hit" or "miss".
        details: All that the planner says, by its own names.
    """

    graph: str
    asked: str
    way: str
    limit: int | None = None
    peak: int | None = None
    saved: int | None = None
    recomputed: int | None = None
    filled_by: Mapping[str, int] = field(default_factory=dict)
    cache: str = "miss"
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> bool | None:
        """Whether the planned peak is within the limit; None without a limit."""
        if self.limit is None or self.peak is None:
            return None
        return self.peak <= self.limit

    def __str__(self) -> str:
        parts = [f"asked {self.asked}", self.way]
        if self.limit is not None:
            parts.append(f"limit {self.limit} bytes")
        if self.peak is not None:
            over = " (over the limit)" if self.kept is False else ""
            parts.append(f"planned peak {self.peak} bytes{over}")
        if self.saved is not None:
            parts.append(f"saved {self.saved} bytes")
        if self.recomputed is not None:
            parts.append(f"recomputed {self.recomputed} operators")
        if self.filled_by:
            kinds = (f"{size} {kind}" for kind, size in self.filled_by.items())
            parts.append(f"at the peak {', '.join(kinds)}")
        parts.append(f"cache {self.cache}")
        return f"graph {self.graph}: {'; '.join(parts)}"


_published: deque[Report] = deque(maxlen=1)


def last_report() -> Report | None:
    """What was planned for the graph that was compiled last; None if there was none."""
    return _published[-1] if _published else None


def publish(report: Report) -> None:
    """Log a report, and keep it as the last one."""
    _published.append(report)
    log.log(logging.WARNING if report.kept is False else logging.INFO, "%s", report)


def current_graph() -> str:
    """The compile that is going on, as PyTorch's logs name it: "0/1"."""
    from torch._guards import CompileContext

    return str(CompileContext.current_compile_id() or "-")
