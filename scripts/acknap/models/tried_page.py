"""What was tried of a model, as a table, a picture and a page."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from rich.console import Console

from acknap.base.files import write_atomic
from acknap.base.progress import say
from acknap.base.text import print_table, short, table
from acknap.knapsack.chart_style import SETTINGS, svg
from acknap.models.tried import WAYS, Record, Tried

_PAGE = Path(__file__).with_name("tried.md").read_text(encoding="utf-8")
_HEADER = (
    *("plan, budget", "alive", "share", "promised", "measured", "again"),
    *("step", "time", "gradients"),
)
_COLOURS = {"stock": "#E69F00", "patched": "#0072B2"}
_TITLES = {(way.side, way.name): way for way in WAYS}


def show(record: Record, folder: Path) -> None:
    """Print the table of a record, and write it beside a picture and a page."""
    rows = sorted(record.rows, key=_order)
    lines = [_line(row) for row in rows]
    console = Console()
    print_table(console, _HEADER, lines, numbers=True)
    summary = _summarize(rows)
    console.print(summary)
    text = _PAGE.format(
        model=record.model,
        command=f"./scripts/harness try '{record.model}'",
        torch="; ".join(f"{side}: {of}" for side, of in record.of.items()),
        summary=summary,
        table=table(_HEADER, lines, numbers=True),
    )
    write_atomic(folder / "tried.svg", _draw(record.model, rows).encode())
    write_atomic(folder / "REPORT.md", text.encode())
    say(f"Page, picture and record: {folder}")


def _order(row: Tried) -> tuple[float, int]:
    """By budget, those without one first, and then by way."""
    way = _TITLES[row.side, row.way]
    return (-row.budget if way.has_budget else -2.0, WAYS.index(way))


def _line(row: Tried) -> tuple[str, ...]:
    if row.failed:
        return (_name(row), *["-"] * 7, "failed")
    return (
        _name(row),
        _mb(row.live),
        _number(row.share, "{:.3f}"),
        _mb(row.peak),
        _mb(row.measured),
        _number(row.again, "{:.1%}"),
        _number(row.seconds, "{:.3g} s"),
        _number(row.ratio, "{:.2f}x"),
        _gradients(row),
    )


def _mb(size: float | None) -> str:
    return _number(size and size / 1e6, "{:,.1f}")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _gradients(row: Tried) -> str:
    if row.off is None:
        return "-"
    return f"WRONG {row.off:.1%}" if row.is_wrong else "right"


def _summarize(rows: Sequence[Tried]) -> str:
    """Say how far the peak falls, and what is wrong."""
    run = [row for row in rows if row.measured is not None]
    counted = run or [row for row in rows if row.peak is not None]
    if not counted:
        return "No plan could be made."
    said = []
    free = [row for row in counted if row.way == "no budget"]
    said += [f"Without a budget a step takes {_size(row)}." for row in free]
    right = [row for row in counted if not row.is_wrong]
    for side, name in (("stock", "PyTorch as published"), ("patched", "the series")):
        own = [row for row in right if row.side == side and row not in free]
        if own:
            best = min(own, key=lambda row: row.measured or row.peak or 0)
            again = f"{best.again:.1%} computed again"
            said.append(f"Least of {name}: {_size(best)} ({_name(best)}; {again}).")
    wrong = ", ".join(_name(row) for row in rows if row.is_wrong)
    said += [f"Wrong gradients: {wrong}."] if wrong else []
    said += [f"{_name(row)} failed: {row.failed}." for row in rows if row.failed]
    return " ".join(said)


def _size(row: Tried) -> str:
    if row.measured is None:
        return f"{_mb(row.peak)} MB, as promised"
    return f"{_mb(row.measured)} MB and {row.seconds:.3g} s"


def _name(row: Tried) -> str:
    budgeted = _TITLES[row.side, row.way].has_budget
    return _TITLES[row.side, row.way].title + (
        f" {short(row.budget)}" if budgeted else ""
    )


def _draw(model: str, rows: Sequence[Tried]) -> str:
    """Draw the peaks by plan: what was promised, and what was measured in it."""
    shown = [row for row in rows if row.peak is not None][::-1]
    with mpl.rc_context(SETTINGS | {"axes.grid.axis": "x", "axes.axisbelow": True}):
        figure = Figure(figsize=(7.6, 1.4 + 0.36 * len(shown)))
        axes = figure.add_subplot()
        places = range(len(shown))
        colours = [_COLOURS[row.side] for row in shown]
        promised = [row.peak or 0 for row in shown]
        axes.barh(places, promised, 0.8, color=colours, alpha=0.3, label="promised")
        measured = [row.measured or 0 for row in shown]
        if any(measured):
            axes.barh(places, measured, 0.4, color=colours, label="measured")
        most = max((*promised, *measured), default=1)
        for place, row in enumerate(shown):
            end = max(row.peak or 0, row.measured or 0)
            note = "WRONG gradients" if row.is_wrong else _number(row.ratio, "{:.2f}x")
            axes.text(end + most / 80, place, note, va="center", fontsize=9)
        axes.set_yticks(places, [_name(row) for row in shown])
        axes.set_title(f"{model}: most bytes at once in a step", pad=12)
        axes.set(xlabel="broad: promised; narrow: measured; beside it: step time")
        axes.set_xlim(0, most * 1.18)
        axes.xaxis.set_major_formatter(EngFormatter("B"))
        return svg(figure)
