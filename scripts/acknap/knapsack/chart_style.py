"""How the plots look: colours, markers, labels, axes."""

import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from acknap.knapsack import contenders

# Okabe and Ito's colours, which colour-blind people can tell apart; marker, line and
# lightness differ too, for those who print in grey.
STYLES: dict[str, dict[str, Any]] = {
    "stock.dp": {"color": "#E69F00", "marker": "s", "ls": "--"},
    "stock.hirschberg": {"color": "#D55E00", "marker": "^", "ls": ":"},
    "stock.ilp": {"color": "#CC79A7", "marker": "x", "ls": "--"},
    "stock.greedy": {"color": "#999999", "marker": "+", "ls": ":"},
    "patched.dp": {"color": "#8A6A00", "marker": "D", "ls": "-."},
    "patched.hirschberg": {"color": "#0072B2", "marker": "v", "ls": "-"},
    "patched.ilp": {"color": "#56B4E9", "marker": "*", "ls": "-."},
    "patched.greedy": {"color": "#555555", "marker": "1", "ls": ":"},
    "patched.exact": {"color": "#000000", "marker": "o", "ls": "-"},
}
BUDGET = "memory budget (share of the activation memory that can be saved)"
# A solver that has no style of its own.
_OTHER: dict[str, Any] = {"color": "#009E73", "marker": "p", "ls": "-"}
COLOURS = {name: style["color"] for name, style in STYLES.items()} | {
    "stock.exact": "#0072B2"
}
SETTINGS: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "svg.hashsalt": "acknap",  # the same record gives the same file
}


def joined_label(names: Sequence[str]) -> str:
    """Name solvers that share a line: "exact; dp and ilp, this series"."""
    sides: dict[str, list[str]] = defaultdict(list)
    for name in names:
        solver, _, side = contenders.title(name).partition(", ")
        sides[side].append(solver)
    return "; ".join(f"{', '.join(found)} ({side})" for side, found in sides.items())


def svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def new_axes(title: str, x: str, y: str, height: float = 4.6) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.6, height))
    axes = figure.add_subplot()
    axes.set_title(title, pad=12)
    axes.set(xlabel=x, ylabel=y)
    return figure, axes


def line(
    axes: Axes, contender: str, points: Iterable[tuple[float, float]], **more: Any
) -> None:
    ordered = sorted(points)
    if ordered:
        x, y = zip(*ordered, strict=True)
        style = {"label": contenders.title(contender), **STYLES.get(contender, _OTHER)}
        axes.plot(x, y, **style | more)


def plain_ticks(axes: Axes, ticks: Sequence[float]) -> None:
    axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
