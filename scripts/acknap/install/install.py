"""The series in a torch that is installed: put in, taken out, and what is there."""

import errno
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from acknap.base.errors import HarnessError
from acknap.base.files import require_space
from acknap.base.layout import Layout
from acknap.install import installed, journal
from acknap.install.installed import Torch
from acknap.install.journal import Journal
from acknap.series import tree
from acknap.series.patches import Series, load
from acknap.upstream import pristine, state
from acknap.upstream.targets import PACKAGED, Target, Targets

State = Literal["pristine", "patched", "partly", "unknown"]

_STATUS: Mapping[State, int] = {"patched": 0, "pristine": 1, "partly": 2, "unknown": 2}
_SCRATCH = 50_000_000
_RESTART = "; restart what has imported torch"
_PACKAGE = (
    ". It would do without: the package that `./scripts/harness wheel --plugin` writes "
    "makes the same plans in torch as released"
)
# A plan that the compile cache has is not made, and so not logged.
_NEXT = """
Write next: torch._functorch.config.activation_memory_budget = 0.5, and \
.activation_memory_budget_solver = "exact" for the optimum within the budget
See it at work: TORCH_LOGS="torch._functorch.partitioners" shows a line for each graph \
that is planned; with TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 also for what is in the \
compile cache, TORCHINDUCTOR_CACHE_DIR or else torchinductor_USER in /tmp"""


@dataclass(frozen=True)
class Finding:
    """What an installed torch is.

    Attributes:
        target: The release, if it is a known one.
        revision: The revision of the series that is in it, if there is one.
        journal: What `install` did to it, if it did.
        note: The state's reason, and what to do.
    """

    state: State
    note: str
    target: Target | None = None
    revision: str = ""
    journal: Journal | None = None


def status(layout: Layout, targets: Targets, python: str | None) -> int:
    """Print the state of a torch.

    Returns:
        0 if the series is in it, 1 if it is pristine, 2 if it is neither.
    """
    torch = installed.find(python)
    found = _examine(layout, targets, torch)
    print(_line(torch, found))
    if torch.default_solver:
        print(f"solver by default: {torch.default_solver}")
    return _STATUS[found.state]


def install(layout: Layout, targets: Targets, python: str | None) -> str:
    """Put the series into an installed torch, all of it or nothing.

    Returns:
        A line that says what was done, and two on what to do with it.

    Raises:
        HarnessError: torch is not a release as published, or cannot be changed.
    """
    torch = installed.find(python)
    with _explained(layout, targets, torch, "install"), installed.locked(torch):
        found = _examine(layout, targets, torch)
        target = found.target
        if not target or found.state == "unknown":
            raise HarnessError(_line(torch, found))
        series = load(layout, target.series)
        if found.state == "patched" and found.revision == series.revision:
            return f"nothing to install: {_line(torch, found)}"
        if found.state != "pristine" and not found.journal:
            raise HarnessError(_line(torch, found))
        contents = _contents(target, series, torch, found.journal)
        installed.require_changeable(torch, contents)
        if found.journal:
            journal.take_back(torch)
            _verified(layout, targets, torch, "pristine")
        journal.put(torch, target, series.revision, contents)
        line = _verified(layout, targets, torch, "patched") + _RESTART
        return line + (_PACKAGE if target.series == PACKAGED else "") + _NEXT


def uninstall(layout: Layout, targets: Targets, python: str | None) -> str:
    """Give an installed torch its own files back.

    Returns:
        One line that says what was done.

    Raises:
        HarnessError: what was released is not known any more.
    """
    torch = installed.find(python)
    with _explained(layout, targets, torch, "uninstall"), installed.locked(torch):
        found = _examine(layout, targets, torch)
        if found.state == "pristine":
            if found.journal:
                journal.take_back(torch)
            journal.clear(torch)
            line = _verified(layout, targets, torch, "pristine")
            return f"nothing to uninstall: {line}"
        if not found.journal:
            raise HarnessError(f"{torch}: nothing is changed: {found.note}")
        installed.require_writable(torch, found.journal.files)
        journal.take_back(torch)
        return _verified(layout, targets, torch, "pristine") + _RESTART


@contextmanager
def _explained(
    layout: Layout, targets: Targets, torch: Torch, command: str
) -> Iterator[None]:
    """Say of an error of the system where it was, what to do, and what torch is now."""
    try:
        yield
    except OSError as error:
        path = error.filename2 or error.filename or torch.site_packages
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        todo = "make room on that disk" if full else "put that right"
        raise HarnessError(
            f"{error.strerror or error}: {path}: {todo} and run `{command}` again; "
            f"{torch} is {_examine(layout, targets, torch).state} now"
        ) from error


def _verified(layout: Layout, targets: Targets, torch: Torch, state: State) -> str:
    """Look at the files again: what a torch is that should be in some state now."""
    found = _examine(layout, targets, torch)
    if found.state != state:
        raise HarnessError(_line(torch, found))
    return _line(torch, found)


def _line(torch: Torch, found: Finding) -> str:
    return f"{found.state}: {torch}: {found.note}"


def _examine(layout: Layout, targets: Targets, torch: Torch) -> Finding:
    """Compare a torch with the release that it was built as, and with our journal."""
    target = next((one for one in targets.all if one.commit == torch.commit), None)
    if not target:
        known = ", ".join(one.name for one in targets.all)
        note = (
            f"built from commit {torch.commit or 'unknown'}: the series is for the "
            f"releases {known} as published"
        )
        return Finding("unknown", note)
    record = journal.read(torch)
    if record and record.commit == torch.commit:
        return _examine_journal(layout, target, torch, record)
    return _examine_files(layout, target, torch)


def _examine_journal(
    layout: Layout, target: Target, torch: Torch, record: Journal
) -> Finding:
    if foreign := journal.foreign(torch, record):
        note = (
            f"another program changed {foreign} since `install`: remove "
            f"{torch.site_packages / journal.FOLDER} and {torch.again}"
        )
        return Finding("unknown", note, target)
    current = {path: torch.blob(path) for path in record.files}
    if current == {path: before for path, (before, _) in record.files.items()}:
        return replace(_examine_files(layout, target, torch), journal=record)
    name = f"series {record.series}, revision {record.revision[:8]}"
    state: State = "partly"
    note, contained = f"`install` or `uninstall` of {name} was stopped; ", ""
    if current == {path: after for path, (_, after) in record.files.items()}:
        state = "patched"
        note, contained = f"{target.name} with {name}; ", record.revision
    if lost := journal.lost(torch, record):
        note += f"{lost} is missing or changed: to take it out, {torch.again}"
        return Finding(state, note, target, contained)
    newest = load(layout, target.series).revision
    note += _offer("uninstall", "takes it out", torch, record.files)
    if contained != newest:
        does = f"puts revision {newest[:8]} in"
        note += f", {_offer('install', does, torch, record.files)}"
    return Finding(state, note, target, contained, record)


def _examine_files(layout: Layout, target: Target, torch: Torch) -> Finding:
    """Judge a torch to which our `install` did nothing."""
    series = load(layout, target.series)
    found = state.blobs(
        torch.site_packages, state.expected(target, series.added, "patched")
    )
    name = f"series {target.series}, revision {series.revision[:8]}"
    match state.of(found, target, series.added):
        case "pristine":
            touched = {**target.after, **series.added}
            offer = _offer("install", f"puts {name} in", torch, touched)
            note = f"{target.name} as released; {offer}"
            if journal.has_folder(torch):
                note += f", and `uninstall` removes {journal.FOLDER} of a stopped run"
            return Finding("pristine", note, target)
        case "patched":
            note = (
                f"{target.name} with {name}, which is part of this build, or its "
                "originals were removed: to take it out, install the released torch "
                f"with pip ({torch.pip_option})"
            )
            return Finding("patched", note, target, series.revision)
    if edited := state.differing(found, target.before):
        note = f"{edited} is not that of {target.name}: {torch.again}"
        return Finding("unknown", note, target)
    strange = next(path for path in series.added if found[path])
    return Finding("unknown", f"{strange} is not of the release: remove it", target)


def _offer(command: str, does: str, torch: Torch, paths: Collection[str]) -> str:
    """What a command does, or why it refuses to change these files."""
    changes = command == "install"
    require = installed.require_changeable if changes else installed.require_writable
    try:
        require(torch, paths)
    except HarnessError as error:
        return f"`{command}` refuses: {error}"
    return f"`{command}` {does}"


def _contents(
    target: Target, series: Series, torch: Torch, record: Journal | None
) -> dict[str, bytes]:
    """The series' files, in the order in which its patches first touch them."""
    released = {}
    for path in target.files:
        file = journal.original(torch, path) if record else torch.site_packages / path
        released[path] = file.read_bytes()
    pristine.verify(target, released, str(torch), torch.again)
    # Where it is full, git says that a patch does not apply.
    scratch = Path(tempfile.gettempdir())
    require_space(scratch, _SCRATCH, "patching", "set TMPDIR to another disk")
    contents = tree.patched_files(target, released, series)
    return {path: contents[path] for path in series.touched if path in contents}
