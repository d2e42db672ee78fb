"""`by-hand`: plans by the peak beside the checkpointing that people write by hand."""

from pathlib import Path

from acknap.base.files import write_atomic
from acknap.base.layout import INSIDE
from acknap.base.text import of_numbers
from acknap.inside.known import BY_HAND
from acknap.models.study import Row, Study, read_both, versions, write_page
from acknap.peaks import chart
from acknap.peaks.numbers import megabytes, percent

WORKER = INSIDE / "by_hand" / "by_hand.py"
_PAGE = Path(__file__).with_name("by_hand.md").read_text(encoding="utf-8")


def write_report(folder: Path, command: str) -> int:
    """Write the report of two records in a folder.

    Returns:
        1 if a hand-made plan is not dominated by one of ours, else 0.
    """
    stock, ours = read_both(folder)
    pairs = [row for row in ours if "of_peak" in row]
    undominated = [row for row in pairs if not _dominates(row)]
    names = (f"{row['model']}, {_way(row)}" for row in undominated)
    models = dict.fromkeys(row["model"] for row in pairs)
    text = _PAGE.format(
        command=command,
        versions=versions(stock + ours),
        table=of_numbers(map(_line, pairs)),
        dominated=len(pairs) - len(undominated),
        pairs=len(pairs),
        undominated="; ".join(names) or "none",
        pictures="\n".join(f"![{m}: peak and recomputation]({m}.svg)" for m in models),
    )
    for model in models:
        drawn = [row for row in (*stock, *ours) if row["model"] == model]
        picture = chart.draw_frontier(model, drawn)
        write_atomic(folder / f"{model}.svg", picture.encode())
    write_page(folder, text)
    return 1 if undominated else 0


def _dominates(row: Row) -> bool:
    """Return whether our plan has no higher peak, and recomputes less."""
    return bool(row["peak"] <= row["of_peak"] and row["again"] < row["of_again"])


def _way(row: Row) -> str:
    return str(row["way"]).removeprefix("peak for ")


def _line(row: Row) -> dict[str, str]:
    return {
        "model": row["model"],
        "checkpointed by hand": _way(row),
        "peak MB": megabytes(row["of_peak"], 1),
        "recomputed": f"{percent(row, 'of_again'):.1f} %",
        "our peak MB": megabytes(row["peak"], 1),
        "ours recomputes": f"{percent(row):.1f} %",
        "dominated": "yes" if _dominates(row) else "no",
    }


STUDY = Study("by-hand", WORKER, "about ten minutes", write_report, BY_HAND)
