"""One measurement of a benchmark."""

from dataclasses import dataclass

from acknap.knapsack.families import SCALE


@dataclass(frozen=True)
class Point:
    """One measurement.

    Attributes:
        topic: What it is for; claims name topics.
        kind: The function of measure that makes it.
        contenders: `side.solver`; in timings the first is the base of the ratios.
        rounds: Interleaved rounds of a timing.
        headroom: Bytes of address space that a limited process may add.
    """

    topic: str
    kind: str
    problem: str
    budgets: tuple[float, ...]
    contenders: tuple[str, ...]
    rounds: int = 0
    headroom: int | None = None

    @property
    def id(self) -> str:
        """A name that is the same in every run."""
        parts = [self.topic, self.kind, self.problem]
        parts.append(f"budgets={','.join(map(str, self.budgets))}")
        parts.append(f"of={','.join(self.contenders)}")
        if self.rounds:
            parts.append(f"rounds={self.rounds}")
        if self.headroom is not None:
            parts.append(f"headroom={self.headroom}")
        return " ".join(parts)


def in_units(family: str, n: int, units: int) -> tuple[str, tuple[float]]:
    """Return a problem and its budget: `units` whole units, half of all memory."""
    return f"{family}:n={n},units={units}", (units / SCALE,)
