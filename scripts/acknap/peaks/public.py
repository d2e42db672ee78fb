"""`public`: simulated peaks against those that others measured on a GPU."""

import statistics
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from acknap.base.files import write_atomic
from acknap.base.layout import INSIDE, Layout
from acknap.base.text import of_numbers
from acknap.knapsack.chart_style import SETTINGS, svg
from acknap.models.study import Row, Study, read_both, versions, write_page
from acknap.peaks.numbers import megabytes, percent

WORKER = INSIDE / "public" / "public.py"
_PAGE = Path(__file__).with_name("public.md").read_text(encoding="utf-8")
_POINTS = Layout.default().root / "benchmarks" / "public_points.toml"
# What is held against the measured peak: by column of a record, what it is called.
_FOUND = {
    "peak": "emitted",
    "requested": "program",
    "allocated": "allocator",
    "inductor": "Inductor's",
}
_POLICIES = {
    "ac1": "each layer",
    "ac2": "each second layer",
    "sac_tt": "selective, torchtitan's list",
    "sac_mm": "all but matrix products",
}


def write_report(
    folder: Path, command: str, facts: Mapping[str, Any] | None = None
) -> int:
    """Write the report of two records in a folder, and its picture.

    Args:
        folder: Has stock.jsonl and patched.jsonl.
        command: What made them.
        facts: What others published; benchmarks/public_points.toml if None.

    Returns:
        0: the figures are reported as they are.
    """
    facts = facts or tomllib.loads(_POINTS.read_text())
    stock, ours = read_both(folder)
    points = list(_points(facts, stock))
    text = _PAGE.format(
        command=command,
        versions=versions(stock + ours),
        sources="\n".join(
            f"- {source['repository']}: {source['machine']}"
            for source in facts["source"].values()
        ),
        missing=sum(len(group["rows"]) for group in facts["points"]) - len(points),
        summary=of_numbers(_summary(points)),
        walks=of_numbers(_walks(facts, stock)),
        by_hand=of_numbers(_by_hand(facts, ours)),
        ours=of_numbers(map(_plan, ours)),
        points=of_numbers(map(_point, points)),
    )
    if points:
        write_atomic(folder / "points.svg", draw(points).encode())
    write_page(folder, text)
    return 0


def _points(facts: Mapping[str, Any], rows: Sequence[Row]) -> Iterable[Row]:
    """Return what was measured beside what was simulated, in bytes."""
    for group in facts["points"]:
        for budget, peak, *more in group["rows"]:
            row = _find(rows, group, budget)
            if row:
                point = row | {"measured": peak * 1e6}
                yield point | ({"inductor": more[1] * 1e6} if len(more) > 1 else {})


def _find(rows: Sequence[Row], group: Mapping[str, Any], budget: float) -> Row | None:
    wanted = group["model"], group["backend"], budget
    found = (r for r in rows if (r["model"], r["backend"], r["budget"]) == wanted)
    return next(found, None)


def _group(row: Row) -> str:
    return f"{row['model']}, {row['backend']}"


def _error(point: Row, kind: str) -> float:
    """Return by how many percent a simulated peak is above the measured one."""
    return float(100 * (point[kind] / point["measured"] - 1))


def _summary(points: Sequence[Row]) -> Iterable[dict[str, str]]:
    """Return errors and rank correlation by group and by what is simulated."""
    groups = {"all": points}
    for point in points:
        groups.setdefault(_group(point), [])
        groups[_group(point)] = [*groups[_group(point)], point]
    for name, found in [*groups.items()][1:] + [*groups.items()][:1]:
        for kind, title in _FOUND.items():
            known = [point for point in found if kind in point]
            if known:
                errors = [_error(point, kind) for point in known]
                yield {
                    "points": name,
                    "simulated": title,
                    "of": str(len(known)),
                    "median error %": f"{statistics.median(map(abs, errors)):.2f}",
                    "worst %": f"{max(errors, key=abs):+.1f}",
                    "within 2 %": str(sum(abs(error) <= 2 for error in errors)),
                    "rank correlation": _ranks(known, kind),
                }


def _ranks(points: Sequence[Row], kind: str) -> str:
    """Return Spearman's rank correlation with what was measured."""
    if len(points) < 3:
        return ""
    pair = ([point[key] for point in points] for key in (kind, "measured"))
    ranks = ([_rank(value, of) for value in of] for of in pair)
    return f"{statistics.correlation(*ranks):.3f}"


def _rank(value: float, of: Sequence[float]) -> float:
    """Return the place of a value in the order; those that are equal share one."""
    return sum((other < value) + (other <= value) for other in of) / 2


def _walks(facts: Mapping[str, Any], rows: Sequence[Row]) -> Iterable[dict[str, str]]:
    for group in facts["walks"]:
        for budget, peak in group["rows"]:
            row = _find(rows, group, budget)
            if row:
                yield {
                    "model": group["model"],
                    "budget": f"{budget:g}",
                    "theirs MB": f"{peak:,.3f}",
                    "ours MB": megabytes(row["peak"], 3),
                    "apart bytes": f"{row['peak'] - peak * 1e6:,.0f}",
                }


def _by_hand(facts: Mapping[str, Any], ours: Sequence[Row]) -> Iterable[dict[str, str]]:
    """Return what is published beside our plan of no more that recomputes least."""
    for model, policies in facts["by_hand"].items():
        plans = [r for r in ours if (r["model"], r["backend"]) == (model, "inductor")]
        for policy, (peak, milliseconds) in policies.items():
            line = {
                "model": model,
                "by hand": _POLICIES[policy],
                "measured MB": f"{peak:,.0f}",
                "step ms": f"{milliseconds:,.0f}",
            }
            fit = [plan for plan in plans if plan["allocated"] <= peak * 1e6]
            best = min(fit, key=lambda plan: float(plan["again"]), default=None)
            yield line | {
                "our plan": f"{best['budget']:g}" if best else "none",
                "its MB": megabytes(best["allocated"]) if best else "",
                "recomputed %": _percent(best) if best else "",
            }


def _plan(row: Row) -> dict[str, str]:
    return {
        "model": row["model"],
        "budget": f"{row['budget']:g}",
        "emitted MB": megabytes(row["peak"], 1),
        "program MB": megabytes(row["requested"], 1),
        "allocator MB": megabytes(row["allocated"], 1),
        "recomputed %": _percent(row),
    }


def _percent(row: Row) -> str:
    return f"{percent(row):.1f}"


def _point(point: Row) -> dict[str, str]:
    cells = {
        "points": _group(point),
        "budget": f"{point['budget']:g}",
        "measured MB": megabytes(point["measured"], 1),
    }
    for kind, title in _FOUND.items():
        cells[title] = ""
        if kind in point:
            error = _error(point, kind)
            cells[title] = f"{megabytes(point[kind], 1)} ({error:+.1f} %)"
    return cells | {"recomputed %": _percent(point)}


def draw(points: Sequence[Row]) -> str:
    """Return a plot as SVG: measured and simulated peaks by the budget."""
    groups = list(dict.fromkeys(map(_group, points)))
    lines: dict[str, tuple[str, Callable[[Row], float]]] = {
        "#E69F00": ("the emitted graphs", lambda row: row["peak"] / 1e6),
        "#0072B2": ("what the backend allocates", lambda row: row["allocated"] / 1e6),
    }
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(7.6, 3.2 * len(groups)))
        axes = figure.subplots(len(groups), 1, squeeze=False)[:, 0]
        for name, axis in zip(groups, axes, strict=True):
            found = sorted(
                (point for point in points if _group(point) == name),
                key=lambda point: float(point["budget"]),
            )
            # The budgets are close to each other where it matters.
            places = range(len(found))
            axis.set_xticks(places, [f"{p['budget']:g}" for p in found], rotation=45)
            for colour, (label, value) in lines.items():
                axis.plot(places, [*map(value, found)], color=colour, label=label)
            measured = [point["measured"] / 1e6 for point in found]
            axis.plot(places, measured, "o", color="#000000", label="measured on a GPU")
            axis.set(title=name, ylabel="peak, MB", ylim=(0, None))
        axes[0].legend()
        axes[-1].set_xlabel("budget of the plan, stock dp")
        figure.tight_layout()
        return svg(figure)


_MODELS = tuple(tomllib.loads(_POINTS.read_text())["model"])
STUDY = Study("public", WORKER, "one to two hours", write_report, _MODELS)
