"""`optimum`: the report on rows made by hand, and the bound in real torch."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import toy_rows
from acknap.base.layout import Layout
from acknap.peaks import optimum

PATCHED = Layout.default().build / "env" / "2.10.0-patched"


def row(runtime: float, bound: float, **more: Any) -> optimum.Row:
    made = {"model": "toy", "target": 0.1, "limit": 2e6, "peak": 1e6, "nodes": 9}
    made |= {"runtime": runtime, "bound": bound, "found": bound, "total": 1e6}
    made |= {"broken": 0}
    return made | {"seconds": 1.0, "torch": "1.0", "code": "abc"} | more


def report(folder: Path, *rows: optimum.Row) -> tuple[int, str]:
    toy_rows.write(folder, patched=rows)
    status = optimum.write_report(folder, "./scripts/harness optimum")
    return status, " ".join((folder / "REPORT.md").read_text().split())


def test_optimal_up_to_ops_without_a_formula(tmp_path: Path) -> None:
    status, text = report(tmp_path, row(500_009, 500_000), row(9, 0))
    assert status == 0
    assert "Of 2 plans 2 recompute at most 5 % more" in text
    assert "and 2 of these no more at all" in text
    assert "In 1 of 1 graphs that holds at all targets; the others: none." in text
    assert "In 2 of the plans the optimum of the program is known." in text
    assert "| toy | 9 | 0.1 | 2.00 | 1.00 | 50.00 | 50.00 | 50.00 | 0.0 % | 1 |" in text


def test_a_graph_holds_if_all_its_plans_do(tmp_path: Path) -> None:
    rows = [row(104_000, 100_000), row(106_000, 100_000)]
    near = row(104_000, 100_000, model="other", found=104_000)
    _, text = report(tmp_path, *rows, near, row(5000, 0, model="zero"))
    assert "Of 4 plans 2 recompute at most 5 % more" in text
    assert "In 1 of 3 graphs" in text
    assert "the others: toy, zero." in text
    assert "In 3 of the plans the optimum" in text
    assert "| 10.60 | 10.00 | 10.00 | 6.0 % | 1 |" in text
    assert "| 10.40 | 10.00 | 10.40 | 4.0 % | 1 |" in text


def test_a_plan_that_is_no_solution_is_a_fault(tmp_path: Path) -> None:
    status, text = report(tmp_path, row(9, 9), row(9, 9, broken=2))
    assert status == 1
    assert "solutions of the program: 1 are not." in text


_SCRIPT = """
import json, sys
sys.path[:0] = sys.argv[1:]
from acknap.inside.optimum import optimum
optimum.TARGETS = (0.02, 0.4)
for row in optimum.rows(optimum.MODELS["residual convolutions"], set()):
    print(json.dumps(row))
"""


@pytest.mark.skipif(not PATCHED.is_dir(), reason="needs build/env/2.10.0-patched")
def test_bound_in_real_torch() -> None:
    command = [PATCHED / "bin" / "python", "-I", "-B", "-c", _SCRIPT]
    command += [str(Layout.default().root / "scripts")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    low, high = map(json.loads, done.stdout.splitlines())
    assert low["limit"] < high["limit"]
    assert low["bound"] >= high["bound"]
    for one in (low, high):
        assert one["peak"] <= one["limit"]
        assert one["broken"] == 0
        assert one["runtime"] >= one["bound"]
