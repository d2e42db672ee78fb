"""The package for an unpatched torch against stock and patched torch."""

import json
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree

from acknap.base import venv
from acknap.base.errors import HarnessError
from acknap.base.files import scratch, write_atomic
from acknap.base.layout import INSIDE, Layout
from acknap.base.progress import say, working
from acknap.plugin.environment import left_behind, with_plugin
from acknap.suite import run
from acknap.suite.fuzz import count_on_package
from acknap.suite.run import SuiteRun
from acknap.torches import environments
from acknap.torches.environments import Environment
from acknap.torches.inspect import inspect, label
from acknap.torches.worker import run_workers
from acknap.upstream.targets import Targets

WORKER = INSIDE / "models" / "saved_sets.py"
PROGRAMS = 100
_SMALL = ("convnet",)


def run_plugin(
    layout: Layout, targets: Targets, name: str, out: Path | None, *, record: bool
) -> int:
    """Test the package on a release in all ways, and write what came out.

    Its own tests run in the stock release, and so does the suite of the series, with
    the package's modules in the place of torch's, and random programs. Its plans have
    to be those of the patched release.

    Args:
        layout: The repository.
        targets: The table of releases.
        name: The release.
        out: The folder of the record, instead of build/plugin-RELEASE.
        record: Whether it is results/plugin-RELEASE.

    Returns:
        0 if all is as it should be, else 1.

    Raises:
        HarnessError: An environment cannot be made, or a run proves nothing.
    """
    target = targets.get(name)
    folder = layout.output(f"plugin-{target.name}", out, record=record)
    environment = with_plugin(layout, targets, target)
    patched = environments.patched(layout, target)
    work = layout.build / "plugin" / target.name
    plans = compare_plans(layout, environment, patched, _captured(layout))
    own = _own_tests(layout, environment, work / "own", quiet=True)
    programs, wrong = count_on_package(layout, environment, PROGRAMS, work / "fuzz")
    suite = _suite(layout, environment, work / "suite")
    cannot = _cannot(layout, suite)
    failed = {test for test, outcome in suite.outcomes.items() if outcome.bad}
    left = left_behind(layout, targets)
    content = {
        "release": target.release,
        "own tests": _count(own),
        "bytes of a Trainer's step": _measured(work / "own" / "junit.xml"),
        "left by pip uninstall": left,
        "suite on the package": _count(suite),
        "cannot": cannot,
        "failed": sorted(failed - cannot.keys()),
        "random programs on the package": programs,
        "programs that failed": wrong,
        "plans are those of patched torch": plans,
    }
    write_atomic(
        folder / "record.json", (json.dumps(content, indent=1) + "\n").encode()
    )
    say(f"Record: {layout.relative(folder)}")
    unknown = failed - cannot.keys()
    good = own.passed and all(plans.values())
    return 0 if good and not (unknown or wrong or left) else 1


def run_own_tests(layout: Layout, targets: Targets, name: str) -> bool:
    """Whether the package's own tests pass, and its plans equal patched torch's.

    Raises:
        HarnessError: An environment cannot be made, or a run proves nothing.
    """
    target = targets.get(name)
    environment = with_plugin(layout, targets, target)
    patched = environments.patched(layout, target)
    work = layout.build / "plugin" / target.name / "own"
    own = _own_tests(layout, environment, work, quiet=False)
    equal = compare_plans(layout, environment, patched, _SMALL)
    for model, is_equal in equal.items():
        said = "those" if is_equal else "NOT those"
        print(f"plans of {model} are {said} of patched {target.name}")
    return own.passed and all(equal.values())


def compare_plans(
    layout: Layout,
    environment: Environment,
    patched: Environment,
    models: Sequence[str],
) -> dict[str, bool]:
    """For each model whether package and patched torch save the same, at all budgets.

    Args:
        layout: The repository.
        environment: With the package.
        patched: With the series.
        models: As `capture` takes them.

    Raises:
        HarnessError: A process fails.
    """
    sides = (environment, patched)
    library: list[str | Path] = []
    if any(model.startswith("transformers:") for model in models):
        found = venv.extra(layout, "capture-transformers", "transformers")
        library = ["--library", found.site_packages]
    with scratch() as folder:
        outputs = [folder / f"{one.kind}.json" for one in sides]
        commands: dict[Path, list[str | Path]] = {}
        for one, output in zip(sides, outputs, strict=True):
            command: list[str | Path] = [one.python, "-I", "-B", WORKER]
            command += [*library, INSIDE.parents[1], output, *models]
            commands[output.with_suffix(".log")] = command
        names = " and ".join(map(label, sides))
        with working(f"Plans of {len(models)} models by {names}"):
            run_workers(commands)
        ours, theirs = (json.loads(output.read_text()) for output in outputs)
    return {model: ours[model] == theirs[model] != [] for model in models}


def _captured(layout: Layout) -> list[str]:
    """The models whose knapsacks are instances, as `capture` takes them."""
    files = (layout.root / "benchmarks" / "instances" / "captured").glob("*.json")
    return sorted(json.loads(file.read_text())["model"] for file in files)


def _cannot(layout: Layout, suite: SuiteRun) -> dict[str, str]:
    """The failed tests that the package is known not to pass, with the reason.

    Raises:
        HarnessError: A reason stands for no failed test.
    """
    path = layout.switch / "cannot.toml"
    found: dict[str, str] = {}
    for reason, patterns in tomllib.loads(path.read_text())["cannot"].items():
        for pattern in patterns:
            tests = [
                test
                for test, outcome in suite.outcomes.items()
                if outcome.bad and fnmatchcase(test, pattern)
            ]
            if not tests:
                shown = layout.relative(path)
                raise HarnessError(f"{shown}: {pattern} is no test that fails")
            found.update(dict.fromkeys(tests, reason))
    return found


def _own_tests(
    layout: Layout, environment: Environment, work: Path, *, quiet: bool
) -> SuiteRun:
    tests = layout.plugin / "tests"
    return run.run(environment, inspect(environment), tests, work, quiet=quiet)


def _suite(layout: Layout, environment: Environment, work: Path) -> SuiteRun:
    found, first = inspect(environment), layout.switch
    return run.run(environment, found, layout.suite, work, first=first, quiet=True)


def _count(done: SuiteRun) -> dict[str, int]:
    counts: dict[str, int] = {}
    for outcome in done.outcomes.values():
        counts[outcome.status] = counts.get(outcome.status, 0) + 1
    return counts


def _measured(xml: Path) -> dict[str, int]:
    """What the tests of a run measured, by name."""
    properties = ElementTree.parse(xml).iter("property")
    return {one.attrib["name"]: int(one.attrib["value"]) for one in properties}
