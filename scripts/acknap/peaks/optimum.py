"""`optimum`: what plans by the peak of small graphs recompute, against the least."""

from collections import defaultdict
from pathlib import Path

from acknap.base.layout import INSIDE
from acknap.base.text import of_numbers
from acknap.inside.known import OPTIMUM
from acknap.models.study import Row, Study, read, versions, write_page
from acknap.peaks.numbers import megabytes, percent

WORKER = INSIDE / "optimum" / "optimum.py"
_PAGE = Path(__file__).with_name("optimum.md").read_text(encoding="utf-8")
# A graph holds if all of its plans recompute this much more than the optimum at most.
_ALLOWED = 0.05
# Runtimes that are so close to each other count as equal, as in `inside.optimum.bound`.
_CLOSE = 2e-3


def write_report(folder: Path, command: str) -> int:
    """Write the report of the record in a folder.

    Returns:
        1 if a plan is none of the program's solutions, so that it bounds none, else 0.
    """
    rows = read(folder, "patched")
    by_model: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_model[row["model"]].append(row)
    holds = {name: all(map(_is_near, found)) for name, found in by_model.items()}
    text = _PAGE.format(
        command=command,
        versions=versions(rows),
        graphs=len(by_model),
        hold=sum(holds.values()),
        others=", ".join(name for name, near in holds.items() if not near) or "none",
        plans=len(rows),
        near=sum(map(_is_near, rows)),
        proven=sum(map(_is_proven, rows)),
        equal=sum(_more(row) == 0 for row in rows),
        broken=sum(map(_breaks, rows)),
        table=of_numbers(map(_line, rows)),
    )
    write_page(folder, text)
    return 1 if any(map(_breaks, rows)) else 0


def _slack(row: Row) -> float:
    """Return what ops without a formula may make out: they count one each."""
    return float(row["nodes"] + 1e-6 * row["total"])


def _more(row: Row) -> float:
    """Return by what share more is recomputed than the bound; infinite above 0."""
    more = row["runtime"] - row["bound"]
    if more <= _slack(row) + _CLOSE * row["bound"]:
        return 0.0
    return float(more / row["bound"]) if row["bound"] > _slack(row) else float("inf")


def _is_near(row: Row) -> bool:
    return _more(row) <= _ALLOWED


def _breaks(row: Row) -> bool:
    return bool(row["broken"])


def _is_proven(row: Row) -> bool:
    """Return whether the bound is the optimum of the program."""
    return bool(row["found"] - row["bound"] <= _slack(row) + _CLOSE * row["found"])


def _line(row: Row) -> dict[str, str]:
    more = _more(row)
    return {
        "graph": row["model"],
        "nodes": str(row["nodes"]),
        "target": f"{row['target']:g}",
        "limit MB": megabytes(row["limit"], 2),
        "peak MB": megabytes(row["peak"], 2),
        "ours %": f"{percent(row, 'runtime'):.2f}",
        "bound %": f"{percent(row, 'bound'):.2f}",
        "program's least %": f"{percent(row, 'found'):.2f}",
        "ours above": "" if more == float("inf") else f"{100 * more:.1f} %",
        "seconds": f"{row['seconds']:.0f}",
    }


STUDY = Study("optimum", WORKER, "up to an hour", write_report, OPTIMUM, ("patched",))
