"""`fuzz`: random training programs in stock and in patched torch, side by side.

The programs are those of test/functorch/test_ac_budget_fuzz.py.
"""

import subprocess
import sys
from pathlib import Path

from acknap import environments
from acknap.errors import HarnessError, last_line
from acknap.files import write_atomic
from acknap.interpreter import inspect
from acknap.paths import Layout
from acknap.progress import say, working
from acknap.targets import Targets
from acknap.workers import run_workers

WORKER = Path(__file__).with_name("fuzz_worker.py")
PROGRAMS = "test_ac_budget_fuzz.py"
PARTITIONERS = Path("torch", "_functorch", "partitioners.py")


def run_fuzz(
    layout: Layout, targets: Targets, target: str, programs: int, out: Path | None
) -> int:
    """Run the programs of the seeds from 0 on, and write a summary.

    Args:
        layout: The repository.
        targets: The release table.
        target: The release.
        programs: How many.
        out: The folder of the records, instead of build/fuzz-RELEASE.

    Returns:
        The status of the summary: 1 if our plans are worse than stock's somewhere.

    Raises:
        HarnessError: An environment cannot be made, or a process failed.
    """
    release = targets.get(target)
    stock = environments.stock(layout, release)
    patched = environments.patched(layout, release)
    folder = (out or layout.build / f"fuzz-{release.name}").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    # Beside its own plans the patched one measures the bytes of the release's.
    beside: list[str | Path] = ["--stock", stock.site_packages / PARTITIONERS]
    commands: dict[Path, list[str | Path]] = {}
    for environment, more in ((stock, ()), (patched, beside)):
        inspect(environment)
        command: list[str | Path] = [environment.python, "-I", "-B", WORKER, "run"]
        command += [layout.suite / PROGRAMS, "0", str(programs)]
        command += [folder / f"{environment.kind}.jsonl", *more]
        commands[folder / f"{environment.kind}.log"] = command
    with working(f"{programs} programs in torch {release.release}, stock and patched"):
        run_workers(commands)
    done = subprocess.run(
        [
            *(sys.executable, "-I", WORKER, "summary", folder / "patched.jsonl"),
            *("--stock", folder / "stock.jsonl"),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise HarnessError(f"no summary: {last_line(done.stderr)}")
    write_atomic(folder / "summary.txt", done.stdout.encode())
    print(done.stdout)
    say(f"Records: {layout.relative(folder)}")
    return done.returncode
