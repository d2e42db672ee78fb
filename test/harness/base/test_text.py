"""Numbers and tables as text."""

import pytest

from acknap.base.text import code, short, table


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.012345, "0.0123"), (1.0, "1"), (12.345, "12.3"), (98765.4, "98765")],
)
def test_short(value: float, text: str) -> None:
    assert short(value) == text


def test_tables() -> None:
    rows = [("1", "2")]
    assert table(("a", "b"), rows) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    right = "| a | b |\n| --- | ---: |\n| 1 | 2 |"
    assert table(("a", "b"), rows, numbers=True) == right


def test_code_does_not_end_its_cell() -> None:
    assert code("a `b` | c") == "`a 'b' \\| c`"
