"""Statistics of interleaved timings."""

import pytest

from acknap.report import stats


def test_interval_of_a_median() -> None:
    ratio = stats.of_rounds([1.2, 1.3, 1.1, 1.4, 1.25, 1.35])
    assert (ratio.median, ratio.low, ratio.high) == (pytest.approx(1.275), 1.1, 1.4)
    assert ratio.significant
    assert str(ratio) == "1.27x (1.1 to 1.4)"
    assert str(stats.of_rounds([0.9, 1.1] * 5)).endswith("not significant")
    assert str(stats.of_rounds([2.0, 3.0, 4.0])) == "3x (3 rounds)"
    long = stats.of_rounds([float(i) for i in range(1000)])
    assert (long.low, long.high) == (468, 531)


def test_law() -> None:
    rows = [
        (float(n * w), float(w))
        for n, w in ((5, 10), (9, 10), (5, 30), (8, 90), (1, 1))
    ]
    law = stats.fit(rows, [4 * cells + 8 * width for cells, width in rows])
    assert law is not None
    assert law(100, 10) == pytest.approx(480)
    assert law.error < 1e-9
    assert stats.fit(rows[:4], [1.0] * 4) is None


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 100), (0.99, 198), (0.991, 199), (1, 200)]
)
def test_percentile(share: float, value: int) -> None:
    assert stats.percentile(range(1, 201), share) == value
    assert stats.percentile(["few"], share) == "few"
