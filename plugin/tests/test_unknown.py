"""A torch that is not known: the documented hooks, one warning, and right results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from acknap._release import installed

from acknap import _signatures

SCRIPT = """
import json, logging, sys
import torch

torch.__version__ = "2.99.0"

import acknap
from acknap import _hooks
from programs import blocks, train

solve, sets = _hooks._solve, []
_hooks._solve = lambda *problem: sets.append(solve(*problem)) or sets[-1]
lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append([record.levelname, record.getMessage()])
logging.getLogger("acknap").addHandler(handler)
logging.getLogger("acknap").setLevel(logging.INFO)
model, x = blocks(4)
expected = train(model, model, x)
budget = sys.argv[1]
with acknap.budget(float(budget) if budget[0] == "0" else budget):
    found = train(model, torch.compile(model, backend=sys.argv[2]), x)
torch.testing.assert_close(found, expected)
report = acknap.last_report()
try:
    acknap.Partitioner(0.3)
    refused = ""
except RuntimeError as error:
    refused = str(error)
print(json.dumps([lines, report.way, report.saved, refused, report.details, sets]))
"""


def run(budget, backend="aot_eager_decomp_partition", seed="random"):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(budget), backend],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": seed},
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("backend", ["aot_eager_decomp_partition", "inductor"])
def test_hooks_and_one_warning(backend):
    lines, way, _, refused, *_ = run(0.2, backend)
    (warning,) = [text for level, text in lines if level == "WARNING"]
    assert "PyTorch 2.99.0 is not one of 2.11.0" in warning
    assert "not the peak" in warning
    assert way == "exact set by the documented hooks"
    assert "2.99.0" in refused


@pytest.mark.parametrize("budget", [0.1, 0.4, "20KB"])
def test_shares_and_bytes_are_kept(budget):
    _, way, saved, _, details, _ = run(budget)
    assert way == "exact set by the documented hooks"
    assert 0 < saved <= details["Allowed Bytes"]
    if budget == "20KB":
        assert details["Allowed Bytes"] == 20_000


def test_hash_seeds_change_no_plan():
    first, *others = (run(0.3, seed=seed) for seed in "123")
    assert first[-1]
    assert others == [first, first]


def test_other_parameters_are_another_torch(monkeypatch):
    assert installed().reason == ""
    table = {"torch/_guards.py": {"tracing": {"2.11.0": "context, more"}}}
    monkeypatch.setattr(_signatures, "TABLE", table)
    said = "parameters of tracing are (context), not (context, more)"
    assert installed.__wrapped__().reason.endswith(said)
