"""`blocks`: models whose blocks are compiled one by one, and what stays alive."""

import json
from pathlib import Path

from acknap.base.files import write_atomic
from acknap.base.layout import INSIDE
from acknap.inside.known import BLOCKS
from acknap.models import block_numbers
from acknap.models.study import Study, read_both, versions, write_page

WORKER = INSIDE / "models" / "blocks.py"
_PAGE = Path(__file__).with_name("blocks.md").read_text(encoding="utf-8")


def write_report(folder: Path, command: str) -> int:
    """Write the report of two records in a folder.

    Returns:
        1 if we keep more than stock and than the budget allows, else 0.
    """
    stock, ours = read_both(folder)
    found = block_numbers.pairs(stock, ours)
    counts = block_numbers.summary(found)
    failed = [row for row in (*stock, *ours) if "failed" in row]
    text = _PAGE.format(
        command=command,
        versions=versions([*stock, *ours]),
        tables=block_numbers.markdown(found),
        exceptions=block_numbers.exceptions(found),
        unseen=block_numbers.unseen([*stock, *ours]),
        failed=len(failed),
    )
    write_atomic(
        folder / "summary.json", (json.dumps(counts, indent=1) + "\n").encode()
    )
    write_page(folder, text)
    return 1 if counts["over"] or counts["ours_wrong"] or failed else 0


STUDY = Study("blocks", WORKER, "one to two hours", write_report, BLOCKS)
