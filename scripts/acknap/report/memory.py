"""Memory: the laws of the released solvers, and the numbers behind the claims on it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from acknap.bench.plan_memory import LIMIT_GB, ROWS_UNITS, TABLE_UNITS
from acknap.bench.record import Record
from acknap.report.stats import Law, fit, short


class Number(NamedTuple):
    """A measured value and how to say it."""

    value: float
    text: str


def sizes(point: dict[str, Any]) -> dict[str, int]:
    """Return n, units, ... of a generated problem."""
    text = point["problem"].partition(":")[2]
    pairs = (part.split("=") for part in text.split(",") if "=" in part)
    return {name: int(float(value)) for name, value in pairs}


def memory_points(
    record: Record, contender: str
) -> Iterator[tuple[dict[str, Any], int]]:
    """Return the measured peaks of a contender, with their bytes."""
    for point in record.of("memory") + record.of("limit"):
        if point["contenders"] == [contender] and "growth" in point:
            yield point, point["growth"]


def table_law(record: Record) -> Law | None:
    """Return the law of the released table: bytes by cells, and by units for rows."""
    rows, found = [], []
    for point, growth in memory_points(record, "stock.dp"):
        n, units = sizes(point)["n"], sizes(point)["units"]
        # Below that the temporary rows weigh as much as the table.
        if n >= 50 and units >= 100_000:
            rows.append(((n + 1.0) * (units + 1), units + 1.0))
            found.append(float(growth))
    return fit(rows, found)


def rows_law(record: Record) -> Law | None:
    """Return the law of the released sliding window: bytes by units."""
    rows, found = [], []
    for point, growth in memory_points(record, "stock.hirschberg"):
        rows.append((float(sizes(point)["units"]),))
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
    points = [p for p in _limit(record, "stock.dp", 100) if p.get("asked")]
    if not points:
        return None
    point = min(points, key=_scale)
    room = LIMIT_GB * 1e9 / _scale(point)
    return Number(
        point["asked"] / room,
        f"at 1/{_scale(point):.0f} of the size the process may add {room / 1e6:.0f} MB "
        f"and dies asking for {point['asked'] / 1e6:.1f} MB",
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
        sizes(point)["n"]: growth
        for point, growth in memory_points(record, "stock.hirschberg")
        if sizes(point)["units"] == 1_000_000
    }
    if len(found) < 2:
        return None
    worst = max(found.values()) / min(found.values())
    return Number(
        worst,
        f"largest over smallest is {worst:.3f} for n = {min(found)} to {max(found)}",
    )


def times_larger(record: Record) -> Number | None:
    """How many more items fit under the limit that stops dp at n = 100."""
    asked = table_asks(record)
    solved = [p for p in _limit(record, "stock.hirschberg", 2000) if "growth" in p]
    if asked is None or not solved:
        return None
    point = min(solved, key=_scale)
    return Number(
        20.0 if asked.value > 1 else 0.0,
        f"n = 2000 solved in {point['growth'] / 1e6:.1f} MB where dp dies at n = 100, "
        f"at 1/{_scale(point):.0f} of the size",
    )


def largest_2000(record: Record) -> Number | None:
    """The largest capacity at which the released sliding window solved n = 2000."""
    found = {
        name: max(
            (
                (sizes(point)["units"], growth, point["seconds"])
                for point, growth in memory_points(record, name)
                if sizes(point).get("n") == 2000 and "units" in sizes(point)
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
            (
                g
                for point, g in memory_points(record, name)
                if point["problem"] == problem
            ),
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
        (growth / (bytes_a_unit * sizes(point)["units"] + constant), growth, point)
        for point, growth in memory_points(record, contender)
        if sizes(point).get("units", 0) >= 1_000_000
    ]
    if not shares:
        return None
    share, growth, point = max(shares, key=lambda one: one[0])
    return Number(
        share,
        f"at most {share:.2f} of it in {len(shares)} points: {growth / 1e6:.3g} MB, "
        f"{point['problem']}",
    )


def peak(record: Record, contender: str, families: list[str]) -> Number | None:
    """The largest growth of a contender in MB, n = 2000, on some families."""
    found = [
        (growth / 1e6, point["problem"], point["answer"].get("right"))
        for point, growth in memory_points(record, contender)
        if sizes(point)["n"] == 2000 and point["problem"].split(":")[0] in families
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
        if sizes(point).get("units") == ROWS_UNITS and point["answer"]["right"]
    ]
    if not found:
        return None
    size, point = max(found, key=lambda one: one[0])
    return Number(
        size,
        f"n = 2000, W = {ROWS_UNITS:.3g} solved in {short(point['seconds'] * 1e3)} ms "
        f"and {size:.3g} MB, the optimum",
    )


def _limit(record: Record, contender: str, n: int) -> list[dict[str, Any]]:
    return [
        point
        for point in record.of("limit")
        if point["contenders"] == [contender] and sizes(point)["n"] == n
    ]


def _scale(point: dict[str, Any]) -> float:
    whole = TABLE_UNITS if point["contenders"] == ["stock.dp"] else ROWS_UNITS
    return round(whole / sizes(point)["units"])
