"""The report's tables of captured models: plans by solver, and partitions."""

from collections.abc import Sequence
from typing import Any

from acknap.bench.plan import ALL, VARIANTS
from acknap.bench.record import Record
from acknap.knapsack.contenders import contender_name
from acknap.report.chart_data import extra_recomputation
from acknap.report.delivered import (
    MEASURES,
    excess,
    extra_cuts,
    extra_time,
    is_broken,
    points,
    recompute,
    runs,
)
from acknap.report.stats import short
from acknap.report.tables import table

BASE = "stock.dp"


def captured(record: Record) -> str:
    """Return a line per captured model: the solvers' worst sets over all budgets."""
    points = record.of("captured")
    if not points:
        return "Not measured."
    rows = [
        (
            point["problem"].removeprefix("real:captured/"),
            *(_worst(point, contender) for contender in ALL),
        )
        for point in points
    ]
    return table(("model", *map(contender_name, ALL)), rows)


def _worst(point: dict[str, Any], contender: str) -> str:
    found = [row for row in point["rows"] if row["contender"] == contender]
    if not found or any("failed" in row for row in found):
        return "failed" if found else "absent"
    beyond = max(row["excess"] for row in found)
    extras = [
        extra_recomputation(
            row["value"], point["best"][str(row["budget"])], point["total"]
        )
        for row in found
        if not row["excess"]
    ]
    extra = max((e for e in extras if e is not None), default=0.0)
    more = f"{short(100 * extra)} %" if extra >= 1e-5 else "< 0.001 %"
    more = more if extra > 1e-9 else "0"
    return f"{more}, over by {short(100 * beyond)} %" if beyond else more


def variants(record: Record) -> str:
    """Return a line per variant: how its partitions keep to the budget."""
    header = (
        "partition by",
        "runs",
        *(f"within by {measure}" for measure in MEASURES),
        "worst by ratio",
        *(f"by {measure}" for measure in MEASURES[1:]),
        "over though the plan is not",
        "recomputed runtime against released dp",
        "cuts",
        "partition time",
    )
    rows = [
        (contender_name(name), *_variant(record, name))
        for name in VARIANTS
        if any(runs(record, name))
    ]
    return table(header, rows) if rows else "Not measured."


def _variant(record: Record, contender: str) -> Sequence[str]:
    found = [row for _, _, row in runs(record, contender)]
    beyond = {m: [excess(row, m) for row in found] for m in MEASURES}
    again = recompute(record, BASE, contender)
    time = extra_time(record, BASE, contender)
    cuts = extra_cuts(record, contender)
    return (
        str(len(found)),
        *(str(values.count(0.0)) for values in beyond.values()),
        *(f"{100 * max(values):+.1f} %" for values in beyond.values()),
        str(sum(map(is_broken, found))),
        f"{again.value:.4f}" if again else "-",
        f"{1 + cuts.value:.2f}" if cuts else "-",
        f"{100 * time.value:+.2f} %" if time else "-",
    )


def delivered(record: Record) -> str:
    """Return a line per model and budget: plan and ratio of every variant."""
    lines = []
    for point in points(record):
        name = point["problem"].removeprefix("real:captured/")
        for budget in point["budgets"]:
            rows = {
                row["contender"]: row
                for row in point["rows"]
                if row["budget"] == budget
            }
            cells = [_promise(rows.get(variant)) for variant in VARIANTS]
            lines.append((f"{name}, {budget:g}", *cells))
    header = ("model, budget", *map(contender_name, VARIANTS))
    return table(header, lines) if lines else "Not measured."


def _promise(row: dict[str, Any] | None) -> str:
    if row is None:
        return "absent"
    if "failed" in row:
        return "failed"
    ratio = f"{row['ratio']:.4f}"
    if not row["knapsack_used"]:
        return f"no knapsack, {ratio}"
    mark = " **over**" if is_broken(row) else " over" if excess(row, "ratio") else ""
    return f"{row['plan']:.4f} to {ratio}{mark}"
