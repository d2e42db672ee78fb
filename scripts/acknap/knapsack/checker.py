"""Check answers of a benchmark's solvers, each problem's reference computed once."""

from collections.abc import Mapping, Sequence
from typing import Any

from acknap.knapsack import truth
from acknap.knapsack.families import Problem
from acknap.knapsack.truth import QUANTISED, Check

# Sort is a yardstick without an answer.
_NO_ANSWER = ("sort",)


class Checker:
    """Checks answers to one problem; a reference is computed once."""

    def __init__(self, problem: Problem, *, by_subsets: bool = False) -> None:
        self._problem = problem
        self._by_subsets = by_subsets
        self._optima: dict[tuple[float, bool], float | None] = {}

    def optimum(self, budget: float, *, quantised: bool) -> float | None:
        """Return the reference for a budget."""
        key = (budget, quantised)
        if key not in self._optima:
            find = truth.optimum
            if self._by_subsets:
                find = truth.small_optimum
            self._optima[key] = find(self._problem, budget, quantised=quantised)
        return self._optima[key]

    def fault(self, solver: str, budget: float, answer: list[int] | str) -> str:
        """Say what is wrong with the saved items, or name the error; "" if right."""
        if isinstance(answer, str):
            return answer
        best = self.optimum(budget, quantised=solver in QUANTISED)
        check = truth.check(self._problem, budget, solver, answer, None, best)
        if check.over:
            return "over budget"
        return "below optimum" if check.loss else ""

    def checks(
        self, contender: str, budgets: Sequence[float], answer: Mapping[str, Any]
    ) -> list[Check]:
        """Check the answer for each budget."""
        solver = contender.split(".")[1]
        return [
            truth.check(
                self._problem,
                budget,
                solver,
                saved,
                runtime,
                self.optimum(budget, quantised=solver in QUANTISED),
            )
            for budget, (saved, runtime, *_) in zip(
                budgets, answer["answers"], strict=True
            )
        ]

    def summary(
        self, contender: str, budgets: Sequence[float], answer: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the worst over the budgets."""
        if contender.split(".")[1] in _NO_ANSWER:
            return {}
        checks = self.checks(contender, budgets, answer)
        losses = [check.loss for check in checks if check.loss is not None]
        found: dict[str, Any] = {
            "right": all(check.right for check in checks),
            "over": max(check.over for check in checks),
            "used": max(check.used for check in checks),
        }
        if losses:
            found["loss"] = max(losses)
        if proven := gaps(checks, answer):
            found["gap"] = max(proven)
        return found


def gaps(checks: Sequence[Check], answer: Mapping[str, Any]) -> list[float]:
    """Return how far the bounds that a solver proved lie above its values."""
    bounds = [bound for _, _, bound, _ in answer["answers"]]
    if None in bounds:
        return []
    pairs = zip(bounds, checks, strict=True)
    return [(bound - check.value) / (check.value or 1.0) for bound, check in pairs]
