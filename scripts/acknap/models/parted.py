"""What a partition delivers of the budget that was asked for."""

from pydantic import BaseModel

from acknap.knapsack.truth import excess

MEASURES = ("ratio", "bytes", "storages", "live")


class Parted(BaseModel, frozen=True):
    """One graph, parted once. benchmarks/SCHEMA.md explains the shares.

    Attributes:
        contender: `side.solver`, in a benchmark's record.
        knapsack_used: Whether the knapsack decided, not an early exit.
        plan: Memory of the plan, as the solver counts it.
        plan_recomputed: Runtime that the plan recomputes.
        live: None in records made before it was counted.
        least: The least that can be kept alive, because of what must be saved.
        recomputed: Runtime of what the backward computes again.
        peak: Most bytes that live at once; None if it was not asked for.
        again: Floating point operations of the forward that are done again, as a share.
        solves: How often a solver was called.
        cuts: Min-cuts that carried plans out.
        base_seconds: Time of what no budget changes, on a clock of the process.
    """

    contender: str = ""
    budget: float
    failed: str = ""
    solver: str = ""
    knapsack_used: bool = False
    ratio: float = 0.0
    bytes: float = 0.0
    storages: float = 0.0
    live: float | None = None
    recomputed: float = 0.0
    peak: int | None = None
    again: float | None = None
    least: float = 0.0
    plan: float = 0.0
    plan_recomputed: float = 0.0
    solves: int = 0
    cuts: int = 0
    solve_seconds: float = 0.0
    cut_seconds: float = 0.0
    base_seconds: float = 0.0

    @property
    def allowed(self) -> float:
        """The budget; where nothing can be within it, the least that can be kept."""
        return max(self.budget, self.least)

    def excess(self, measure: str) -> float:
        """Return by what share it is over the budget by a measure; 0 if it is not."""
        value: float | None = getattr(self, measure)
        return excess(value or 0.0, self.allowed)

    @property
    def is_broken(self) -> bool:
        """Whether the plan keeps the budget and the partition's ratio does not."""
        return not self.excess("plan") and bool(self.excess("ratio"))

    @property
    def seconds(self) -> float:
        """Time of what the budget adds."""
        return self.solve_seconds + self.cut_seconds
