"""Memory: the laws of the released solvers, and the numbers behind the claims on it."""

from typing import NamedTuple

from acknap.base.text import short
from acknap.bench.finished import Memory
from acknap.bench.plan_memory import LIMIT_GB, ROWS_UNITS, TABLE_UNITS
from acknap.bench.record import Record
from acknap.report.stats import Law, fit


class Number(NamedTuple):
    """A measured value and how to say it."""

    value: float
    text: str


def memory_points(record: Record, contender: str, **sizes: int) -> list[Memory]:
    """Return the points with a measured peak of a contender, of problems of a size."""
    return [
        point
        for point in record.of("memory", Memory) + record.of("limit", Memory)
        if point.contenders == (contender,)
        and point.growth is not None
        and sizes.items() <= point.sizes.items()
    ]


def table_law(record: Record) -> Law | None:
    """Return the law of the released table: bytes by cells, and by units for rows."""
    points = [
        point
        for point in memory_points(record, "stock.dp")
        # Below that the temporary rows weigh as much as the table.
        if point.sizes["n"] >= 50 and point.sizes["units"] >= 100_000
    ]
    sizes = [(point.sizes["n"] + 1.0, point.sizes["units"] + 1.0) for point in points]
    cells = [(height * width, width) for height, width in sizes]
    return fit(cells, [point.peak for point in points])


def rows_law(record: Record) -> Law | None:
    """Return the law of the released sliding window: bytes by units."""
    points = memory_points(record, "stock.hirschberg")
    units = [(float(point.sizes["units"]),) for point in points]
    return fit(units, [point.peak for point in points])


def table_gb(record: Record) -> Number | None:
    """The table for n = 100 at the publication's capacity, extrapolated."""
    law = table_law(record)
    if law is None:
        return None
    width = TABLE_UNITS + 1.0
    gb, all_gb = law(101 * width, 0) / 1e9, law(101 * width, width) / 1e9
    return Number(
        gb,
        f"{gb:.0f} GB +- {law.error:.1%} by {law.coefficients[0]:.3f} bytes a cell, "
        f"fitted on {law.points} points, at W = {TABLE_UNITS:.3g}; "
        f"{all_gb:.0f} GB with the temporary rows",
    )


def table_asks(record: Record) -> Number | None:
    """What the released dp asks for, over what it may have, where it dies."""
    point = min(_died(record), key=_scale, default=None)
    if point is None:
        return None
    scale, asked = _scale(point), point.asked or 0
    room = LIMIT_GB * 1e9 / scale
    return Number(
        asked / room,
        f"at 1/{scale:.0f} of the size the process may add {room / 1e6:.0f} MB "
        f"and dies asking for {asked / 1e6:.1f} MB",
    )


def rows_gb(record: Record) -> Number | None:
    """The sliding window's peak at the publication's capacity, extrapolated."""
    law = rows_law(record)
    if law is None:
        return None
    gb = law(float(ROWS_UNITS)) / 1e9
    return Number(
        gb,
        f"{gb:.1f} GB +- {law.error:.1%} by {law.coefficients[0]:.2f} bytes a unit, "
        f"fitted on {law.points} points, at W = {ROWS_UNITS:.3g}",
    )


def rows_by_n(record: Record) -> Number | None:
    """How much the sliding window's peak varies with n at W = 1e6."""
    points = memory_points(record, "stock.hirschberg", units=1_000_000)
    found = {point.sizes["n"]: point.peak for point in points}
    if len(found) < 2:
        return None
    worst = max(found.values()) / min(found.values())
    return Number(
        worst,
        f"largest over smallest is {worst:.3f} for n = {min(found)} to {max(found)}",
    )


def times_larger(record: Record) -> Number | None:
    """How many times more items the sliding window solves where dp dies."""
    tried = [p for p in memory_points(record, "stock.hirschberg") if p.topic == "limit"]
    died = _died(record)
    if not died or not tried:
        return None
    fewest = min(point.sizes["n"] for point in died)
    most = max(tried, key=lambda point: (point.sizes["n"], -_scale(point)))
    return Number(
        most.sizes["n"] / fewest,
        f"n = {most.sizes['n']} solved in {most.peak / 1e6:.1f} MB where dp "
        f"dies at n = {fewest}, at 1/{_scale(most):.0f} of the size",
    )


def largest_2000(record: Record) -> Number | None:
    """The largest capacity at which the released sliding window solved n = 2000."""
    found = {}
    for name in ("stock.hirschberg", "patched.hirschberg", "patched.exact"):
        points = [p for p in memory_points(record, name, n=2000) if "units" in p.sizes]
        if points:
            found[name] = max(
                (p.sizes["units"], p.peak / 1e6, p.seconds) for p in points
            )
    if "stock.hirschberg" not in found:
        return None
    words = (
        f"{name} W = {units:.3g} in {size:.3g} MB and {short(seconds)} s"
        for name, (units, size, seconds) in found.items()
    )
    return Number(float(found["stock.hirschberg"][0]), "; ".join(words))


def peak_ratio(
    record: Record, base: str, contender: str, problem: str
) -> Number | None:
    """How many times less memory than `base` a contender takes."""
    peaks = {
        point.contenders[0]: point.peak
        for name in (base, contender)
        for point in sorted(memory_points(record, name), key=lambda p: p.peak)
        if point.problem == problem
    }
    if len(peaks) < 2:
        return None
    words = ", ".join(f"{name} {size / 1e6:.3g} MB" for name, size in peaks.items())
    value = peaks[base] / peaks[contender]
    return Number(value, f"{short(value)} times: {words}, {problem}")


def rows_share(
    record: Record, contender: str, bytes_a_unit: float, constant: float
) -> Number | None:
    """The worst share that a contender takes of so much a unit and a constant."""
    shares = [
        (point.peak / (bytes_a_unit * units + constant), point.peak, point.problem)
        for point in memory_points(record, contender)
        if (units := point.sizes.get("units", 0)) >= 1_000_000
    ]
    if not shares:
        return None
    share, peak, problem = max(shares)
    text = f"at most {share:.2f} of it in {len(shares)} points: {peak / 1e6:.3g} MB"
    return Number(share, f"{text}, {problem}")


def peak(record: Record, contender: str, families: list[str]) -> Number | None:
    """The largest growth of a contender in MB, n = 2000, on some families."""
    found = [
        (point.peak / 1e6, point.problem, point.answer.right)
        for point in memory_points(record, contender, n=2000)
        if point.problem.split(":")[0] in families
    ]
    if not found:
        return None
    size, problem, _ = max(found)
    wrong = sum(right is False for *_, right in found)
    text = f"at most {size:.3g} MB in {len(found)} points ({problem})"
    return Number(size, text + (f"; {wrong} WRONG" if wrong else ""))


def published(record: Record, contender: str) -> Number | None:
    """The growth in MB of a contender at the publication's n and capacity."""
    points = memory_points(record, contender, units=ROWS_UNITS)
    right = (point for point in points if point.answer.right)
    point = max(right, key=lambda one: one.peak, default=None)
    if point is None:
        return None
    return Number(
        point.peak / 1e6,
        f"n = 2000, W = {ROWS_UNITS:.3g} solved in {short(point.seconds * 1e3)} ms "
        f"and {point.peak / 1e6:.3g} MB, the optimum",
    )


def _died(record: Record) -> list[Memory]:
    """Return where the released dp died for want of the publication's memory."""
    points = record.of("limit", Memory)
    return [p for p in points if p.contenders == ("stock.dp",) and p.asked]


def _scale(point: Memory) -> float:
    whole = TABLE_UNITS if point.contenders == ("stock.dp",) else ROWS_UNITS
    return round(whole / point.sizes["units"])
