"""The measurements of memory, and the sizes of the publication."""

from itertools import product

from acknap.bench.point import Point, in_units

# The publication's figures, and what they imply at 4 bytes a cell of the table and five
# rows of 4 bytes in the sliding-window solver.
LIMIT_GB, TABLE_GB, ROWS_GB = 64.0, 304.0, 58.4
TABLE_UNITS = round(TABLE_GB * 1e9 / 4 / 101)
ROWS_UNITS = round(ROWS_GB * 1e9 / 20)

_DP, _HIRSCHBERG = ("stock.dp",), ("stock.hirschberg",)
_OURS, _EXACT = ("patched.hirschberg", "patched.exact"), ("patched.exact",)
_MILLION = 1_000_000
# Family, numbers of items, capacities in units, contenders: each with each.
_Grid = list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[str, ...]]]
_QUICK: _Grid = [
    ("random", (5, 20, 50, 100), (_MILLION,), _DP),
    ("random", (50, 100, 200), (300_000,), _DP),
    ("random", (20, 200), (_MILLION,), _HIRSCHBERG),
    ("random", (20, 200), (_MILLION,), _OURS),
    ("random", (20,), (3 * _MILLION, 10 * _MILLION), _HIRSCHBERG),
    ("random", (2000,), (10_000,), (*_DP, "patched.dp", "patched.hirschberg")),
    ("random", (2000,), (ROWS_UNITS,), _EXACT),
]
_FULL: _Grid = [
    *_QUICK,
    ("random", (20,), (30 * _MILLION,), _HIRSCHBERG),
    ("random", (100,), (100_000, 3 * _MILLION), _DP),
    ("random", (200, 10), (_MILLION,), _DP),
    ("random", (10, 100), (_MILLION,), ("patched.dp",)),
    ("random", (5, 100, 500), (_MILLION,), _HIRSCHBERG),
    ("random", (2000,), (_MILLION,), (*_HIRSCHBERG, "patched.hirschberg")),
    ("random", (20,), (100 * _MILLION, 200 * _MILLION), _HIRSCHBERG),
    ("strongly", (2000,), (_MILLION, 10 * _MILLION), _OURS),
    ("random", (5, 50, 500), (_MILLION,), _OURS),
    ("random", (2000,), (10_000, _MILLION), _EXACT),
    ("repeated", (2000,), (ROWS_UNITS,), _EXACT),
    ("repeated", (2000,), (100 * _MILLION,), ("patched.hirschberg",)),
    ("random", (2000,), (100 * _MILLION,), ("patched.hirschberg",)),
]


def limits(quick: bool) -> list[Point]:
    """The publication's machine at a scale: its memory, table and problem."""
    return [
        Point("limit", "limit", *in_units("random", n, units // scale), of, 0, room)
        for scale in ((1000,) if quick else (1000, 100))
        for room in [round(LIMIT_GB * 1e9 / scale)]
        for n, units, of in (
            (10, TABLE_UNITS, _DP),
            (100, TABLE_UNITS, _DP),
            (2000, ROWS_UNITS, _HIRSCHBERG),
        )
    ]


def memory(quick: bool) -> list[Point]:
    points = [
        Point("memory", "memory", *in_units(family, n, width), (contender,))
        for family, items, widths, contenders in (_QUICK if quick else _FULL)
        for n, width, contender in product(items, widths, contenders)
    ]
    families = (
        ("layers", "uncorrelated") if quick else ("layers", "uncorrelated", "wide")
    )
    return points + [
        Point("memory", "memory", f"{family}:n=2000", (0.5,), _EXACT)
        for family in families
    ]
