"""`capture`: the harness's side with a worker of a few lines, and once real torch."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.bench.partition import Partition
from acknap.bench.point import Point
from acknap.knapsack import instance_file
from acknap.models import capture, tracer
from acknap.models.tracer import Tracer
from acknap.upstream.targets import Targets
from toy_torch import Toy

REAL = Layout.default()
STOCK = REAL.build / "env" / "2.10.0-stock"

# Answers as inside/models/capture.py does. The model's name says how many graphs.
WORKER = """
import json, os, signal, sys, time

def graph(n):
    return {
        "joint_nodes": 9, "exit_ratio_more_aggressive": 0.75,
        "exit_ratio_aggressive": 0.5, "min_act_GB": 0.0, "max_act_GB": 1.0,
        "unbudgeted": 0.75,
        "memory": [1 / 8] * n, "runtimes": [2.0] * n, "bytes": [8] * n,
        "ops": ["mm"] * n,
    }

def describe(request):
    versions = {"torch": "1.0", "transformers": None}
    return {"solvers": ["dp", "exact"], "versions": versions}

def capture(request):
    if request["model"] == "bad":
        return {"error": "ModelError", "message": "bad: no such model"}
    if request["model"] == "dies":
        sys.exit("out of memory")
    return {"graphs": [graph(int(n)) for n in request["model"].split(",")]}

def measure(request):
    if request["graph"] == 3:
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(60)
    if request["solver"] == "broken":
        return {"error": "ValueError", "message": "no luck"}
    used = request["budget"] < 0.5 and request["solver"] != "peak"
    row = {
        "solver": request["solver"], "budget": request["budget"],
        "knapsack_used": used, "ratio": 0.3, "bytes": 0.25, "storages": 0.25,
        "live": 0.2,
        # What was asked for: which graph, and whether with our file.
        "recomputed": 4.0, "solves": request["graph"],
        "plan_recomputed": float("/knapsack_exact.py" in (request["file"] or "")),
    }
    return row | ({"plan": 0.125, "cuts": 1} if used else {})

def peak(request):
    return {"peak": 7_000_000, "again": 0.125}

for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps(globals()[request["op"]](request)), flush=True)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A toy repository whose captures the worker of a few lines answers."""
    made = Toy(tmp_path, monkeypatch)
    monkeypatch.setattr(tracer, "WORKER", made.write("worker.py", WORKER))
    monkeypatch.setattr(Targets, "get", lambda *_: made.target)
    return made


def run(toy: Toy, model: str, budgets: str | None = None) -> Path:
    """Capture a model and return the folder of its files."""
    out = toy.layout.root / "out"
    targets = Targets((toy.target,), {})
    assert capture.run_capture(toy.layout, targets, model, budgets, out, "v1.0.0") == 0
    return out


def test_one_file_for_each_graph_with_a_knapsack(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(toy, "3,0,2")
    assert sorted(path.name for path in out.iterdir()) == [
        "3_0_2.json",
        "3_0_2_graph1.json",
    ]
    first = instance_file.load(out / "3_0_2.json")
    assert (first.model, first.torch, len(first.memory)) == ("3,0,2", "1.0", 3)
    assert len(instance_file.load(out / "3_0_2_graph1.json").memory) == 2
    said = capsys.readouterr()
    assert "3_0_2.json: 3 items, 1 of them distinct, 0.375 of what" in said.out
    assert "used up to a budget of 0.500" in said.out
    assert "graph 1: no budget reaches the knapsack" in said.err


def test_partitions_are_recorded_and_shown(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(toy, "0,3", "0.2,0.6")
    rows = json.loads((out / "0_3.json").read_text())["partitions"]
    ways = ("stock.dp", "patched.dp", "patched.exact", "patched.peak")
    assert [(row["budget"], row["contender"]) for row in rows] == [
        (1.0, "stock.dp"),
        *((budget, way) for budget in (0.2, 0.6) for way in ways),
    ]
    assert {row["solves"] for row in rows} == {1}
    # The series has exact: no file of ours is handed to it.
    assert {row["plan_recomputed"] for row in rows} == {0}
    out_lines = capsys.readouterr().out.splitlines()
    shown = {" ".join(line.split()) for line in out_lines}
    assert shown >= {
        "1 no budget - 0.3000 0.2000 7 12.5%",
        "0.2 released dp 0.1250 0.3000* 0.2000 7 12.5%",
        "0.2 series, exact 0.1250 0.3000* 0.2000 7 12.5%",
        # A budget of the peak is none of what stays alive.
        "0.2 series, for the peak - - 0.2000 7 12.5%",
        "0.6 released dp, no knapsack - 0.3000 0.2000 7 12.5%",
    }


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("bad", "bad: no such model"),
        ("0,0", "0,0: the partitioner states no knapsack for any budget"),
        ("dies", "Died: exit status 1: out of memory"),
    ],
)
def test_a_failure_is_one_line_and_leaves_no_file(
    toy: Toy, model: str, message: str
) -> None:
    with pytest.raises(HarnessError, match=message):
        run(toy, model)
    assert not (toy.layout.root / "out").exists()


def test_an_interrupted_capture_leaves_whole_files_only(toy: Toy) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(toy, "3,0,2,4", "0.2")
    found = list((toy.layout.root / "out").iterdir())
    assert sorted(path.name for path in found) == [
        "3_0_2_4.json",
        "3_0_2_4_graph1.json",
    ]
    for path in found:
        assert instance_file.load(path).model == "3,0,2,4"


def test_a_file_in_the_place_of_a_module(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("acknap.torches.environments.stock")  # none is made
    message = r"unet.py is a file: name its module, unet:make, in the folder .*/models$"
    with pytest.raises(HarnessError, match=message):
        run(toy, "models/unet.py:make")


def test_budgets_are_checked_before_the_model_is_built(toy: Toy) -> None:
    with pytest.raises(HarnessError, match="budget '2'"):
        run(toy, "3", "0.1,2")


def test_a_point_parts_the_largest_graph_on_both_sides(toy: Toy) -> None:
    folder = "benchmarks/instances/captured"
    toy.write(f"{folder}/toy.json", json.dumps({"model": "1,3,2"}))
    pythons = {"stock": toy.stock.python, "patched": toy.patched.python}
    contenders = ("stock.dp", "stock.exact", "patched.exact", "stock.broken")
    point = Point("t", "partition", "real:captured/toy", (0.2, 0.6), contenders)
    with closing(Partition(toy.layout, pythons)) as partition:
        result = partition(point)
    assert (result.items, result.total) == (3, 6.0)
    assert result.unbudgeted == {"stock": 0.75, "patched": 0.75}
    assert [row.contender for row in result.rows] == [
        *contenders,
        *contenders[1:],  # the next one starts
        contenders[0],
    ]
    assert {row.solves for row in result.rows if not row.failed} == {1}
    # The series has exact: it is called by its name.
    assert [row.plan_recomputed for row in result.rows[:3]] == [0, 1, 0]
    assert result.rows[3].failed == "ValueError: no luck"


# --- real torch, where there is an environment with it

MODEL = """
import os
import torch
from torch import nn
from torch.nn import functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        print("this is no answer")
        os.system("echo nor is this")
        for layer in self.layers:
            q = layer(x)
            x = F.gelu(F.scaled_dot_product_attention(q, q, q))
        return x

def make():
    return Model(), torch.randn(16, 2, 128, 64)

class Parts(Model):
    # Three graphs: of the second and the third nothing can be saved.
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))

    def forward(self, x):
        x = super().forward(x)
        torch._dynamo.graph_break()
        x = x * self.scale
        torch._dynamo.graph_break()
        return x.sin()

def parts():
    return Parts(), torch.randn(16, 2, 128, 64)

def fails():
    raise ValueError("no\\nluck")

def long():
    raise ValueError("first" + 500 * " and so on" + " the reason")

def shapes():
    return nn.Linear(64, 64), torch.ones(4096, 65)

def frozen():
    return nn.Linear(2, 2).requires_grad_(False), torch.randn(1, 2)

def content():
    return Model(), torch.ones(int(torch.ones(1).item()))
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "toy_model.py").write_text(MODEL)
    return folder


@pytest.fixture(scope="module")
def traced(user: Path) -> Any:
    """A worker in released torch that finds the model."""
    if not (STOCK / "complete.json").is_file():
        pytest.skip("there is no environment with torch 2.10.0 yet")
    with closing(Tracer(REAL, "stock", STOCK / "bin" / "python", folder=user)) as made:
        yield made


def test_a_users_model_in_real_torch(traced: Tracer) -> None:
    (graph,) = traced.capture("toy_model:make")
    available = 1e9 * (graph["max_act_GB"] - graph["min_act_GB"])
    assert graph["memory"] == pytest.approx(
        [size / available for size in graph["bytes"]]
    )
    # Attention counts as costly: two products of 128 x 128 x 64 for each of 16 x 2.
    attention = [
        runtime
        for op, runtime in zip(graph["ops"], graph["runtimes"], strict=True)
        if "scaled_dot_product" in op
    ]
    assert attention == [2 * 2 * 16 * 2 * 128 * 128 * 64] * 4
    for solver in ("dp", "hirschberg", "exact"):
        row = traced.measure(0, solver, 0.3)
        assert row.knapsack_used
        assert (row.solves, row.cuts) == (1, 1)
        if solver == "exact":
            assert row.plan <= 0.3
        assert row.ratio <= row.bytes
        assert row.live is not None
        assert 0 < row.live <= row.storages + 0.01
        assert row.plan_recomputed >= 1
        found = traced.peak(0)
        assert found["peak"] > available * row.live
        assert 0 < found["again"] < 1
    early = traced.measure(0, "dp", 0.99)
    assert not early.knapsack_used
    assert early.ratio < 0.99


def test_dp_with_the_series_is_measured_as_it_is_by_default(
    user: Path, traced: Tracer
) -> None:
    """It does not count storages unless it is told to; exact does."""
    patched = STOCK.with_name("2.10.0-patched")
    if not (patched / "complete.json").is_file():
        pytest.skip("there is no environment with the series yet")
    traced.capture("toy_model:make")
    released = traced.measure(0, "dp", 0.3)
    with closing(
        Tracer(REAL, "patched", patched / "bin" / "python", folder=user)
    ) as worker:
        worker.capture("toy_model:make")
        ours, exact = (worker.measure(0, solver, 0.3) for solver in ("dp", "exact"))
    measures = ("ratio", "bytes", "storages", "plan", "least")
    found, expected = ([getattr(row, m) for m in measures] for row in (ours, released))
    assert found == pytest.approx(expected)
    assert exact.ratio == pytest.approx(exact.live)
    assert exact.ratio <= 0.3


def test_a_graph_of_which_nothing_can_be_saved(traced: Tracer) -> None:
    items = [len(graph["memory"]) for graph in traced.capture("toy_model:parts")]
    assert max(items) > 0
    assert min(items) == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "toy_model:fails: ValueError: no luck$"),
        (
            "long",
            "^toy_model:long: ValueError: first and .{,400} and so on the reason$",
        ),
        ("shapes", "^.{,150}TorchRuntimeError: .{,400}same reduction dim.{,60}$"),
        ("frozen", "no parameter or input of the model requires a gradient"),
        ("content", "it is called on the meta device"),
        ("absent", "has no attribute 'absent'"),
    ],
)
def test_a_users_mistake_is_one_line(traced: Tracer, name: str, message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        traced.capture(f"toy_model:{name}")
