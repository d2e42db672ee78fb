"""Worker processes in the environments of a benchmark, and requests to them."""

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from acknap.base.errors import HarnessError
from acknap.base.layout import INSIDE
from acknap.knapsack.families import Problem
from acknap.torches.inspect import clean_variables

WORKER = INSIDE / "solvers.py"
PEER_SOLVERS = INSIDE / "peers.py"
TRAINER = INSIDE / "trainer.py"

# One thread, whatever library a solver uses.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
)


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
        script: Sequence[str | Path] = (WORKER,),
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
        scratch = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="acknap-"))
        )
        self._errors = (scratch / "stderr").open("w+b")
        self._stack.callback(self._errors.close)
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=scratch,
            env=_variables(scratch, self._one_thread),
        )
        self._stack.callback(self._process.wait)
        self._stack.callback(self._process.kill)
        self._loaded = ""

    def load(self, problem: Problem) -> None:
        """Make `problem` the one that is solved; it is sent once."""
        if self._loaded == problem.spec:
            return
        self.ask({"op": "load", "memory": problem.memory, "runtimes": problem.runtimes})
        self._loaded = problem.spec

    def solve(
        self, solver: str, budgets: list[float], number: int, limit: float
    ) -> dict[str, Any]:
        """Solve the loaded problem `number` times; a worker that hangs is replaced.

        Raises:
            WorkerError: The solver failed, or took more than `limit` seconds.
        """
        request: dict[str, Any] = {"op": "solve", "solver": solver}
        request |= {"budgets": budgets, "number": number, "limit": limit}
        return self.ask(request, 2 * limit * number + 10)

    def batch(
        self, solver: str, problems: list[tuple[Problem, float]]
    ) -> list[list[int] | str]:
        """Solve many small problems: the saved items or the name of an error each."""
        sent = [(p.memory, p.runtimes, budget) for p, budget in problems]
        self._loaded = ""
        answer = self.ask({"op": "batch", "solver": solver, "problems": sent})
        answers: list[list[int] | str] = answer["answers"]
        return answers

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
            status, said = self._process.wait(), self._said()
            self._restart()
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

    def _said(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"


class Session:
    """The workers of all sides, started when they are first needed."""

    def __init__(self, pythons: Mapping[str, Path]) -> None:
        self._pythons = pythons
        self._workers: dict[str, Worker] = {}

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers.values():
            worker.close()

    def worker(self, side: str) -> Worker:
        """Return the long-lived worker of a side."""
        if side not in self._workers:
            self._workers[side] = self.fresh(side)
        return self._workers[side]

    def fresh(self, side: str, *, one_thread: bool = True) -> Worker:
        """Start a worker of its own; the caller closes it."""
        try:
            more = (PEER_SOLVERS,) if side == "peers" else ()
            script = (WORKER, *more)
            worker = Worker(side, self._pythons[side], script, one_thread=one_thread)
        except WorkerError as error:
            raise HarnessError(f"the {side} environment fails: {error}") from error
        first = self._workers.get(side, worker)
        if worker.description != first.description:
            worker.close()
            raise HarnessError(f"the {side} environment changed: run the command again")
        return worker

    def has(self, contender: str) -> bool:
        """Whether the environment of `side.solver` has the solver."""
        side, solver = contender.split(".")
        return solver in self.worker(side).description["solvers"]


def _variables(scratch: Path, one_thread: bool) -> dict[str, str]:
    """Return a worker's variables; without one thread the libraries choose."""
    variables = clean_variables(scratch)
    for name in ONE_THREAD:
        variables.pop(name, None)
    return variables | (ONE_THREAD if one_thread else {})
