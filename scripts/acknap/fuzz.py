"""`fuzz`: random training programs in a patched torch, and the release's plans beside.

The programs are those of test/functorch/test_ac_budget_fuzz.py. One process runs them
for each core but at most two; a record of each program is kept, so that a run that was
stopped goes on.
"""

import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from acknap import environments
from acknap.bench_session import ONE_THREAD
from acknap.errors import HarnessError
from acknap.files import write_atomic
from acknap.interpreter import clean_variables, inspect
from acknap.paths import Layout
from acknap.progress import say, working
from acknap.targets import Targets

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
        1 if one of our plans gave wrong gradients, raised, or kept more alive than its
        budget, the release's plan and the least that can be kept; else 0.

    Raises:
        HarnessError: An environment cannot be made, or a process failed.
    """
    release = targets.get(target)
    stock = environments.stock(layout, release)
    patched = environments.patched(layout, release)
    folder = (out or layout.build / f"fuzz-{release.name}").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    inspect(patched)
    workers = min(os.cpu_count() or 1, 2)
    steps = [programs * k // workers for k in range(workers + 1)]
    outputs = [folder / f"programs-{k}.jsonl" for k in range(workers)]
    with (
        tempfile.TemporaryDirectory(prefix="acknap-") as name,
        working(f"{programs} programs in patched torch {release.release}"),
    ):
        processes = []
        for (first, last), output in zip(
            itertools.pairwise(steps), outputs, strict=True
        ):
            command: list[str | Path] = [patched.python, "-I", "-B", WORKER, "run"]
            command += [layout.suite / PROGRAMS, str(first), str(last), output]
            command += ["--stock", stock.site_packages / PARTITIONERS]
            with output.with_suffix(".log").open("w") as log:
                processes.append(
                    subprocess.Popen(
                        command,
                        cwd=name,
                        env=clean_variables(Path(name)) | ONE_THREAD,
                        stdout=log,
                        stderr=log,
                    )
                )
        statuses = _wait(processes)
    if any(statuses):
        raise HarnessError(f"a process ended with {max(statuses)}: see {folder}/*.log")
    found = subprocess.run(
        [sys.executable, "-I", WORKER, "summary", *outputs],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    write_atomic(folder / "summary.txt", found.encode())
    print(found)
    say(f"Records: {layout.relative(folder)}")
    return int(any(line.split()[1:] in _FAILURES for line in found.splitlines()))


_FAILURES = (["wrong", "gradient"], ["raises"], ["over", "budget"], ["crashed"])


def _wait(processes: list[subprocess.Popen[bytes]]) -> list[int]:
    """Wait for all; an interrupt ends them, and their records stay."""
    try:
        return [process.wait() for process in processes]
    except BaseException:
        for process in processes:
            process.terminate()
        raise
