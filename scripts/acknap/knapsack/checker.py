"""Check answers of a benchmark's solvers, each problem's reference computed once."""

import functools
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from acknap.knapsack import truth
from acknap.knapsack.contenders import Contender
from acknap.knapsack.families import Problem
from acknap.knapsack.truth import Check


class Summary(BaseModel, frozen=True):
    """A contender's answers to a timed problem, the worst over the budgets.

    Attributes:
        right: None where there is no answer, but a yardstick.
        over: By what share it exceeds what its solver promises to keep.
        used: Share of the budget.
        loss: 1 - value / optimum.
        gap: How far the bound that it proved is above its value, relative.
        changes: Whether a later run answered otherwise.
    """

    right: bool | None = None
    over: float = 0.0
    used: float = 0.0
    loss: float | None = None
    gap: float | None = None
    changes: bool = False

    @property
    def wrong(self) -> bool:
        """Whether an answer is wrong, or not always the same."""
        return self.right is False or self.changes


class Checker:
    """Checks answers to one problem; a reference is computed once."""

    def __init__(self, problem: Problem, *, by_subsets: bool = False) -> None:
        self._problem = problem
        find = truth.small_optimum if by_subsets else truth.optimum
        self._find = functools.cache(functools.partial(find, problem))

    def optimum(self, budget: float, *, quantised: bool) -> float | None:
        """Return the reference for a budget."""
        return self._find(budget, quantised=quantised)

    def fault(self, contender: str, budget: float, answer: list[int] | str) -> str:
        """Say what is wrong with the saved items, or name the error; "" if right."""
        if isinstance(answer, str):
            return answer
        (check,) = self.checks(contender, [budget], [(answer, None)])
        if check.over:
            return "over budget"
        return "below optimum" if check.loss else ""

    def checks(
        self, contender: str, budgets: Sequence[float], answers: Sequence[Sequence[Any]]
    ) -> list[Check]:
        """Check the saved items and the runtime of an answer for each budget."""
        quantised = Contender.of(contender).row.quantised
        return [
            truth.check(
                self._problem,
                budget,
                quantised,
                saved,
                runtime,
                self.optimum(budget, quantised=quantised),
            )
            for budget, (saved, runtime, *_) in zip(budgets, answers, strict=True)
        ]

    def summary(
        self, contender: str, budgets: Sequence[float], answers: Sequence[Sequence[Any]]
    ) -> Summary:
        """Return the worst over the budgets."""
        if not Contender.of(contender).row.answers:
            return Summary()
        checks = self.checks(contender, budgets, answers)
        losses = [check.loss for check in checks if check.loss is not None]
        return Summary(
            right=all(check.right for check in checks),
            over=max(check.over for check in checks),
            used=max(check.used for check in checks),
            loss=max(losses, default=None),
            gap=gap(checks, answers),
        )


def gap(checks: Sequence[Check], answers: Sequence[Sequence[Any]]) -> float | None:
    """Return how far bounds that a solver proved lie above its values, at most."""
    gaps = [
        (answer[2] - check.value) / (check.value or 1.0)
        for check, answer in zip(checks, answers, strict=True)
        if answer[2] is not None
    ]
    return max(gaps, default=None)
