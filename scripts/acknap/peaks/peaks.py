"""`peaks`: the peak of plans, released, with the knapsack mended, and by the peak."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from acknap.base.files import write_atomic
from acknap.base.layout import INSIDE
from acknap.base.text import of_numbers
from acknap.inside.known import PEAKS
from acknap.models.study import Row, Study, read_both, versions, write_page
from acknap.peaks import chart
from acknap.peaks.numbers import megabytes, percent

WORKER = INSIDE / "peaks" / "peaks.py"
_PAGE = Path(__file__).with_name("peaks.md").read_text(encoding="utf-8")
# The ways to plan, by what they are called here.
_NAMES = {"dp": "released dp", "exact": "exact", "peak": "peak"}

# The models that are drawn, and the budget of released dp whose step is.
_DRAWN = {"llama_32", "convnet"}
_STEP = 0.1


def write_report(folder: Path, command: str) -> int:
    """Write the report of two records in a folder.

    Returns:
        1 if a plan by its peak breaks a promise or is worse than another, else 0.
    """
    stock, ours = read_both(folder)
    steps = _ways(ours, "peak")
    plans = {"dp": _ways(stock, "dp"), "exact": _ways(ours, "exact")}
    counts = [_model(name, rows) for name, rows in steps.items()]
    wrong, over = (sum(int(c[key]) for c in counts) for key in ("wrong steps", "over"))
    worse, against = _against(ours)
    pictures = _pictures({**plans, "peak": steps}, [*stock, *ours])
    text = _PAGE.format(
        command=command,
        versions=versions([*stock, *ours]),
        steps=max(map(len, steps.values()), default=0),
        models=of_numbers(counts),
        wrong=wrong,
        over=over,
        budgets=max((len(rows) for rows in plans["dp"].values()), default=0),
        zigzag=", ".join(
            f"{sum(map(_zigzags, found.values()))} of {len(found)} models "
            f"({_NAMES[way]})"
            for way, found in plans.items()
        ),
        against=against,
        budget=_STEP,
        pictures="\n".join(f"![{name}]({name})" for name in pictures) or "None.",
        table=_table({**plans, "peak": steps}),
    )
    for name, picture in pictures.items():
        write_atomic(folder / name, picture.encode())
    write_page(folder, text)
    return 1 if wrong or over or worse else 0


def _pictures(
    found: dict[str, dict[str, list[Row]]], rows: Sequence[Row]
) -> dict[str, str]:
    """Return the plots of some models by their files' names."""
    made = {}
    for model in sorted(_DRAWN & found["peak"].keys()):
        shown = {way: by[model] for way, by in found.items() if model in by}
        made[f"{model}.svg"] = chart.draw(model, shown)
        if step := _step(model, rows):
            made[f"{model}-step.svg"] = chart.draw_step(model, step)
    return made


def _ways(rows: Iterable[Row], way: str) -> dict[str, list[Row]]:
    """Return the plans of a way, by their model and in the order of the budget."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: float(row["budget"])):
        if row["way"] == way:
            found[row["model"]].append(row)
    return found


def _step(model: str, rows: Iterable[Row]) -> dict[str, Row]:
    """Return a plan of released dp, and ours at no more recomputation, if both are."""
    ways = {"dp": "dp", "peak for dp": "peak"}
    found = {
        ways[row["way"]]: row
        for row in rows
        if row["model"] == model
        and row["way"] in ways
        and row["budget"] == _STEP
        and "step" in row
    }
    return found if len(found) == len(ways) else {}


def _zigzags(rows: Sequence[Row]) -> bool:
    """Return whether some plan has a lower peak than one at a lower budget."""
    peaks = [row["peak"] for row in rows]
    return peaks != sorted(peaks)


def _model(name: str, rows: Sequence[Row]) -> dict[str, str]:
    pairs = list(pairwise(rows))
    wrong = sum(
        low["peak"] > high["peak"] or low["again"] < high["again"]
        for low, high in pairs
    )
    over = sum(row["peak"] > min(row["promised"], row["limit"]) for row in rows)
    return {
        "model": name,
        "wrong steps": str(wrong),
        "over": str(over),
        "not as promised": str(sum(r["peak"] != r["promised"] for r in rows)),
        "lowest MB": megabytes(rows[0]["lowest"]),
        "recomputed there": f"{percent(rows[0]):.1f}",
        "nodes": str(rows[0]["nodes"]),
        "seconds": f"{max(row['seconds'] for row in rows):.2f}",
    }


def _against(rows: Sequence[Row]) -> tuple[int, str]:
    """Return how many plans are worse than those they have to beat, and a table."""
    worse, lines = 0, []
    for way in ("dp", "exact", "default"):
        by_budget: dict[float, list[Row]] = defaultdict(list)
        for row in rows:
            if row["way"] == f"peak for {way}":
                by_budget[row["budget"]].append(row)
        line = {"against": _NAMES.get(way, "no budget")}
        bad = 0
        for budget, found in sorted(by_budget.items()):
            ratios = [row["peak"] / row["of_peak"] for row in found]
            line[f"{budget:g}"] = f"{statistics.geometric_mean(ratios):.3f}"
            bad += sum(row["peak"] > row["of_peak"] or _is_slower(row) for row in found)
        lines.append(line | {"worse": f"{bad} of {sum(map(len, by_budget.values()))}"})
        worse += bad
    budgets = sorted({key for line in lines for key in line} - {"against", "worse"})
    columns = ("against", *sorted(budgets, key=float), "worse")
    return worse, of_numbers([{c: line.get(c, "") for c in columns} for line in lines])


def _is_slower(row: Row) -> bool:
    """Return whether more is recomputed, ops that have no formula apart."""
    return bool(row["again"] > row["of_again"] * (1 + 1e-6) + 1e-6 * row["total"])


def _table(found: dict[str, dict[str, list[Row]]]) -> str:
    budgets = sorted({r["budget"] for rows in found["dp"].values() for r in rows})
    lines = []
    for model in found["peak"]:
        for way, by_model in found.items():
            cells = {
                f"{row['budget']:g}": f"{megabytes(row['peak'])} ({percent(row):.1f})"
                for row in by_model.get(model, [])
            }
            line = {"model": model, "plan": _NAMES[way]}
            lines.append(line | {f"{b:g}": cells.get(f"{b:g}", "") for b in budgets})
    return of_numbers(lines)


STUDY = Study("peaks", WORKER, "about ten minutes", write_report, PEAKS)
