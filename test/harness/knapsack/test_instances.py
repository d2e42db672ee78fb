"""Instances on disk, and budgets on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.knapsack import instance_file
from acknap.models import budgets

GOOD = {
    "schema": 2,
    "name": "toy",
    "torch": "1.0",
    "estimator": "flops",
    "memory": [0.5, 0.25],
    "runtimes": [3, 4.5],
    "bytes": [20, 10],
    "ops": ["mm", "add"],
}


def written(folder: Path, content: Any) -> Path:
    path = folder / "toy.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text)
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    path.write_bytes(instance_file.dumps({**GOOD, "more": 1}))
    found = instance_file.load(path)
    assert (found.name, found.version, found.memory) == ("toy", 2, [0.5, 0.25])
    assert (found.runtimes, found.sizes, found.model) == ([3.0, 4.5], [20.0, 10.0], "")


def test_a_file_without_a_version_has_the_first(tmp_path: Path) -> None:
    old = {key: value for key, value in GOOD.items() if key != "schema"}
    assert instance_file.load(written(tmp_path, old)).version == 1


@pytest.mark.parametrize(
    "path",
    sorted((Layout.default().root / "benchmarks" / "instances").rglob("*.json")),
    ids=lambda path: path.stem,
)
def test_committed_instances_keep_the_schema(path: Path) -> None:
    found = instance_file.load(path)
    assert found.name == path.stem
    assert found.version == (2 if path.parent.name == "captured" else 1)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"memory": [0.5]}, "memory has 1 items, runtimes has 2"),
        ({"ops": ["mm"]}, "memory has 2 items, ops has 1"),
        ({"memory": []}, "memory is empty"),
        ({"memory": [0.5, -1]}, "memory[1] is -1, must be greater than or equal to 0"),
        ({"runtimes": [3, "4"]}, "runtimes[1] is '4', must be a valid number"),
        ({"runtimes": [3, True]}, "runtimes[1] is True, must be a valid number"),
        (
            {"runtimes": [float("nan"), 1]},
            "runtimes[0] is nan, must be a finite number",
        ),
        ({"bytes": [1, float("inf")]}, "bytes[1] is inf, must be a finite number"),
        ({"ops": "mm"}, "ops is 'mm', must be a valid array"),
        ({"schema": 3}, "schema 3 is newer than this harness, which reads 2"),
        ({"schema": 0}, "schema is 0, must be greater than or equal to 1"),
        ({"estimator": None}, "estimator is None, must be a valid string"),
    ],
)
def test_a_broken_instance_is_named_with_its_fault(
    tmp_path: Path, change: dict[str, Any], fault: str
) -> None:
    path = written(tmp_path, GOOD | change)
    with pytest.raises(HarnessError) as caught:
        instance_file.load(path)
    assert str(caught.value) == f"{path}: {fault}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not JSON: EOF while parsing an object at line 1 column 1"),
        ("[1]", "the content is [1], must be an object"),
        ("", "is not JSON: EOF while parsing a value at line 1 column 0"),
    ],
)
def test_what_is_no_instance_at_all(tmp_path: Path, text: str, fault: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(HarnessError) as caught:
        instance_file.load(path)
    assert str(caught.value) == f"{path}: {fault}"


@pytest.mark.parametrize("key", [key for key in GOOD if key != "schema"])
def test_a_key_that_is_missing_is_named(tmp_path: Path, key: str) -> None:
    path = written(tmp_path, {k: v for k, v in GOOD.items() if k != key})
    with pytest.raises(HarnessError, match=f"toy.json: the key {key!r} is missing"):
        instance_file.load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="x.json: No such file or directory"):
        instance_file.load(tmp_path / "x.json")


def test_nothing_broken_is_written() -> None:
    with pytest.raises(HarnessError, match="toy: memory has 2 items, bytes has 1"):
        instance_file.dumps({**GOOD, "bytes": [1]})


def test_budgets() -> None:
    assert budgets.parse("0.1, 0.25,1") == [0.1, 0.25, 1.0]
    for text in ("", "0", "1.5", "-0.1", "nan", "x", "0.1,,0.2"):
        with pytest.raises(HarnessError, match="give numbers above 0 and up to 1"):
            budgets.parse(text)
