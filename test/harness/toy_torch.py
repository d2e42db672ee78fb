"""A torch of a few lines in two virtual environments, for tests of the comparison."""

import hashlib
import json
import os
import sys
import venv
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import pytest

from acknap.base.layout import Layout
from acknap.base.venv import Venv
from acknap.suite import compare
from acknap.torches import environments
from acknap.torches.environments import Environment
from acknap.upstream.targets import SeriesEntry, Target, Targets

FOLDER = "torch/_functorch/_activation_checkpointing"
KNAPSACK = f"{FOLDER}/knapsack.py"
ADDED = f"{FOLDER}/new_solver.py"
COMMIT = "1" * 40

# Its dp_knapsack saves everything, whatever the budget.
STOCK = """
def dp_knapsack(memory, runtimes, max_memory):
    return sum(runtimes), list(range(len(memory))), []

def greedy_knapsack(memory, runtimes, max_memory):
    return 0.0, [], list(range(len(memory)))
"""
PATCHED = """
IS_PATCHED = True

def dp_knapsack(memory, runtimes, max_memory):
    return 0.0, [], list(range(len(memory)))

def greedy_knapsack(memory, runtimes, max_memory):
    return 0.0, [], list(range(len(memory)))
"""

SUITE = """
import unittest

from torch._functorch._activation_checkpointing import knapsack

IS_PATCHED = hasattr(knapsack, "IS_PATCHED")

class TestBudget(unittest.TestCase):
    def test_over_budget_dp(self):
        self.assertEqual(knapsack.dp_knapsack([2.0], [1.0], 1.0)[1], [])

    def test_over_budget_greedy(self):
        self.assertEqual(knapsack.greedy_knapsack([2.0], [1.0], 1.0)[1], [])
"""
CLAIM = '[fixed]\n"test_budget.py" = ["TestBudget::*_dp"]\n'


class Toy:
    """A repository with a series for the toy, and the toy stock and patched."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ACKNAP_BUILD", raising=False)
        self.layout = Layout(folder / "repository")
        self.target = Target(
            name="v1.0.0",
            release="1.0.0",
            commit=COMMIT,
            series="v1.0",
            role="toy",
            requires_python=">=3.11",
            before={KNAPSACK: blob_id(STOCK)},
            after={KNAPSACK: blob_id(PATCHED)},
        )
        self.stock = self._environment(folder / "stock", "stock")
        self.patched = self._environment(folder / "patched", "patched")
        self.install(self.stock, KNAPSACK, STOCK)
        self.install(self.patched, KNAPSACK, PATCHED)
        self.install(self.patched, ADDED, "def solve(): return 1")
        self.write("test/functorch/test_budget.py", SUITE)
        self.write("test/fixed.toml", CLAIM)
        self.write("patches/v1.0/0001-toy.patch", _patch(KNAPSACK, ADDED))
        monkeypatch.setattr(environments, "stock", lambda *_: self.stock)
        monkeypatch.setattr(environments, "patched", lambda *_: self.patched)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the toy repository."""
        path = self.layout.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    def install(self, environment: Environment, name: str, text: str) -> None:
        """Write a file of the toy torch in one environment."""
        (environment.site_packages / name).write_text(text)

    def repatch(self, source: str) -> None:
        """Give the patched side another knapsack.py, and pin it."""
        self.install(self.patched, KNAPSACK, source)
        for pins in (self.target.after, self.patched.files):
            pins[KNAPSACK] = blob_id(source)  # type: ignore[index]

    def compare(self, **options: Any) -> int:
        """Run `compare` as the command line does."""
        series = {"v1.0": SeriesEntry("v1.0", "v1.0.0", (KNAPSACK,))}
        defaults = {"against": None, "checkout": None, "out": None, "as_json": False}
        return compare.run_compare(
            self.layout,
            Targets((self.target,), series),
            "v1.0.0",
            **(defaults | options),
        )

    @property
    def folder(self) -> Path:
        """Where `compare` writes if it is not told."""
        return self.layout.build / "compare-v1.0.0-against-v1.0.0"

    def record(self) -> dict[str, Any]:
        """Return the JSON that `compare` wrote."""
        content: dict[str, Any] = json.loads((self.folder / "compare.json").read_text())
        return content

    def categories(self) -> dict[str, str]:
        """Return the category that `compare` gave to each test."""
        return {test["test"]: test["category"] for test in self.record()["tests"]}

    def _environment(
        self, prefix: Path, kind: Literal["stock", "patched"]
    ) -> Environment:
        venv.EnvBuilder(symlinks=True).create(prefix)
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        site = prefix / "lib" / version / "site-packages"
        # pytest comes from the environment that runs these tests.
        (site / "pytest.pth").write_text(str(Path(pytest.__file__).parents[1]))
        (site / FOLDER).mkdir(parents=True)
        for package in ("torch", "torch/_functorch", FOLDER):
            (site / package / "__init__.py").touch()
        (site / "torch/__init__.py").write_text(
            "from torch import version\n__version__ = version.__version__\n"
        )
        (site / "torch/version.py").write_text(
            f"__version__ = '1.0.0'\ngit_version = {COMMIT!r}\n"
        )
        source = STOCK if kind == "stock" else PATCHED
        pins = {KNAPSACK: blob_id(source)}
        return Environment(self.target, kind, Venv(prefix), pins)


def blob_id(text: str) -> str:
    """Return the id that git gives to a text."""
    data = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _patch(changed: str, added: str) -> str:
    return os.linesep.join(
        [
            "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001",
            "Subject: [PATCH] Keep to the budget",
            "",
            f"diff --git a/{changed} b/{changed}",
            f"index {'1' * 40}..{'2' * 40} 100644",
            f"diff --git a/{added} b/{added}",
            "new file mode 100644",
            f"index {'0' * 40}..{'3' * 40}",
            "",
        ]
    )
