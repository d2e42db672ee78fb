"""The least that any plan has to compute again for a peak, by integer programming.

Runs inside an environment with patched torch and scipy, whose solver is HiGHS.
"""

import math
import time
from typing import Any, NamedTuple

from acknap.inside.optimum.program import Program

# Of what HiGHS may leave between its solution and its bound.
_GAP = 1e-4
# Plans whose runtimes are this close to each other count as equal.
_CLOSE = 1e-3
_INFEASIBLE = 2  # as scipy's `milp` says it
# Runtimes below this share of the forward's count nothing: HiGHS's tolerances.
_LEAST = 1e-6


class Bound(NamedTuple):
    """What is known of the optimum.

    Attributes:
        bound: No plan has a smaller runtime.
        found: The least runtime of a solution of the program that is known: where it is
            the bound, the bound is the optimum of the program.
        saved: The bases that it saves, if a solution better than the known plan was
            found; the plan may be over the target by what the program does not see.
        seconds: How long it took.
        variables: How many there were.
    """

    bound: float
    found: float
    saved: set[int] | None
    seconds: float
    variables: int


def bound(
    program: Program,
    runtime: list[float],
    total: float,
    target: int,
    known: float,
    seconds: float,
) -> Bound:
    """Bound the runtime of all plans whose peak is at most a target.

    Args:
        program: Of the joint graph.
        runtime: For each base what it costs to compute it again.
        total: What the forward costs, above 0.
        target: In bytes.
        known: The runtime of a plan that is; only better ones are looked for.
        seconds: Of the solver, at most.
    """
    if known <= len(runtime) + _LEAST * total:
        return Bound(0.0, known, None, 0.0, program.count)
    shares = ((at, runtime[base] / total) for at, base in program.get_computed())
    costs = [(at, share) for at, share in shares if share > _LEAST]
    start = time.perf_counter()
    rows = program.get_rows(target)
    result = _solve(
        program,
        [*rows, (costs, -math.inf, (1 - _CLOSE) * known / total)],
        costs,
        seconds,
    )
    spent = time.perf_counter() - start
    if result.status == _INFEASIBLE:
        return Bound((1 - _CLOSE) * known, known, None, spent, program.count)
    least = min(max(0.0, float(result.mip_dual_bound or 0.0)) * total, known)
    if result.x is None:
        return Bound(least, known, None, spent, program.count)
    saved = {base for at, base in program.get_saved() if result.x[at] > 1 / 2}
    return Bound(least, float(result.fun) * total, saved, spent, program.count)


def _solve(
    program: Program,
    rows: list[tuple[list[tuple[int, float]], float, float]],
    costs: list[tuple[int, float]],
    seconds: float,
) -> Any:
    import numpy as np
    from scipy import optimize, sparse

    rows = [row for row in rows if row[0]]
    entries = [(n, at, x) for n, (row, *_) in enumerate(rows) for at, x in row]
    places, columns, values = zip(*entries, strict=True)
    matrix = sparse.csr_array((values, (places, columns)), (len(rows), program.count))
    low, high = ([row[k] for row in rows] for k in (1, 2))
    cost, whole = np.zeros(program.count), np.zeros(program.count)
    for at, share in costs:
        cost[at] = share
    # The other variables are whole if these are.
    for at, _ in (*program.get_computed(), *program.get_saved()):
        whole[at] = 1
    return optimize.milp(
        cost,
        constraints=optimize.LinearConstraint(matrix, low, high),
        bounds=optimize.Bounds(0, 1),
        integrality=whole,
        options={"time_limit": seconds, "mip_rel_gap": _GAP},
    )
