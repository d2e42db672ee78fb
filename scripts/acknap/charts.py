"""Plots of a benchmark's record, as SVG: one message each, readable without colour."""

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from acknap import chart_data
from acknap.bench_record import Record

# Okabe and Ito's colours, which colour-blind people can tell apart; marker, line and
# lightness differ too, for those who print in grey.
_STYLES: dict[str, dict[str, Any]] = {
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
_COLOURS = {name: style["color"] for name, style in _STYLES.items()} | {
    "stock.exact": "#0072B2"
}
_NAMES = {"hirschberg": "Hirschberg"}
_BUDGET = "memory budget (share of the activation memory that can be saved)"
_SETTINGS: dict[Any, Any] = {
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


def label(contender: str) -> str:
    """Name a contender in a legend."""
    side, solver = contender.split(".")
    side = {"stock": "released", "patched": "this series", "peers": "peer"}[side]
    return f"{_NAMES.get(solver, solver)}, {side}"


def _joined_label(contenders: Sequence[str]) -> str:
    """Name solvers that share a line: "exact; dp and ilp, this series"."""
    sides: dict[str, list[str]] = {}
    for contender in contenders:
        solver, _, side = label(contender).partition(", ")
        sides.setdefault(side, []).append(solver)
    return "; ".join(f"{', '.join(names)} ({side})" for side, names in sides.items())


def draw(record: Record) -> dict[str, str]:
    """Return the plots that the record has the data for: file name to SVG."""
    plots: dict[str, Callable[[Record], Figure | None]] = {
        "memory.svg": _memory,
        "time.svg": _time,
        "budget.svg": _budget,
        "recompute.svg": _recompute,
        "frontier.svg": _frontier,
        "delivered.svg": _delivered,
    }
    drawn = {}
    with mpl.rc_context(_SETTINGS):
        for name, plot in plots.items():
            if (figure := plot(record)) is not None:
                drawn[name] = _svg(figure)
    return drawn


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _axes(title: str, x: str, y: str, height: float = 4.6) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.6, height))
    axes = figure.add_subplot()
    axes.set_title(title, pad=12)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _line(
    axes: Axes, contender: str, points: Iterable[tuple[float, float]], **more: Any
) -> None:
    ordered = sorted(points)
    if ordered:
        x, y = zip(*ordered, strict=True)
        style = {"label": label(contender), **_STYLES[contender]}
        axes.plot(x, y, **style | more)


def _memory(record: Record) -> Figure | None:
    found = chart_data.memory_by_n(record)
    if found is None:
        return None
    figure, axes = _axes(
        "A table does not fit into 64 GB; one row of it does",
        "items, n",
        "peak memory growth (bytes)",
        5.0,
    )
    axes.set(xscale="log", yscale="log", xlim=(4, 3000))
    for contender, points in found.measured.items():
        _line(axes, contender, points, ls="none")
    for contender, points in found.laws.items():
        style = _STYLES[contender] | {"marker": "", "lw": 2.2}
        x, y = zip(*points, strict=True)
        axes.plot(x, y, **style)
        axes.annotate(
            f"{label(contender)}, by its law at the published W",
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
    axes.yaxis.set_major_formatter(FuncFormatter(_bytes))
    _plain_ticks(axes, (5, 10, 20, 50, 100, 200, 500, 1000, 2000))
    axes.set_ylim(2e4, 1e14)
    axes.legend(
        title="measured, W = 1,000,000",
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=2,
    )
    return figure


def _time(record: Record) -> Figure | None:
    found = chart_data.time_by_n(record)
    if not found:
        return None
    n, share = chart_data.share_of_time(found, "stock.dp", "patched.exact")
    figure, axes = _axes(
        f"At n = {n:,.0f} exact takes {share:.0%} of released dp's time"
        if share
        else "Time of one solve",
        "items, n (random, W = 10,000)",
        "time of one solve (ms), one thread",
    )
    axes.set(xscale="log", yscale="log")
    for contender, points in found.items():
        _line(axes, contender, points)
    _plain_ticks(axes, sorted({n for points in found.values() for n, _ in points}))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _budget(record: Record) -> Figure | None:
    found = chart_data.used_by_budget(record)
    if found is None:
        return None
    figure = Figure(figsize=(7.6, 6.0))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    top.set_title(f"Some solvers go over the budget: {found.model}", pad=12)
    worst = max(u / b - 1 for points in found.used.values() for b, u in points)
    for contenders, points in found.used.items():
        _line(top, contenders[-1], points, label=_joined_label(contenders))
        _line(bottom, contenders[-1], [(b, 100 * (u / b - 1)) for b, u in points])
    ends = [b for points in found.used.values() for b, _ in points]
    top.plot(
        (0, max(ends)), (0, max(ends)), color="black", lw=1, zorder=0, label="y = x"
    )
    bottom.axhline(0, color="black", lw=1, zorder=0)
    bottom.set_ylim(min(-6.0, -15 * worst), 110 * worst if worst > 0 else 2)
    top.set_ylabel("memory of the saved set\n(share of what can be saved)")
    bottom.set_ylabel("above the\nbudget (%)")
    bottom.set_xlabel(_BUDGET)
    top.legend(loc="upper left")
    return figure


def _recompute(record: Record) -> Figure | None:
    found = chart_data.extra_by_model(record)
    if not found:
        return None
    height = 1.6 + 0.34 * len(found)
    none = all(extras.get("patched.exact", 0) < 1e-6 for extras in found.values())
    figure, axes = _axes(
        "exact recomputes no more than it must" if none else "Extra recomputation",
        "recomputation above the optimum (%), worst of the budgets that are kept",
        "",
        height,
    )
    models = list(found)
    contenders = chart_data.RECOMPUTE
    for offset, contender in enumerate(contenders):
        shift = (offset - (len(contenders) - 1) / 2) * 0.2
        points = [
            (found[model][contender], row + shift)
            for row, model in enumerate(models)
            if contender in found[model]
        ]
        _line(axes, contender, points, ls="none")
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.5)
    axes.set_xlim(-0.01, None)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_yticks(range(len(models)), models)
    axes.set_ylim(len(models) - 0.4, -0.6)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def frontier(found: chart_data.Frontier, budgets: Sequence[float]) -> str:
    """Draw one model's frontier; the solvers' sets stand at the memory they use."""
    with mpl.rc_context(_SETTINGS):
        figure = _frontier_figure(found, "sets, at the memory they use")
        for budget in budgets:
            figure.axes[0].axvline(budget, color="#777777", lw=0.8, ls=":", zorder=0)
        return _svg(figure)


def _frontier(record: Record) -> Figure | None:
    found = chart_data.frontier(record)
    return _frontier_figure(found, "sets within the budget") if found else None


def _frontier_figure(found: chart_data.Frontier, title: str) -> Figure:
    figure, axes = _axes(
        f"What a budget buys: {found.model}",
        _BUDGET,
        "recomputed work (% of all that may be recomputed)",
    )
    x, y = zip(*found.best, strict=True)
    axes.plot(x, y, color="black", lw=1.8, label="optimum")
    for contender, points in found.kept.items():
        size = 9.0 if contender == "patched.exact" else 5.5
        _line(axes, contender, points, ls="none", mfc="none", ms=size)
    axes.set_ylim(0, None)
    axes.legend(loc="upper right", title=title)
    return figure


def _delivered(record: Record) -> Figure | None:
    found = chart_data.delivered(record)
    if not found:
        return None
    figure = Figure(figsize=(7.6, 6.6))
    panels = figure.subplots(2, 2, sharex=True, sharey=True, squeeze=False).flat
    for axes, (variant, (within, over)) in zip(panels, found.items(), strict=False):
        total = len(within) + len(over)
        axes.set_title(f"{label(variant)}: {len(over)} of {total} over", fontsize=10.5)
        axes.axline((0, 0), slope=1, color="black", lw=1, zorder=0)
        style = {"color": _COLOURS[variant], "ls": "none", "ms": 5, "alpha": 0.8}
        for points, marker, fill in ((within, "o", "none"), (over, "^", None)):
            if points:
                axes.plot(*zip(*points, strict=True), marker, mfc=fill, **style)
        axes.set(xlim=(0, None), ylim=(0, None))
    title = "What partitions save, against what was asked; triangles are over"
    style = {"fontsize": 12, "weight": "bold", "ha": "left"}
    figure.suptitle(title, x=0.01, **style)
    figure.supxlabel("memory budget asked for", fontsize=11)
    figure.supylabel("bytes saved by the partition, one mark per model", fontsize=11)
    figure.tight_layout()
    return figure


def _plain_ticks(axes: Axes, ticks: Sequence[float]) -> None:
    axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def _bytes(size: float, _: object) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:g} {unit}"
        size /= 1000
    return f"{size:g} PB"
