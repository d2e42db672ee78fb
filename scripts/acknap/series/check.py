"""Prove that patches/, its sources, targets.toml and PyTorch's lint fit together."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from acknap.base import git
from acknap.base.errors import SeriesError
from acknap.base.layout import Layout
from acknap.base.parallel import for_each
from acknap.base.progress import working
from acknap.series import lint as upstream_lint
from acknap.series import tree
from acknap.series.export import changed_files, present, render
from acknap.series.patches import OPTIONAL, Series, load
from acknap.upstream import pristine
from acknap.upstream.targets import SeriesEntry, Target, Targets

_Released = Mapping[str, Mapping[str, bytes]]  # by target
_Patches = Mapping[str, Series]  # by its name
_Patched = dict[str, Mapping[str, bytes]]  # by target

_EXPORT = "run `./scripts/harness export`"


@dataclass(frozen=True)
class Finding:
    """Something that does not fit.

    Attributes:
        where: A series or a target.
    """

    where: str
    problem: str


def run_check(
    layout: Layout, targets: Targets, target: str | None, as_json: bool
) -> int:
    """Check all targets, or one, and print the result.

    Returns:
        0 if all fits, else 1.

    Raises:
        HarnessError: the pristine files cannot be had.
    """
    chosen = [targets.get(target)] if target else list(targets.all)
    start = time.monotonic()
    with working(f"Checking {', '.join(one.name for one in chosen)}"):
        findings = _findings(layout, targets, chosen)
    seconds = time.monotonic() - start
    if as_json:
        report = {
            "targets": [one.name for one in chosen],
            "findings": [asdict(finding) for finding in findings],
        }
        print(json.dumps(report, indent=2))
    else:
        _print_table(layout, chosen, {finding.where for finding in findings})
        for finding in findings:
            print(f"{finding.where}: {finding.problem}")
        print(f"{len(chosen)} targets, {len(findings)} findings, {seconds:.1f} s")
    return 1 if findings else 0


def _findings(layout: Layout, targets: Targets, chosen: list[Target]) -> list[Finding]:
    findings: list[Finding] = []
    patches: dict[str, Series] = {}
    for name in dict.fromkeys(one.series for one in chosen):
        try:
            patches[name] = load(layout, name)
        except SeriesError as error:
            findings.append(Finding(name, str(error)))
    members = [one for one in chosen if one.series in patches]
    bases = [targets.get(targets.get_series(name).base) for name in patches]
    # The wheels first: an index that fails is no finding.
    needed = list({one.name: one for one in (*members, *bases)}.values())
    files = for_each(lambda one: pristine.read(layout, one), needed)
    released = {one.name: found for one, found in zip(needed, files, strict=True)}
    patched: _Patched = {}
    jobs: list[Callable[[], Iterator[Finding]]] = [
        *(
            partial(_of_variant, layout, targets.get_series(name), patches[name])
            for name in patches
        ),
        *(
            partial(_of_series, layout, targets, base, released, patches)
            for base in bases
        ),
        *(partial(_of_target, one, released, patches, patched) for one in members),
    ]
    for found in for_each(lambda job: list(job()), jobs):
        findings += found
    applied = [one for one in members if one.name in patched]
    return findings + list(dict.fromkeys(_of_lint(applied, released, patched)))


def _of_series(
    layout: Layout,
    targets: Targets,
    base: Target,
    released: _Released,
    patches: _Patches,
) -> Iterator[Finding]:
    """Export again from the patches: messages, new files, every byte."""
    series = targets.get_series(base.series)
    try:
        with tree.temporary(
            base, released[base.name], patches[series.name]
        ) as repository:
            rendered = render(layout, targets, series, repository)
    except SeriesError as error:
        yield Finding(series.name, str(error))
        return
    for path in rendered.adopted:
        problem = f"{path} was edited since the last export: {_EXPORT}"
        yield Finding(series.name, problem)
    found = present(layout, series.name)
    for name in sorted(found.keys() | rendered.content.keys()):
        if found.get(name) != rendered.content.get(name):
            problem = (
                f"patches/{series.name}/{name} is not what export writes: {_EXPORT}"
            )
            yield Finding(series.name, problem)


def _of_variant(
    layout: Layout, series: SeriesEntry, patches: Series
) -> Iterator[Finding]:
    """Compare message and change of each patch with those of the series it varies."""
    if series.variant_of is None:
        return
    try:
        origin = {one.name: one for one in load(layout, series.variant_of).all}
    except SeriesError:  # a finding already, where that series is checked
        return
    own = {one.name: one for one in patches.all}
    different = {
        name
        for name in own.keys() | origin.keys()
        if name not in own
        or name not in origin
        or own[name].identity() != origin[name].identity()
    }
    for name in sorted(different ^ set(series.differs)):
        problem = (
            f"{name} is not that of {series.variant_of}, nor under `differs`"
            if name in different
            else f"{name} is that of {series.variant_of}, but under `differs`"
        )
        yield Finding(series.name, f"{problem} in patches/targets.toml: {_EXPORT}")


def _of_target(
    target: Target, released: _Released, patches: _Patches, patched: _Patched
) -> Iterator[Finding]:
    """Apply the series, compare the blob ids, and add the files to `patched`."""
    files = released[target.name]
    if set(target.before) != set(target.files):
        yield Finding(target.name, f"`before` in targets.toml is incomplete: {_EXPORT}")
    try:
        with tree.temporary(target, files, patches[target.series]) as repository:
            blobs = tree.file_blobs(repository, tree.SERIES)
            patched[target.name] = _all_files(repository)
    except SeriesError as error:
        yield Finding(target.name, str(error))
        return
    after = changed_files(files, blobs)
    for path in sorted(after.keys() | target.after.keys()):
        gives, pinned = (
            after.get(path, "no change"),
            target.after.get(path, "no change"),
        )
        if gives != pinned:
            problem = (
                f"{path}: the series gives {gives}, patches/targets.toml pins {pinned} "
                f"under `after`: {_EXPORT}"
            )
            yield Finding(target.name, problem)


def _all_files(repository: Path) -> dict[str, bytes]:
    """What a tree has with the optional patches too."""
    if git.has_ref(repository, OPTIONAL):
        git.run(repository, "checkout", "--quiet", OPTIONAL)
    paths = tree.file_blobs(repository, "HEAD")
    return {path: (repository / path).read_bytes() for path in paths}


def _of_lint(
    members: list[Target], released: _Released, patched: _Patched
) -> Iterator[Finding]:
    """Lint as PyTorch does; what the released files have already is no finding."""
    changes = [(released[one.name], patched[one.name]) for one in members]
    for target, remarks in zip(members, upstream_lint.lint(changes), strict=True):
        for remark in remarks:
            # A new file is the same in every release.
            where = target.name if remark.path in target.files else target.series
            yield Finding(where, str(remark))


def _print_table(layout: Layout, chosen: list[Target], drifted: set[str]) -> None:
    console = Console()
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None)
    for header in ("target", "series", "patches", "result"):
        table.add_column(header)
    for one in chosen:
        result = "drifted" if {one.name, one.series} & drifted else "ok"
        count = len(present(layout, one.series))
        table.add_row(one.name, one.series, str(count), result)
    console.print(table)
