"""No plan of another budget comes out of a compile cache; processes share their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, sys
import torch
from torch._dynamo.utils import counters

kind, budget = sys.argv[1:]
if kind == "hooks":
    torch.__version__ = "2.99.0"
import acknap

budget = float(budget)
weight = torch.ones(8, 64, requires_grad=True)

def function(x):
    return (x @ weight).sin().cos().sum()

x = torch.ones(64, 8)
if kind == "backend":
    options = {"budget": budget}
    torch.compile(function, backend="acknap", options=options)(x).backward()
elif kind in ("scope", "hooks"):
    with acknap.budget(budget):
        torch.compile(function)(x).backward()
else:
    torch.compile(function)(x).backward()
report = acknap.last_report()
print(json.dumps({
    "cache": report and report.cache,
    "saved": report and report.saved,
    "hits": counters["aot_autograd"]["autograd_cache_hit"],
    "misses": counters["aot_autograd"]["autograd_cache_miss"],
}))
"""


def run(folder: Path, kind: str, budget: float):
    """One process with the caches of a folder."""
    variables = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(folder),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, str(budget)],
        capture_output=True,
        text=True,
        env=variables,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_budgets_and_two_processes(tmp_path):
    first = run(tmp_path, "backend", 0.0)
    assert (first["cache"], first["hits"], first["misses"]) == ("miss", 0, 1)
    other = run(tmp_path, "backend", 1.0)
    assert (other["cache"], other["hits"], other["misses"]) == ("miss", 0, 1)
    assert other["saved"] > first["saved"]
    again = run(tmp_path, "scope", 0.0)
    assert (again["cache"], again["hits"], again["misses"]) == ("hit", 1, 0)
    without = run(tmp_path, "none", 0.0)
    assert (without["cache"], without["hits"], without["misses"]) == (None, 0, 1)


def test_hooks_are_not_asked_again(tmp_path):
    first = run(tmp_path, "hooks", 0.2)
    assert (first["cache"], first["hits"], first["misses"]) == ("miss", 0, 1)
    again = run(tmp_path, "hooks", 0.2)
    assert (again["cache"], again["hits"], again["misses"]) == (None, 1, 0)
    other = run(tmp_path, "hooks", 0.1)
    assert (other["cache"], other["hits"], other["misses"]) == ("miss", 0, 1)
