"""Running a suite, reading its results, and what its files import."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from acknap.base.errors import HarnessError
from acknap.suite import new_files, outcomes
from acknap.suite import run as suite
from acknap.suite.categories import solver_of
from acknap.suite.outcomes import Outcome, Status
from acknap.torches.inspect import Import, inspect
from acknap.torches.worker import clean_variables
from toy_torch import SUITE, Toy

RESULTS = """
import unittest

import pytest

class TestAll(unittest.TestCase):
    def tearDown(self):
        if "teardown" in self.id():
            raise OSError("in teardown")

    def test_pass(self):
        pass

    def test_fail(self):
        self.fail("first line\\nsecond line")

    def test_torch_message(self):
        self.fail("Scalars are not equal!\\n\\nExpected 1 but got 2.\\nAbsolute: 1")

    @unittest.skip("a reason")
    def test_skip(self):
        pass

    def test_teardown(self):
        pass

    def test_fail_and_teardown(self):
        self.fail()

@pytest.mark.parametrize("value", ["a::b", "c.d"])
def test_function(value):
    pass
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    return Toy(tmp_path, monkeypatch)


def results_of(folder: Path, files: dict[str, str]) -> dict[str, Outcome]:
    """Run pytest on some files and read its XML."""
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", *suite.PYTEST_OPTIONS, "--junitxml=x"]
    status = subprocess.run([*command, *files], cwd=folder, capture_output=True)
    return outcomes.read(folder / "x", status.returncode, "here")


def test_outcome_of_each_kind(tmp_path: Path) -> None:
    found = results_of(tmp_path, {"test_all.py": RESULTS})
    assert {test: (one.status, one.message) for test, one in found.items()} == {
        "test_all.py::TestAll::test_pass": ("passed", ""),
        "test_all.py::TestAll::test_fail": ("failed", "AssertionError: first line"),
        "test_all.py::TestAll::test_torch_message": (
            "failed",
            "AssertionError: Scalars are not equal! Expected 1 but got 2.",
        ),
        "test_all.py::TestAll::test_skip": ("skipped", "a reason"),
        "test_all.py::TestAll::test_teardown": ("failed", "OSError: in teardown"),
        "test_all.py::TestAll::test_fail_and_teardown": (
            "error",
            'failed on teardown with "OSError: in teardown"',
        ),
        "test_all.py::test_function[a::b]": ("passed", ""),
        "test_all.py::test_function[c.d]": ("passed", ""),
    }


def test_file_that_cannot_be_collected(tmp_path: Path) -> None:
    good = "def test_good(): pass"
    bad = "from os import nothing"
    found = results_of(tmp_path, {"test_good.py": good, "test_bad.py": bad})
    assert found["test_good.py::test_good"].status is Status.PASSED
    assert found["test_bad.py"].status is Status.ERROR
    assert "cannot import name 'nothing'" in found["test_bad.py"].message


def test_long_messages_are_whole(tmp_path: Path) -> None:
    """Where pytest cuts them depends on the length of the paths in them."""
    tests = """
        import unittest
        SAID = "x" * 2000 + " the end"

        class TestSetup(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                raise OSError(SAID)

            def test(self):
                pass

        class TestBody(unittest.TestCase):
            def test(self):
                raise OSError(SAID)

            def test_own_dots(self):
                self.fail("and so on...")
    """
    found = results_of(tmp_path, {"test_long.py": textwrap.dedent(tests)})
    assert {test.split("::", 1)[1]: one.message for test, one in found.items()} == {
        "TestSetup::test": f"OSError: {'x' * 2000} the end",
        "TestBody::test": f"OSError: {'x' * 2000} the end",
        "TestBody::test_own_dots": "AssertionError: and so on...",
    }


@pytest.mark.parametrize("text", ["", "<testsuites><testsuite>", "<html/>"])
def test_corrupt_results(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(HarnessError, match="are not JUnit XML"):
        outcomes.read(tmp_path / "x", 0, "here")


def test_run_shows_the_output_of_pytest(
    toy: Toy, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = suite.run(
        toy.patched, inspect(toy.patched), toy.layout.suite, tmp_path / "out"
    )
    assert run.passed
    assert "2 passed" in capfd.readouterr().out.splitlines()[-1]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["junit.xml"]


def test_run_that_fails(toy: Toy, tmp_path: Path) -> None:
    run = suite.run(
        toy.stock, inspect(toy.stock), toy.layout.suite, tmp_path / "out", quiet=True
    )
    assert not run.passed
    assert "1 failed" in (tmp_path / "out" / "pytest.log").read_text()


def test_suite_takes_what_lies_beside_the_tests(toy: Toy, tmp_path: Path) -> None:
    toy.write("test/functorch/cases.py", "CASES = [1]")
    toy.write("test/functorch/data/one.json", "{}")
    reads = "import pathlib, cases\nassert pathlib.Path('data/one.json').exists()"
    toy.write("test/functorch/test_budget.py", reads + SUITE)
    run = suite.run(
        toy.patched,
        inspect(toy.patched),
        toy.layout.suite,
        tmp_path / "out",
        quiet=True,
    )
    assert list(run.files) == ["cases.py", "data/one.json", "test_budget.py"]


def test_variables_are_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "PYTHONHASHSEED", "TORCH_LOGS", "PYTORCH_X", "KEPT"):
        monkeypatch.setenv(name, "1")
    found = clean_variables(tmp_path)
    assert not {"PYTHONPATH", "PYTHONHASHSEED", "TORCH_LOGS", "PYTORCH_X"} & {*found}
    assert found["KEPT"] == "1"
    assert Path(found["TORCHINDUCTOR_CACHE_DIR"]).parent == tmp_path


def test_imports_that_decide_the_collection(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import a.b, cases\n"
        "from c import d as e, f\n"
        "from g import *\n"
        "if x:\n    import not_always\n"
        "try:\n    import maybe\nexcept ImportError:\n    pass\n"
        "def test():\n    import later\n"
    )
    (tmp_path / "cases.py").write_text("import of_helper\nimport test_one\n")
    assert new_files.of_suite(tmp_path) == {
        "test_one.py": {
            Import("a.b", ""),
            Import("c", "d"),
            Import("c", "f"),
            Import("g", ""),
            Import("of_helper", ""),
        }
    }


@pytest.mark.parametrize(
    ("test", "solver"),
    [
        ("test_a.py::TestA::test_b_dp", "dp"),
        ("test_a.py::TestA::test_b_solver_dp_knapsack", "dp"),
        ("test_a.py::TestA::test_dp_knapsack_sliding_hirschberg_n_9", "hirschberg"),
        ("test_ac_knapsack_ilp.py::TestIlp::test_item", "ilp"),
        ("test_ac_knapsack_ilp.py::TestIlp::test_item_greedy", "greedy"),
        ("test_a.py::TestHirschbergBudget::test_budget", "hirschberg"),
        ("test_a.py::TestA::test_dp_is_exact", "dp"),
        ("test_a.py::TestA::test_equals_dp_exact_knapsack", "exact"),
        ("test_ac_knapsack_invalid.py::TestInvalid::test_nan", "other"),
    ],
)
def test_solver_of_a_test(test: str, solver: str) -> None:
    assert solver_of(test) == solver
