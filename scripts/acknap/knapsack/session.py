"""Workers that solve, one for each side, and the requests to them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from acknap.base.errors import HarnessError
from acknap.base.layout import INSIDE
from acknap.knapsack.contenders import Contender
from acknap.knapsack.families import Problem
from acknap.torches.worker import Worker, WorkerError

WORKER = INSIDE / "solvers.py"
PEER_SOLVERS = INSIDE / "peers.py"
TRAINER = INSIDE / "trainer.py"


class SolverWorker(Worker):
    """One long-lived interpreter that solves."""

    def _start(self) -> None:
        super()._start()
        self._loaded = ""

    def load(self, problem: Problem) -> None:
        """Make `problem` the one that is solved; it is sent once."""
        if self._loaded == problem.spec:
            return
        self.ask({"op": "load", "memory": problem.memory, "runtimes": problem.runtimes})
        self._loaded = problem.spec

    def solve(
        self, solver: str, budgets: Sequence[float], number: int, limit: float
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


class Session(ExitStack):
    """The workers of all sides, started when they are first needed, to be closed."""

    def __init__(self, pythons: Mapping[str, Path]) -> None:
        super().__init__()
        self._pythons = pythons
        self._workers: dict[str, SolverWorker] = {}

    def worker(self, side: str) -> SolverWorker:
        """Return the long-lived worker of a side."""
        if side not in self._workers:
            self._workers[side] = self.enter_context(closing(self.fresh(side)))
        return self._workers[side]

    def fresh(self, side: str, *, one_thread: bool = True) -> SolverWorker:
        """Start a worker of its own; the caller closes it."""
        try:
            script = (WORKER, PEER_SOLVERS) if side == "peers" else (WORKER,)
            python = self._pythons[side]
            worker = SolverWorker(side, python, script, one_thread=one_thread)
        except WorkerError as error:
            raise HarnessError(f"the {side} environment fails: {error}") from error
        first = self._workers.get(side, worker)
        if worker.description != first.description:
            worker.close()
            raise HarnessError(f"the {side} environment changed: run the command again")
        return worker

    def has(self, contender: str) -> bool:
        """Whether the environment of `side.solver` has the solver."""
        side, solver = Contender.of(contender)
        return solver in self.worker(side).description["solvers"]

    def present(self, contenders: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
        """Return those that their environments have, and those that are absent."""
        found = [name for name in contenders if self.has(name)]
        return found, tuple(name for name in contenders if name not in found)

    def solve(
        self,
        contender: str,
        problem: Problem,
        budgets: Sequence[float],
        limit: float,
        number: int = 1,
    ) -> dict[str, Any]:
        """Have a contender solve a problem, as `SolverWorker.solve`."""
        side, solver = Contender.of(contender)
        self.worker(side).load(problem)
        return self.worker(side).solve(solver, budgets, number, limit)
