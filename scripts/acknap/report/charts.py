"""Plots of a benchmark's record, as SVG: one message each, readable without colour."""

from collections.abc import Callable, Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from acknap.bench.finished import Run
from acknap.bench.record import Record
from acknap.knapsack.chart_style import (
    BUDGET,
    COLOURS,
    SETTINGS,
    STYLES,
    joined_label,
    line,
    new_axes,
    plain_ticks,
    svg,
)
from acknap.knapsack.contenders import title as named
from acknap.knapsack.frontier import Frontier, Points, figure_of
from acknap.report import chart_data

_SEEN = 0.1  # %; less is not worth a row of a plot


def draw(record: Record) -> dict[str, str]:
    """Return the plots that the record has the data for: file name to SVG."""
    plots: dict[str, tuple[Callable[[Record], Any], Callable[[Any], Figure]]] = {
        "memory.svg": (chart_data.memory_by_n, _memory),
        "time.svg": (chart_data.time_by_n, _time),
        "budget.svg": (chart_data.used_by_budget, _budget),
        "recompute.svg": (chart_data.extra_by_model, _recompute),
        "frontier.svg": (chart_data.frontier, _frontier),
        "training.svg": (chart_data.training, _training),
        "delivered.svg": (chart_data.delivered, _delivered),
    }
    with mpl.rc_context(SETTINGS):
        return {
            name: svg(plot(found))
            for name, (data, plot) in plots.items()
            if (found := data(record))
        }


def _memory(found: chart_data.MemoryByN) -> Figure:
    figure, axes = new_axes(
        "A table does not fit into 64 GB; one row of it does",
        "items, n",
        "peak memory growth (bytes)",
        5.0,
    )
    axes.set(xscale="log", yscale="log", xlim=(4, 3000))
    for contender, points in found.measured.items():
        line(axes, contender, points, ls="none")
    for contender, points in found.laws.items():
        style = STYLES[contender] | {"marker": "", "lw": 2.2}
        x, y = zip(*points, strict=True)
        axes.plot(x, y, **style)
        axes.annotate(
            f"{named(contender)}, by its law at the published W",
            (x[-1], y[-1]),
            xytext=(0, 9 if contender == "stock.dp" else -14),
            textcoords="offset points",
            ha="right",
            fontsize=9.5,
        )
    if found.published:
        items, growth = zip(*found.published, strict=True)
        style = {"color": "black", "mfc": "white", "ms": 8, "ls": "none"}
        axes.plot(items, growth, marker="o", label="exact, at the published W", **style)
    axes.axhline(64e9, color="black", lw=1)
    axes.text(2900, 64e9 * 1.3, "64 GB", ha="right", fontsize=9.5)
    axes.yaxis.set_major_formatter(EngFormatter("B"))
    plain_ticks(axes, (5, 10, 20, 50, 100, 200, 500, 1000, 2000))
    axes.set_ylim(2e4, 1e14)
    axes.legend(
        title="measured, W = 1,000,000",
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=2,
    )
    return figure


def _time(found: dict[str, Points]) -> Figure:
    n, share = chart_data.share_of_time(found, "stock.dp", "patched.exact")
    figure, axes = new_axes(
        f"At n = {n:,.0f} exact takes {share:.0%} of released dp's time"
        if share
        else "Time of one solve",
        "items, n (random, W = 10,000)",
        "time of one solve (ms), one thread",
    )
    axes.set(xscale="log", yscale="log")
    for contender, points in found.items():
        line(axes, contender, points)
    plain_ticks(axes, sorted({n for points in found.values() for n, _ in points}))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _budget(found: chart_data.UsedByBudget) -> Figure:
    figure = Figure(figsize=(7.6, 6.0))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    top.set_title(f"Some solvers go over the budget: {found.model}", pad=12)
    worst = max(u / b - 1 for points in found.used.values() for b, u in points)
    for contenders, points in found.used.items():
        line(top, contenders[-1], points, label=joined_label(contenders))
        line(bottom, contenders[-1], [(b, 100 * (u / b - 1)) for b, u in points])
    ends = [b for points in found.used.values() for b, _ in points]
    top.plot(
        (0, max(ends)), (0, max(ends)), color="black", lw=1, zorder=0, label="y = x"
    )
    bottom.axhline(0, color="black", lw=1, zorder=0)
    bottom.set_ylim(min(-6.0, -15 * worst), 110 * worst if worst > 0 else 2)
    top.set_ylabel("memory of the saved set\n(share of what can be saved)")
    bottom.set_ylabel("above the\nbudget (%)")
    bottom.set_xlabel(BUDGET)
    top.legend(loc="upper left")
    return figure


def _recompute(found: Mapping[str, Mapping[str, float]]) -> Figure:
    shown = {
        model: extras
        for model, extras in found.items()
        if max(extras.values(), default=0) >= _SEEN
    }
    size = (6.4, 1.8 + 0.36 * len(shown))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    none = all(extras.get("patched.exact", 0) < 1e-6 for extras in found.values())
    title = "exact recomputes no more than it must" if none else "Extra recomputation"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, weight="bold")
    for row in range(0, len(shown), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#f3f3f3", zorder=0)
    for place, contender in enumerate(chart_data.RECOMPUTE):
        shift = (place - (len(chart_data.RECOMPUTE) - 1) / 2) * 0.2
        points = [
            (extras[contender], row + shift)
            for row, extras in enumerate(shown.values())
            if contender in extras
        ]
        style = {"color": "#444444", "mew": 1.8} if "greedy" in contender else {}
        line(axes, contender, points, ls="none", ms=7, **style)
    axes.set_xscale("symlog", linthresh=_SEEN, linscale=0.5)
    axes.set_xlim(-_SEEN / 4, None)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(visible=False, axis="y")
    axes.set_yticks(range(len(shown)), shown)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    rest = len(found) - len(shown)
    axes.set_xlabel(
        "recomputation above the optimum (%), worst of the budgets that are kept"
        + (f"\n{rest} more models: less than {_SEEN:g} % for each solver" * bool(rest)),
        fontsize=10,
        loc="right",
    )
    figure.legend(loc="outside lower left", ncols=2)
    return figure


def _frontier(found: Frontier) -> Figure:
    return figure_of(found, "sets within the budget")


def _delivered(found: Mapping[str, tuple[Points, Points]]) -> Figure:
    columns = (len(found) + 1) // 2
    figure = Figure(figsize=(3.0 * columns, 5.2), layout="constrained")
    panels = figure.subplots(2, columns, sharex=True, sharey=True, squeeze=False).flat
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    for axes, (variant, (within, over)) in zip(panels, found.items(), strict=False):
        total = len(within) + len(over)
        axes.set_title(f"{named(variant)}: {len(over)} of {total} over", fontsize=9.5)
        axes.axhline(0, color="black", lw=1, zorder=1)
        budgets = sorted({budget for budget, _ in (*within, *over)})
        style = {"color": COLOURS[variant], "ls": "none", "ms": 4.5, "alpha": 0.8}
        marks = chart_data.spread((*within, *over), budgets)
        for is_over, marker, fill in ((False, "o", "none"), (True, "^", None)):
            if points := [mark for mark in marks if (mark[1] > 0) == is_over]:
                axes.plot(*zip(*points, strict=True), marker, mfc=fill, **style)
        axes.set_xticks(range(len(budgets)), [f"{budget:g}" for budget in budgets])
        axes.yaxis.set_major_formatter(lambda x, _: f"{x:+g} %" if x else "0")
        axes.grid(visible=False, axis="x")
    style = {"fontsize": 12, "weight": "bold", "ha": "left"}
    figure.suptitle("What stays alive, above or below the budget", x=0.01, **style)
    text = "budget asked for; one mark per model, in rising order"
    figure.supxlabel(text, fontsize=10)
    return figure


def _training(runs: list[Run]) -> Figure:
    figure = Figure(figsize=(7.6, 6.4), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=(3, 2))
    same = chart_data.same_losses(runs)
    title = "A smaller budget changes the memory, not the training"
    top.set_title(title if same else "Training at two budgets", pad=12)
    every = max(1, len(runs[0].losses) // 12)
    for number, run in enumerate(runs):
        style = {"lw": 1.2, "ms": 7, "mfc": "none" if run.budget == 1 else None}
        line(
            top,
            run.contender,
            enumerate(run.losses, 1),
            label=_training_label(run),
            # Curves that lie on one another keep markers of their own.
            markevery=(number * every // len(runs), every),
            **style,
        )
    top.set(xlabel="step", ylabel="loss")
    top.legend()
    places = range(len(runs))
    greys = [str(0.75 if run.budget == 1 else 0.35) for run in runs]
    bottom.barh(places, [run.saved_mb for run in runs], color=greys, height=0.6)
    for place, run in zip(places, runs, strict=True):
        text = f" {run.saved_mb:.3g} MB, {1e3 * run.median_seconds:.3g} ms a step"
        bottom.text(run.saved_mb, place, text, va="center", fontsize=9.5)
    bottom.set_yticks(places, [_training_label(run) for run in runs])
    bottom.set_xlim(0, 1.4 * max(run.saved_mb for run in runs))
    bottom.set_xlabel("activations saved for the backward pass (MB)")
    bottom.grid(visible=False, axis="y")
    bottom.set_axisbelow(True)
    return figure


def _training_label(run: Run) -> str:
    return f"{named(run.contender)}, at {run.budget:g}"
