"""The peak against the budget, and what is recomputed, as a plot of one model."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from acknap.knapsack.chart_style import SETTINGS, STYLES, svg

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
            again = [100 * row["again"] / max(row["total"], 1) for row in rows]
            bottom.plot(budgets, again, **style)
        top.set_title(f"{model}: a peak that only rises with the budget", pad=12)
        top.set(ylabel="peak of a step", ylim=(0, None))
        top.yaxis.set_major_formatter(EngFormatter("B"))
        top.legend()
        bottom.set(xlabel="budget", ylabel="recomputed (% of the forward)")
        bottom.set(ylim=(0, None))
        return svg(figure)
