"""The report's pages, from a comparison made by hand."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from acknap.suite import comparison as pages
from acknap.suite.categories import rows
from acknap.suite.comparison import Comparison
from acknap.suite.outcomes import Outcome, Status
from acknap.suite.run import SuiteRun
from acknap.torches.inspect import Interpreter

PASSED = Outcome(Status.PASSED)
FAILED = Outcome(Status.FAILED, "over by 1 | `unit`")


@pytest.fixture
def comparison() -> Comparison:
    interpreter = Interpreter(
        torch_version="1.0.0",
        git_version="1" * 40,
        knapsack_file="torch/knapsack.py",
        knapsack_blob="2" * 40,
        python="3.11.7",
        platform="Linux",
        packages={"numpy": "2.0", "scipy": None},
        blobs={},
    )
    stock = {"test_a.py::T::test_dp": FAILED, "test_a.py::T::test_kept_ilp": PASSED}
    patched = dict.fromkeys(stock, PASSED)
    runs = (
        SuiteRun(name, interpreter, {}, found, 0)
        for name, found in (("stock v1", stock), ("patched v1", patched))
    )
    return Comparison(
        target="v1",
        against="v1",
        command="./scripts/harness compare --target v1",
        runs=tuple(("suite", run) for run in runs),
        new_files={},
        rows=tuple(rows(stock, patched, ())),
        problems=(),
    )


def test_page(comparison: Comparison) -> None:
    page = pages.as_markdown(comparison)
    for part in (
        "# Suite: patched v1 against stock v1\n",
        "Made by `./scripts/harness compare --target v1`.",
        "**Passed: ",
        "| result | dp | ilp | all |\n| --- | --- | --- | --- |\n| fixed | 1 | 0 | 1 |",
        "| `test_a.py::T::test_dp` | dp | failed | passed | fixed |",
        "<summary>1 tests kept",
        "| `test_a.py::T::test_dp` | stock | `over by 1 \\| 'unit'` |",
        "|  | stock v1 | patched v1 |",
        "| packages | numpy 2.0 | numpy 2.0 |",
    ):
        assert part in page


def test_page_of_a_failed_comparison(comparison: Comparison) -> None:
    object.__setattr__(comparison, "problems", ("missing: a", "missing: b"))
    page = pages.as_markdown(comparison)
    assert "**Failed: 2 problems.**\n\n- `missing: a`\n- `missing: b`\n" in page


def test_json_has_every_test_and_run(comparison: Comparison) -> None:
    record = json.loads(pages.to_json(comparison))
    assert [test["category"] for test in record["tests"]] == ["fixed", "kept"]
    assert [run["environment"] for run in record["runs"]] == ["stock v1", "patched v1"]
    assert record["tests"][0]["stock"] == {
        "status": "failed",
        "message": "over by 1 | `unit`",
    }


def test_summary_fits_a_narrow_page(comparison: Comparison) -> None:
    console = Console(width=60, file=io.StringIO())
    with console.capture() as shown:
        pages.print_summary(comparison, console)
    lines = [line.split() for line in shown.get().splitlines()]
    assert ["result", "dp", "ilp", "all"] in lines
    assert ["still", "failing", "0", "0", "0"] in lines


def test_interrupted_write_keeps_the_previous_report(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages.write(comparison, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    object.__setattr__(comparison, "target", "v2")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pages.write(comparison, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
