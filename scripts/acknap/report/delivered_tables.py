"""The report's tables of captured models: plans by solver, and partitions."""

from acknap.base.text import Row, of_numbers, short
from acknap.bench.finished import Answers
from acknap.bench.record import Record
from acknap.knapsack.contenders import ALL, VARIANTS, title
from acknap.models.parted import MEASURES, Parted
from acknap.report.delivered import extra_cuts, extra_time, points, recompute, runs

BASE = "stock.dp"


def captured(record: Record) -> str:
    """Return a line per captured model: the solvers' worst sets over all budgets."""
    return of_numbers(
        {"model": point.name} | {title(name): _worst(point, name) for name in ALL}
        for point in record.of("captured", Answers)
    )


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
    return of_numbers(
        {"partition by": title(name)} | _variant(record, name)
        for name in VARIANTS
        if any(runs(record, name))
    )


def _variant(record: Record, contender: str) -> Row:
    found = [row for _, _, row in runs(record, contender)]
    beyond = {measure: [row.excess(measure) for row in found] for measure in MEASURES}
    worst = {m: f"{100 * max(values):+.1f} %" for m, values in beyond.items()}
    again = recompute(record, BASE, contender)
    time = extra_time(record, BASE, contender)
    cuts = extra_cuts(record, contender)
    return {
        "runs": str(len(found)),
        **{f"within by {m}": str(values.count(0.0)) for m, values in beyond.items()},
        "worst by ratio": worst.pop("ratio"),
        **{f"by {measure}": excess for measure, excess in worst.items()},
        "over though the plan is not": str(sum(row.is_broken for row in found)),
        "recomputed runtime against released dp": f"{again.value:.4f}"
        if again
        else "-",
        "cuts": f"{1 + cuts.value:.2f}" if cuts else "-",
        "partition time": f"{100 * time.value:+.2f} %" if time else "-",
    }


def delivered(record: Record) -> str:
    """Return a line per model and budget: plan and ratio of every variant."""
    lines = []
    for point in points(record):
        for budget in point.budgets:
            rows = {row.contender: row for row in point.rows if row.budget == budget}
            cells = {title(name): _promise(rows.get(name)) for name in VARIANTS}
            lines.append({"model, budget": f"{point.name}, {budget:g}"} | cells)
    return of_numbers(lines)


def _promise(row: Parted | None) -> str:
    if row is None:
        return "absent"
    if row.failed:
        return "failed"
    if not row.knapsack_used:
        return f"no knapsack, {row.ratio:.4f}"
    mark = " **over**" if row.is_broken else " over" if row.excess("ratio") else ""
    return f"{row.plan:.4f} to {row.ratio:.4f}{mark}"
