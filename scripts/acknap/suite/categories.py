"""What two runs of one suite say: a category per test, and whether that is fine."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from acknap.suite.outcomes import Outcome, Status


class Category(StrEnum):
    """What became of one test between stock and patched."""

    FIXED = "fixed"
    KEPT = "kept"
    NOT_IN_STOCK = "not in stock"
    SKIPPED = "skipped"
    REGRESSED = "regressed"
    STILL_FAILING = "still failing"
    MISSING = "missing"
    BROKEN = "broken"


# Each of these, once, fails the comparison; see `faults`.
FAULTS = (
    Category.REGRESSED,
    Category.STILL_FAILING,
    Category.MISSING,
    Category.BROKEN,
)

# Which solver a test is about: the first row whose words stand in its name, else in
# its class, else in its file. "dp" comes late because the sliding-window solver's full
# name holds it, "exact" last because every dp solver is called exact somewhere.
SOLVERS = ("hirschberg", "exact_knapsack", "greedy", "ilp", "dp", "exact")
OTHER = "other"


@dataclass(frozen=True)
class Row:
    """One test of the comparison. An outcome is None where the test did not run."""

    test: str
    category: Category
    solver: str
    stock: Outcome | None
    patched: Outcome | None


def rows(
    stock: Mapping[str, Outcome],
    patched: Mapping[str, Outcome],
    new_files: Iterable[str],
    prefix: str = "",
) -> list[Row]:
    """Compare the outcomes of two runs of one suite, test by test.

    Args:
        stock: Outcomes on stock, by test id.
        patched: Outcomes on the patched side.
        new_files: Test files that were not run on stock, their subject being new.
        prefix: Put before each test id.
    """
    new = set(new_files)
    return [
        Row(
            prefix + test,
            _category(test, stock.get(test), patched.get(test), new),
            solver_of(test),
            stock.get(test),
            patched.get(test),
        )
        for test in sorted(stock.keys() | patched.keys())
    ]


def solver_of(test: str) -> str:
    """Return the solver that a test is about."""
    for part in reversed(test.split("::")):
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part).lower()
        words = "_" + re.sub(r"[^a-z0-9]+", "_", snake) + "_"
        for solver in SOLVERS:
            if f"_{solver}_" in words:
                return solver.removesuffix("_knapsack")
    return OTHER


def counts(table: Iterable[Row]) -> dict[str, Counter[str]]:
    """Count a table's rows, per solver and category."""
    result: dict[str, Counter[str]] = {}
    for row in table:
        result.setdefault(row.solver, Counter())[row.category] += 1
    return dict(sorted(result.items()))


def faults(table: Iterable[Row], *, own: bool) -> list[str]:
    """Return a line for each test that must not be in a good comparison.

    Args:
        table: The tests of one suite.
        own: Whether it is this project's suite. Some of upstream's own tests need a
            GPU and do not skip without: what fails on both sides is not ours there.
    """
    return [
        f"{row.category}: {row.test}"
        for row in table
        if row.category in FAULTS and (own or not fails_on_both(row))
    ]


def fails_on_both(row: Row) -> bool:
    """Whether a test ran on both sides and failed on both."""
    return bool(row.stock and row.stock.bad and row.patched and row.patched.bad)


def _category(
    test: str, stock: Outcome | None, patched: Outcome | None, new_files: set[str]
) -> Category:
    file, _, name = test.partition("::")
    if not name and any(side and side.bad for side in (stock, patched)):
        return Category.BROKEN
    if patched is None or (stock is None and file not in new_files):
        return Category.MISSING
    if patched.bad:
        regressed = stock is not None and stock.status is Status.PASSED
        return Category.REGRESSED if regressed else Category.STILL_FAILING
    if stock is None:
        skipped = patched.status is Status.SKIPPED
        return Category.SKIPPED if skipped else Category.NOT_IN_STOCK
    if stock.status is Status.SKIPPED:
        return Category.SKIPPED
    if patched.status is Status.SKIPPED:
        # It ran on stock: a skip must not hide what it would say now.
        return Category.MISSING
    return Category.FIXED if stock.bad else Category.KEPT
