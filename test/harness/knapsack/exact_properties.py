"""Properties of the exact solver. Run in an environment with torch and hypothesis.

The oracle shares no code with the solver: a plain Nemhauser-Ullmann list of exact
rationals.
"""

import math
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from torch._functorch._activation_checkpointing import (
    knapsack_exact,
    knapsack_exact_states,
)
from torch._functorch._activation_checkpointing.knapsack_exact import (
    ExactKnapsack,
    KnapsackPlan,
    exact_knapsack,
)

Items = list[tuple[float, float]]

SLACK = Fraction(1, 10**12)
# Budgets in sums of some items: they fit, or by a hair they do not.
FITS = (1, 1, 1 - 1e-10, 0.999, 1.5)
# Branching alone has to find the optimum, the list alone, and the list in small steps.
LIST = {"_ROUNDS": ((0, 10**7),)}
SMALL = {"_BATCH": 2, "_MAX_RUN": 2}
ALL = {"_ROUNDS": knapsack_exact._ROUNDS}
# Constants of the rounds, and of the list.
STAGES = ((ALL, {}), ({"_ROUNDS": ((10**6, 0),)}, {}), (LIST, {}), (LIST, SMALL))

# The same examples in every run, also on a slow machine.
properties = partial(settings, derandomize=True, deadline=None, database=None)

magnitudes = st.floats(0, 1e300)  # down to subnormals
fractions = st.floats(0, 1)
counts = st.integers(0, 60).map(float)
normalised = st.integers(1, 64).map(lambda size: size / 1021)
kinds_of_item = (
    st.tuples(counts, counts),
    st.tuples(fractions, fractions),
    st.tuples(normalised, st.floats(0.5, 2)),
    st.tuples(magnitudes, magnitudes),
)


@st.composite
def problems(draw: st.DrawFn, largest: int = 9) -> tuple[Items, float]:
    """Items of one kind, many of them repeated, and a budget for some of them."""
    kinds = draw(st.sampled_from(kinds_of_item))
    distinct = draw(st.lists(kinds, min_size=1, max_size=largest))
    items = draw(st.lists(st.sampled_from(distinct), max_size=largest))
    inside = draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
    budget = sum(m for (m, _), fits in zip(items, inside, strict=True) if fits)
    return items, min(budget * draw(st.sampled_from(FITS)), 1e308)


def solve(items: Items, budget: float) -> KnapsackPlan:
    return ExactKnapsack([m for m, _ in items], [r for _, r in items]).solve(budget)


def total(items: Items, chosen: list[int], column: int) -> Fraction:
    return sum((Fraction(items[i][column]) for i in chosen), Fraction(0))


def optimum(items: Items, budget: float) -> Fraction:
    """The largest runtime of a set of at most the budget."""
    front = [(Fraction(0), Fraction(0))]
    for memory, runtime in items:
        taken = [(m + Fraction(memory), r + Fraction(runtime)) for m, r in front]
        merged = sorted(front + taken, key=lambda state: (state[0], -state[1]))
        front = []
        for m, r in merged:
            if m <= Fraction(budget) and (not front or r > front[-1][1]):
                front.append((m, r))
    return front[-1][1]


def tolerance(items: Items) -> Fraction:
    """Integers are exact, floats up to 1e-12."""
    exact = all(r.is_integer() for _, r in items) and sum(r for _, r in items) < 2**53
    return Fraction(0) if exact else SLACK


@properties(max_examples=400)
@given(problems(), st.sampled_from(STAGES))
def test_feasible_and_optimal(
    problem: tuple[Items, float], stage: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    items, budget = problem
    rounds, steps = stage
    usual = {name: getattr(knapsack_exact_states, name) for name in SMALL}
    with (
        mock.patch.multiple(knapsack_exact, **rounds),
        mock.patch.multiple(knapsack_exact_states, **{**usual, **steps}),
    ):
        plan = solve(items, budget)
    assert sorted(plan.saved + plan.recomputable) == list(range(len(items)))
    assert total(items, plan.saved, 0) <= Fraction(budget) * (1 + SLACK)
    best, value = optimum(items, budget), total(items, plan.saved, 1)
    assert plan.optimal
    assert value >= best * (1 - tolerance(items))
    assert plan.runtime == float(value)
    assert plan.upper_bound >= plan.runtime
    assert Fraction(plan.upper_bound) * (1 + Fraction(1, 2**52)) >= best


@properties(max_examples=200)
@given(problems(), st.randoms(use_true_random=False))
def test_order_does_not_matter(problem: tuple[Items, float], random) -> None:  # type: ignore[no-untyped-def]
    items, budget = problem
    shuffled = random.sample(items, len(items))
    assert solve(shuffled, budget).runtime == solve(items, budget).runtime


@properties(max_examples=200)
@given(problems(), st.integers(-40, 40), st.integers(-40, 40))
def test_powers_of_two_give_the_same_set(
    problem: tuple[Items, float], of_memory: int, of_runtime: int
) -> None:
    items, budget = problem
    # Rounding to subnormals, or beyond float64, would be another problem.
    sound = [x for x in (budget, *(x for pair in items for x in pair)) if x]
    if any(not 1e-280 < x < 1e280 for x in sound):
        return
    scaled = [(math.ldexp(m, of_memory), math.ldexp(r, of_runtime)) for m, r in items]
    plan, other = solve(items, budget), solve(scaled, math.ldexp(budget, of_memory))
    if tolerance(items) == tolerance(scaled):
        assert other.saved == plan.saved


@properties(max_examples=200)
@given(problems(), fractions)
def test_more_budget_is_worth_no_less(
    problem: tuple[Items, float], fraction: float
) -> None:
    items, budget = problem
    less, more = (
        total(items, solve(items, b).saved, 1) for b in (budget * fraction, budget)
    )
    # A smaller budget may use its slack, so that its set may be the better one.
    assert less <= optimum(items, budget * fraction * (1 + 1e-12))
    assert more >= less * (1 - tolerance(items)) or less > optimum(items, budget)


@properties(max_examples=200)
@given(problems(), st.lists(fractions, max_size=3))
def test_prepared_answers_equal_single_ones(
    problem: tuple[Items, float], budgets: list[float]
) -> None:
    items, budget = problem
    memory, runtimes = [m for m, _ in items], [r for _, r in items]
    prepared = ExactKnapsack(memory, runtimes)
    for share in (*budgets, 1.0):
        plan = prepared.solve(budget * share)
        single = exact_knapsack(memory, runtimes, budget * share)
        assert single == (plan.runtime, plan.saved, plan.recomputable)


@properties(max_examples=200)
@given(problems())
def test_what_is_free_is_saved_and_what_is_worthless_is_not(
    problem: tuple[Items, float],
) -> None:
    items, budget = problem
    saved = {*solve(items, budget).saved}
    for i, (memory, runtime) in enumerate(items):
        if not runtime:
            assert i not in saved
        elif not memory:
            assert i in saved


@properties(max_examples=100)
@given(problems(largest=40))
def test_identical_items_come_in_the_order_of_their_index(
    problem: tuple[Items, float],
) -> None:
    items, budget = problem
    saved = {*solve(items, budget).saved}
    for pair in set(items):
        kept = [i in saved for i, item in enumerate(items) if item == pair]
        assert kept == sorted(kept, reverse=True)
