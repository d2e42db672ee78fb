"""Points that are measured in environments with a torch of a few lines."""

import contextlib
import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acknap.base.layout import Layout
from acknap.bench import measure, threads
from acknap.bench.finished import Memory
from acknap.bench.measure import Measure
from acknap.bench.threads import InThreads
from acknap.knapsack.contenders import in_setting
from acknap.knapsack.session import Session
from toy_record import point


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A repository with one instance of three items."""
    made = Layout(tmp_path / "repository")
    folder = made.root / "benchmarks" / "instances"
    folder.mkdir(parents=True)
    items = {"memory": [0.3, 0.2, 0.2], "runtimes": [5, 3, 3]}
    (folder / "toy.json").write_text(json.dumps(items))
    return made


def test_speed(session: Session, layout: Layout) -> None:
    names = ("stock.dp", "patched.hirschberg", "stock.ilp", "patched.exact")
    result = Measure(layout, session)(point("speed", names))
    assert result.rounds == 7
    assert result.absent == ("patched.exact",)
    assert result.failed == {
        "stock.ilp": "RuntimeError: no luck: tried to allocate 123 bytes"
    }
    assert {len(s) for s in result.seconds.values()} == {7}
    assert result.answers["stock.dp"].right
    wrong = result.answers["patched.hirschberg"]
    assert not wrong.right
    assert wrong.over == pytest.approx(0.75)


def test_contender_that_fails_later_drops_out(
    session: Session, layout: Layout, tmp_path: Path
) -> None:
    knapsack = next(tmp_path.rglob("knapsack.py"))
    knapsack.write_text(
        f"{knapsack.read_text()}\ncalls = []\n"
        "def greedy_knapsack(memory, runtimes, max_memory):\n"
        "    calls.append(1)\n"
        "    if len(calls) < 4:\n"
        "        return dp_knapsack(memory, runtimes, max_memory)\n"
    )
    names = ("stock.dp", "stock.greedy")
    result = Measure(layout, session)(point("speed", names))
    assert list(result.seconds) == list(result.answers) == ["stock.dp"]
    assert len(result.seconds["stock.dp"]) == 7
    assert "stock.greedy" in result.failed


def test_answers(session: Session, layout: Layout) -> None:
    names = ("stock.dp", "stock.hirschberg", "stock.greedy")
    result = Measure(layout, session)(point("answers", names, budgets=(0.4, 1.0)))
    rows = {(row.contender, row.budget): row for row in result.rows}
    assert result.best == {"0.4": 6.0, "1.0": 11.0}
    assert rows["stock.dp", 0.4].right
    assert rows["stock.hirschberg", 0.4].excess == pytest.approx(0.75)
    assert rows["stock.hirschberg", 1.0].right
    assert "no partition" in rows["stock.greedy", 0.4].failed


def test_small(session: Session, layout: Layout) -> None:
    spec = "small:first=0,count=20"
    names = ("stock.dp", "patched.hirschberg", "stock.ilp")
    made = point("small", names, problem=spec, budgets=())
    result = Measure(layout, session)(made)
    assert result.counts["stock.dp"] == {"right": 20}
    assert result.counts["patched.hirschberg"]["over budget"] > 5
    assert result.counts["stock.ilp"] == {"RuntimeError": 20}
    assert len(result.examples["stock.ilp"]) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory(session: Session, layout: Layout) -> None:
    result = Measure(layout, session)(point("memory", ("stock.greedy",)))
    assert result.failed.startswith("ValueError: saved and recomputable")
    failed = Measure(layout, session)(point("limit", ("stock.ilp",), headroom=1 << 30))
    assert failed.asked == 123
    absent = Measure(layout, session)(point("memory", ("stock.exact",)))
    assert absent == Memory(absent=("stock.exact",))


TRAINER = """
class Trainer:
    def __init__(self, solver, budget):
        if solver == "greedy":
            raise RuntimeError("no such solver")
        self.saved_bytes, self.loss = round(1000 * budget), 64.0

    def step(self):
        self.loss /= 2
        return self.loss
"""


def test_training(
    session: Session, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = tmp_path / "trainer.py"
    trainer.write_text(TRAINER)
    monkeypatch.setattr(measure, "TRAINER", trainer)
    names = ("stock.dp", "patched.dp", "patched.exact")
    made = point("training", names, budgets=(1.0, 0.3), rounds=2)
    result = Measure(layout, session)(made)
    assert result.absent == ("patched.exact",)
    runs = {(run.contender, run.budget): run for run in result.runs}
    assert len(runs) == 4
    assert runs["patched.dp", 0.3].saved_bytes == 300
    # Each run has a process of its own, and goes on from round to round.
    losses = tuple(64 / 2**step for step in range(1, 11))
    assert all(run.losses == losses for run in result.runs)
    assert all(len(run.seconds) == 2 for run in result.runs)
    failed = Measure(layout, session)(point("training", ("stock.greedy",)))
    assert failed.runs == ()
    assert failed.failed == "RuntimeError: no such solver"


def test_threads(
    session: Session, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # a user's own setting does not matter
    names = ("patched.dp", "patched.exact")
    with closing(InThreads(layout, session)) as measuring:
        result = measuring(point("threads", names, rounds=2))
        failed = measuring(point("threads", ("patched.ilp",), rounds=2))
    assert result.threads == {"one": 1, "default": 4}
    assert result.absent == ("patched.exact",)
    assert result.answers["patched.dp"].right
    assert not result.answers["patched.dp"].changes
    assert {name: len(taken) for name, taken in result.seconds.items()} == {
        in_setting("patched.dp", number, load): 2
        for number in ("one", "default")
        for load in ("idle", "loaded")
    }
    assert failed.failed.startswith("RuntimeError: no luck")
    assert failed.seconds == failed.answers == {}


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The busy loops that a test starts."""
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def record(*arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **more))
        return started[-1]

    monkeypatch.setattr(threads.subprocess, "Popen", record)
    return started


def test_busy_loops_end_with_what_they_are_beside(
    loops: list[subprocess.Popen[bytes]],
) -> None:
    with contextlib.suppress(KeyboardInterrupt), threads.busy_loops():
        assert [loop.poll() for loop in loops] == [None, None]
        raise KeyboardInterrupt
    assert [loop.returncode for loop in loops] == [-signal.SIGKILL] * 2


def test_busy_loops_end_with_the_process_that_started_them(
    loops: list[subprocess.Popen[bytes]],
) -> None:
    with threads.busy_loops():
        for loop in loops:  # as the system closes the pipes of a process that is killed
            assert loop.stdin is not None
            loop.stdin.close()
        assert [loop.wait(30) for loop in loops] == [0, 0]


def test_busy_loop_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_BUSY", "raise SystemExit")
    with (
        pytest.raises(RuntimeError, match="a busy loop does not start"),
        threads.busy_loops(),
    ):
        pass
