"""`by-hand`: the report on rows made by hand, and the worker in real torch."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import toy_rows
from acknap.base.layout import Layout
from acknap.peaks import by_hand

ENVIRONMENTS = Layout.default().build / "env"
PATCHED = ENVIRONMENTS / "2.10.0-patched"
LIBRARY = ENVIRONMENTS / "capture-transformers"
WAYS = ("each layer", "every second layer", "pairs of layers", "selective")

# Traces a small model and checkpoints it in every way.
SCRIPT = """
import functools, json, sys
sys.path += sys.argv[1:]
from acknap.inside.models.joint_graphs import trace
from acknap.inside.by_hand.checkpointed import WAYS, apply
from acknap.inside.peaks.emitted import Emitted
from acknap.inside.peaks.plans import plan
model = "transformers:llama?num_hidden_layers=4&hidden_size=64&length=64&dtype=float32"
model += "&intermediate_size=176&num_attention_heads=4&num_key_value_heads=4"
model += "&vocab_size=64"
for way in (None, *WAYS):
    (joint,) = trace(model, change=functools.partial(apply, way) if way else None)
    emitted = Emitted(joint)
    row = emitted.measure(plan(joint, "default", 1.0)["saved"])
    print(json.dumps(row | {"way": way, "total": emitted.total}))
"""


def row(way: str, peak: int, again: float, **more: Any) -> by_hand.Row:
    """Return a plan of a toy model whose forward takes 100."""
    made = {"model": "toy", "way": way, "peak": peak, "again": again, "total": 100.0}
    return made | {"torch": "1.0", "code": "abc"} | more


def report(folder: Path, peak: int, again: float) -> tuple[int, str]:
    """Write a report on one plan of ours against a hand-made one; status and text."""
    stock = [row("dp", 50, 30.0), *(row(w, 40, 20.0, by_hand=True) for w in WAYS)]
    pair = row("peak for pairs of layers", peak, again, of_peak=40, of_again=20.0)
    toy_rows.write(folder, stock=stock, patched=[row("peak", 30, 9.0), pair])
    status = by_hand.write_report(folder, "./scripts/harness by-hand")
    return status, (folder / "REPORT.md").read_text()


def test_a_hand_made_plan_that_is_dominated(tmp_path: Path) -> None:
    status, text = report(tmp_path, 40, 19.0)
    assert status == 0
    assert "| toy | pairs of layers | 0.0 | 20.0 % | 0.0 | 19.0 % | yes |" in text
    assert "1 of 1. Not dominated:\nnone." in text
    assert "by hand: selective" in (tmp_path / "toy.svg").read_text()


@pytest.mark.parametrize(("peak", "again"), [(41, 19.0), (40, 20.0)])
def test_one_that_is_not(tmp_path: Path, peak: int, again: float) -> None:
    status, text = report(tmp_path, peak, again)
    assert status == 1
    assert "0 of 1. Not dominated:\ntoy, pairs of layers." in text


@pytest.mark.skipif(not PATCHED.is_dir(), reason="needs build/env/2.10.0-patched")
@pytest.mark.skipif(not LIBRARY.is_dir(), reason="needs the transformers library")
def test_ways_in_real_torch(tmp_path: Path) -> None:
    (library,) = LIBRARY.glob("lib/python3*/site-packages")
    scripts = by_hand.WORKER.parents[3]
    command = [PATCHED / "bin" / "python", "-I", "-B", "-c", SCRIPT, scripts, library]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=tmp_path
    )
    found = {r["way"]: r for r in map(json.loads, done.stdout.splitlines())}
    share = {way: r["again"] / r["total"] for way, r in found.items()}
    assert share[None] < 1e-4
    assert found["each layer"]["peak"] < found["every second layer"]["peak"]
    assert found["every second layer"]["peak"] < found[None]["peak"]
    assert 0.4 < share["every second layer"] / share["each layer"] < 0.6
    assert share["each layer"] < share["pairs of layers"] < 1
    assert 0 < share["selective"] < share["each layer"]
