"""What each budget buys on one knapsack: the optimum, and what solvers reach of it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from acknap.knapsack.chart_style import BUDGET, SETTINGS, line, new_axes, svg

Points = Sequence[tuple[float, float]]


class Frontier(NamedTuple):
    """Recomputed share of the work by budget, on one model."""

    model: str
    best: Points
    kept: Mapping[str, Points]


def draw(found: Frontier, budgets: Sequence[float]) -> str:
    """Draw one model's frontier; the solvers' sets stand at the memory they use."""
    with mpl.rc_context(SETTINGS):
        figure = figure_of(found, "sets, at the memory they use")
        for budget in budgets:
            figure.axes[0].axvline(budget, color="#777777", lw=0.8, ls=":", zorder=0)
        return svg(figure)


def figure_of(found: Frontier, title: str) -> Figure:
    """Return the plot; its legend has a title."""
    figure, axes = new_axes(
        f"What a budget buys: {found.model}",
        BUDGET,
        "recomputed work (% of all that may be recomputed)",
    )
    x, y = zip(*found.best, strict=True)
    axes.plot(x, y, color="black", lw=1.8, label="optimum")
    for contender, points in found.kept.items():
        size = 9.0 if contender == "patched.exact" else 5.5
        line(axes, contender, points, ls="none", mfc="none", ms=size)
    axes.set_ylim(0, None)
    axes.legend(loc="upper right", title=title)
    return figure
