"""The plan of the points, the claims that need them, and what is left to measure."""

from pathlib import Path

import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.bench import claims, run
from acknap.bench.finished import Finished, Memory
from acknap.bench.plan import plan
from acknap.bench.point import Point
from acknap.bench.record import open_record
from acknap.knapsack import families
from toy_record import point

REAL = Layout.default()


@pytest.mark.parametrize("quick", [True, False])
def test_plan(quick: bool) -> None:
    points = plan(REAL, quick=quick)
    assert len({point.id for point in points}) == len(points)
    topics = {point.topic for point in points}
    for claim in claims.load(REAL):
        assert topics >= set(claim.topics), claim.name
    for one in points:
        if one.kind not in ("small", "training") and "100000" not in one.problem:
            assert families.load(REAL, one.problem).memory


def test_claims_file(tmp_path: Path) -> None:
    for claim in claims.load(REAL):
        assert claim.source in ("paper", "README", "patch")
        assert bool(claim.number) == bool(claim.topics)
        assert claim.number or claim.note
        assert not claim.number or claim.needs
        assert (claim.source == "patch") == bool(claim.patch and claim.quote)
    with pytest.raises(HarnessError, match=r"there is no benchmarks/claims\.toml"):
        claims.load(Layout(tmp_path))
    with pytest.raises(HarnessError, match="unknown claim 'x'; known: table-size, "):
        claims.topics(REAL, ["x"])
    with pytest.raises(HarnessError, match="gpu-time: cannot be measured here"):
        claims.topics(REAL, ["gpu-time"])
    assert claims.topics(REAL, ["table-dies"]) == {"limit"}


def test_only_missing_points_are_measured(tmp_path: Path) -> None:
    record = open_record(tmp_path, {}, {})
    points = [point("speed", ("stock.dp",)), point("memory", ("stock.dp",))]
    record.add(points[0], Memory())
    measured: list[Point] = []

    def measure(one: Point) -> Finished:
        measured.append(one)
        return Memory()

    run._measure(measure, record, points)
    assert measured == points[1:]
    assert len(record.points) == 2
