"""What the record holds of each kind of point, once it is measured."""

import statistics
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from acknap.knapsack.checker import Summary
from acknap.knapsack.families import sizes
from acknap.knapsack.truth import PROVEN, extra_recomputation
from acknap.models.parted import Parted


class Finished(BaseModel):
    """A measured point; what another harness wrote besides is of no concern.

    Attributes:
        id: The point's name, the same in every run.
        budgets: Those that each contender was asked for.
        contenders: `side.solver`.
        finished: When, in UTC.
        load: The machine's load average then.
    """

    model_config = ConfigDict(frozen=True)

    id: str = ""
    topic: str = ""
    problem: str = ""
    budgets: tuple[float, ...] = ()
    contenders: tuple[str, ...] = ()
    finished: str = ""
    load: float = 0.0
    absent: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """The n, units, ... of a generated problem."""
        return sizes(self.problem)

    @property
    def name(self) -> str:
        """The problem as tables call it."""
        return self.problem.removeprefix("real:").removeprefix("captured/")


class Timed(Finished):
    """Times of interleaved rounds.

    Attributes:
        items: Of the problem.
        seconds: Of one solve, a value for each round, by contender, and in `Threads` by
            `contenders.in_setting`.
    """

    items: int
    rounds: int
    seconds: dict[str, list[float]] = {}
    answers: dict[str, Summary] = {}


class Speed(Timed):
    """Times by contender; `failed` is what ended one."""

    kind: Literal["speed"] = "speed"
    failed: dict[str, str]


class Threads(Timed):
    """Times by contender, load, and the setting of how many `threads` torch may use."""

    kind: Literal["threads"] = "threads"
    threads: dict[str, int]
    failed: str = ""


class Answer(BaseModel, frozen=True):
    """One contender's answer at one budget, as `truth.Check` has it; or its failure."""

    contender: str
    budget: float
    failed: str = ""
    value: float = 0.0
    used: float = 0.0
    over: float = 0.0
    excess: float = 0.0
    optimum: float | None = None
    loss: float | None = None
    runtime_error: float | None = None
    right: bool = False
    gap: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether its solver's own bound leaves room for a better set."""
        return self.gap is not None and self.gap > PROVEN


class Answers(Finished):
    """Every contender at every budget.

    Attributes:
        best: The optimum by budget.
        total: Runtime of all items.
    """

    kind: Literal["answers"] = "answers"
    rows: tuple[Answer, ...]
    best: dict[str, float | None]
    total: float

    def optimum(self, row: Answer) -> float | None:
        """Return the best value at a row's budget; None: no reference."""
        return self.best[str(row.budget)]

    def extra(self, row: Answer) -> float | None:
        """Return `truth.extra_recomputation` of a row."""
        return extra_recomputation(row.value, self.optimum(row), self.total)

    def by(self, contender: str) -> list[Answer]:
        """Return the rows of a contender."""
        return [row for row in self.rows if row.contender == contender]


class Small(Finished):
    """How often contenders are right on small problems, and the first wrong ones."""

    kind: Literal["small"] = "small"
    counts: dict[str, dict[str, int]]
    examples: dict[str, list[int]]


class Memory(Finished):
    """The growth of a fresh process, or what ended it.

    Attributes:
        growth: Bytes; None if it failed.
        asked: Bytes that it died asking for.
    """

    kind: Literal["memory", "limit"] = "memory"
    growth: int | None = None
    seconds: float = 0.0
    answer: Summary = Summary()
    failed: str = ""
    asked: int | None = None

    @property
    def peak(self) -> float:
        """The growth as a number of bytes; 0 if it failed."""
        return float(self.growth or 0)


class Run(BaseModel, frozen=True):
    """The training of one model.

    Attributes:
        saved_bytes: What the forward saves for the backward.
        losses: One a step.
        seconds: Of a step, one value a round.
    """

    contender: str
    budget: float
    saved_bytes: int
    losses: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def name(self) -> str:
        """Who trains, and at what budget."""
        return f"{self.contender} at {self.budget:g}"

    @property
    def saved_mb(self) -> float:
        """Bytes that the forward saves, in MB."""
        return self.saved_bytes / 1e6

    @property
    def median_seconds(self) -> float:
        """Median time of a step."""
        return statistics.median(self.seconds)


class Training(Finished):
    """Runs of one model by contender and budget."""

    kind: Literal["training"] = "training"
    runs: tuple[Run, ...]
    failed: str = ""


class Partitions(Finished):
    """A model's largest graph, parted by every contender at every budget.

    Attributes:
        total: Runtime of all items.
        unbudgeted: What is saved without a budget, in units of a budget of 1, by side.
    """

    kind: Literal["partition"] = "partition"
    items: int = 0
    total: float
    # Records made before live bytes were counted have one number.
    unbudgeted: dict[str, float] | float
    rows: tuple[Parted, ...]


AnyFinished = Annotated[
    Speed | Threads | Answers | Small | Memory | Training | Partitions,
    Field(discriminator="kind"),
]
