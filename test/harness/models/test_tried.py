"""`try`: the harness's side with a worker of a few lines, and once real torch."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.inside.tried.devices import Cpu, Cuda
from acknap.models import tried
from acknap.torches.worker import Worker, WorkerError
from acknap.upstream.targets import Targets
from toy_torch import Toy

PATCHED = Layout.default().build / "env" / "2.10.0-patched"
MB = 10**6

# Answers as inside/tried/tried.py does, and notes what it was asked for.
WORKER = """
import json, os, pathlib, signal, sys
asked = pathlib.Path(sys.argv[1], "asked.txt")

def describe(request):
    return {"torch": "1.0", "device": "a toy"}

def open_(request):
    if request["model"] == "bad":
        return {"error": "ModelError", "message": "bad: no such model"}
    graph = pathlib.Path(sys.argv[1], "graph.txt")
    text = graph.read_text() if graph.exists() else "g"
    return {"graph": text, "code": "c"}

def plan(request):
    if request["way"] == "by hand":
        return {"error": "ModelError", "message": "toy: it repeats no block"}
    peak = int(100_000_000 * request["budget"])
    return {"live": peak / 2, "share": 0.5, "peak": peak, "again": 0.125}

def train(request):
    if request["budget"] == 0.7:
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()
    if request["budget"] == 0.6:
        sys.exit("killed")
    peak = int(90_000_000 * request["budget"])
    off = 0.5 if request["way"] in sys.argv[1] else 1e-9
    step = {"measured": peak, "seconds": 2.0, "ratio": 1.25}
    return step | {"off": off, "allowed": 1e-4}

for line in sys.stdin:
    request = json.loads(line)
    with asked.open("a") as file:
        print(*[request.get(k, "-") for k in ("op", "way", "budget")], file=file)
    name = request["op"].replace("open", "open_")
    print(json.dumps(globals()[name](request)), flush=True)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A toy repository whose models the worker of a few lines tries."""
    made = Toy(tmp_path, monkeypatch)
    monkeypatch.setattr(tried, "WORKER", made.write("worker.py", WORKER))
    monkeypatch.setattr(Targets, "get", lambda *_: made.target)
    monkeypatch.chdir(tmp_path)
    return made


def run(toy: Toy, budgets: str = "0.3", model: str = "toy", **more: Any) -> int:
    """Try a model in the current folder."""
    options = {"out": None, "run": True} | more
    targets = Targets((toy.target,), {})
    return tried.run_try(
        toy.layout, targets, model, budgets, target="v1.0.0", **options
    )


def asked(tmp_path: Path, op: str) -> list[str]:
    """Return what the worker was asked for since the last call."""
    file = tmp_path / "asked.txt"
    lines = file.read_text().splitlines()
    file.unlink()
    return [line.removeprefix(f"{op} ") for line in lines if line.startswith(op)]


def test_all_ways_are_planned_and_trained(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(toy, "0.3,0.1") == 0
    ways = ["dp", "exact", "peak"]
    budgeted = [f"{way} {budget}" for way in ways for budget in (0.3, 0.1)]
    assert asked(tmp_path, "train") == ["no budget 1.0", *budgeted[:2], *budgeted]
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "no budget 50.0 0.500 100.0 90.0 12.5% 2 s 1.25x right" in shown
    assert "released dp 0.3 15.0 0.500 30.0 27.0 12.5% 2 s 1.25x right" in shown
    assert "by hand - - - - - - - failed" in shown
    folder = tmp_path / "tried" / "toy"
    page = " ".join((folder / "REPORT.md").read_text().split())
    assert "Without a budget a step takes 90.0 MB and 2 s." in page
    assert "Least of PyTorch as published: 9.0 MB and 2 s (released dp 0.1;" in page
    assert "by hand failed: toy: it repeats no block." in page
    assert "series peak 0.1" in (folder / "tried.svg").read_text()


def test_only_what_is_missing_is_tried_again(toy: Toy, tmp_path: Path) -> None:
    run(toy, "0.3", run=False)
    assert asked(tmp_path, "train") == []
    run(toy, "0.3")
    assert len(asked(tmp_path, "train")) == 5
    run(toy, "0.3,0.2")
    assert asked(tmp_path, "train") == ["dp 0.2", "dp 0.2", "exact 0.2", "peak 0.2"]
    # A model with other graphs is another one.
    (tmp_path / "graph.txt").write_text("other")
    run(toy, "0.3")
    assert len(asked(tmp_path, "train")) == 5


def test_an_interrupted_run_keeps_what_it_has(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(toy, "0.3,0.7")
    content = json.loads((tmp_path / "tried/toy/tried.json").read_text())
    done = [row["way"] for row in content["rows"] if row["measured"]]
    assert done == ["no budget", "dp"]


def test_a_process_that_dies_is_a_failure_of_one_plan(toy: Toy, tmp_path: Path) -> None:
    assert run(toy, "0.6,0.3") == 1
    content = json.loads((tmp_path / "tried/toy/tried.json").read_text())
    failed = {row["budget"]: row["failed"] for row in content["rows"]}
    assert failed[0.6] == "Died: exit status 1: killed"
    assert failed[0.3] == ""


@pytest.mark.parametrize(("way", "status"), [("dp", 1), ("exact", 1), ("none", 0)])
def test_wrong_gradients_are_told(
    toy: Toy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    way: str,
    status: int,
) -> None:
    folder = tmp_path / f"wrong-{way}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert run(toy) == status
    assert ("WRONG 50.0%" in capsys.readouterr().out) == (status == 1)


def test_bad_input_is_one_line(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="bad: no such model"):
        run(toy, model="bad")
    with pytest.raises(HarnessError, match="name its module, unet:make"):
        run(toy, model="unet.py:make")
    with pytest.raises(HarnessError, match="budget '2'"):
        run(toy, "2")
    assert not (tmp_path / "tried").exists()
    run(toy, run=False)
    with pytest.raises(HarnessError, match="is of toy: name another folder"):
        run(toy, model="other", out=tmp_path / "tried" / "toy")
    (tmp_path / "tried/toy/tried.json").write_text("{")
    with pytest.raises(HarnessError, match="is no record of `try`: remove it"):
        run(toy)


class ToyCuda:
    """CUDA's counters, as torch.cuda has them, for a step that allocates."""

    def __init__(self) -> None:
        self.now = self.most = 1000
        self.clock = 0.0
        self.waits = 0

    def get_device_name(self) -> str:
        return "toy card"

    def synchronize(self) -> None:
        self.waits += 1

    def empty_cache(self) -> None:
        pass

    def memory_allocated(self) -> int:
        return self.now

    def reset_peak_memory_stats(self) -> None:
        self.most = self.now

    def max_memory_allocated(self) -> int:
        return self.most

    def Event(self, *, enable_timing: bool) -> Any:  # noqa: N802 -- torch's name
        assert enable_timing
        made = SimpleNamespace(at=0.0)
        made.record = lambda: setattr(made, "at", self.clock)
        made.elapsed_time = lambda other: other.at - made.at
        return made

    def step(self) -> None:
        """Allocate 500 bytes, of which 200 stay, in 30 milliseconds."""
        self.most = max(self.most, self.now + 500)
        self.now += 200
        self.clock += 30.0


def test_a_cuda_device_counts_above_what_was_there() -> None:
    cuda = ToyCuda()
    device = Cuda(cuda)
    assert (device.kind, device.name) == ("cuda", "toy card")
    cuda.most = 9000  # of what ran before
    assert device.count_bytes(cuda.step) == 500
    assert cuda.waits >= 2  # before and after: kernels run on
    assert device.count_bytes(cuda.step) == 500
    assert device.count_seconds(cuda.step) == pytest.approx(0.03)


def test_a_cpu_counts_the_most_at_once() -> None:
    device = Cpu(lambda step: SimpleNamespace(live=[5, 9, 2]) if step() else None)
    assert device.kind == "cpu"
    assert device.count_bytes(lambda: True) == 9
    assert device.count_seconds(lambda: None) >= 0


MODEL = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
        self.kind = "block"

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            assert block.kind == "block"
            x = block(x)
        return x

def make():
    return Model(), torch.empty(8, 64, dtype=torch.long)

class Large(Model):
    def forward(self, tokens):
        if not torch.compiler.is_compiling():
            raise torch.OutOfMemoryError("too large")
        return torch.nn.functional.dropout(super().forward(tokens), 0.1)

def large():
    return Large(), torch.empty(8, 64, dtype=torch.long)

def on_meta():
    return Model().to("meta"), torch.empty(8, 64, dtype=torch.long)
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker in patched torch that finds the model."""
    if not (PATCHED / "complete.json").is_file():
        pytest.skip("needs build/env/2.10.0-patched")
    folder = tmp_path_factory.mktemp("user")
    (folder / "toy_model.py").write_text(MODEL)
    with closing(
        Worker("patched", PATCHED / "bin" / "python", (tried.WORKER, folder))
    ) as made:
        yield made


def test_steps_in_real_torch(real: Worker) -> None:
    graph = real.ask({"op": "open", "model": "toy_model:make"})
    assert graph == real.ask({"op": "open", "model": "toy_model:make"})
    found: dict[str, dict[str, Any]] = {}
    for way, budget in (("no budget", 1.0), ("by hand", 1.0), ("peak", 0.0)):
        for op in ("plan", "train"):
            row = real.ask({"op": op, "way": way, "budget": budget})
            found[way] = found.get(way, {}) | row
    free = found.pop("no budget")
    # 8 x 64 places: three blocks save the 64 wide tensor before gelu and that after it.
    assert free["live"] > 3 * 2 * 8 * 64 * 64 * 4
    assert free["again"] < 0.001
    for row in found.values():
        assert row["again"] > 0.1
        assert row["peak"] < free["peak"]
        assert row["measured"] < free["measured"]
        assert row["live"] < free["live"]
        assert row["off"] <= row["allowed"]
    assert free["off"] <= free["allowed"]
    assert free["measured"] == pytest.approx(free["peak"], rel=0.5)


def test_a_model_that_fits_only_with_a_plan(real: Worker) -> None:
    real.ask({"op": "open", "model": "toy_model:large"})
    free = real.ask({"op": "train", "way": "no budget", "budget": 1.0})
    assert free["off"] is None  # from what?
    row = real.ask({"op": "train", "way": "exact", "budget": 0.0})
    # The same random numbers as without a budget.
    assert row["off"] <= row["allowed"]


def test_a_model_without_content_is_told(real: Worker) -> None:
    real.ask({"op": "open", "model": "toy_model:on_meta"})
    with pytest.raises(WorkerError, match=r"on the meta device.*--no-run"):
        real.ask({"op": "train", "way": "no budget", "budget": 1.0})
