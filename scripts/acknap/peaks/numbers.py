"""Numbers of rows, as the reports on peaks show them."""

from collections.abc import Mapping
from typing import Any


def percent(row: Mapping[str, Any], key: str = "again") -> float:
    """Return a row's floating point operations in percent of the forward's."""
    return float(100 * row[key] / max(row["total"], 1))


def megabytes(size: float, digits: int = 0) -> str:
    """Write a size in bytes in MB."""
    return f"{size / 1e6:,.{digits}f}"
