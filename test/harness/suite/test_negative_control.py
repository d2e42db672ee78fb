"""A wrong patch is found: the comparison on real torch, with faults in the series.

The faults stand in copies of two modules, which the patched release's suite imports in
place of its own; its files stay as they are.
"""

import json
import shutil
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from acknap.base.layout import Layout
from acknap.suite import compare, run
from acknap.torches import environments
from acknap.torches.environments import Environment
from acknap.upstream.targets import Targets

REAL = Layout.default()
TARGET = "v2.10.0"
PACKAGE = "torch._functorch._activation_checkpointing"
FILES = ("test_ac_knapsack_greedy.py", "test_ac_budget_overwritten_inputs.py")
SLOW = "inductor"  # what is compiled by a C++ compiler shows nothing more

# With this beside the copies on PYTHONPATH, they come before the modules of torch.
FINDER = """
import importlib.util
import sys
from pathlib import Path

class Planted:
    def find_spec(self, name, path=None, target=None):
        file = Path(__file__).with_name(f"{name}.py")
        if file.exists():
            return importlib.util.spec_from_file_location(name, file)

sys.meta_path.insert(0, Planted())
"""
WITHOUT_SLOW = f"""
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "{SLOW}" not in item.name]
"""


class Fault(NamedTuple):
    """An edit of a module, and problems that a comparison has to name."""

    module: str
    old: str
    new: str
    problems: tuple[str, ...]


FAULTS = (
    Fault(  # one item more than fits
        "knapsack",
        "if total_memory + memory[i] <= max_memory:",
        "if total_memory <= max_memory:",
        ("regressed: test_ac_knapsack_greedy.py::TestGreedy::test_best_ratio_first",),
    ),
    Fault(  # the cut saves inputs that are overwritten
        "overwritten_inputs",
        "    overwritten = _get_overwritten_inputs(graph)\n",
        "    overwritten = {}\n",
        tuple(
            f"{what}: test_ac_budget_overwritten_inputs.py::TestOverwrittenInputs::"
            "test_gradients_budget_1_0_in_graph_True_function_read_before"
            for what in ("still failing", "claimed as fixed, but still failing")
        ),
    ),
)


@pytest.fixture(scope="module")
def sides() -> tuple[Environment, Environment]:
    """The release as published, and with the series."""
    target = Targets.load(REAL).get(TARGET)
    return environments.stock(REAL, target), environments.patched(REAL, target)


@pytest.fixture
def layout(
    sides: tuple[Environment, Environment],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Layout:
    """A repository with two files of the suite, beside the real environments."""
    monkeypatch.delenv("ACKNAP_BUILD", raising=False)
    monkeypatch.setattr(environments, "stock", lambda *_: sides[0])
    monkeypatch.setattr(environments, "patched", lambda *_: sides[1])
    made = Layout(tmp_path / "repository")
    made.suite.mkdir(parents=True)
    made.patches.symlink_to(REAL.patches)
    for name in FILES:
        shutil.copy(REAL.suite / name, made.suite)
    (made.suite / "conftest.py").write_text(WITHOUT_SLOW)
    text = (REAL.suite.parent / "fixed.toml").read_text()
    claims = {
        name: [one for one in patterns if SLOW not in one]
        for name, patterns in tomllib.loads(text)["fixed"].items()
        if name in FILES
    }
    lines = (f"{name!r} = {patterns}\n" for name, patterns in claims.items())
    (made.suite.parent / "fixed.toml").write_text(f"[fixed]\n{''.join(lines)}")
    return made


def compared(
    layout: Layout,
    patched: Environment,
    monkeypatch: pytest.MonkeyPatch,
    *,
    faulty: bool,
) -> tuple[int, list[str]]:
    """The exit status of a comparison, with faults or without, and its problems."""
    planted = layout.root / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(FINDER)
    for fault in FAULTS:
        name = f"{PACKAGE}.{fault.module}"
        source = patched.site_packages / f"{name.replace('.', '/')}.py"
        text = source.read_text()
        assert text.count(fault.old) == 1
        text = text.replace(fault.old, fault.new) if faulty else text
        (planted / f"{name}.py").write_text(text)
    real = run.run

    def run_planted(environment: Environment, *rest, **more) -> run.SuiteRun:  # type: ignore[no-untyped-def]
        first = planted if environment is patched else None
        return real(environment, *rest, first=first, **more)

    monkeypatch.setattr(run, "run", run_planted)
    out = layout.root / "out"
    targets = Targets.load(REAL)
    status = compare.run_compare(
        layout, targets, TARGET, against=None, checkout=None, out=out, as_json=True
    )
    return status, json.loads((out / "compare.json").read_text())["problems"]


def test_copies_without_a_fault_pass(
    layout: Layout,
    sides: tuple[Environment, Environment],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = compared(layout, sides[1], monkeypatch, faulty=False)
    assert found == (0, [])


def test_each_wrong_patch_is_found(
    layout: Layout,
    sides: tuple[Environment, Environment],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, problems = compared(layout, sides[1], monkeypatch, faulty=True)
    assert status == 1
    for fault in FAULTS:
        assert {*fault.problems} <= {*problems}, problems
