"""`test`: all that has to hold before a change goes in."""

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial

from acknap.base import git
from acknap.base.errors import HarnessError
from acknap.base.files import recall, remember, scratch
from acknap.base.layout import Layout
from acknap.series import lint, tree
from acknap.series.check import run_check
from acknap.series.patches import load
from acknap.suite import run
from acknap.suite.compare import run_compare
from acknap.suite.plugin import run_own_tests
from acknap.torches import environments
from acknap.torches.inspect import inspect
from acknap.upstream import pristine
from acknap.upstream.targets import Targets

# The bases of two series; the third is one of them but for a hunk.
COMPARED, OLDEST = "v2.10.0", "v2.9.1"
# The package for an unpatched torch is tested on this one: the smallest install.
PLUGIN = "v2.13.0"

_COMMANDS = (
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("mypy",),
    # A package of the harness's name, in a run of its own.
    ("mypy", "--config-file", "plugin/pyproject.toml"),
    # File by file side by side, the container's long one among the first.
    (
        *("pytest", "--numprocesses=auto", "--maxprocesses=8"),
        *("--dist=loadfile", "--no-loadscope-reorder"),
    ),
)


def run_test(layout: Layout) -> int:
    """Run every step that did not pass yet, whatever the earlier ones said.

    A line for each step stands before the last one, a suite, so that pytest's own
    summary ends the output.

    Returns:
        0 if all passed, else 1.
    """
    steps: dict[str, Callable[[], bool]] = {
        shlex.join(words): partial(_run_command, layout, words) for words in _COMMANDS
    }
    steps["harness check"] = partial(_run_check, layout)
    for target in (OLDEST, COMPARED):
        steps[f"types on {target}"] = partial(_run_types, layout, target)
    steps[f"the package on stock {PLUGIN}"] = partial(_run_plugin, layout)
    steps[f"harness compare --target {COMPARED}"] = partial(_run_compare, layout)
    ends = _run_steps(layout, steps)
    print("", *(f"{name}: {end}" for name, end in ends.items()), sep="\n", flush=True)
    last = {f"suite on patched {OLDEST}": partial(_run_suite, layout)}
    ends |= _run_steps(layout, last)
    failed = [name for name, end in ends.items() if end.startswith("failed")]
    if failed:
        print(f"Failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run_steps(
    layout: Layout, steps: Mapping[str, Callable[[], bool]]
) -> dict[str, str]:
    """Run steps, and say how each ended; what passed in this tree is kept."""
    path, tree = layout.build / "test" / "passed.json", _tree(layout)
    passed: list[str] = recall(path, tree) or []
    ends = {}
    for name, step in steps.items():
        if name in passed:
            ends[name] = f"kept: it passed in this tree, see {layout.relative(path)}"
            print(f"\n$ {name}\n{ends[name]}", flush=True)
            continue
        start = time.monotonic()
        good = _passes(name, step)
        seconds = time.monotonic() - start
        ends[name] = f"{'passed' if good else 'failed'} in {seconds:.0f} s"
        # Unless the tree was edited since the step began.
        if good and tree and tree == _tree(layout):
            passed.append(name)
            remember(path, tree, passed)
    return ends


def _tree(layout: Layout) -> list[str]:
    """What the steps depend on: all files but ignored ones, and Python."""
    if not (layout.root / ".git").exists():  # an unpacked archive
        return []
    with scratch() as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        git.run(layout.root, "add", "--all", environment=index)
        made = git.text(layout.root, "write-tree", environment=index)
    return [made, sys.version]


def _passes(name: str, step: Callable[[], bool]) -> bool:
    print(f"\n$ {name}", flush=True)
    try:
        return step()
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return False


def _run_command(layout: Layout, words: tuple[str, ...]) -> bool:
    done = subprocess.run([sys.executable, "-m", *words], cwd=layout.root)
    return done.returncode == 0


def _run_check(layout: Layout) -> bool:
    return run_check(layout, Targets.load(layout), target=None, as_json=False) == 0


def _run_types(layout: Layout, name: str) -> bool:
    """Check types with those of torch, of which `check` has a few files."""
    target = Targets.load(layout).get(name)
    torch = environments.stock(layout, target).site_packages / "torch"
    released = pristine.read(layout, target)
    patched = tree.patched_files(target, released, load(layout, target.series))
    found = lint.added(
        lint.lint_types(released, torch),
        lint.lint_types({**released, **patched}, torch),
    )
    for remark in found:
        print(remark)
    return not found


def _run_compare(layout: Layout) -> bool:
    """Hold the suite and test/fixed.toml against stock on this machine."""
    folder = layout.build / "test" / COMPARED
    targets = Targets.load(layout)
    status = run_compare(layout, targets, COMPARED, None, None, folder, as_json=False)
    return status == 0


def _run_plugin(layout: Layout) -> bool:
    return run_own_tests(layout, Targets.load(layout), PLUGIN)


def _run_suite(layout: Layout) -> bool:
    environment = environments.patched(layout, Targets.load(layout).get(OLDEST))
    out = layout.build / "test" / OLDEST
    return run.run(environment, inspect(environment), layout.suite, out).passed
