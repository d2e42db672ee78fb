"""Measure one point: timings in interleaved rounds, memory in fresh processes."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from typing import Any

from acknap.base.layout import Layout
from acknap.bench import finished
from acknap.bench.plan import TRAINING_STEPS
from acknap.bench.point import Point
from acknap.bench.record import machine
from acknap.knapsack import families
from acknap.knapsack.checker import Checker, gap
from acknap.knapsack.contenders import Contender
from acknap.knapsack.session import TRAINER, Session, SolverWorker
from acknap.torches.worker import WorkerError

# A solve that takes longer is given up (peers on hard problems).
LIMIT = 10.0
# A timing repeats a solve until one value takes this long, so that the clock's
# resolution and the cost of asking do not count.
SHORTEST = 20e-3
# Rounds are cut so that a point takes about this long, but never below three.
_POINT_SECONDS = 60.0
_ASKED = re.compile(r"tr(?:ied|y) to allocate (\d+) bytes")


def rounded(seconds: float) -> float:
    """Return a time as the record keeps it: the clock's noise is left out."""
    return float(f"{seconds:.4g}")


class Measure:
    """Measures points in one session."""

    def __init__(self, layout: Layout, session: Session) -> None:
        self._layout = layout
        self._session = session

    def __call__(self, point: Point) -> finished.Finished:
        """Return the result of a point, ready for the record."""
        kinds: Mapping[str, Callable[[Point], finished.Finished]] = {
            "speed": self._speed,
            "answers": self._answers,
            "small": self._small,
            "memory": self._memory,
            "limit": self._memory,
            "training": self._training,
        }
        return kinds[point.kind](point)

    def _speed(self, point: Point) -> finished.Speed:
        """Time all contenders in interleaved rounds, and check every answer."""
        problem = families.load(self._layout, point.problem)
        present, absent = self._session.present(point.contenders)
        task = (problem, point.budgets, LIMIT)
        first: dict[str, dict[str, Any]] = {}
        failed: dict[str, str] = {}
        for name in present:
            try:
                first[name] = self._session.solve(name, *task)
                if first[name]["seconds"] < SHORTEST:  # that was the warm-up
                    first[name] = self._session.solve(name, *task)
            except WorkerError as error:
                failed[name] = str(error)
                first.pop(name, None)
        checker = Checker(problem)
        answers = {
            n: checker.summary(n, point.budgets, a["answers"]) for n, a in first.items()
        }
        numbers = {n: math.ceil(SHORTEST / a["seconds"]) for n, a in first.items()}
        cost = sum(answer["seconds"] * numbers[n] for n, answer in first.items())
        rounds = min(point.rounds, max(3, int(_POINT_SECONDS / max(cost, 1e-9))))
        seconds: dict[str, list[float]] = {name: [] for name in first}
        order = list(first)
        for _ in range(rounds):
            for name in tuple(order):
                try:
                    answer = self._session.solve(name, *task, numbers[name])
                except WorkerError as error:  # a peer that is not done in time any more
                    failed[name] = str(error)
                    order.remove(name)
                    del seconds[name], answers[name]
                    continue
                seconds[name].append(rounded(answer["seconds"]))
                if answer["answers"] != first[name]["answers"]:
                    answers[name] = answers[name].model_copy(update={"changes": True})
            order = order[1:] + order[:1]
        return finished.Speed(
            items=len(problem.memory),
            rounds=rounds,
            seconds=seconds,
            answers=answers,
            failed=failed,
            absent=absent,
        )

    def _answers(self, point: Point) -> finished.Answers:
        """Check every contender's answer at every budget."""
        problem = families.load(self._layout, point.problem)
        present, absent = self._session.present(point.contenders)
        checker = Checker(problem)
        rows: list[finished.Answer] = []
        for contender, budget in itertools.product(present, point.budgets):
            about: dict[str, Any] = {"contender": contender, "budget": budget}
            try:
                found = self._session.solve(contender, problem, (budget,), LIMIT)
            except WorkerError as error:
                rows.append(finished.Answer(**about, failed=str(error)))
                continue
            answers = found["answers"]
            (check,) = checks = checker.checks(contender, (budget,), answers)
            about["gap"] = gap(checks, answers)
            rows.append(finished.Answer(**about, **check.record()))
        return finished.Answers(
            rows=tuple(rows),
            best={str(b): checker.optimum(b, quantised=False) for b in point.budgets},
            total=math.fsum(problem.runtimes),
            absent=absent,
        )

    def _small(self, point: Point) -> finished.Small:
        """Count wrong answers on random problems, against brute force."""
        first, count = families.sizes(point.problem).values()
        present, absent = self._session.present(point.contenders)
        seeds = range(first, first + count)
        problems = [families.small(seed) for seed in seeds]
        checkers = [(Checker(problem, by_subsets=True), at) for problem, at in problems]
        counts, examples = {}, {}
        for name in present:
            side, solver = Contender.of(name)
            answers = self._session.worker(side).batch(solver, problems)
            faults = [
                checker.fault(name, budget, answer)
                for (checker, budget), answer in zip(checkers, answers, strict=True)
            ]
            counts[name] = dict(Counter(fault or "right" for fault in faults))
            wrong = [seed for seed, f in zip(seeds, faults, strict=True) if f]
            examples[name] = wrong[:3]
        return finished.Small(counts=counts, examples=examples, absent=absent)

    def _memory(self, point: Point) -> finished.Memory:
        """Measure the growth of memory in a process of its own."""
        (contender,) = point.contenders
        if not self._session.has(contender):
            return finished.Memory(absent=(contender,))
        side, solver = Contender.of(contender)
        problem = families.load(self._layout, point.problem)
        worker = self._session.fresh(side)
        # Without a limit of the point's, one that keeps this machine alive.
        headroom = point.headroom or machine()["memory_gib"] * 2**30 * 3 // 4
        request = {"op": "memory", "solver": solver, "headroom": headroom}
        try:
            worker.load(problem)
            answer = worker.ask(request | {"budgets": point.budgets}, 1200)
        except WorkerError as error:
            found = _ASKED.search(error.message)
            asked = int(found[1]) if found else None
            return finished.Memory(failed=str(error)[:300], asked=asked)
        finally:
            worker.close()
        return finished.Memory(
            growth=answer["growth"],
            seconds=rounded(answer["seconds"]),
            answer=Checker(problem).summary(
                contender, point.budgets, answer["answers"]
            ),
        )

    def _training(self, point: Point) -> finished.Training:
        """Train a model per contender and budget, a few steps of each in turn."""
        present, absent = self._session.present(point.contenders)
        workers: list[tuple[SolverWorker, dict[str, Any]]] = []
        with ExitStack() as stack:
            try:
                for contender, budget in itertools.product(present, point.budgets):
                    side, solver = Contender.of(contender)
                    worker = stack.enter_context(closing(self._session.fresh(side)))
                    plan = {"file": str(TRAINER), "solver": solver, "budget": budget}
                    run: dict[str, Any] = {"contender": contender, "budget": budget}
                    run |= worker.ask({"op": "compile", **plan})
                    run |= {"losses": [], "seconds": []}
                    workers.append((worker, run))
                for _ in range(point.rounds):
                    for worker, run in workers:
                        answer = worker.ask({"op": "train", "steps": TRAINING_STEPS})
                        run["losses"] += answer["losses"]
                        run["seconds"].append(rounded(answer["seconds"]))
            except WorkerError as error:
                return finished.Training(
                    runs=(), failed=str(error)[:300], absent=absent
                )
        return finished.Training(
            runs=tuple(finished.Run(**run) for _, run in workers), absent=absent
        )
