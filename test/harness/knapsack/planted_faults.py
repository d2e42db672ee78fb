"""Faults that a test of the exact solver has to catch, planted one at a time.

Runs inside an environment with the patched torch:

    python planted_faults.py OVERLAY_FOLDER TEST_FOLDER

Each fault is planted in a copy of the solver's modules, which a child process imports
in place of the environment's. It has to fail the tests that are named for it.
"""

import importlib
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

PACKAGE = "torch._functorch._activation_checkpointing"


class Fault(NamedTuple):
    """One edit of a module, and the tests that catch it.

    Attributes:
        file: Of the solver, without the common prefix and the ending.
        tests: A file of test/functorch without its prefix and ending, and a pattern.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, str]


FAULTS = (
    Fault(
        "profits are rounded down",
        "_items",
        "whole.add_(whole.double() < values)",
        "whole",
        ("exact", "*rounding_to_integers*"),
    ),
    Fault(
        "closed nodes are forgotten",
        "_branch",
        "self.closed = max(self.closed, bound)",
        "pass",
        ("exact", "*too_close_to_be_searched*"),
    ),
    Fault(
        "the gap is without the rounding of profits",
        "",
        "gap += sum(keep)",
        "gap += 0",
        ("exact", "*gap_covers_the_rounding*"),
    ),
    Fault(
        "bounds have no margin for float64",
        "_items",
        "MARGIN = 2.0**-48",
        "MARGIN = 0.0",
        ("exact_states", "*by_less_than_the_margin*"),
    ),
    Fault(
        "the order of rounded types is trusted",
        "_branch",
        ">> ORDER",
        ">> 500",
        ("exact", "*may_change_the_order*"),
    ),
    Fault(
        "the room of later pieces is left out",
        "_states",
        "self.spare_room = -sum(min(x.weight, 0) for x in self.later)",
        "self.spare_room = 0",
        ("exact_states", "*bound_of_a_part*"),
    ),
    Fault(
        "no common unit is found",
        "_items",
        "            return unit\n",
        "            return 0.0\n",
        ("exact_states", "*differ_by_a_thousandth*"),
    ),
    Fault(
        "the first part is of unit 1",
        "_states",
        "unit = _best_unit(pieces, self.room)",
        "unit = 1",
        ("exact_states", "*differ_by_a_thousandth*"),
    ),
    Fault(
        "equal ratios are not mixed",
        "_items",
        "mixed = a * 1e6 * (5**0.5 - 1) % 1",
        "mixed = 0.0",
        ("exact_states", "*sizes_of_one_ratio*"),
    ),
    Fault(
        "dominated types are kept",
        "_branch",
        "count[k] = min(count[k], max(0, room // knapsack.weight[k]))",
        "pass",
        ("exact_states", "*large_and_small*"),
    ),
)


def plant(fault: Fault, overlay: Path, folder: Path) -> None:
    """Copy the solver's modules, one of them with the fault."""
    for path in overlay.glob("knapsack_exact*.py"):
        shutil.copy(path, folder)
    file = folder / f"knapsack_exact{fault.file}.py"
    text = file.read_text()
    if text.count(fault.old) != 1:
        raise ValueError(f"{file.name} has not one {fault.old!r}")
    file.write_text(text.replace(fault.old, fault.new))


def fails(fault: Fault, folder: Path) -> bool:
    """Whether one of the tests fails with the solver of that folder; in a child."""
    package = importlib.import_module(PACKAGE)
    package.__path__.insert(0, str(folder))
    for name in [x for x in sys.modules if x.startswith(f"{PACKAGE}.knapsack_exact")]:
        del sys.modules[name]
        delattr(package, name.rpartition(".")[2])
    file, pattern = fault.tests
    module = importlib.import_module(f"test_ac_knapsack_{file}")
    loader = unittest.TestLoader()
    loader.testNamePatterns = [pattern]
    suite = loader.loadTestsFromModule(module)
    if not suite.countTestCases():
        raise ValueError(f"no test is called {pattern}")
    result = unittest.TestResult()
    result.failfast = True
    suite.run(result)
    return not result.wasSuccessful()


def caught(fault: Fault, overlay: Path) -> bool:
    """Whether the tests that are named for a fault fail with it."""
    with tempfile.TemporaryDirectory() as name:
        plant(fault, overlay, Path(name))
        child = os.fork()
        if not child:
            status = 2
            try:
                status = int(fails(fault, Path(name)))
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, 1):
        raise RuntimeError(f"{fault.name}: the tests do not run")
    return status == 1


def main() -> int:
    """Plant all faults; print those that no test catches."""
    overlay, tests = map(Path, sys.argv[1:])
    sys.path.insert(0, str(tests))
    importlib.import_module("torch._functorch.partitioners")
    importlib.import_module("torch.testing._internal.common_utils")
    status = 0
    for fault in FAULTS:
        sound = fault._replace(new=fault.old)
        if caught(sound, overlay):
            print(f"fails without a fault: {fault.tests[1]}", flush=True)
            status = 1
        if not caught(fault, overlay):
            print(f"not caught: {fault.name}", flush=True)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
