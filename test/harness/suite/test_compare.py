"""The comparison, on a toy torch: it passes a good series and no other."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from acknap.base.errors import HarnessError
from acknap.suite import run
from acknap.torches.environments import Environment
from toy_torch import (
    ADDED,
    COMMIT,
    FOLDER,
    KNAPSACK,
    PATCHED,
    STOCK,
    SUITE,
    Toy,
    blob_id,
)

FILE = "test/functorch/test_budget.py"
DP = "test_budget.py::TestBudget::test_over_budget_dp"
GREEDY = "test_budget.py::TestBudget::test_over_budget_greedy"

# Needs a module that the series adds.
NEW_FILE = """
import unittest

from torch._functorch._activation_checkpointing.new_solver import solve

class TestNew(unittest.TestCase):
    def test_solve(self):
        self.assertEqual(solve(), 1)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    return Toy(tmp_path, monkeypatch)


def with_decorator(decorator: str) -> str:
    """Return the suite with its dp test decorated."""
    test = "    def test_over_budget_dp"
    return SUITE.replace(test, f"    {decorator}\n{test}")


def test_good_series_passes(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    assert toy.compare() == 0
    assert toy.categories() == {DP: "fixed", GREEDY: "kept"}
    shown = capsys.readouterr().out
    assert "Passed" in shown
    assert "build/compare-v1.0.0-against-v1.0.0/compare.md" in shown
    assert not toy.layout.results.exists()


def test_only_a_record_goes_into_results(toy: Toy) -> None:
    assert toy.compare(record=True) == 0
    (folder,) = toy.layout.results.iterdir()
    names = ["compare.json", "compare.md"]
    assert folder.name == toy.folder.name
    assert sorted(path.name for path in folder.iterdir()) == names
    assert not (toy.folder / "compare.json").exists()
    first = {path: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(toy.folder)
    assert toy.compare(record=True) == 0
    assert {path: path.read_bytes() for path in folder.iterdir()} == first
    with pytest.raises(HarnessError, match="leave out --out"):
        toy.compare(record=True, out=folder)


def test_record_says_what_ran(toy: Toy) -> None:
    toy.compare()
    record = toy.record()
    assert record["passed"]
    assert record["counts"] == {"dp": {"fixed": 1}, "greedy": {"kept": 1}}
    stock, patched = record["runs"]
    assert stock["environment"] == "stock v1.0.0"
    assert stock["interpreter"]["git_version"] == COMMIT
    assert stock["interpreter"]["knapsack_file"] == KNAPSACK
    assert stock["interpreter"]["knapsack_blob"] == blob_id(STOCK)
    assert patched["interpreter"]["knapsack_blob"] == blob_id(PATCHED)
    assert list(stock["files"]) == ["test_budget.py"]
    assert (stock["exit_status"], patched["exit_status"]) == (1, 0)


def test_report_holds_no_path_of_this_machine(toy: Toy) -> None:
    says_paths = "self.fail(f'{__file__} {knapsack.__file__}') #"
    toy.write(FILE, SUITE.replace("self.assertEqual(knapsack.greedy", says_paths))
    toy.compare()
    for path in toy.folder.glob("compare.*"):
        text = path.read_text()
        assert "WORK/suite/test_budget.py ENV/lib/" in text
        assert str(toy.layout.root.parent) not in text


def test_json_goes_to_stdout(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    assert toy.compare(as_json=True) == 0
    assert json.loads(capsys.readouterr().out) == toy.record()


def test_out_names_the_folder(toy: Toy, tmp_path: Path) -> None:
    assert toy.compare(out=tmp_path / "a" / "b") == 0
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "compare.json",
        "compare.md",
        "suite",
    ]
    assert not toy.folder.exists()


def test_out_that_is_a_file(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match="cannot write to "):
        toy.compare(out=tmp_path / "file")


def test_wrong_patch_regresses(toy: Toy) -> None:
    toy.repatch(PATCHED.replace("def greedy_knapsack", "def other_knapsack"))
    assert toy.compare() == 1
    assert toy.categories()[GREEDY] == "regressed"
    assert toy.record()["problems"] == [f"regressed: {GREEDY}"]


def test_patch_that_does_not_fix(toy: Toy) -> None:
    toy.repatch(STOCK + "IS_PATCHED = True\n")
    assert toy.compare() == 1
    assert toy.record()["problems"] == [
        f"still failing: {DP}",
        f"claimed as fixed, but still failing: {DP}",
    ]


def test_test_that_patched_lacks(toy: Toy) -> None:
    toy.write(FILE, SUITE + "if IS_PATCHED: del TestBudget.test_over_budget_greedy")
    assert toy.compare() == 1
    assert toy.record()["problems"] == [f"missing: {GREEDY}"]


def test_deleted_test_leaves_a_claim_without_a_test(toy: Toy) -> None:
    toy.write(FILE, SUITE.replace("test_over_budget_dp", "over_budget_dp"))
    assert toy.compare() == 1
    assert toy.record()["problems"] == [
        "claimed as fixed, but no such test: test_budget.py::TestBudget::*_dp"
    ]


def test_claimed_test_that_passes_on_stock(toy: Toy) -> None:
    toy.write("test/fixed.toml", '[fixed]\n"test_budget.py" = ["TestBudget::*"]')
    assert toy.compare() == 1
    assert toy.record()["problems"] == [
        f"claimed as fixed, but passes on stock: {GREEDY}"
    ]


def test_skip_on_patched_is_no_fix(toy: Toy) -> None:
    toy.write(FILE, with_decorator("@unittest.skipIf(IS_PATCHED, '')"))
    assert toy.compare() == 1
    assert toy.record()["problems"] == [
        f"missing: {DP}",
        f"claimed as fixed, but missing: {DP}",
    ]


def test_expected_failure_is_no_fix(toy: Toy) -> None:
    toy.write(FILE, with_decorator("@(unittest.expectedFailure if IS_PATCHED else id)"))
    toy.repatch(STOCK + "IS_PATCHED = True\n")
    assert toy.compare() == 1
    assert f"missing: {DP}" in toy.record()["problems"]


def test_skip_on_stock_is_no_fix(toy: Toy) -> None:
    toy.write(FILE, with_decorator("@unittest.skipIf(not IS_PATCHED, '')"))
    assert toy.compare() == 1
    assert toy.record()["problems"] == [f"claimed as fixed, but skipped: {DP}"]


@pytest.mark.parametrize("side", ["stock", "patched"])
def test_hash_that_is_not_pinned(toy: Toy, side: str) -> None:
    toy.install(getattr(toy, side), KNAPSACK, STOCK + "# edited\n")
    with pytest.raises(HarnessError, match=f"{side} v1.0.0 is not what .* pins"):
        toy.compare()


def test_knapsack_that_is_imported_from_elsewhere(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "knapsack.py").write_text(STOCK + "# edited\n")
    elsewhere = f"__path__.insert(0, {str(tmp_path)!r})"
    toy.install(toy.stock, f"{FOLDER}/__init__.py", elsewhere)
    with pytest.raises(HarnessError, match=r"imports knapsack\.py from elsewhere"):
        toy.compare()


def test_commit_that_is_not_pinned(toy: Toy) -> None:
    toy.install(toy.stock, "torch/version.py", "__version__ = git_version = '2'")
    with pytest.raises(HarnessError, match="git_version is 2"):
        toy.compare()


def test_environment_without_torch(toy: Toy) -> None:
    toy.install(toy.patched, "torch/__init__.py", "raise ImportError('libcuda')")
    with pytest.raises(HarnessError, match="cannot be inspected: ImportError: libcuda"):
        toy.compare()


def test_no_tests(toy: Toy) -> None:
    toy.write(FILE, "import unittest")
    with pytest.raises(HarnessError, match="no test ran"):
        toy.compare()


def test_no_tests_in_one_file(toy: Toy) -> None:
    toy.write("test/functorch/test_empty.py", "import unittest")
    with pytest.raises(HarnessError, match="no test ran in test_empty"):
        toy.compare()


def test_no_test_files(toy: Toy) -> None:
    (toy.layout.root / FILE).unlink()
    with pytest.raises(HarnessError, match="no test file to run"):
        toy.compare()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("atexit.register(os._exit, 0)", "exit status is 0, but .* 1 failure"),
        ("atexit.register(os._exit, 3)", "pytest stopped with exit status 3"),
        ("os._exit(0)", "pytest wrote no results"),
        ("os.kill(os.getpid(), 11)", "the test process died of signal 11"),
    ],
)
def test_process_that_contradicts_its_results(
    toy: Toy, code: str, message: str
) -> None:
    # The process that writes the results; the others run the tests.
    first = f"import atexit, os\nif 'PYTEST_XDIST_WORKER' not in os.environ: {code}"
    toy.write("test/functorch/conftest.py", first)
    with pytest.raises(HarnessError, match=message):
        toy.compare()


def test_processes_that_end_before_a_test(toy: Toy) -> None:
    toy.write(FILE, f"import os\nos._exit(0)\n{SUITE}")
    with pytest.raises(HarnessError, match="no test ran"):
        toy.compare()


def test_process_that_ends_within_a_test(toy: Toy) -> None:
    ends = "import os\n\ndef test_end():\n    os._exit(0)\n"
    toy.write("test/functorch/test_end.py", ends)
    assert toy.compare() == 1
    assert toy.record()["problems"] == ["still failing: test_end.py::test_end"]


def test_file_that_is_not_in_stock(toy: Toy) -> None:
    toy.write("test/functorch/test_new.py", NEW_FILE)
    claims = '[fixed]\n"test_budget.py" = ["*_dp"]\n"test_new.py" = ["*"]'
    toy.write("test/fixed.toml", claims)
    assert toy.compare() == 0
    assert toy.categories()["test_new.py::TestNew::test_solve"] == "not in stock"
    name = "torch._functorch._activation_checkpointing.new_solver.solve"
    assert toy.record()["not_in_stock"] == {"test_new.py": [name]}


def test_file_that_is_not_in_stock_must_pass(toy: Toy) -> None:
    toy.write("test/functorch/test_new.py", NEW_FILE.replace(", 1", ", 2"))
    assert toy.compare() == 1
    problems = toy.record()["problems"]
    assert problems == ["still failing: test_new.py::TestNew::test_solve"]


@pytest.mark.parametrize(
    "statement",
    [
        "import torch.not_of_the_series",
        "from torch.version import not_of_the_series",
        "from torch._functorch._activation_checkpointing.knapsack import nothing",
        "raise ImportError('new_solver')",
        "this is no Python",
    ],
)
def test_file_that_cannot_be_imported(toy: Toy, statement: str) -> None:
    toy.write("test/functorch/test_bad.py", statement + SUITE)
    assert toy.compare() == 1
    assert "broken: test_bad.py" in toy.record()["problems"]
    assert toy.record()["not_in_stock"] == {}


def test_module_that_only_patched_has_by_chance(toy: Toy) -> None:
    toy.install(toy.patched, "torch/stray.py", "")
    toy.write("test/functorch/test_stray.py", "from torch import stray" + NEW_FILE)
    assert toy.compare() == 1
    assert "broken: test_stray.py" in toy.record()["problems"]


def test_module_of_the_series_that_fails_to_load_on_stock(toy: Toy) -> None:
    toy.install(toy.stock, ADDED, "import numpy_that_is_not_there")
    toy.write("test/functorch/test_new.py", NEW_FILE)
    assert toy.compare() == 1
    assert "broken: test_new.py" in toy.record()["problems"]


def test_checkout_runs_upstream_tests_too(toy: Toy, tmp_path: Path) -> None:
    folder = tmp_path / "checkout" / "test" / "functorch"
    folder.mkdir(parents=True)
    (folder / "test_ac_own.py").write_text(SUITE)
    (folder / "test_ac_of_series.py").write_text(NEW_FILE)
    toy.write("test/functorch/test_ac_of_series.py", NEW_FILE)
    (folder / "test_eager.py").write_text("raise ImportError")
    assert toy.compare(checkout=tmp_path / "checkout") == 0
    assert toy.categories() == {
        DP: "fixed",
        GREEDY: "kept",
        "test_ac_of_series.py::TestNew::test_solve": "not in stock",
        f"upstream/{DP.replace('budget.py', 'ac_own.py')}": "fixed",
        f"upstream/{GREEDY.replace('budget.py', 'ac_own.py')}": "kept",
    }


def test_upstream_test_that_fails_on_both_sides_is_not_ours(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "checkout" / "test" / "functorch"
    folder.mkdir(parents=True)
    fails = SUITE.replace("knapsack.greedy_knapsack", "knapsack.gpu_knapsack")
    (folder / "test_ac_own.py").write_text(fails)
    assert toy.compare(checkout=tmp_path / "checkout") == 0
    assert "1 of upstream's own tests fail on both sides" in capsys.readouterr().out
    toy.write(FILE, fails)
    assert toy.compare() == 1


def test_upstream_test_that_regresses(toy: Toy, tmp_path: Path) -> None:
    folder = tmp_path / "checkout" / "test" / "functorch"
    folder.mkdir(parents=True)
    (folder / "test_ac_own.py").write_text(
        "from torch._functorch._activation_checkpointing import knapsack\n"
        "def test_dp(): assert knapsack.dp_knapsack([2.0], [1.0], 1.0)[1]\n"
    )
    assert toy.compare(checkout=tmp_path / "checkout") == 1
    assert toy.record()["problems"] == ["regressed: upstream/test_ac_own.py::test_dp"]


def test_checkout_without_tests(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="is no PyTorch checkout"):
        toy.compare(checkout=tmp_path)


@pytest.mark.parametrize(
    "claims", ["", "[fixed", "fixed = 3", "[fixed]\na = 'b'", "[fixed]\n[more]"]
)
def test_malformed_claims(toy: Toy, claims: str) -> None:
    toy.write("test/fixed.toml", claims)
    with pytest.raises(HarnessError, match=r"fixed\.toml"):
        toy.compare()


def test_failed_run_keeps_the_previous_report(toy: Toy) -> None:
    toy.compare()
    before = toy.record()
    toy.write(FILE, "import os\nos._exit(0)")
    with pytest.raises(HarnessError):
        toy.compare()
    assert toy.record() == before
    assert len([path for path in toy.folder.iterdir() if path.is_file()]) == 2


def kept(toy: Toy, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Compare; the sides that are not run."""
    toy.compare()
    said = capsys.readouterr().err
    return re.findall(r"^Suite on (\w+) v1\.0\.0: kept", said, re.MULTILINE)


def test_finished_side_is_kept(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    made = run.run

    def stopped(environment: Environment, *rest: Any, **more: Any) -> run.SuiteRun:
        if environment.kind == "patched":
            raise KeyboardInterrupt
        return made(environment, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(run, "run", stopped)
        with pytest.raises(KeyboardInterrupt):
            toy.compare()
    assert kept(toy, capsys) == ["stock"]
    first = toy.record()
    assert kept(toy, capsys) == ["stock", "patched"]
    assert toy.record() == first
    monkeypatch.setenv("CI", "true")
    assert kept(toy, capsys) == []


def test_side_is_kept_of_the_same_suite_and_torch_alone(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert kept(toy, capsys) == []
    toy.repatch(PATCHED + "# another\n")
    assert kept(toy, capsys) == ["stock"]
    toy.write("test/functorch/cases.py", "")
    assert kept(toy, capsys) == []
    assert kept(toy, capsys) == ["stock", "patched"]
    toy.repatch(STOCK + "IS_PATCHED = True\n")
    assert kept(toy, capsys) == ["stock"]
    assert kept(toy, capsys) == []  # what failed is run again


def test_surroundings_do_not_leak_in(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('from PYTHONPATH')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    toy.write("test/conftest.py", "raise ImportError('a conftest of the repository')")
    toy.write("pytest.ini", "[pytest]\naddopts = --no-such-option")
    monkeypatch.chdir(toy.layout.suite)
    assert toy.compare() == 0
