"""The raw record: what is read is what was written, whatever is killed."""

import json
import re
from pathlib import Path

import pytest

import toy_record
from acknap.base.errors import HarnessError
from acknap.bench import record
from acknap.bench.finished import Memory, Speed
from toy_record import point

SPEED = Speed(items=1, rounds=1, seconds={}, answers={}, failed={})


def test_record_goes_on(tmp_path: Path) -> None:
    key = {"machine": "a", "sides": {}}
    opened = record.open_record(tmp_path, key, {"command": "x"})
    opened.add(point("speed", ("stock.dp",)), SPEED)
    with opened.path.open("ab") as file:
        file.write(b'{"id": "half a li')  # killed while writing
    again = record.open_record(tmp_path, key, {"command": "y"})
    assert list(again.points) == [point("speed", ("stock.dp",)).id]
    assert again.header["command"] == "x"
    again.add(point("memory", ("stock.dp",)), Memory())
    assert len(record.read(opened.path).points) == 2


def test_another_machine_starts_a_record_of_its_own(tmp_path: Path) -> None:
    first = record.open_record(tmp_path, {"machine": "a"}, {})
    first.add(point("speed", ("stock.dp",)), SPEED)
    second = record.open_record(tmp_path, {"machine": "b"}, {})
    assert second.path != first.path
    assert not second.points
    second.add(point("memory", ("stock.dp",)), Memory())
    first_point, second_point = (one.path.read_text() for one in (first, second))
    second.path.write_text(
        re.sub('"finished":"[^"]*"', '"finished":"9999"', second_point)
    )
    assert first.path.read_text() == first_point
    assert record.newest(tmp_path).path == second.path


def test_broken_record(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="holds no record: run"):
        record.newest(tmp_path)
    (tmp_path / "raw-1.jsonl").write_text('{"format": 99}\n')
    with pytest.raises(HarnessError, match="is no record of a benchmark: format 99"):
        record.newest(tmp_path)
    (tmp_path / "raw-1.jsonl").write_text('{"format": 1}\n{"kind": "speed"}\n')
    with pytest.raises(
        HarnessError, match=r"is no record: speed\.items: Field required"
    ):
        record.newest(tmp_path)


def test_what_is_read_is_what_was_added(tmp_path: Path) -> None:
    made = toy_record.make(tmp_path)
    read = record.read(made.path)
    assert read.points == made.points
    assert {one.kind for one in read.points.values()} == {
        *("speed", "threads", "answers", "small", "memory", "limit", "training"),
        "partition",
    }


def test_machine_is_not_named() -> None:
    import socket

    text = json.dumps(record.machine())
    assert socket.gethostname() not in text
