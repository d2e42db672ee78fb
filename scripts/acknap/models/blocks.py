"""`blocks`: models whose blocks are compiled one by one, and what stays alive."""

import json
from pathlib import Path

from acknap.base.files import write_atomic
from acknap.base.layout import INSIDE, Layout
from acknap.models import block_numbers
from acknap.models.both import read_both, record_both
from acknap.upstream.targets import Targets

WORKER = INSIDE / "models" / "blocks.py"
_PAGE = Path(__file__).with_name("blocks.md").read_text(encoding="utf-8")


def run_blocks(
    layout: Layout, targets: Targets, target: str, models: list[str], out: Path | None
) -> int:
    """Measure models in both torches, and write a record of each and a report.

    Args:
        layout: The repository.
        targets: The release table.
        target: The release, as published and patched.
        models: Names of `block_models.MODELS`; all if none.
        out: The folder, instead of results/blocks-RELEASE.

    Returns:
        1 if we keep more than stock and than the budget allows, else 0.

    Raises:
        HarnessError: An environment cannot be made, or a run failed.
    """
    release = targets.get(target)
    folder = (out or layout.results / f"blocks-{release.name}").absolute()
    record_both(layout, release, WORKER, "one to two hours", models, folder)
    return compare(folder, f"./scripts/harness blocks --target {release.name}")


def compare(folder: Path, command: str) -> int:
    """Write the report of two records in a folder; return the exit status."""
    stock, ours = read_both(folder)
    found = block_numbers.pairs(stock, ours)
    counts = block_numbers.summary(found)
    failed = [row for row in (*stock, *ours) if "failed" in row]
    versions = sorted({f"{row['torch']} {row['code']}" for row in (*stock, *ours)})
    text = _PAGE.format(
        command=command,
        versions=", ".join(versions),
        tables=block_numbers.markdown(found),
        exceptions=block_numbers.exceptions(found),
        unseen=block_numbers.unseen([*stock, *ours]),
        failed=len(failed),
    )
    write_atomic(folder / "REPORT.md", text.encode())
    write_atomic(
        folder / "summary.json", (json.dumps(counts, indent=1) + "\n").encode()
    )
    print(text)
    return 1 if counts["over"] or counts["ours_wrong"] or failed else 0
