"""Time with torch's own choice of threads against one, idle and beside busy loops."""

import itertools
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from typing import Any

from acknap.base.layout import Layout
from acknap.bench.finished import Threads
from acknap.bench.measure import LIMIT, SHORTEST, rounded
from acknap.bench.point import Point
from acknap.knapsack import families
from acknap.knapsack.checker import Checker, Summary
from acknap.knapsack.contenders import Contender, in_setting
from acknap.knapsack.families import Problem
from acknap.knapsack.session import Session, SolverWorker
from acknap.torches.worker import WorkerError

_LOOPS = 2
# A loop ends with the process that started it, however that ends: then its standard
# input does, too.
_BUSY = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print(flush=True)
while True: pass
"""


@contextmanager
def busy_loops() -> Iterator[None]:
    """Keep two processes of the same priority busy."""
    command = [sys.executable, "-I", "-S", "-c", _BUSY]
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        loops = []
        for _ in range(_LOOPS):
            loop = subprocess.Popen(command, stdin=pipe, stdout=pipe)
            loops.append(stack.enter_context(loop))
            stack.callback(loop.kill)
        for loop in loops:
            if loop.stdout is None or not loop.stdout.readline():
                raise RuntimeError("a busy loop does not start")
        yield


_THREADS = ("one", "default")
_LOADS: Mapping[str, Callable[[], Any]] = {"idle": nullcontext, "loaded": busy_loops}


class InThreads(ExitStack):
    """Measures points of the kind "threads", with workers that it closes."""

    def __init__(self, layout: Layout, session: Session) -> None:
        super().__init__()
        self._layout = layout
        self._session = session
        self._workers: dict[tuple[str, str], SolverWorker] = {}

    def __call__(self, point: Point) -> Threads:
        """Time all contenders in all settings in interleaved rounds.

        What is compared is timed one after the other, in turns: first with one thread,
        in the next round first with the default.
        """
        problem = families.load(self._layout, point.problem)
        present, absent = self._session.present(point.contenders)
        side, _ = Contender.of(point.contenders[0])
        result = Threads(
            items=len(problem.memory),
            rounds=point.rounds,
            absent=absent,
            threads={
                threads: self._worker(side, threads).ask({"op": "threads"})["threads"]
                for threads in _THREADS
            },
        )
        try:
            seconds, answers = self._timed(problem, present, point)
        except WorkerError as error:
            return result.model_copy(update={"failed": str(error)[:300]})
        return result.model_copy(update={"seconds": seconds, "answers": answers})

    def _timed(
        self, problem: Problem, contenders: Sequence[str], point: Point
    ) -> tuple[dict[str, list[float]], dict[str, Summary]]:
        runs = [(name, threads) for name in contenders for threads in _THREADS]

        def solve(name: str, threads: str, number: int = 1) -> dict[str, Any]:
            side, solver = Contender.of(name)
            worker = self._worker(side, threads)
            worker.load(problem)
            return worker.solve(solver, point.budgets, number, LIMIT)

        for run in runs:
            solve(*run)  # the warm-up
        first = {name: solve(name, _THREADS[0]) for name in contenders}
        checker = Checker(problem)
        answers = {
            n: checker.summary(n, point.budgets, a["answers"]) for n, a in first.items()
        }
        numbers = {n: math.ceil(SHORTEST / a["seconds"]) for n, a in first.items()}
        seconds: dict[str, list[float]] = defaultdict(list)
        for turn, load in itertools.product(range(point.rounds), _LOADS):
            order = runs[::-1] if turn % 2 else runs
            with _LOADS[load]():
                found = [(*run, solve(*run, numbers[run[0]])) for run in order]
            for name, threads, answer in found:
                key = in_setting(name, threads, load)
                seconds[key].append(rounded(answer["seconds"]))
                if answer["answers"] != first[name]["answers"]:
                    answers[name] = answers[name].model_copy(update={"changes": True})
        return dict(seconds), answers

    def _worker(self, side: str, threads: str) -> SolverWorker:
        """Return a worker; those that are compared have solved the same problems."""
        if (side, threads) not in self._workers:
            worker = self._session.fresh(side, one_thread=threads == "one")
            self._workers[side, threads] = self.enter_context(closing(worker))
        return self._workers[side, threads]
