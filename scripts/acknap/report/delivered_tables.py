"""The report's tables of captured models: plans by solver, and partitions."""

from collections.abc import Sequence

from acknap.base.text import short, table
from acknap.bench.finished import Answers
from acknap.bench.record import Record
from acknap.knapsack.contenders import ALL, VARIANTS, title
from acknap.models.parted import MEASURES, Parted
from acknap.report.delivered import (
    extra_cuts,
    extra_time,
    points,
    recompute,
    runs,
)

BASE = "stock.dp"


def captured(record: Record) -> str:
    """Return a line per captured model: the solvers' worst sets over all budgets."""
    points = record.of("captured", Answers)
    if not points:
        return "Not measured."
    rows = [(point.name, *(_worst(point, name) for name in ALL)) for point in points]
    return table(("model", *map(title, ALL)), rows, numbers=True)


def _worst(point: Answers, contender: str) -> str:
    found = point.by(contender)
    if not found or any(row.failed for row in found):
        return "failed" if found else "absent"
    beyond = max(row.excess for row in found)
    extra = max(
        (point.extra(row) or 0.0 for row in found if not row.excess), default=0.0
    )
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
        (title(name), *_variant(record, name))
        for name in VARIANTS
        if any(runs(record, name))
    ]
    return table(header, rows, numbers=True) if rows else "Not measured."


def _variant(record: Record, contender: str) -> Sequence[str]:
    found = [row for _, _, row in runs(record, contender)]
    beyond = {m: [row.excess(m) for row in found] for m in MEASURES}
    again = recompute(record, BASE, contender)
    time = extra_time(record, BASE, contender)
    cuts = extra_cuts(record, contender)
    return (
        str(len(found)),
        *(str(values.count(0.0)) for values in beyond.values()),
        *(f"{100 * max(values):+.1f} %" for values in beyond.values()),
        str(sum(row.is_broken for row in found)),
        f"{again.value:.4f}" if again else "-",
        f"{1 + cuts.value:.2f}" if cuts else "-",
        f"{100 * time.value:+.2f} %" if time else "-",
    )


def delivered(record: Record) -> str:
    """Return a line per model and budget: plan and ratio of every variant."""
    lines = []
    for point in points(record):
        for budget in point.budgets:
            rows = {row.contender: row for row in point.rows if row.budget == budget}
            cells = [_promise(rows.get(variant)) for variant in VARIANTS]
            lines.append((f"{point.name}, {budget:g}", *cells))
    header = ("model, budget", *map(title, VARIANTS))
    return table(header, lines, numbers=True) if lines else "Not measured."


def _promise(row: Parted | None) -> str:
    if row is None:
        return "absent"
    if row.failed:
        return "failed"
    if not row.knapsack_used:
        return f"no knapsack, {row.ratio:.4f}"
    mark = " **over**" if row.is_broken else " over" if row.excess("ratio") else ""
    return f"{row.plan:.4f} to {row.ratio:.4f}{mark}"
