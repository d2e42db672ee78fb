"""The plots: what they show, and that they can be drawn from any record."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from acknap.bench import record as bench_record
from acknap.knapsack import chart_style
from acknap.knapsack.truth import extra_recomputation
from acknap.report import chart_data, charts
from toy_record import CONTENDERS, make


def test_plots_are_well_formed_and_alike(tmp_path: Path) -> None:
    record = make(tmp_path)
    drawn = charts.draw(record)
    assert len(drawn) == 7
    for name, svg in drawn.items():
        root = ET.fromstring(svg)
        assert root.tag.endswith("svg"), name
        assert 10_000 < len(svg) < 200_000
    assert charts.draw(record) == drawn


def test_empty_record_has_no_plots(tmp_path: Path) -> None:
    assert charts.draw(bench_record.open_record(tmp_path, {}, {})) == {}


def test_styles_differ_without_colour() -> None:
    shapes = [(style["marker"], style["ls"]) for style in chart_style.STYLES.values()]
    assert len({marker for marker, _ in shapes}) == len(shapes)
    assert len({style["color"] for style in chart_style.STYLES.values()}) == len(shapes)


def test_memory_by_n(tmp_path: Path) -> None:
    found = chart_data.memory_by_n(make(tmp_path))
    assert found is not None
    assert dict(found.measured["patched.exact"]) == {20: 50_000}
    assert found.published == [(2000, 420_000)]
    table = dict(found.laws["stock.dp"])
    assert table[10] < 64e9 < table[100]
    rows = dict(found.laws["stock.hirschberg"])
    assert rows[5] == rows[2000] < 64e9


def test_time_by_n(tmp_path: Path) -> None:
    found = chart_data.time_by_n(make(tmp_path))
    assert found["patched.exact"] == [(100, 1), (500, 1)]
    n, share = chart_data.share_of_time(found, "stock.dp", "patched.exact")
    assert (n, share) == (500, pytest.approx(1 / 10.5))
    assert chart_data.share_of_time(found, "x", "patched.exact") == (0, 0)


def test_solvers_that_use_the_same_share_a_line(tmp_path: Path) -> None:
    found = chart_data.used_by_budget(make(tmp_path))
    assert found is not None
    assert found.model == "toy_model"
    assert found.used == {
        ("stock.dp", "stock.greedy", "patched.exact"): [(0.5, 0.5)],
        ("stock.hirschberg",): [(0.5, 0.625)],
    }
    assert (
        chart_style.joined_label(("stock.dp", "stock.greedy", "patched.hirschberg"))
        == "dp, greedy (released); Hirschberg (this series)"
    )


def test_extra_by_model(tmp_path: Path) -> None:
    found = chart_data.extra_by_model(make(tmp_path))["toy_model"]
    # Hirschberg is over the budget: its value is not compared.
    assert set(found) == {*CONTENDERS} - {"stock.hirschberg"}
    assert found["stock.dp"] == pytest.approx(20)
    assert found["patched.exact"] == 0


def test_extra_recomputation() -> None:
    assert extra_recomputation(40, 50, 100) == pytest.approx(0.2)
    assert extra_recomputation(100, 100, 100) is None
    assert extra_recomputation(None, 50, 100) is None


def test_frontier(tmp_path: Path) -> None:
    found = chart_data.frontier(make(tmp_path))
    assert found is not None
    assert found.best == [(0.5, 50)]
    assert found.kept["stock.greedy"] == [(0.5, pytest.approx(55))]
    assert "stock.hirschberg" not in found.kept


def test_training(tmp_path: Path) -> None:
    runs = chart_data.training(make(tmp_path))
    assert [(run.contender, run.budget) for run in runs] == [
        ("stock.dp", 0.25),
        ("patched.exact", 0.25),
        ("stock.dp", 1),
        ("patched.exact", 1),
    ]
    assert (runs[0].saved_mb, runs[0].median_seconds) == (10, pytest.approx(0.4))
    assert chart_data.same_losses(runs)
    other = runs[0].model_copy(update={"losses": (4.0, 2.0, 1.1)})
    assert not chart_data.same_losses([other, *runs])
