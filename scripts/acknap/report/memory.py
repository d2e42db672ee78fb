"""Memory: the laws of the released solvers, and the numbers behind the claims on it."""

from collections.abc import Iterator
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


def memory_points(record: Record, contender: str) -> Iterator[tuple[Memory, int]]:
    """Return the measured peaks of a contender, with their bytes."""
    for point in record.of("memory", Memory) + record.of("limit", Memory):
        if point.contenders == (contender,) and point.growth is not None:
            yield point, point.growth


def table_law(record: Record) -> Law | None:
    """Return the law of the released table: bytes by cells, and by units for rows."""
    rows, found = [], []
    for point, growth in memory_points(record, "stock.dp"):
        n, units = point.sizes["n"], point.sizes["units"]
        # Below that the temporary rows weigh as much as the table.
        if n >= 50 and units >= 100_000:
            rows.append(((n + 1.0) * (units + 1), units + 1.0))
            found.append(float(growth))
    return fit(rows, found)


def rows_law(record: Record) -> Law | None:
    """Return the law of the released sliding window: bytes by units."""
    rows, found = [], []
    for point, growth in memory_points(record, "stock.hirschberg"):
        rows.append((float(point.sizes["units"]),))
        found.append(float(growth))
    return fit(rows, found)


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
    points = [p for p in _limit(record, "stock.dp") if p.asked]
    if not points:
        return None
    point = min(points, key=_scale)
    room = LIMIT_GB * 1e9 / _scale(point)
    return Number(
        (point.asked or 0) / room,
        f"at 1/{_scale(point):.0f} of the size the process may add {room / 1e6:.0f} MB "
        f"and dies asking for {(point.asked or 0) / 1e6:.1f} MB",
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
    found = {
        point.sizes["n"]: growth
        for point, growth in memory_points(record, "stock.hirschberg")
        if point.sizes["units"] == 1_000_000
    }
    if len(found) < 2:
        return None
    worst = max(found.values()) / min(found.values())
    return Number(
        worst,
        f"largest over smallest is {worst:.3f} for n = {min(found)} to {max(found)}",
    )


def times_larger(record: Record) -> Number | None:
    """How many times more items the sliding window solves where dp dies."""
    died = [p for p in _limit(record, "stock.dp") if p.asked]
    solved = [p for p in _limit(record, "stock.hirschberg") if p.growth is not None]
    if not died or not solved:
        return None
    fewest = min(point.sizes["n"] for point in died)
    most = max(solved, key=lambda point: (point.sizes["n"], -_scale(point)))
    return Number(
        most.sizes["n"] / fewest,
        f"n = {most.sizes['n']} solved in {(most.growth or 0) / 1e6:.1f} MB where dp "
        f"dies at n = {fewest}, at 1/{_scale(most):.0f} of the size",
    )


def largest_2000(record: Record) -> Number | None:
    """The largest capacity at which the released sliding window solved n = 2000."""
    found = {
        name: max(
            (
                (point.sizes["units"], growth, point.seconds)
                for point, growth in memory_points(record, name)
                if point.sizes.get("n") == 2000 and "units" in point.sizes
            ),
            default=None,
        )
        for name in ("stock.hirschberg", "patched.hirschberg", "patched.exact")
    }
    best = found["stock.hirschberg"]
    if best is None:
        return None
    words = [
        f"{name} W = {one[0]:.3g} in {one[1] / 1e6:.3g} MB and {short(one[2])} s"
        for name, one in found.items()
        if one
    ]
    return Number(float(best[0]), "; ".join(words))


def peak_ratio(
    record: Record, base: str, contender: str, problem: str
) -> Number | None:
    """How many times less memory than `base` a contender takes."""
    found = {
        name: max(
            (g for point, g in memory_points(record, name) if point.problem == problem),
            default=0,
        )
        for name in (base, contender)
    }
    if not all(found.values()):
        return None
    words = ", ".join(f"{name} {size / 1e6:.3g} MB" for name, size in found.items())
    value = found[base] / found[contender]
    return Number(value, f"{short(value)} times: {words}, {problem}")


def rows_share(
    record: Record, contender: str, bytes_a_unit: float, constant: float
) -> Number | None:
    """The worst share that a contender takes of so much a unit and a constant."""
    shares = [
        (growth / (bytes_a_unit * point.sizes["units"] + constant), growth, point)
        for point, growth in memory_points(record, contender)
        if point.sizes.get("units", 0) >= 1_000_000
    ]
    if not shares:
        return None
    share, growth, point = max(shares, key=lambda one: one[0])
    return Number(
        share,
        f"at most {share:.2f} of it in {len(shares)} points: {growth / 1e6:.3g} MB, "
        f"{point.problem}",
    )


def peak(record: Record, contender: str, families: list[str]) -> Number | None:
    """The largest growth of a contender in MB, n = 2000, on some families."""
    found = [
        (growth / 1e6, point.problem, point.answer.right)
        for point, growth in memory_points(record, contender)
        if point.sizes["n"] == 2000 and point.problem.split(":")[0] in families
    ]
    if not found:
        return None
    size, problem, _ = max(found)
    wrong = sum(right is False for *_, right in found)
    text = f"at most {size:.3g} MB in {len(found)} points ({problem})"
    return Number(size, text + (f"; {wrong} WRONG" if wrong else ""))


def published(record: Record, contender: str) -> Number | None:
    """The growth in MB of a contender at the publication's n and capacity."""
    found = [
        (growth / 1e6, point)
        for point, growth in memory_points(record, contender)
        if point.sizes.get("units") == ROWS_UNITS and point.answer.right
    ]
    if not found:
        return None
    size, point = max(found, key=lambda one: one[0])
    return Number(
        size,
        f"n = 2000, W = {ROWS_UNITS:.3g} solved in {short(point.seconds * 1e3)} ms "
        f"and {size:.3g} MB, the optimum",
    )


def _limit(record: Record, contender: str) -> list[Memory]:
    """Return what was tried with the publication's memory, at a scale."""
    points = record.of("limit", Memory)
    return [point for point in points if point.contenders == (contender,)]


def _scale(point: Memory) -> float:
    whole = TABLE_UNITS if point.contenders == ("stock.dp",) else ROWS_UNITS
    return round(whole / point.sizes["units"])
