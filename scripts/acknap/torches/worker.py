"""Processes in an environment with torch: asked over a pipe, or left to their work."""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from acknap.base.errors import HarnessError, last_line
from acknap.base.files import scratch

# What a user's shell may hold that changes what Python, pytest or torch does.
DROPPED_PREFIXES = ("PYTHON", "PYTEST", "PYTORCH", "TORCH", "TRITON", "EXPECTTEST")


# One thread, whatever library a solver uses.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
)


def clean_variables(folder: Path) -> dict[str, str]:
    """Return the environment variables of a test process.

    Everything that torch, triton or a test caches goes below ``folder``: on a
    second run of the same model a warm cache would keep the solver from being
    called at all. The hash seed stays random.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(DROPPED_PREFIXES) and name != "VIRTUAL_ENV"
    }
    fresh = {
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "XDG_CACHE_HOME": "cache",
        "TMPDIR": "tmp",
    }
    for variable, name in fresh.items():
        cache = folder / name
        cache.mkdir(parents=True, exist_ok=True)
        kept[variable] = str(cache)
    return kept | {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


class WorkerError(Exception):
    """The worker says that a request failed: the error's type and its message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class Worker:
    """One long-lived interpreter that answers requests.

    Attributes:
        side: Its environment's name.
        description: What the worker says of its environment.
    """

    def __init__(
        self,
        side: str,
        python: Path,
        script: Sequence[str | Path],
        *,
        one_thread: bool = True,
    ) -> None:
        self.side = side
        self._command = [python, "-I", "-B", *script]
        self._one_thread = one_thread
        self._stack = ExitStack()
        self._start()
        self.description: Mapping[str, Any] = self.ask({"op": "describe"})

    def _start(self) -> None:
        folder = self._stack.enter_context(scratch())
        # Without one thread the libraries choose.
        variables = {
            name: value
            for name, value in clean_variables(folder).items()
            if name not in ONE_THREAD
        } | (ONE_THREAD if self._one_thread else {})
        self._errors = (folder / "stderr").open("w+b")
        self._stack.callback(self._errors.close)
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=folder,
            env=variables,
        )
        self._stack.callback(self._process.wait)
        self._stack.callback(self._process.kill)

    def ask(self, request: Mapping[str, Any], limit: float = 600) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            WorkerError: The request failed, the worker died, or `limit` passed.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the worker has no pipes")
        line = b""
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            end = time.monotonic() + limit
            while not line.endswith(b"\n"):
                left = max(0.0, end - time.monotonic())
                if not select.select([stdout], [], [], left)[0]:
                    self._restart()
                    raise WorkerError("Timeout", f"no answer in {limit:.0f} s")
                chunk = os.read(stdout.fileno(), 1 << 20)
                if not chunk:
                    raise BrokenPipeError
                line += chunk
        except BrokenPipeError:
            status = self._process.wait()
            self._errors.seek(0)
            output = self._errors.read().decode(errors="replace")
            self._restart()
            said = last_line(output, "no message")
            raise WorkerError("Died", f"exit status {status}: {said}") from None
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"], answer["message"])
        return answer

    def close(self) -> None:
        """End the process."""
        self._stack.close()

    def _restart(self) -> None:
        self.close()
        self._start()


def run_workers(commands: Mapping[Path, Sequence[str | Path]]) -> None:
    """Run commands side by side; an interrupt ends them, and their records stay.

    Args:
        commands: By the log that gets a command's output.

    Raises:
        HarnessError: One failed; the end of its log says why.
    """
    processes: dict[Path, subprocess.Popen[bytes]] = {}
    with scratch() as folder:
        variables = clean_variables(folder) | ONE_THREAD
        try:
            for log, command in commands.items():
                with log.open("wb") as out:
                    processes[log] = subprocess.Popen(
                        command, cwd=folder, env=variables, stdout=out, stderr=out
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
