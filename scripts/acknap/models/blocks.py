"""`blocks`: models whose blocks are compiled one by one, and what stays alive."""

import json
from pathlib import Path

from acknap.base.files import require_folder, write_atomic
from acknap.base.layout import INSIDE, Layout
from acknap.base.progress import working
from acknap.models import block_numbers
from acknap.models.block_numbers import Row
from acknap.models.tracer import transformers
from acknap.torches import environments
from acknap.torches.inspect import inspect
from acknap.torches.worker import run_workers
from acknap.upstream.targets import Targets

WORKER = INSIDE / "models" / "blocks.py"
SIDES = ("stock", "patched")
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
    require_folder(folder)
    made = (environments.stock(layout, release), environments.patched(layout, release))
    packages = transformers(layout)
    for side, environment in zip(SIDES, made, strict=True):
        inspect(environment)
        with working(f"Blocks in {side} torch {release.release}: one to two hours"):
            command: list[str | Path] = [environment.python, "-I", "-B", WORKER]
            command += [folder / f"{side}.jsonl", "--packages", packages]
            if models:
                command += ["--models", *models]
            run_workers({layout.build / f"blocks-{side}.log": command})
    return compare(folder, f"./scripts/harness blocks --target {release.name}")


def compare(folder: Path, command: str) -> int:
    """Write the report of two records in a folder; return the exit status."""
    stock, ours = (_read(folder / f"{side}.jsonl") for side in SIDES)
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


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]
