"""The measurements of memory, and the sizes of the publication."""

from acknap.bench.point import Point, in_units

# The publication's figures, and what they imply at 4 bytes a cell of the table and five
# rows of 4 bytes in the sliding-window solver.
LIMIT_GB, TABLE_GB, ROWS_GB = 64.0, 304.0, 58.4
TABLE_UNITS = round(TABLE_GB * 1e9 / 4 / 101)
ROWS_UNITS = round(ROWS_GB * 1e9 / 20)


def limits(quick: bool) -> list[Point]:
    """The publication's machine at a scale: its memory, table and problem."""
    points = []
    for scale in (1000,) if quick else (1000, 100):
        room = round(LIMIT_GB * 1e9 / scale)
        table, rows = TABLE_UNITS // scale, ROWS_UNITS // scale
        points += [
            in_units("limit", "limit", "random", 10, table, ("stock.dp",), 0, room),
            in_units("limit", "limit", "random", 100, table, ("stock.dp",), 0, room),
            in_units(
                "limit", "limit", "random", 2000, rows, ("stock.hirschberg",), 0, room
            ),
        ]
    return points


def memory(quick: bool) -> list[Point]:
    million = 1_000_000
    grid: list[tuple[str, int, int, tuple[str, ...]]] = [
        *(("random", n, million, ("stock.dp",)) for n in (5, 20, 50, 100)),
        *(("random", n, 300_000, ("stock.dp",)) for n in (50, 100, 200)),
        *(("random", n, million, ("stock.hirschberg",)) for n in (20, 200)),
        *(
            ("random", n, million, ("patched.hirschberg", "patched.exact"))
            for n in (20, 200)
        ),
        *(
            ("random", 20, width, ("stock.hirschberg",))
            for width in (3 * million, 10 * million)
        ),
        ("random", 2000, 10_000, ("stock.dp", "patched.dp", "patched.hirschberg")),
        ("random", 2000, ROWS_UNITS, ("patched.exact",)),
    ]
    if not quick:
        grid += [
            ("random", 20, 30 * million, ("stock.hirschberg",)),
            *(("random", 100, w, ("stock.dp",)) for w in (100_000, 3 * million)),
            ("random", 200, million, ("stock.dp",)),
            ("random", 10, million, ("stock.dp",)),
            *(("random", n, million, ("patched.dp",)) for n in (10, 100)),
            *(("random", n, million, ("stock.hirschberg",)) for n in (5, 100, 500)),
            ("random", 2000, million, ("stock.hirschberg", "patched.hirschberg")),
            ("random", 20, 100 * million, ("stock.hirschberg",)),
            ("random", 20, 200 * million, ("stock.hirschberg",)),
            *(
                ("strongly", 2000, w, ("patched.hirschberg", "patched.exact"))
                for w in (million, 10 * million)
            ),
            *(
                ("random", n, million, ("patched.hirschberg", "patched.exact"))
                for n in (5, 50, 500)
            ),
            *(("random", 2000, w, ("patched.exact",)) for w in (10_000, million)),
            ("repeated", 2000, ROWS_UNITS, ("patched.exact",)),
            ("repeated", 2000, 100 * million, ("patched.hirschberg",)),
            ("random", 2000, 100 * million, ("patched.hirschberg",)),
        ]
    points = [
        in_units("memory", "memory", family, n, width, (contender,))
        for family, n, width, contenders in grid
        for contender in contenders
    ]
    points += [
        Point("memory", "memory", f"{family}:n=2000", (0.5,), ("patched.exact",))
        for family in ("layers", "uncorrelated", *(() if quick else ("wide",)))
    ]
    return points
