"""`optimum`: what plans by the peak of small graphs recompute, against the least."""

import json
from collections import defaultdict
from pathlib import Path

from acknap.base.files import write_atomic
from acknap.base.layout import INSIDE, Layout
from acknap.base.text import of_numbers
from acknap.models.both import Row, record
from acknap.upstream.targets import Targets

WORKER = INSIDE / "optimum" / "optimum.py"
_PAGE = Path(__file__).with_name("optimum.md").read_text(encoding="utf-8")
# A graph holds if all of its plans recompute this much more than the optimum at most.
_ALLOWED = 0.05
# Runtimes that are so close to each other count as equal, as in `inside.optimum.bound`.
_CLOSE = 2e-3


def run_optimum(
    layout: Layout, targets: Targets, target: str, models: list[str], out: Path | None
) -> int:
    """Bound the plans of small graphs, and write a record and a report.

    Args:
        layout: The repository.
        targets: The release table.
        target: The patched release.
        models: Names of `inside.optimum.optimum.MODELS`; all if none.
        out: The folder, instead of results/optimum-RELEASE.

    Returns:
        1 if a plan is none of the program's solutions, so that it bounds none, else 0.

    Raises:
        HarnessError: An environment cannot be made, or a run failed.
    """
    release = targets.get(target)
    folder = (out or layout.results / f"optimum-{release.name}").absolute()
    record(layout, release, WORKER, "up to an hour", models, folder, "patched")
    return write_report(folder, f"./scripts/harness optimum --target {release.name}")


def write_report(folder: Path, command: str) -> int:
    """Write the report of a record in a folder; return the exit status."""
    lines = (folder / "patched.jsonl").read_text().splitlines()
    rows: list[Row] = [json.loads(line) for line in lines]
    by_model: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_model[row["model"]].append(row)
    holds = {name: all(map(_is_near, found)) for name, found in by_model.items()}
    text = _PAGE.format(
        command=command,
        versions=", ".join(sorted({f"{r['torch']} {r['code']}" for r in rows})),
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
    write_atomic(folder / "REPORT.md", text.encode())
    print(text)
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
    share, more = 100 / max(row["total"], 1), _more(row)
    return {
        "graph": row["model"],
        "nodes": str(row["nodes"]),
        "target": f"{row['target']:g}",
        "limit MB": f"{row['limit'] / 1e6:,.2f}",
        "peak MB": f"{row['peak'] / 1e6:,.2f}",
        "ours %": f"{share * row['runtime']:.2f}",
        "bound %": f"{share * row['bound']:.2f}",
        "program's least %": f"{share * row['found']:.2f}",
        "ours above": "" if more == float("inf") else f"{100 * more:.1f} %",
        "seconds": f"{row['seconds']:.0f}",
    }
