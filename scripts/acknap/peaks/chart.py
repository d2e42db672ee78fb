"""Peak and recomputation of the plans of one model, as plots."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from acknap.knapsack.chart_style import SETTINGS, STYLES, new_axes, svg
from acknap.peaks.numbers import percent

_LABELS = {
    "dp": "released dp, a budget of saved bytes",
    "exact": "exact with this series, the same",
    "peak": "this series, a budget of the peak",
}
_STYLES = {
    "dp": STYLES["stock.dp"],
    "exact": STYLES["patched.exact"],
    "peak": {"color": "#0072B2", "marker": "", "ls": "-", "lw": 2.4},
}


def draw(model: str, plans: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return a plot as SVG.

    Args:
        model: Its name.
        plans: The plans by the way that they were made, in the order of the budget.
    """
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(7.6, 6.4))
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for way, rows in plans.items():
            budgets = [row["budget"] for row in rows]
            style = {"label": _LABELS[way], **_STYLES[way]}
            top.plot(budgets, [row["peak"] for row in rows], **style)
            bottom.plot(budgets, [*map(percent, rows)], **style)
        top.set_title(f"{model}: a peak that only rises with the budget", pad=12)
        top.set(ylabel="peak of a step", ylim=(0, None))
        top.yaxis.set_major_formatter(EngFormatter("B"))
        top.legend()
        bottom.set(xlabel="budget", ylabel="recomputed (% of the forward)")
        bottom.set(ylim=(0, None))
        return svg(figure)


def draw_step(model: str, plans: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a plot of what lives during one step as SVG.

    Args:
        model: Its name.
        plans: Plans by the way that they were made, each with its `step`.
    """
    with mpl.rc_context(SETTINGS):
        figure, axes = new_axes(
            f"{model}: one step at equal recomputation",
            "operators of the step, in order (% of all)",
            "bytes that live",
        )
        for way, row in plans.items():
            step, style = row["step"], _STYLES[way]
            colour, width = style["color"], 100 / len(step["live"])
            again = percent({**step, "total": row["total"]})
            label = f"{_LABELS[way]}: {again:.0f} % computed again"
            places = [width * part for part in range(len(step["live"]))]
            axes.plot(places, step["live"], color=colour, ls=style["ls"], label=label)
            axes.axvline(width * step["forward"], color=colour, ls=":", lw=1)
        axes.set(xlim=(0, 100), ylim=(0, None))
        axes.yaxis.set_major_formatter(EngFormatter("B"))
        axes.legend(loc="upper right", title="dotted: where the backward begins")
        return svg(figure)


def draw_frontier(model: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a plot of recomputation against the peak as SVG.

    Args:
        model: Its name.
        rows: Its plans: hand-made, of stock torch, and ours.
    """
    with mpl.rc_context(SETTINGS):
        figure, axes = new_axes(
            f"{model}: the peak of a step, and what it costs",
            "peak of a step",
            "recomputed (% of the forward)",
        )
        by_hand = (row for row in rows if row.get("by_hand"))
        for way, more in (("peak", {}), ("dp", {"ls": ""})):
            points = sorted(map(_point, (r for r in rows if r["way"] == way)))
            style = {"label": _LABELS[way], **_STYLES[way], **more}
            axes.plot(*zip(*points, strict=True), **style)
        for marker, row in zip("ov^*", by_hand, strict=True):
            label = f"by hand: {row['way']}"
            axes.plot(*_point(row), marker, color="#D55E00", ms=9, label=label)
        axes.set(xlim=(0, None), ylim=(0, None))
        axes.xaxis.set_major_formatter(EngFormatter("B"))
        axes.legend()
        return svg(figure)


def _point(row: Mapping[str, Any]) -> tuple[float, float]:
    return row["peak"], percent(row)
