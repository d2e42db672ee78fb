"""`solve`: on a torch of a few lines, whose exact solver tries every subset."""

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from acknap.base.errors import HarnessError
from acknap.knapsack.contenders import ALL, USUAL
from acknap.models import solve
from acknap.upstream.targets import SeriesEntry, Targets
from toy_torch import FOLDER, KNAPSACK, Toy

EXACT = """
from typing import NamedTuple

class Plan(NamedTuple):
    runtime: float
    saved: list
    recomputable: list
    upper_bound: float
    marginal_runtime: float

class ExactKnapsack:
    def __init__(self, memory, runtimes):
        self.memory, self.runtimes = memory, runtimes

    def solve(self, budget):
        every, best = range(len(self.memory)), (0.0, [])
        for mask in range(1 << len(self.memory)):
            saved = [i for i in every if mask >> i & 1]
            if sum(self.memory[i] for i in saved) <= budget:
                best = max(best, (sum(self.runtimes[i] for i in saved), saved))
        rest = [i for i in every if i not in best[1]]
        return Plan(*best, rest, best[0], 4.0)

def exact_knapsack(memory, runtimes, budget):
    plan = ExactKnapsack(memory, runtimes).solve(budget)
    return plan.runtime, plan.saved, plan.recomputable
"""
# Of 0.5, the first item alone is the optimum: 30 of 50.
INSTANCE = {
    "name": "toy",
    "torch": "1.0",
    "estimator": "flops",
    "memory": [0.4, 0.2, 0.2],
    "runtimes": [30, 10, 10],
    "bytes": [4e6, 2e6, 2e6],
    "ops": ["aten.mm", "aten.add", "aten.add"],
}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy(tmp_path, monkeypatch)
    made.install(made.patched, f"{FOLDER}/knapsack_exact.py", EXACT)
    made.write("toy.json", json.dumps(INSTANCE))
    return made


def run(toy: Toy, budgets: str, solvers: str | None = None, **more: Any) -> int:
    return solve.run_solve(
        toy.layout,
        Targets((toy.target,), {"v1.0": SeriesEntry("v1.0", "v1.0.0", (KNAPSACK,))}),
        toy.layout.root / "toy.json",
        budgets,
        solvers,
        "v1.0.0",
        **{"explain": False, "plot": None} | more,
    )


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what was printed, with one blank between words."""
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_line_for_each_budget_and_solver(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(toy, "0.5,1") == 0
    said = lines(capsys)
    assert said[0] == "toy: 3 items, 2 distinct, 8.0 MB"
    # Without the last word, the time. The toy's stock dp saves all, greedy nothing.
    rows = [line.rpartition(" ")[0] for line in said if " patched." in line]
    assert rows == [
        "0.5 patched.exact 80.00 no 60.00 0.00 proven",
        "1 patched.exact 80.00 no 100.00 0.00 proven",
    ]
    rows = [line.rpartition(" ")[0] for line in said if line.startswith("0.5 stock")]
    assert rows[0] == "0.5 stock.dp 160.00 60.00 100.00 - -"
    assert rows[-1] == "0.5 stock.greedy 0.00 no 0.00 150.00 1e+02"


@pytest.mark.parametrize("name", ["memory", "runtimes", "bytes"])
def test_numbers_that_overflow_are_one_line(
    toy: Toy, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    large = INSTANCE | {name: [1e308, 1e308, 0.0]}
    path = toy.write("toy.json", json.dumps(large))
    assert run(toy, "0.5") == 1
    said = capsys.readouterr()
    text = f"{path}: the sum of {name} is too large for a float: scale it down\n"
    assert (said.out, said.err) == ("", text)


def test_a_solver_that_the_release_lacks(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(toy, "0.5", "stock.ilp") == 0
    said = capsys.readouterr()
    assert "failed" in said.out
    assert "stock.ilp at 0.5: this release has none" in said.err


def test_waste_where_the_optimum_recomputes_nothing(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(toy, "1", "stock.greedy") == 0
    assert "1 stock.greedy 0.00 no 0.00 - 1e+02" in "\n".join(lines(capsys))


def test_a_reference_that_fails_is_one_line(toy: Toy) -> None:
    broken = EXACT.replace("every, best = ", "raise ValueError('no luck')\n        ")
    toy.install(toy.patched, f"{FOLDER}/knapsack_exact.py", broken)
    with pytest.raises(HarnessError, match="exact fails on toy: ValueError: no luck"):
        run(toy, "0.5", "stock.dp")


@pytest.mark.parametrize("name", ["f.png", "nowhere/f.svg"])
def test_a_plot_that_cannot_be(toy: Toy, name: str) -> None:
    with pytest.raises(HarnessError, match="name an .svg file in a folder that exists"):
        run(toy, "0.5", plot=toy.layout.root / name)


def test_the_plan_by_operator_and_the_price(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    run(toy, "0.5", "exact", explain=True)
    said = lines(capsys)
    assert "Plan at 0.5" in said
    assert "aten.mm 1 4.0 30 0 0.0 0" in said
    assert "aten.add 0 0.0 0 2 4.0 20" in said
    # 4 units of runtime for all memory, 0.8 of which are 8 MB.
    text = "One more MB would spare about 0.4 flop, 0.8 % of the runtime of all items."
    assert text in said


def test_the_plot_shows_every_solver(toy: Toy) -> None:
    plot = toy.layout.root / "toy.svg"
    run(toy, "0.25,0.5", "stock.dp,patched.exact", plot=plot)
    text = plot.read_text()
    assert ET.fromstring(text).tag.endswith("svg")
    for label in ("dp, released", "exact, this series", "optimum", "toy"):
        assert label in text


def test_names_of_solvers() -> None:
    assert solve.choose("dp") == ["stock.dp", "patched.dp"]
    assert solve.choose("exact, stock.ilp,exact") == ["patched.exact", "stock.ilp"]
    assert set(USUAL) <= set(ALL)
    for name in ("stock.exact", "best", ""):
        with pytest.raises(
            HarnessError, match="unknown solver .*: give dp, hirschberg"
        ):
            solve.choose(name)


def test_bad_input_stops_before_anything_is_made(toy: Toy) -> None:
    with pytest.raises(HarnessError, match="budget '0'"):
        run(toy, "0")
    toy.write("toy.json", json.dumps({**INSTANCE, "ops": []}))
    with pytest.raises(HarnessError, match=r"toy\.json: memory has 3 items, ops has 0"):
        run(toy, "0.5")


PACKAGE = Path(solve.__file__).parents[1]
# What a contributor adds: a row of the table, and the function in torch.
ROW = '    "toy": Solver(of_torch("toy", "toy_knapsack"), "Toy", released=False),\n'
SOLVER = """
def toy_knapsack(memory, runtimes, budget):
    return 30, [0], [1, 2]
"""
SCRIPT = """
import sys
from pathlib import Path
import pytest
import test_solve
from toy_torch import FOLDER, Toy
with pytest.MonkeyPatch.context() as patch:
    toy = Toy(Path(sys.argv[1]), patch)
    toy.install(toy.patched, f"{FOLDER}/knapsack_exact.py", test_solve.EXACT)
    toy.install(toy.patched, f"{FOLDER}/toy.py", test_solve.SOLVER)
    toy.write("toy.json", test_solve.json.dumps(test_solve.INSTANCE))
    test_solve.run(toy, "0.5")
    test_solve.run(toy, "0.5", "toy", plot=Path(sys.argv[1]) / "toy.svg")
"""


def test_a_new_solver_is_a_row_and_a_function(tmp_path: Path) -> None:
    copy = tmp_path / "scripts" / "acknap"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    table = copy / "inside" / "solvers.py"
    text = table.read_text()
    assert text.count("SOLVERS = {\n") == 1
    table.write_text(text.replace("SOLVERS = {\n", f"SOLVERS = {{\n{ROW}"))
    here = Path(__file__).parent
    path = os.pathsep.join(map(str, (copy.parent, here, here.parent)))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "toy"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    found = [row for row in rows if row.startswith("0.5 patched.toy 80.00 no 60.00")]
    assert len(found) == 2  # among the usual solvers, and by its name
    assert "Toy, this series" in (tmp_path / "toy" / "toy.svg").read_text()
