"""The right answers: references that agree, and how an answer is checked."""

import itertools

import numpy as np
import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.knapsack import families, truth
from acknap.knapsack.families import Problem

REAL = Layout.default()


@pytest.mark.parametrize("seed", range(300))
def test_references_agree_on_small_problems(seed: int) -> None:
    problem, budget = families.small(seed)
    weights, capacity = np.array(problem.units()), round(budget * 10_000)
    values = np.array(problem.runtimes)
    best = max(
        sum(problem.runtimes[i] for i in chosen)
        for size in range(len(values) + 1)
        for chosen in itertools.combinations(range(len(values)), size)
        if sum(weights[list(chosen)]) <= capacity
    )
    assert truth.by_subsets(weights.astype(float), values, capacity) == best
    assert truth.by_table(weights, values, capacity) == best
    assert truth.by_list(weights.astype(float), values, float(capacity)) == best
    assert truth.optimum(problem, budget, quantised=False) == pytest.approx(best)


@pytest.mark.parametrize(
    "spec",
    [
        "random:n=300,units=5000",
        "strongly:n=100,units=3000",
        "repeated:n=200,units=900",
    ],
)
def test_list_agrees_with_table(spec: str) -> None:
    problem = families.load(REAL, spec)
    units, values = np.array(problem.units()), np.array(problem.runtimes)
    for capacity in (1, 77, 900, 2999):
        table = truth.by_table(units, values, capacity)
        assert truth.by_list(units.astype(float), values, float(capacity)) == table


def test_list_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "_MOST_STATES", 10)
    problem = families.load(REAL, "strongly:n=100,units=3000")
    weights, values = np.array(problem.memory), np.array(problem.runtimes)
    assert truth.by_list(weights, values, 0.3) is None


def test_check() -> None:
    problem = Problem("", [0.1] * 6, [1.0] * 6)
    five, six = list(range(5)), list(range(6))
    kept = truth.check(problem, 0.5, False, five, 5.0, 5.0)
    assert kept.right
    assert (kept.over, kept.loss, kept.runtime_error) == (0, 0, 0)
    over = truth.check(problem, 0.5, False, six, 6.0, 5.0)
    assert not over.right
    assert over.over == pytest.approx(0.2)
    below = truth.check(problem, 0.5, False, [0], 2.0, 5.0)
    assert (below.right, below.loss, below.runtime_error) == (False, 0.8, 1.0)


def test_quantised_solvers_keep_the_quantised_capacity() -> None:
    problem = Problem("", [0.00004] * 3, [1.0] * 3)
    found = truth.check(problem, 0.0001, True, [0, 1, 2], 3.0, 3.0)
    assert found.right
    assert found.excess == pytest.approx(0.2)
    assert not truth.check(problem, 0.0001, False, [0, 1, 2], 3.0, 3.0).right


def test_problems_are_the_same_every_time() -> None:
    families.generated.cache_clear()
    for family in families.FAMILIES:
        units = ",units=1000" if family in ("random", "strongly", "repeated") else ""
        spec = f"{family}:n=40,seed=3{units}"
        first = families.load(REAL, spec)
        families.generated.cache_clear()
        assert families.load(REAL, spec) == first
        assert len(first.memory) == len(first.runtimes) == 40
        assert min(first.memory) > 0


def test_unknown_problems() -> None:
    with pytest.raises(HarnessError, match=r"there is no benchmarks/instances/x\.json"):
        families.load(REAL, "real:x")
    with pytest.raises(HarnessError, match="unknown family of problems 'x'"):
        families.load(REAL, "x:n=1")
