"""What partitions deliver: the numbers of the claims, and the report's tables."""

from pathlib import Path
from typing import Any

import pytest

from acknap.bench import record as bench_record
from acknap.bench.finished import Partitions
from acknap.bench.record import Record
from acknap.models.parted import Parted
from acknap.report import chart_data, tables
from acknap.report import delivered as numbers
from acknap.report.memory import Number
from toy_record import CONTENDERS, make


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return make(tmp_path)


def value(number: Number | None) -> float:
    assert number is not None
    return number.value


def test_runs_over_the_budget(record: Record) -> None:
    assert value(numbers.over(record, "stock.hirschberg")) == 2
    assert value(numbers.over(record, "stock.dp")) == 1
    assert value(numbers.over(record, "stock.dp", ["storages"])) == 0
    assert value(numbers.over(record, "patched.exact")) == 0
    said = numbers.over(record, "stock.exact")
    assert said is not None
    assert said.text == (
        "over the budget: 2 by ratio, worst +10 %; 2 by bytes, worst +10 %; "
        "0 by storages; 0 by live; of 2 runs"
    )


def edit(record: Record, contender: str, *changes: dict[str, Any]) -> None:
    """Change a contender's runs one after the other; the last change goes on."""
    left = list(changes)
    for key, point in record.points.items():
        if not isinstance(point, Partitions):
            continue
        rows = list(point.rows)
        for i, row in enumerate(rows):
            if row.contender == contender and row.knapsack_used:
                change = left.pop(0) if left[1:] else left[0]
                rows[i] = row.model_copy(update=change)
        record.points[key] = point.model_copy(update={"rows": tuple(rows)})


def test_what_stays_alive_counts_against_the_budget(record: Record) -> None:
    edit(record, "patched.exact", {"live": 0.6}, {})
    found = numbers.over(record, "patched.exact")
    assert value(found) == 1
    assert found is not None
    assert "1 by live, worst +20 %" in found.text
    assert value(numbers.over(record, "patched.exact", ["live"])) == 1
    assert value(numbers.over(record, "patched.exact", ["ratio"])) == 0


def test_what_must_be_saved_takes_the_budgets_place(record: Record) -> None:
    forced = {"live": 0.6, "ratio": 0.6, "least": 0.6}
    edit(record, "patched.exact", forced, {"least": 0.2})
    found = numbers.over(record, "patched.exact")
    assert value(found) == 0
    assert found is not None
    assert found.text.endswith(
        "of 2 runs, in 1 of which what must be saved is more than the budget"
    )
    row = Parted(budget=0.5, live=0.66, least=0.6)
    assert row.excess("live") == pytest.approx(0.1)


def test_early_exits_are_no_runs(record: Record) -> None:
    assert len(list(numbers.runs(record, "stock.dp"))) == 2


def test_partitions_over_though_the_plan_is_not(record: Record) -> None:
    assert value(numbers.kept_plans(record, "stock.exact")) == 2
    assert value(numbers.kept_plans(record, "patched.exact")) == 0


def test_recompute_counts_where_the_base_keeps_the_budget(record: Record) -> None:
    found = numbers.recompute(record, "stock.dp", "patched.exact")
    assert found is not None
    assert found.value == pytest.approx(0.5)
    assert "over 1 runs" in found.text


def test_recompute_counts_where_the_base_keeps_little_alive(record: Record) -> None:
    edit(record, "stock.dp", {"live": 0.51})
    assert numbers.recompute(record, "stock.dp", "patched.exact") is None


def test_nothing_recomputed_is_no_infinite_gain(record: Record) -> None:
    for contender in ("stock.dp", "patched.exact"):
        edit(record, contender, {"recomputed": 0.0})
    assert value(numbers.recompute(record, "stock.dp", "patched.exact")) == 1


def test_unit_of_the_budget(record: Record) -> None:
    found = numbers.unit(record, "stock")
    assert found is not None
    assert found.value == 1.25
    assert found.text == "0.800 to 1.250, median 1.250, 3 models"
    assert value(numbers.unit(record, "patched")) == 1


def test_ratio_below_what_stays_alive(record: Record) -> None:
    edit(record, "patched.exact", {"ratio": 0.2, "live": 0.45})
    found = numbers.flattered(record, "patched.exact")
    assert found is not None
    assert found.text == "by up to 0.250, by over 0.01 in 2 of 2 runs"


def test_time_and_cuts(record: Record) -> None:
    assert value(numbers.extra_cuts(record, "patched.exact")) == 1
    assert value(numbers.extra_cuts(record, "stock.dp")) == 0
    assert value(numbers.solver_share(record, "stock.dp")) == pytest.approx(0.01)


def test_time_of_all_runs_and_of_those_without_an_extra_cut(record: Record) -> None:
    names = "stock.dp", "patched.exact"
    assert numbers.extra_time(record, *names, plain=True) is None
    edit(record, names[1], {"cuts": 1, "cut_seconds": 0.12}, {"cut_seconds": 0.2})
    plain = numbers.extra_time(record, *names, plain=True)
    assert value(plain) == pytest.approx(0.02)
    assert value(numbers.extra_time(record, *names)) == pytest.approx(0.06)


def test_rounding_is_not_over() -> None:
    row = Parted(budget=0.3, ratio=0.1 + 0.2)
    assert row.ratio > row.budget
    assert row.excess("ratio") == 0
    assert Parted(budget=0.3, ratio=0.3 * (1 + 2e-12)).excess("ratio") > 0


def test_models(record: Record) -> None:
    assert value(numbers.models(record, CONTENDERS)) == 1
    assert value(numbers.models(record, [*CONTENDERS, "patched.dp"])) == 0


def test_an_empty_record_has_no_numbers(tmp_path: Path) -> None:
    empty = bench_record.open_record(tmp_path / "empty", {}, {})
    assert numbers.over(empty, "stock.dp") is None
    assert tables.variants(empty) == "Not measured."
    assert tables.captured(empty) == "Not measured."
    assert tables.delivered(empty) == "Not measured."


def test_tables(record: Record) -> None:
    variants = tables.variants(record)
    assert "| exact, this series | 2 | 2 | 2 | 2 | 2 | +0.0 % |" in variants
    assert "| dp, released | 2 | 1 | 1 | 2 | 2 | +50.0 % |" in variants
    assert " | by storages | by live | " in variants
    delivered = tables.delivered(record)
    assert "| early, 0.5 | no knapsack, 0.4000 | absent | failed |" in delivered
    assert "0.5000 to 0.5500 **over** | 0.5000 to 0.5000 |" in delivered
    captured = tables.captured(record)
    assert "20 %" in captured  # dp keeps 40 of 100 where 50 can be kept
    assert "0, over by 25 %" in captured
    assert "absent" in captured


def test_plot_data(record: Record) -> None:
    edit(record, "stock.dp", {"live": 0.75}, {"live": 0.8, "least": 0.8})
    found = chart_data.delivered(record)
    assert list(found) == [
        "stock.dp",
        "stock.hirschberg",
        "stock.exact",
        "patched.exact",
    ]
    assert found["stock.dp"] == ([(0.5, 0)], [(0.5, 50)])


def test_marks_of_one_budget_stand_beside_one_another() -> None:
    marks = chart_data.spread([(0.5, 2), (0.1, 0), (0.5, 1)], [0.1, 0.5])
    assert [y for _, y in marks] == [0, 1, 2]
    assert marks[0][0] == 0
    assert 0.5 < marks[1][0] < 1 < marks[2][0] < 1.5
