"""The summary of random programs, from records made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from acknap.inside import fuzz


def record(seed: int, *failures: str) -> dict[str, Any]:
    """The record of a program that failed in some ways at a budget of 1."""
    found = [{"kind": kind, "points": ["1.0 dp"]} for kind in failures]
    right = [] if failures else ["1.0 dp"]
    more = {"torch": "1.0", "seconds": 1.0, "features": ["mm"], "knapsack": 1}
    return {"seed": seed, "failures": found, "right": right} | more


def summary(folder: Path, ours: list[Any], stock: list[Any]) -> int:
    """The status of the summary of two runs."""
    paths = []
    for name, records in (("ours", ours), ("stock", stock)):
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        paths.append(path)
    return fuzz.summary(fuzz.read(paths[:1]), fuzz.read(paths[1:]))


@pytest.mark.parametrize(
    ("ours", "stock", "status"),
    [
        ((), (), 0),
        ((), ("wrong gradient",), 0),
        (("wrong gradient",), (), 1),
        (("wrong gradient",), ("wrong gradient",), 0),
        (("raises",), (), 1),
        (("over budget",), ("over budget",), 1),
        (("ranks differ",), ("ranks differ",), 1),
        (("measured above promised",), (), 1),
        (("measured above promised",), ("measured above promised",), 0),
    ],
)
def test_what_counts_against_ours(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ours: tuple[str, ...],
    stock: tuple[str, ...],
    status: int,
) -> None:
    runs = [record(0, *ours), record(1)], [record(0, *stock), record(1)]
    assert summary(tmp_path, *runs) == status
    assert "programs that stock ran, too: 2" in capsys.readouterr().out


def test_a_program_that_stock_did_not_run_is_held_against_ours(tmp_path: Path) -> None:
    ours = [record(0), record(1, "measured above promised")]
    assert summary(tmp_path, ours, [record(0)]) == 1
