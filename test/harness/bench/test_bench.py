"""The benchmark: truth, statistics, record, session, plan, claims."""

import contextlib
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.bench import claims as bench_claims
from acknap.bench import measure as bench_measure
from acknap.bench import record as bench_record
from acknap.bench import run as bench
from acknap.bench import threads as bench_threads
from acknap.bench.measure import Measure
from acknap.bench.plan import plan
from acknap.bench.point import Point
from acknap.bench.threads import Threads
from acknap.knapsack import contenders as bench_names
from acknap.knapsack import families, truth
from acknap.knapsack.families import Problem
from acknap.knapsack.session import Session, Worker, WorkerError
from acknap.report import stats

REAL = Layout.default()

# A torch whose Hirschberg goes over the budget, whose ilp fails and which has no exact.
KNAPSACK = """
def dp_knapsack(memory, runtimes, max_memory):
    best = (0.0, [])
    for mask in range(1 << len(memory)):
        saved = [i for i in range(len(memory)) if mask >> i & 1]
        if sum(round(1e4 * memory[i]) for i in saved) <= round(1e4 * max_memory):
            best = max(best, (sum(runtimes[i] for i in saved), saved))
    return (*best, [i for i in range(len(memory)) if i not in best[1]])

def dp_knapsack_sliding_hirschberg(memory, runtimes, max_memory):
    return sum(runtimes), list(range(len(memory))), []

def greedy_knapsack(memory, runtimes, max_memory):
    return 0.0, [], [0]

def ilp_knapsack(memory, runtimes, max_memory):
    raise RuntimeError("no luck: tried to allocate 123 bytes")
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of an environment with a torch of a few lines."""
    import venv

    venv.EnvBuilder(symlinks=True).create(tmp_path / "env")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    folder = tmp_path / "env" / "lib" / version / "site-packages"
    package = folder / "torch" / "_functorch" / "_activation_checkpointing"
    package.mkdir(parents=True)
    for part in (package, package.parent):
        (part / "__init__.py").touch()
    (package.parents[1] / "__init__.py").write_text(
        "import os\nclass version: git_version = '1' * 40\n"
        "def get_num_threads(): return int(os.environ.get('OMP_NUM_THREADS', 4))\n"
    )
    (package / "knapsack.py").write_text(KNAPSACK)
    info = folder / "torch-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    return tmp_path / "env" / "bin" / "python"


@pytest.fixture
def session(python: Path) -> Iterator[Session]:
    with closing(Session({"stock": python, "patched": python})) as opened:
        yield opened


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A repository with one instance of three items."""
    made = Layout(tmp_path / "repository")
    folder = made.root / "benchmarks" / "instances"
    folder.mkdir(parents=True)
    items = {"memory": [0.3, 0.2, 0.2], "runtimes": [5, 3, 3]}
    (folder / "toy.json").write_text(json.dumps(items))
    return made


def point(kind: str, contenders: tuple[str, ...], **more: Any) -> Point:
    defaults = {"problem": "real:toy", "budgets": (0.4,), "rounds": 7}
    return Point("topic", kind, contenders=contenders, **(defaults | more))


# --- truth


@pytest.mark.parametrize("seed", range(300))
def test_references_agree_on_small_problems(seed: int) -> None:
    problem, budget = families.small(seed)
    weights, capacity = np.array(problem.units()), round(budget * 10_000)
    values = np.array(problem.runtimes)
    best = max(
        sum(problem.runtimes[i] for i in chosen)
        for size in range(len(values) + 1)
        for chosen in itertools.combinations(range(len(values)), size)
        if sum(weights[list(chosen)]) <= capacity
    )
    assert truth.by_subsets(weights.astype(float), values, capacity) == best
    assert truth.by_table(weights, values, capacity) == best
    assert truth.by_list(weights.astype(float), values, float(capacity)) == best
    assert truth.optimum(problem, budget, quantised=False) == pytest.approx(best)


@pytest.mark.parametrize(
    "spec",
    [
        "random:n=300,units=5000",
        "strongly:n=100,units=3000",
        "repeated:n=200,units=900",
    ],
)
def test_list_agrees_with_table(spec: str) -> None:
    problem = families.load(REAL, spec)
    units, values = np.array(problem.units()), np.array(problem.runtimes)
    for capacity in (1, 77, 900, 2999):
        table = truth.by_table(units, values, capacity)
        assert truth.by_list(units.astype(float), values, float(capacity)) == table


def test_list_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "_MOST_STATES", 10)
    problem = families.load(REAL, "strongly:n=100,units=3000")
    weights, values = np.array(problem.memory), np.array(problem.runtimes)
    assert truth.by_list(weights, values, 0.3) is None


def test_check() -> None:
    problem = Problem("", [0.1] * 6, [1.0] * 6)
    five, six = list(range(5)), list(range(6))
    kept = truth.check(problem, 0.5, "exact", five, 5.0, 5.0)
    assert kept.right
    assert (kept.over, kept.loss, kept.runtime_error) == (0, 0, 0)
    over = truth.check(problem, 0.5, "exact", six, 6.0, 5.0)
    assert not over.right
    assert over.over == pytest.approx(0.2)
    below = truth.check(problem, 0.5, "exact", [0], 2.0, 5.0)
    assert (below.right, below.loss, below.runtime_error) == (False, 0.8, 1.0)


def test_quantised_solvers_keep_the_quantised_capacity() -> None:
    problem = Problem("", [0.00004] * 3, [1.0] * 3)
    found = truth.check(problem, 0.0001, "dp", [0, 1, 2], 3.0, 3.0)
    assert found.right
    assert found.excess == pytest.approx(0.2)
    assert not truth.check(problem, 0.0001, "ilp", [0, 1, 2], 3.0, 3.0).right


# --- problems


def test_problems_are_the_same_every_time() -> None:
    families.generated.cache_clear()
    for family in families.FAMILIES:
        units = ",units=1000" if family in ("random", "strongly", "repeated") else ""
        spec = f"{family}:n=40,seed=3{units}"
        first = families.load(REAL, spec)
        families.generated.cache_clear()
        assert families.load(REAL, spec) == first
        assert len(first.memory) == len(first.runtimes) == 40
        assert min(first.memory) > 0


def test_unknown_problems() -> None:
    with pytest.raises(HarnessError, match=r"there is no benchmarks/instances/x\.json"):
        families.load(REAL, "real:x")
    with pytest.raises(HarnessError, match="unknown family of problems 'x'"):
        families.load(REAL, "x:n=1")


# --- statistics


def test_interval_of_a_median() -> None:
    ratio = stats.of_rounds([1.2, 1.3, 1.1, 1.4, 1.25, 1.35])
    assert (ratio.median, ratio.low, ratio.high) == (pytest.approx(1.275), 1.1, 1.4)
    assert ratio.significant
    assert str(ratio) == "1.27x (1.1 to 1.4)"
    assert str(stats.of_rounds([0.9, 1.1] * 5)).endswith("not significant")
    assert str(stats.of_rounds([2.0, 3.0, 4.0])) == "3x (3 rounds)"
    long = stats.of_rounds([float(i) for i in range(1000)])
    assert (long.low, long.high) == (468, 531)


def test_law() -> None:
    rows = [
        (float(n * w), float(w))
        for n, w in ((5, 10), (9, 10), (5, 30), (8, 90), (1, 1))
    ]
    law = stats.fit(rows, [4 * cells + 8 * width for cells, width in rows])
    assert law is not None
    assert law(100, 10) == pytest.approx(480)
    assert law.error < 1e-9
    assert stats.fit(rows[:4], [1.0] * 4) is None


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 100), (0.99, 198), (0.991, 199), (1, 200)]
)
def test_percentile(share: float, value: int) -> None:
    assert stats.percentile(range(1, 201), share) == value
    assert stats.percentile(["few"], share) == "few"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.012345, "0.0123"), (1.0, "1"), (12.345, "12.3"), (98765.4, "98765")],
)
def test_short(value: float, text: str) -> None:
    assert stats.short(value) == text


# --- record


def test_record_goes_on(tmp_path: Path) -> None:
    key = {"machine": "a", "sides": {}}
    record = bench_record.open_record(tmp_path, key, {"command": "x"})
    record.add(point("speed", ("stock.dp",)), {"rounds": 1})
    with record.path.open("ab") as file:
        file.write(b'{"id": "half a li')  # killed while writing
    again = bench_record.open_record(tmp_path, key, {"command": "y"})
    assert list(again.points) == [point("speed", ("stock.dp",)).id]
    assert again.header["command"] == "x"
    again.add(point("memory", ("stock.dp",)), {})
    assert len(bench_record.read(record.path).points) == 2


def test_another_machine_starts_a_record_of_its_own(tmp_path: Path) -> None:
    first = bench_record.open_record(tmp_path, {"machine": "a"}, {})
    first.add(point("speed", ("stock.dp",)), {})
    second = bench_record.open_record(tmp_path, {"machine": "b"}, {})
    assert second.path != first.path
    assert not second.points
    second.add(point("memory", ("stock.dp",)), {"finished": "9999"})
    assert bench_record.newest(tmp_path).path == second.path


def test_broken_record(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="holds no record: run"):
        bench_record.newest(tmp_path)
    (tmp_path / "raw-1.jsonl").write_text('{"format": 99}\n')
    with pytest.raises(HarnessError, match="is no record of a benchmark: format 99"):
        bench_record.newest(tmp_path)


def test_machine_is_not_named() -> None:
    import socket

    text = json.dumps(bench_record.machine())
    assert socket.gethostname() not in text


# --- measuring


def test_speed(session: Session, layout: Layout) -> None:
    names = ("stock.dp", "patched.hirschberg", "stock.ilp", "patched.exact")
    result = Measure(layout, session)(point("speed", names))
    assert result["rounds"] == 7
    assert result["absent"] == ["patched.exact"]
    assert result["failed"] == {
        "stock.ilp": "RuntimeError: no luck: tried to allocate 123 bytes"
    }
    assert {len(s) for s in result["seconds"].values()} == {7}
    assert result["answers"]["stock.dp"]["right"]
    wrong = result["answers"]["patched.hirschberg"]
    assert not wrong["right"]
    assert wrong["over"] == pytest.approx(0.75)


def test_contender_that_fails_later_drops_out(
    session: Session, layout: Layout, tmp_path: Path
) -> None:
    knapsack = next(tmp_path.rglob("knapsack.py"))
    knapsack.write_text(
        f"{KNAPSACK}\ncalls = []\n"
        "def greedy_knapsack(memory, runtimes, max_memory):\n"
        "    calls.append(1)\n"
        "    if len(calls) < 4:\n"
        "        return dp_knapsack(memory, runtimes, max_memory)\n"
    )
    names = ("stock.dp", "stock.greedy")
    result = Measure(layout, session)(point("speed", names))
    assert list(result["seconds"]) == list(result["answers"]) == ["stock.dp"]
    assert len(result["seconds"]["stock.dp"]) == 7
    assert "stock.greedy" in result["failed"]


def test_answers(session: Session, layout: Layout) -> None:
    names = ("stock.dp", "stock.hirschberg", "stock.greedy")
    result = Measure(layout, session)(point("answers", names, budgets=(0.4, 1.0)))
    rows = {(row["contender"], row["budget"]): row for row in result["rows"]}
    assert result["best"] == {"0.4": 6.0, "1.0": 11.0}
    assert rows["stock.dp", 0.4]["right"]
    assert rows["stock.hirschberg", 0.4]["excess"] == pytest.approx(0.75)
    assert rows["stock.hirschberg", 1.0]["right"]
    assert "no partition" in rows["stock.greedy", 0.4]["failed"]


def test_small(session: Session, layout: Layout) -> None:
    spec = "small:first=0,count=20"
    names = ("stock.dp", "patched.hirschberg", "stock.ilp")
    made = point("small", names, problem=spec, budgets=())
    result = Measure(layout, session)(made)
    assert result["counts"]["stock.dp"] == {"right": 20}
    assert result["counts"]["patched.hirschberg"]["over budget"] > 5
    assert result["counts"]["stock.ilp"] == {"RuntimeError": 20}
    assert len(result["examples"]["stock.ilp"]) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory(session: Session, layout: Layout) -> None:
    result = Measure(layout, session)(point("memory", ("stock.greedy",)))
    assert result["failed"].startswith("ValueError: saved and recomputable")
    failed = Measure(layout, session)(point("limit", ("stock.ilp",), headroom=1 << 30))
    assert failed["asked"] == 123
    absent = Measure(layout, session)(point("memory", ("stock.exact",)))
    assert absent == {"absent": ["stock.exact"]}


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
    monkeypatch.setattr(bench_measure, "TRAINER", trainer)
    names = ("stock.dp", "patched.dp", "patched.exact")
    made = point("training", names, budgets=(1.0, 0.3), rounds=2)
    result = Measure(layout, session)(made)
    assert result["absent"] == ["patched.exact"]
    runs = {(run["contender"], run["budget"]): run for run in result["runs"]}
    assert len(runs) == 4
    assert runs["patched.dp", 0.3]["saved_bytes"] == 300
    # Each run has a process of its own, and goes on from round to round.
    losses = [64 / 2**step for step in range(1, 11)]
    assert all(run["losses"] == losses for run in result["runs"])
    assert all(len(run["seconds"]) == 2 for run in result["runs"])
    failed = Measure(layout, session)(point("training", ("stock.greedy",)))
    assert failed["runs"] == []
    assert failed["failed"] == "RuntimeError: no such solver"


def test_threads(
    session: Session, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # a user's own setting does not matter
    names = ("patched.dp", "patched.exact")
    with closing(Threads(layout, session)) as threads:
        result = threads(point("threads", names, rounds=2))
        failed = threads(point("threads", ("patched.ilp",), rounds=2))
    assert result["threads"] == {"one": 1, "default": 4}
    assert result["absent"] == ["patched.exact"]
    assert result["answers"]["patched.dp"]["right"]
    assert "changes" not in result["answers"]["patched.dp"]
    assert {name: len(taken) for name, taken in result["seconds"].items()} == {
        bench_names.in_setting("patched.dp", number, load): 2
        for number in ("one", "default")
        for load in ("idle", "loaded")
    }
    assert failed["failed"].startswith("RuntimeError: no luck")
    assert failed["seconds"] == failed["answers"] == {}


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The busy loops that a test starts."""
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def record(*arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **more))
        return started[-1]

    monkeypatch.setattr(bench_threads.subprocess, "Popen", record)
    return started


def test_busy_loops_end_with_what_they_are_beside(
    loops: list[subprocess.Popen[bytes]],
) -> None:
    with contextlib.suppress(KeyboardInterrupt), bench_threads.busy_loops():
        assert [loop.poll() for loop in loops] == [None, None]
        raise KeyboardInterrupt
    assert [loop.returncode for loop in loops] == [-signal.SIGKILL] * 2


def test_busy_loops_end_with_the_process_that_started_them(
    loops: list[subprocess.Popen[bytes]],
) -> None:
    with bench_threads.busy_loops():
        for loop in loops:  # as the system closes the pipes of a process that is killed
            assert loop.stdin is not None
            loop.stdin.close()
        assert [loop.wait(30) for loop in loops] == [0, 0]


def test_busy_loop_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_threads, "_BUSY", "raise SystemExit")
    with (
        pytest.raises(RuntimeError, match="a busy loop does not start"),
        bench_threads.busy_loops(),
    ):
        pass


def test_worker_that_hangs_or_dies_is_replaced(python: Path, tmp_path: Path) -> None:
    knapsack = next(tmp_path.rglob("knapsack.py"))
    knapsack.write_text(
        "import os, time\n"
        "def dp_knapsack(*_): os._exit(3)\n"
        "def greedy_knapsack(*_): time.sleep(60)\n"
        "def ilp_knapsack(*_): return 0.0, [], []\n"
    )
    worker = Worker("stock", python)
    try:
        with pytest.raises(WorkerError, match="Died: exit status 3"):
            worker.solve("dp", [1.0], 1, 1.0)
        with pytest.raises(WorkerError, match="Timeout: no answer in 1 s"):
            worker.ask(
                {
                    "op": "solve",
                    "solver": "greedy",
                    "budgets": [1.0],
                    "number": 1,
                    "limit": 1,
                },
                1,
            )
        assert worker.solve("ilp", [1.0], 1, 1.0)["answers"] == [[[], 0.0, None, None]]
    finally:
        worker.close()


def test_environment_that_changes_is_refused(session: Session, tmp_path: Path) -> None:
    session.worker("stock")
    next(tmp_path.rglob("knapsack.py")).write_text("def dp_knapsack(*_): pass\n")
    with pytest.raises(HarnessError, match="the stock environment changed"):
        session.fresh("stock")


# --- plan and claims


@pytest.mark.parametrize("quick", [True, False])
def test_plan(quick: bool) -> None:
    points = plan(REAL, quick=quick)
    assert len({point.id for point in points}) == len(points)
    topics = {point.topic for point in points}
    for claim in bench_claims.load(REAL):
        assert topics >= set(claim.topics), claim.name
    for one in points:
        if one.kind not in ("small", "training") and "100000" not in one.problem:
            assert families.load(REAL, one.problem).memory


def test_claims_file(layout: Layout) -> None:
    for claim in bench_claims.load(REAL):
        assert claim.source in ("paper", "README", "patch")
        assert bool(claim.number) == bool(claim.topics)
        assert claim.number or claim.note
        assert not claim.number or claim.needs
        assert (claim.source == "patch") == bool(claim.patch and claim.quote)
    with pytest.raises(HarnessError, match=r"there is no benchmarks/claims\.toml"):
        bench_claims.load(layout)
    with pytest.raises(HarnessError, match="unknown claim 'x'; known: table-size, "):
        bench_claims.topics(REAL, ["x"])
    with pytest.raises(HarnessError, match="gpu-time: cannot be measured here"):
        bench_claims.topics(REAL, ["gpu-time"])
    assert bench_claims.topics(REAL, ["table-dies"]) == {"limit"}


def test_every_claim_can_be_held_against_an_empty_record(tmp_path: Path) -> None:
    record = bench_record.open_record(tmp_path, {}, {})
    for claim in bench_claims.load(REAL):
        verdict = bench_claims.verdict(claim, record)
        assert verdict.word == "not measured", claim.name
        assert verdict.measured


def test_only_missing_points_are_measured(tmp_path: Path) -> None:
    record = bench_record.open_record(tmp_path, {}, {})
    points = [point("speed", ("stock.dp",)), point("memory", ("stock.dp",))]
    record.add(points[0], {})
    measured: list[Point] = []

    def measure(one: Point) -> dict[str, Any]:
        measured.append(one)
        return {}

    bench._measure(measure, record, points)  # type: ignore[arg-type]
    assert measured == points[1:]
    assert len(record.points) == 2
