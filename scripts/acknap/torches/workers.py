"""Processes with torch that write records of their own, and go on if stopped."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from acknap.base.errors import HarnessError, last_line
from acknap.knapsack.session import ONE_THREAD
from acknap.torches.inspect import clean_variables


def run_workers(commands: Mapping[Path, Sequence[str | Path]]) -> None:
    """Run commands side by side; an interrupt ends them, and their records stay.

    Args:
        commands: By the log that gets a command's output.

    Raises:
        HarnessError: One failed; the end of its log says why.
    """
    processes: dict[Path, subprocess.Popen[bytes]] = {}
    with tempfile.TemporaryDirectory(prefix="acknap-") as name:
        variables = clean_variables(Path(name)) | ONE_THREAD
        try:
            for log, command in commands.items():
                with log.open("wb") as out:
                    processes[log] = subprocess.Popen(
                        command, cwd=name, env=variables, stdout=out, stderr=out
                    )
            statuses = {log: one.wait() for log, one in processes.items()}
        except BaseException:
            for process in processes.values():
                process.terminate()
            raise
    for log, status in statuses.items():
        if status:
            said = last_line(log.read_text(errors="replace"))
            raise HarnessError(f"{said} (exit status {status}; log: {log})")
