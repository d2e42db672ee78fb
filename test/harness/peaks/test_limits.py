"""`limits`: the report on rows made by hand, and the worker in real torch."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import toy_rows
from acknap.base.layout import Layout
from acknap.peaks import limits

PATCHED = Layout.default().build / "env" / "2.10.0-patched"
MB = 10**6


def row(backend: str, **more: Any) -> limits.Row:
    """Return a step of a toy model within a limit of 100 MB."""
    made = {"model": "llama", "backend": backend, "share": 0.5, "limit": 100 * MB}
    made |= {"planned": 995 * MB // 10, "peak": 995 * MB // 10, "again": 10.0}
    made |= {"held": 995 * MB // 10 + 8, "measured": 995 * MB // 10 + 20}
    made |= {"total": 100.0, "estimate": 99 * MB, "error": 1e-7, "change": 0.0}
    return made | {"time": 1.1, "torch": "1.0", "code": "abc"} | more


def report(folder: Path, **eager: Any) -> tuple[int, str]:
    """Write a report on an eager step and one of Inductor's; status and text."""
    free = row("aot_eager", share=None, limit=None)
    compiled = row("inductor", measured=90 * MB)
    toy_rows.write(folder, patched=[free, row("aot_eager", **eager), compiled])
    status = limits.write_report(folder, "./scripts/harness limits")
    return status, (folder / "REPORT.md").read_text()


def test_a_step_within_its_limit(tmp_path: Path) -> None:
    status, text = report(tmp_path)
    assert status == 0
    assert "| 100.00 | 99.50 | 99.50 | 99.50 | 90.00 | 10.0 % |" in text
    assert "by more than 64 bytes: 0." in text
    assert "Within 1 % below the limit: 1;" in text
    assert "median difference is 9.5%," in " ".join(text.split())


@pytest.mark.parametrize(
    ("eager", "status", "said"),
    [
        ({"held": 100 * MB + 65}, 1, "by more than 64 bytes: 1."),
        ({"held": 100 * MB + 64}, 0, "by more than 64 bytes: 0."),
        ({"error": 1e-2, "change": 1e-3}, 1, "Above 1e-5 from both: 1,"),
        ({"error": 1e-2}, 0, "Above 1e-5 from both: 0,"),
        ({"measured": 110 * MB}, 0, "above the limit: 1 (llama), by up to 10.0%."),
        ({"held": 90 * MB}, 0, "whole values: 1, by up to 10.0%."),
        ({"held": 90 * MB, "again": 0.0}, 0, "(0.1 % at most): 1;"),
        ({"peak": 101 * MB}, 0, "differs from the simulation in 1;"),
    ],
)
def test_what_is_counted(
    tmp_path: Path, eager: dict[str, Any], status: int, said: str
) -> None:
    found, text = report(tmp_path, **eager)
    assert found == status
    assert said in " ".join(text.split())


@pytest.mark.skipif(not PATCHED.is_dir(), reason="needs build/env/2.10.0-patched")
def test_worker_in_real_torch(tmp_path: Path) -> None:
    script = f"""
import sys
sys.path.append({str(limits.WORKER.parents[3])!r})
from acknap.inside.limits import limits
from acknap.inside.models import records
limits.BACKENDS, limits.SHARES = limits.BACKENDS[:1], (0.3,)
records.write(limits.MODELS, limits.rows)
"""
    record = tmp_path / "patched.jsonl"
    command = [PATCHED / "bin" / "python", "-I", "-B", "-c", script, record]
    subprocess.run([*command, "--models", "residual"], check=True, cwd=tmp_path)
    free, within = map(json.loads, record.read_text().splitlines())
    assert free["limit"] is None
    assert within["planned"] == within["peak"] <= within["limit"]
    assert within["held"] <= within["planned"] + 64
    assert within["held"] < free["held"] <= within["default"] + 64
    assert within["again"] > 0
    assert within["error"] < 1e-5
