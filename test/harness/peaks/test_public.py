"""`public`: the report on rows made by hand, the allocator, and the worker for real."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import toy_rows
from acknap.base.layout import Layout
from acknap.inside.public import allocator
from acknap.peaks import public

LAYOUT = Layout.default()
STOCK = LAYOUT.build / "env" / "2.10.0-stock"
MI = 1 << 20

FACTS: dict[str, Any] = {
    "source": {"they": {"repository": "https://example.org/r", "machine": "a card"}},
    "points": [
        {
            "model": "toy",
            "backend": "inductor",
            "rows": [
                [0.1, 100.0, 9.0, 98.5],
                [0.2, 200.0, 8.0, 202.0],
                [0.3, 300.0, 7.0, 300.0],
                [0.4, 400.0, 6.0, 400.0],
            ],
        },
        {"model": "toy", "backend": "aot_eager", "rows": [[0.1, 50.0]]},
    ],
    "walks": [{"model": "toy", "backend": "inductor", "rows": [[0.1, 80.0]]}],
    "by_hand": {"toy": {"ac1": [100.0, 12.0], "ac2": [1.0, 11.0]}},
}


def row(backend: str, budget: float, peak: float, allocated: float) -> public.Row:
    made = {"model": "toy", "backend": backend, "budget": budget, "peak": peak * 1e6}
    made |= {"requested": allocated * 1e6, "allocated": allocated * 1e6}
    return made | {"again": 25.0, "total": 100.0, "torch": "1.0", "code": "abc"}


def report(folder: Path) -> str:
    stock = [
        row("inductor", 0.1, 80.0, 101.0),
        row("inductor", 0.2, 250.0, 190.0),
        row("inductor", 0.3, 240.0, 300.0),
        row("aot_eager", 0.1, 50.0, 50.0),
    ]
    ours = [row("inductor", 0.0, 90.0, 99.0), row("inductor", 0.1, 90.0, 120.0)]
    toy_rows.write(folder, stock=stock, patched=ours)
    public.write_report(folder, "./scripts/harness public", FACTS)
    return (folder / "REPORT.md").read_text()


def test_report_on_rows_made_by_hand(tmp_path: Path) -> None:
    text = report(tmp_path)
    assert "Missing points: 1." in text
    assert "| toy, inductor | emitted | 3 | 20.00 | +25.0 | 0 | 0.500 |" in text
    assert "| toy, inductor | allocator | 3 | 1.00 | -5.0 | 2 | 1.000 |" in text
    assert "| toy, inductor | Inductor's | 3 | 1.00 | -1.5 | 3 | 1.000 |" in text
    assert "| toy, aot_eager | allocator | 1 | 0.00 | +0.0 | 1 |  |" in text
    assert "| all | allocator | 4 |" in text
    assert "| toy | 0.1 | 80.000 | 80.000 | 0 |" in text
    assert "| toy | each layer | 100 | 12 | 0 | 99 | 25.0 |" in text
    assert "| toy | each second layer | 1 | 11 | none |  |  |" in text
    assert (tmp_path / "points.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("events", "requested", "allocated"),
    [
        # Rounded up to 512 bytes.
        ([(1, 1), (2, 513)], 514, 512 + 1024),
        ([(1, 100), (1, None), (2, 200)], 200, 512),
        # Out of a segment of 20 MiB, which is split.
        ([(1, 3 * MI), (2, 4 * MI)], 7 * MI, 7 * MI),
        # 1 MiB is left of a segment of its own, and not split off.
        ([(1, 11 * MI)], 11 * MI, 12 * MI),
        # Joined with what is free on both sides, and used as one block.
        (
            [
                *((i, 4 * MI) for i in range(5)),
                *((i, None) for i in (0, 2, 1)),
                (9, 12 * MI),
            ],
            20 * MI,
            20 * MI,
        ),
        ([(1, 0), (1, None)], 0, 0),
    ],
)
def test_blocks_of_the_allocator(
    events: list[allocator.Event], requested: int, allocated: int
) -> None:
    assert allocator.requested_peak(events) == requested
    assert allocator.allocated_peak(events) == allocated


_SCRIPT = """
import json, sys, tomllib
sys.path[:0] = sys.argv[1:]
from acknap.inside.public import models, public
facts = tomllib.loads(models.POINTS.read_text())["model"]
for model, backend in (("llama32", "aot_eager"), ("bert32", "inductor")):
    of = facts[model]
    of["config"]["num_hidden_layers"], of["length"] = 1, 128
    joint = public.trace_point(of, backend)
    print(json.dumps(public.measure(joint, of, backend, 0.5)))
"""


@pytest.mark.skipif(not STOCK.is_dir(), reason="needs build/env/2.10.0-stock")
def test_worker_in_real_torch() -> None:
    libraries = [
        *(LAYOUT.build / "env").glob("capture-transformers/lib/*/site-packages")
    ]
    if not libraries:
        pytest.skip("needs build/env/capture-transformers")
    command = [STOCK / "bin" / "python", "-I", "-B", "-c", _SCRIPT]
    command += [str(LAYOUT.root / "scripts"), *map(str, libraries)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    eager, inductor = map(json.loads, done.stdout.splitlines())
    # The batch, of 2 * 128 numbers of 8 bytes, is there before the step; the loss, of 4
    # bytes, stays.
    assert eager["requested"] == eager["peak"] - 2048 + 4
    assert eager["requested"] <= eager["allocated"]
    assert 0 < inductor["requested"] <= inductor["allocated"]
