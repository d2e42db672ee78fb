"""Who is compared: the solvers of each side, and how tables and plots name them."""

from typing import NamedTuple

from acknap.inside import peers
from acknap.inside.solvers import SOLVERS, Solver

SIDES = {"stock": "released", "patched": "this series", "peers": "peer"}


class Contender(NamedTuple):
    """A solver in one of the environments."""

    side: str
    solver: str

    @classmethod
    def of(cls, name: str) -> "Contender":
        """Return the one that records and commands call `side.solver`."""
        side, _, solver = name.partition(".")
        return cls(side, solver)

    @property
    def row(self) -> Solver:
        """What is known of its solver."""
        return (peers.SOLVERS if self.side == "peers" else SOLVERS)[self.solver]


# In the order of the tables.
ALL = tuple(
    f"{side}.{name}"
    for side in ("stock", "patched")
    for name, row in SOLVERS.items()
    if row.listed and (row.released or side == "patched")
)
SOLVER_NAMES = tuple(dict.fromkeys(Contender.of(name).solver for name in ALL))
# Those that one looks at first: what is released, and what the series adds.
USUAL = tuple(
    name
    for name in ALL
    if name.startswith("stock.") or not Contender.of(name).row.released
)
TABLES = ("stock.dp", "stock.hirschberg", "patched.dp", "patched.hirschberg")
OURS = ("patched.exact", "patched.hirschberg", "patched.dp")
PEERS = ("patched.exact", *(f"peers.{name}" for name in peers.SOLVERS))
# Who parts a graph: a solver, in the end with the series' patches of the cut, too.
VARIANTS = (
    "stock.dp",
    "stock.hirschberg",
    "stock.exact",
    "patched.dp",
    "patched.exact",
)


def title(contender: str) -> str:
    """Name a contender in tables and plots."""
    one = Contender.of(contender)
    return f"{one.row.title or one.solver}, {SIDES[one.side]}"


def in_setting(contender: str, threads: str, load: str) -> str:
    """Name a contender with "one" thread or the "default", "idle" or "loaded"."""
    return f"{contender} {threads} {load}"
