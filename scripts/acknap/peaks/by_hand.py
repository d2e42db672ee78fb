"""`by-hand`: plans by the peak beside the checkpointing that people write by hand."""

from pathlib import Path

from acknap.base.files import write_atomic
from acknap.base.layout import INSIDE, Layout
from acknap.base.text import of_numbers
from acknap.models.both import Row, read_both, record_both
from acknap.peaks import chart
from acknap.upstream.targets import Targets

WORKER = INSIDE / "by_hand" / "by_hand.py"
_PAGE = Path(__file__).with_name("by_hand.md").read_text(encoding="utf-8")


def run_by_hand(
    layout: Layout, targets: Targets, target: str, models: list[str], out: Path | None
) -> int:
    """Measure models in both torches, and write a record of each and a report.

    Args:
        layout: The repository.
        targets: The release table.
        target: The release, as published and patched.
        models: Names of `inside.by_hand.by_hand.MODELS`; all if none.
        out: The folder, instead of results/by-hand-RELEASE.

    Returns:
        1 if a hand-made plan is not dominated by one of ours, else 0.

    Raises:
        HarnessError: An environment cannot be made, or a run failed.
    """
    release = targets.get(target)
    folder = (out or layout.results / f"by-hand-{release.name}").absolute()
    record_both(layout, release, WORKER, "about ten minutes", models, folder)
    return write_report(folder, f"./scripts/harness by-hand --target {release.name}")


def write_report(folder: Path, command: str) -> int:
    """Write the report of two records in a folder; return the exit status."""
    stock, ours = read_both(folder)
    pairs = [row for row in ours if "of_peak" in row]
    undominated = [row for row in pairs if not _dominates(row)]
    names = (f"{row['model']}, {_way(row)}" for row in undominated)
    models = dict.fromkeys(row["model"] for row in pairs)
    text = _PAGE.format(
        command=command,
        versions=", ".join(sorted({f"{r['torch']} {r['code']}" for r in stock + ours})),
        table=of_numbers(map(_line, pairs)),
        dominated=len(pairs) - len(undominated),
        pairs=len(pairs),
        undominated="; ".join(names) or "none",
        pictures="\n".join(f"![{m}: peak and recomputation]({m}.svg)" for m in models),
    )
    write_atomic(folder / "REPORT.md", text.encode())
    for model in models:
        drawn = [row for row in (*stock, *ours) if row["model"] == model]
        picture = chart.draw_frontier(model, drawn)
        write_atomic(folder / f"{model}.svg", picture.encode())
    print(text)
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
        "peak MB": f"{row['of_peak'] / 1e6:,.1f}",
        "recomputed": _percent(row["of_again"], row),
        "our peak MB": f"{row['peak'] / 1e6:,.1f}",
        "ours recomputes": _percent(row["again"], row),
        "dominated": "yes" if _dominates(row) else "no",
    }


def _percent(value: float, row: Row) -> str:
    return f"{100 * value / row['total']:.1f} %"
