"""How tables and plots name the contenders of a benchmark."""

SIDES = {"stock": "released", "patched": "this series"}
_SOLVERS = {"hirschberg": "Hirschberg", "cp_sat": "CP-SAT"}


def contender_name(contender: str) -> str:
    """Name a solver and its side."""
    side, _, solver = contender.partition(".")
    return f"{solver_name(solver)}, {SIDES.get(side, 'peer')}"


def solver_name(solver: str) -> str:
    """Name a solver."""
    return _SOLVERS.get(solver, solver)


def in_setting(contender: str, threads: str, load: str) -> str:
    """Name a contender with "one" thread or the "default", "idle" or "loaded"."""
    return f"{contender} {threads} {load}"
