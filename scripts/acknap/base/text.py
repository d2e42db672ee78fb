"""Numbers and tables as text."""

import math
from collections.abc import Iterable, Sequence

Cells = Sequence[str]


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


def code(text: str) -> str:
    """Quote text for a cell of a Markdown table."""
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"
