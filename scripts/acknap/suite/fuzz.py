"""`fuzz`: random training programs in patched torch, and in stock where it matters.

The programs are those of test/functorch/test_ac_budget_fuzz.py.
"""

import io
import json
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

from acknap.base import git
from acknap.base.errors import HarnessError
from acknap.base.files import require_folder, write_atomic
from acknap.base.layout import INSIDE, Layout
from acknap.base.progress import say, working
from acknap.inside.fuzz import failed, kinds, read, summary
from acknap.series.patches import load
from acknap.torches import environments
from acknap.torches.environments import Environment
from acknap.torches.inspect import inspect
from acknap.torches.worker import run_workers
from acknap.upstream.targets import Target, Targets

WORKER = INSIDE / "fuzz.py"
PROGRAMS = "test_ac_budget_fuzz.py"
PARTITIONERS = Path("torch", "_functorch", "partitioners.py")
# How many programs also stock runs, whether or not patched fails: they count how often
# the release is wrong.
STOCK = 500
_PROCESSES = min(os.cpu_count() or 1, 16)


def run_fuzz(
    layout: Layout, targets: Targets, target: str, seeds: range, out: Path | None
) -> int:
    """Run the programs of some seeds, and write a summary.

    Patched torch runs all of them. Stock runs the first ``STOCK`` and each in which
    patched had a failure.

    Args:
        layout: The repository.
        targets: The release table.
        target: The release.
        seeds: The programs.
        out: The folder of the records, instead of build/fuzz-RELEASE.

    Returns:
        The status of the summary: 1 if our plans are worse than stock's somewhere.

    Raises:
        HarnessError: An environment cannot be made, a process failed, or the folder's
            records are of another series or other programs.
    """
    release = targets.get(target)
    folder = (out or layout.build / f"fuzz-{release.name}").absolute()
    require_folder(folder)
    _claim(layout, release, folder)
    stock = environments.stock(layout, release)
    patched = environments.patched(layout, release)
    # Beside its own plans the patched one measures the bytes of the release's.
    beside: list[str | Path] = ["--stock", stock.site_packages / PARTITIONERS]
    _run(layout, patched, folder, seeds, beside)
    ours = read(folder.glob("patched-*.jsonl"))
    again = [seed for seed in seeds[STOCK:] if failed(ours[seed])]
    _run(layout, stock, folder, [*seeds[:STOCK], *again], ())
    with redirect_stdout(io.StringIO()) as said:
        theirs = read(sorted(folder.glob("stock-*.jsonl")))
        status = summary(read(sorted(folder.glob("patched-*.jsonl"))), theirs)
    write_atomic(folder / "summary.txt", said.getvalue().encode())
    print(said.getvalue())
    say(f"Records: {layout.relative(folder)}")
    return status


def count_on_package(
    layout: Layout, environment: Environment, programs: int, folder: Path
) -> tuple[dict[str, int], list[int]]:
    """Run the first programs with the package in the place of torch's planner.

    Returns:
        How many came to what, and the seeds of those with a failure.

    Raises:
        HarnessError: A process failed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    require_folder(folder)
    options: list[str | Path] = ["--package", layout.switch]
    _run(layout, environment, folder, range(programs), options)
    records = read(folder.glob(f"{environment.kind}-*.jsonl"))
    counts = Counter(kind for record in records.values() for kind in kinds(record))
    bad = sorted(seed for seed, record in records.items() if failed(record))
    return dict(sorted(counts.items())), bad


def _claim(layout: Layout, release: Target, folder: Path) -> None:
    """Say what a folder's records are of, and refuse those of something else."""
    programs = git.blob_id((layout.suite / PROGRAMS).read_bytes())
    ours = f"{release.name} {load(layout, release.series).revision} {programs}\n"
    stamp = folder / "of.txt"
    if not stamp.exists():
        write_atomic(stamp, ours.encode())
    elif stamp.read_text() != ours:
        raise HarnessError(
            f"the records in {layout.relative(folder)} are of another state of the "
            "series or the programs: remove the folder, or name another with --out"
        )


def _run(
    layout: Layout,
    environment: Environment,
    folder: Path,
    seeds: Iterable[int],
    options: Iterable[str | Path],
) -> None:
    """Run the programs of which there is no record yet, in several processes."""
    kind = environment.kind
    done = read(folder.glob(f"{kind}-*.jsonl"))
    left = [seed for seed in seeds if seed not in done]
    inspect(environment)
    # A program always comes to the same process, whose marker says what it ended in.
    shares: dict[int, list[int]] = defaultdict(list)
    for seed in left:
        shares[seed % _PROCESSES].append(seed)
    commands: dict[Path, list[str | Path]] = {}
    for number, share in shares.items():
        name = folder / f"{kind}-{number}"
        todo = name.with_suffix(".todo")
        write_atomic(todo, json.dumps(share).encode())
        command: list[str | Path] = [environment.python, "-I", "-B", WORKER]
        command += [layout.suite / PROGRAMS, todo, name.with_suffix(".jsonl")]
        commands[name.with_suffix(".log")] = [*command, *options]
    release = environment.target.release
    with working(f"{len(left)} programs in {kind} torch {release}"):
        run_workers(commands)
    for log in commands:
        log.with_suffix(".todo").unlink()
