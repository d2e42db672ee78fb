"""`peaks`: the report on rows made by hand, and the worker in real torch."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import toy_rows
from acknap.base.layout import Layout
from acknap.peaks import peaks

PATCHED = Layout.default().build / "env" / "2.10.0-patched"


def row(way: str, budget: float, peak: int, again: float, **more: Any) -> peaks.Row:
    """Return a plan of a toy model whose forward takes 100."""
    made = {"model": "toy", "way": way, "budget": budget, "peak": peak, "again": again}
    made |= {"total": 100.0, "torch": "1.0", "code": "abc", "nodes": 9, "seconds": 0.1}
    return made | more


def step(budget: float, peak: int, again: float, **more: Any) -> peaks.Row:
    promise = {"promised": peak, "limit": peak, "lowest": 10}
    return row("peak", budget, peak, again, **promise | more)


def against(way: str, peak: int, again: float) -> peaks.Row:
    return row(f"peak for {way}", 0.5, peak, again, of_peak=40, of_again=20.0)


def report(folder: Path, *ours: peaks.Row) -> tuple[int, str]:
    """Write a report on some plans of ours beside two of stock's; status and text."""
    stock = [row("dp", 0.1, 50, 30.0), row("dp", 0.5, 40, 20.0)]
    found = [row("exact", 0.1, 30, 30.0), row("exact", 0.5, 40, 20.0), *ours]
    toy_rows.write(folder, stock=stock, patched=found)
    status = peaks.write_report(folder, "./scripts/harness peaks")
    return status, (folder / "REPORT.md").read_text()


def test_plans_that_keep_all_promises(tmp_path: Path) -> None:
    status, text = report(
        tmp_path, step(0, 10, 60), step(0.5, 20, 30), against("dp", 20, 10)
    )
    assert status == 0
    assert "| toy | 0 | 0 | 0 |" in text
    assert "1 of 1 models (released dp), 0 of 1 models (exact)" in text
    assert "| released dp | 0.500 | 0 of 1 |" in text


def test_a_step_is_drawn_at_equal_recomputation(tmp_path: Path) -> None:
    def drawn(again: float) -> dict[str, Any]:
        return {"step": {"live": [1, 50, 40, 2], "forward": 2, "again": again}}

    stock = [row("dp", 0.1, 50, 30.0, **drawn(30.0), model="convnet")]
    ours = against("dp", 20, 10) | {"budget": 0.1, "model": "convnet"}
    ours |= drawn(25.0)
    found = [step(0, 10, 60) | {"model": "convnet"}, ours]
    toy_rows.write(tmp_path, stock=stock, patched=found)
    assert peaks.write_report(tmp_path, "./scripts/harness peaks") == 0
    picture = (tmp_path / "convnet-step.svg").read_text()
    assert "the same: 30 % computed again" not in picture
    assert "released dp, a budget of saved bytes: 30 % computed again" in picture
    # Not the least that is recomputed at the other's peak, which is 10.
    assert "a budget of the peak: 25 % computed again" in picture
    text = (tmp_path / "REPORT.md").read_text()
    assert "![convnet-step.svg](convnet-step.svg)" in text


@pytest.mark.parametrize(
    ("second", "cells"),
    [
        (step(0.5, 9, 30), "| toy | 1 | 0 | 0 |"),
        (step(0.5, 20, 61), "| toy | 1 | 0 | 0 |"),
        (step(0.5, 20, 30, promised=19), "| toy | 0 | 1 | 1 |"),
        (step(0.5, 20, 30, limit=19), "| toy | 0 | 1 | 0 |"),
    ],
)
def test_a_broken_promise_is_counted(
    tmp_path: Path, second: peaks.Row, cells: str
) -> None:
    status, text = report(tmp_path, step(0, 10, 60), second)
    assert status == 1
    assert cells in text


@pytest.mark.parametrize(("peak", "again"), [(41, 20), (40, 21)])
def test_a_plan_that_is_worse_is_counted(
    tmp_path: Path, peak: int, again: float
) -> None:
    status, text = report(tmp_path, step(0, 10, 60), against("exact", peak, again))
    assert status == 1
    assert "| 1 of 1 |" in text


@pytest.mark.skipif(not PATCHED.is_dir(), reason="needs build/env/2.10.0-patched")
def test_worker_in_real_torch(tmp_path: Path) -> None:
    record = tmp_path / "patched.jsonl"
    command = [PATCHED / "bin" / "python", "-I", "-B", peaks.WORKER, record]
    subprocess.run([*command, "--models", "moe"], check=True)
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    steps = [one for one in rows if one["way"] == "peak"]
    assert len(steps) == 40
    assert all(one["peak"] == one["promised"] <= one["limit"] for one in steps)
    assert steps[0]["again"] >= steps[-1]["again"]
    size = record.stat().st_size
    subprocess.run([*command, "--models", "moe"], check=True)
    assert record.stat().st_size == size
