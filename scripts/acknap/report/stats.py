"""Statistics of interleaved timings, and the law of a memory measurement."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from acknap.base.text import short

_CONFIDENCE = 0.95

_T = TypeVar("_T")


class Ratio(NamedTuple):
    """Median of the per-round ratios of two contenders' times.

    Attributes:
        low: Lower end of the median's confidence interval; None: too few rounds.
    """

    median: float
    low: float | None
    high: float | None
    rounds: int

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 1, that is, no difference."""
        return self.low is not None and not self.low <= 1 <= (self.high or 0)

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{short(self.median)}x ({self.rounds} rounds)"
        text = f"{short(self.median)}x ({short(self.low)} to {short(self.high)})"
        return text if self.significant else f"{text}, not significant"


def ratio(
    seconds: Mapping[str, Sequence[float]], base: str, contender: str
) -> Ratio | None:
    """Return how many times faster than `base` it is; None if one is absent."""
    if base not in seconds or contender not in seconds:
        return None
    pairs = zip(seconds[base], seconds[contender], strict=True)
    return of_rounds([slow / fast for slow, fast in pairs])


def of_rounds(ratios: Sequence[float]) -> Ratio:
    """Return the median and its interval, whatever the distribution.

    The number of values below the true median is binomial, so two order statistics
    enclose it with a known probability.
    """
    ordered, n = sorted(ratios), len(ratios)
    outside, rank = 0.0, 0
    for k in range(n // 2):
        outside += 2 * math.comb(n, k) / 2**n
        if outside > 1 - _CONFIDENCE:
            break
        rank = k + 1
    low, high = (ordered[rank - 1], ordered[n - rank]) if rank else (None, None)
    return Ratio(statistics.median(ordered), low, high, n)


def percentile(ordered: Sequence[_T], share: float) -> _T:
    """Return the least value that so large a share of the values does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1]


def median_seconds(
    seconds: Mapping[str, Sequence[float]], contender: str
) -> float | None:
    """Return the median time of a contender; None if it was not timed."""
    values = seconds.get(contender)
    return statistics.median(values) if values else None


class Law(NamedTuple):
    """bytes = sum of coefficient x feature, fitted to measured points.

    Attributes:
        error: Largest relative error of a fitted point.
    """

    coefficients: tuple[float, ...]
    error: float
    points: int

    def __call__(self, *features: float) -> float:
        """Return the bytes that the law gives."""
        return float(np.dot(self.coefficients, features))


def fit(rows: Sequence[tuple[float, ...]], sizes: Sequence[float]) -> Law | None:
    """Fit a law by least squares of the relative error; None if points are too few."""
    if len(sizes) < 5:
        return None
    x, y = np.array(rows, dtype=float), np.array(sizes, dtype=float)
    found, *_ = np.linalg.lstsq(x / y[:, None], np.ones(len(y)), rcond=None)
    error = float(np.max(np.abs(x @ found / y - 1)))
    return Law(tuple(map(float, found)), error, len(sizes))
