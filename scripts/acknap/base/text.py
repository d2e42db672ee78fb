"""Numbers and tables as text."""

import math
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

Cells = Sequence[str]
Row = dict[str, str]  # a cell by the name of its column


def short(value: float) -> str:
    """Write a number with three digits at most."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 12)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def table(header: Cells, rows: Iterable[Cells], *, numbers: bool = False) -> str:
    """Return a Markdown table; of numbers, columns after the first end at the right."""
    line = ("---", *(("---:" if numbers else "---") for _ in header[1:]))
    lines = (header, line, *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def print_table(
    console: Console,
    header: Cells,
    rows: Iterable[Cells],
    *,
    title: str | None = None,
    numbers: bool = False,
) -> None:
    """Print a table, with a line below its header on a terminal; else as `table`."""
    shown = Table(
        title=title,
        box=box.SIMPLE_HEAD if console.is_terminal else None,
        collapse_padding=numbers,  # they are short, and there can be many
        pad_edge=not numbers,
    )
    for index, cell in enumerate(header):
        shown.add_column(cell, justify="right" if numbers and index else "left")
    for row in rows:
        shown.add_row(*row)
    console.print(shown)


def of_numbers(rows: Iterable[Row], empty: str = "Not measured.") -> str:
    """Return a table of numbers with the rows' names as its header; `empty` if none."""
    found = list(rows)
    if not found:
        return empty
    return table(tuple(found[0]), [tuple(r.values()) for r in found], numbers=True)


def code(text: str) -> str:
    """Quote text for a cell of a Markdown table."""
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"
