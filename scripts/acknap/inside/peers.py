"""Other people's solvers; solvers.py loads this file in their environment.

Each gets the problem in the form that suits it best, within a time limit. Their answers
are checked like ours; none of them is the reference.
"""

import importlib
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from acknap.inside.solvers import Answer, Floats, Solve, Solver


class OpenError(Exception):
    """A solver ended without a proof within its time limit."""


def one_by_one(ask: Callable[[Floats, Floats, float, float], list[int]]) -> Solve:
    """Ask for one budget after another; all that is answered is the saved items."""

    def solve(
        memory: Floats, runtimes: Floats, budgets: Floats, limit: float
    ) -> list[Answer]:
        found = (ask(memory, runtimes, budget, limit) for budget in budgets)
        return [(saved, None, None, None) for saved in found]

    return solve


def as_integers(values: Floats) -> tuple[list[int], int]:
    """Return values times 2^k, rounded down, so that their sum has about 53 bits."""
    exponent = 53 - math.frexp(math.fsum(values))[1]
    return [int(math.ldexp(value, exponent)) for value in values], exponent


def milp() -> Solve:
    """HiGHS through scipy, gap 0, in units that suit its absolute tolerances."""
    numpy: Any = importlib.import_module("numpy")
    optimize: Any = importlib.import_module("scipy.optimize")

    def ask(memory: Floats, runtimes: Floats, budget: float, limit: float) -> list[int]:
        cost = -numpy.array(runtimes, dtype=float)
        weights = numpy.array(memory) / budget * 1e6
        found = optimize.milp(
            c=cost / -cost.min() * 1e6,
            constraints=optimize.LinearConstraint(A=weights, ub=1e6),
            integrality=numpy.ones_like(cost),
            bounds=optimize.Bounds(0, 1),
            options={"mip_rel_gap": 0, "time_limit": limit},
        )
        if found.status == 1 or found.x is None:
            raise OpenError(found.message)
        return [int(i) for i in numpy.flatnonzero(found.x > 0.5)]

    return one_by_one(ask)


def branch_and_bound() -> Solve:
    """OR-tools' knapsack solver, its branch and bound, on 53-bit integers."""
    module: Any = importlib.import_module("ortools.algorithms.python.knapsack_solver")
    kind = module.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER

    def ask(memory: Floats, runtimes: Floats, budget: float, limit: float) -> list[int]:
        weights, exponent = as_integers(memory)
        values, _ = as_integers(runtimes)
        solver = module.KnapsackSolver(kind, "knapsack")
        solver.set_time_limit(limit)
        solver.init(values, [weights], [int(math.ldexp(budget, exponent))])
        solver.solve()
        if not solver.is_solution_optimal():
            raise OpenError("not proven")
        return [i for i in range(len(memory)) if solver.best_solution_contains(i)]

    return one_by_one(ask)


def cp_sat() -> Solve:
    """OR-tools' CP-SAT with one thread; identical items are one integer variable."""
    module: Any = importlib.import_module("ortools.sat.python.cp_model")

    def ask(memory: Floats, runtimes: Floats, budget: float, limit: float) -> list[int]:
        weights, exponent = as_integers(memory)
        values, _ = as_integers(runtimes)
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, pair in enumerate(zip(weights, values, strict=True)):
            groups[pair].append(i)
        model, solver = module.CpModel(), module.CpSolver()
        copies = [model.new_int_var(0, len(g), "") for g in groups.values()]
        total = sum(x * w for x, (w, _) in zip(copies, groups, strict=True))
        model.add(total <= int(math.ldexp(budget, exponent)))
        model.maximize(sum(x * v for x, (_, v) in zip(copies, groups, strict=True)))
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = limit
        if solver.solve(model) != module.OPTIMAL:
            raise OpenError("not proven")
        taken = zip(copies, groups.values(), strict=True)
        return [i for x, members in taken for i in members[: solver.value(x)]]

    return one_by_one(ask)


SOLVERS = {
    "milp": Solver(milp),
    "branch_and_bound": Solver(branch_and_bound),
    "cp_sat": Solver(cp_sat, "CP-SAT"),
}
