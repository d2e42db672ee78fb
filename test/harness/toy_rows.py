"""Records made by hand, of the commands whose worker measures models."""

import json
from collections.abc import Iterable
from pathlib import Path

from acknap.models.study import Row


def write(folder: Path, **sides: Iterable[Row]) -> None:
    """Write rows as the records of stock and of patched torch."""
    for side, rows in sides.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{side}.jsonl").write_text(lines)
