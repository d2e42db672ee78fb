"""`blocks`: the comparison on rows made by hand, and the worker in real torch."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import toy_rows
from acknap.base.layout import Layout
from acknap.models import block_numbers, blocks

STOCK = Layout.default().build / "env" / "2.10.0-stock"


def row(solver: str, live: float, **more: Any) -> block_numbers.Row:
    """Return a run with one block, which may keep 50 bytes, and 100 bytes beside it."""
    block = {"graph": 0, "live": live, "allowed": 50.0, "planned": live}
    made = {
        "model": "toy",
        "dtype": "float32",
        "solver": solver,
        "budget": 0.5,
        "torch": "1.0",
        "code": "abc",
        "live": 100 + live,
        "live_in_blocks": live,
        "allowed_in_blocks": 50.0,
        "allocated": 104 + live,
        "graphs": [block],
        "flops": 200,
        "gradient": 1.0,
    }
    return made | more


BASE = row("dp", 90, budget=1.0, flops=100)


def counts(stock: float, ours: float, solver: str = "exact", **more: Any) -> Any:
    found = block_numbers.pairs([row("dp", stock)], [BASE, row(solver, ours, **more)])
    return block_numbers.summary(found)


def test_below_stock() -> None:
    found = counts(40, 30)
    assert (found["pairs"], found["less"], found["over"]) == (1, 1, 0)
    assert found["live"] == pytest.approx(130 / 140)


def test_above_stock_within_the_budget() -> None:
    found = counts(40, 50, flops=150)
    assert (found["over"], found["blocks_over"], found["more_within"]) == (0, 0, 1)
    assert found["more_saves"] == pytest.approx(0.5)
    assert found["worse"] == 0
    assert counts(40, 50, flops=200)["worse"] == 1


def test_over_the_budget_as_stock_is() -> None:
    found = counts(60, 60)
    assert (found["over"], found["blocks_over"]) == (0, 0)
    assert (found["stock_over_budget"], found["ours_over_budget"]) == (1, 1)


def test_above_both() -> None:
    found = counts(60, 61)
    assert (found["over"], found["blocks_over"]) == (1, 1)


def test_stocks_wrong_gradients_are_no_yardstick() -> None:
    stock = row("dp", 20, gradient=1.1)
    found = block_numbers.pairs([stock], [BASE, row("dp", 60)])
    result = block_numbers.summary(found)
    assert (result["stock_wrong"], result["ours_wrong"], result["over"]) == (1, 0, 0)
    assert result["over_where_stock_is_wrong"] == 1
    assert "stock's gradients wrong" in block_numbers.exceptions(found)


def test_runs_without_a_counterpart_are_left_out() -> None:
    failed = row("dp", 1) | {"failed": "no luck"}
    assert block_numbers.pairs([failed], [BASE, row("dp", 1)]) == []
    assert block_numbers.pairs([row("dp", 1)], [row("dp", 1)]) == []


def write(folder: Path, ours: float) -> None:
    toy_rows.write(folder, stock=[row("dp", 60)], patched=[BASE, row("dp", ours)])


def test_report_and_status(tmp_path: Path) -> None:
    write(tmp_path, 50)
    assert blocks.write_report(tmp_path, "command") == 0
    report = (tmp_path / "REPORT.md").read_text()
    assert "`command`. 1.0 abc." in report
    assert "differs from that by\n4 bytes at most" in report
    assert report.endswith("## Exceptions\n\nNone.\n")
    write(tmp_path, 61)
    assert blocks.write_report(tmp_path, "command") == 1
    assert "above both, " in (tmp_path / "REPORT.md").read_text()
    assert json.loads((tmp_path / "summary.json").read_text())["over"] == 1


def test_worker_in_real_torch(tmp_path: Path) -> None:
    if not (STOCK / "complete.json").is_file():
        pytest.skip("there is no environment with torch 2.10.0 yet")
    out = tmp_path / "rows.jsonl"
    command = [STOCK / "bin" / "python", "-I", "-B", blocks.WORKER, out]
    command += ["--models", "decoder", "--budgets", "0.3"]
    for _ in range(2):  # the second run finds all done
        subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    keys = [(r["dtype"], r["solver"], r["budget"]) for r in rows]
    assert keys == [
        (dtype, *run)
        for dtype in ("float32", "autocast")
        for run in (("eager", 1), ("dp", 1), ("dp", 0.3), ("greedy", 0.3))
    ]
    for eager, base, *others in (rows[:4], rows[4:]):
        for found in (base, *others):
            assert found["allocated"] == found["live"]
            assert len(found["graphs"]) == found["blocks"] == 3
            # The harness's count on the graph is what autograd keeps.
            assert all(g["live"] == g["planned"] for g in found["graphs"])
            assert found["gradient"] == pytest.approx(eager["gradient"], rel=1e-2)
        assert all(found["live"] < base["live"] for found in others)
