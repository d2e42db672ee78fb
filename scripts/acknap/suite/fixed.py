"""The tests that claim to be fixed by the series, and whether they are."""

import tomllib
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from acknap.base.errors import HarnessError
from acknap.suite.categories import Category, Row

# A test whose file stock cannot have cannot fail there, and counts as fixed.
HELD = (Category.FIXED, Category.NOT_IN_STOCK)


def load(path: Path) -> dict[str, list[str]]:
    """Read the claims: patterns of ``Class::method`` by test file."""
    try:
        content = tomllib.loads(path.read_text())
        claims = content.pop("fixed")
    except (OSError, ValueError, KeyError) as error:
        raise HarnessError(f"{path.name}: cannot read the claims: {error!r}") from None
    if content or not _well_formed(claims):
        raise HarnessError(f"{path.name}: not a table 'fixed' of file = [patterns]")
    return dict(claims)


def broken(claims: Mapping[str, Iterable[str]], table: Collection[Row]) -> list[str]:
    """Return a line for each claim that does not hold in a table."""
    lines: list[str] = []
    for file, patterns in claims.items():
        for pattern in patterns:
            claimed = [row for row in table if _matches(row.test, file, pattern)]
            if not claimed:
                lines.append(f"claimed as fixed, but no such test: {file}::{pattern}")
            for row in claimed:
                if row.category not in HELD:
                    kept = row.category is Category.KEPT
                    found = "passes on stock" if kept else row.category
                    lines.append(f"claimed as fixed, but {found}: {row.test}")
    return lines


def _well_formed(claims: object) -> bool:
    return isinstance(claims, dict) and all(
        isinstance(patterns, list) and all(isinstance(item, str) for item in patterns)
        for patterns in claims.values()
    )


def _matches(test: str, file: str, pattern: str) -> bool:
    found, _, name = test.partition("::")
    return found == file and fnmatchcase(name, pattern)
