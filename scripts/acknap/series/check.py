"""Prove that patches/, its sources, targets.toml and PyTorch's lint fit together."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial

from rich.console import Console

from acknap.base import git
from acknap.base.errors import SeriesError
from acknap.base.layout import Layout
from acknap.base.parallel import for_each
from acknap.base.progress import working
from acknap.base.text import print_table
from acknap.series import lint as upstream_lint
from acknap.series import tree
from acknap.series.export import changed_files, present, render
from acknap.series.patches import OPTIONAL, Series, load
from acknap.upstream import pristine, signatures
from acknap.upstream.targets import PACKAGED, SeriesEntry, Target, Targets

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
        findings = _Check(layout, targets).run(chosen)
    seconds = time.monotonic() - start
    if as_json:
        report = {
            "targets": [one.name for one in chosen],
            "findings": [asdict(finding) for finding in findings],
        }
        print(json.dumps(report, indent=2))
    else:
        drifted = {finding.where for finding in findings}
        rows = [
            (
                *(one.name, one.series, str(len(present(layout, one.series)))),
                "drifted" if {one.name, one.series} & drifted else "ok",
            )
            for one in chosen
        ]
        print_table(Console(), ("target", "series", "patches", "result"), rows)
        for finding in findings:
            print(f"{finding.where}: {finding.problem}")
        print(f"{len(chosen)} targets, {len(findings)} findings, {seconds:.1f} s")
    return 1 if findings else 0


@dataclass
class _Check:
    """One run over some targets.

    Attributes:
        patches: By the name of their series.
        released: The files of each target, by its name.
        patched: The same with the series.
    """

    layout: Layout
    targets: Targets
    patches: dict[str, Series] = field(default_factory=dict)
    released: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    patched: dict[str, Mapping[str, bytes]] = field(default_factory=dict)

    def run(self, chosen: list[Target]) -> list[Finding]:
        """All that does not fit."""
        findings: list[Finding] = []
        for name in dict.fromkeys(one.series for one in chosen):
            try:
                self.patches[name] = load(self.layout, name)
            except SeriesError as error:
                findings.append(Finding(name, str(error)))
        members = [one for one in chosen if one.series in self.patches]
        entries = [self.targets.get_series(name) for name in self.patches]
        # The wheels first: an index that fails is no finding.
        names = [*(one.name for one in members), *(one.base for one in entries)]
        needed = [self.targets.get(name) for name in dict.fromkeys(names)]
        files = for_each(partial(pristine.read, self.layout), needed)
        self.released = dict(zip((one.name for one in needed), files, strict=True))
        jobs: list[Iterator[Finding]] = [
            *map(self._variant, entries),
            *map(self._series, entries),
            *map(self._target, members),
            *map(self._signatures, members),
        ]
        for found in for_each(list, jobs):
            findings += found
        applied = [one for one in members if one.name in self.patched]
        return findings + list(dict.fromkeys(self._lint(applied)))

    def _series(self, series: SeriesEntry) -> Iterator[Finding]:
        """Export again from the patches: messages, new files, every byte."""
        name, base = series.name, self.targets.get(series.base)
        files = self.released[base.name]
        try:
            with tree.temporary(base, files, self.patches[name]) as repository:
                rendered = render(self.layout, self.targets, series, repository)
        except SeriesError as error:
            yield Finding(name, str(error))
            return
        for path in rendered.adopted:
            yield Finding(name, f"{path} was edited since the last export: {_EXPORT}")
        found = present(self.layout, name)
        for file in sorted(found.keys() | rendered.content.keys()):
            if found.get(file) != rendered.content.get(file):
                problem = f"patches/{name}/{file} is not what export writes: {_EXPORT}"
                yield Finding(name, problem)

    def _variant(self, series: SeriesEntry) -> Iterator[Finding]:
        """Compare message and change of each patch with those of the varied series."""
        if series.variant_of is None:
            return
        try:
            origin = {one.name: one for one in load(self.layout, series.variant_of).all}
        except SeriesError:  # a finding already, where that series is checked
            return
        own = {one.name: one for one in self.patches[series.name].all}
        different = own.keys() ^ origin.keys()
        different |= {
            name
            for name in own.keys() & origin.keys()
            if own[name].identity() != origin[name].identity()
        }
        for name in sorted(different ^ set(series.differs)):
            problem = (
                f"{name} is not that of {series.variant_of}, nor under `differs`"
                if name in different
                else f"{name} is that of {series.variant_of}, but under `differs`"
            )
            yield Finding(series.name, f"{problem} in patches/targets.toml: {_EXPORT}")

    def _target(self, target: Target) -> Iterator[Finding]:
        """Apply the series, compare the blob ids, and keep the files for `_lint`."""
        name, files = target.name, self.released[target.name]
        if set(target.before) != set(target.files):
            yield Finding(name, f"`before` in targets.toml is incomplete: {_EXPORT}")
        patches = self.patches[target.series]
        try:
            with tree.temporary(target, files, patches) as repository:
                blobs = tree.file_blobs(repository, tree.SERIES)
                last = OPTIONAL if patches.optional else tree.SERIES
                git.run(repository, "checkout", "--quiet", last)
                self.patched[name] = {
                    path: (repository / path).read_bytes()
                    for path in tree.file_blobs(repository, last)
                }
        except SeriesError as error:
            yield Finding(name, str(error))
            return
        after = changed_files(files, blobs)
        for path in sorted(after.keys() | target.after.keys()):
            gives, pinned = (
                ids.get(path, "no change") for ids in (after, target.after)
            )
            if gives != pinned:
                problem = (
                    f"{path}: the series gives {gives}, patches/targets.toml pins "
                    f"{pinned} under `after`: {_EXPORT}"
                )
                yield Finding(name, problem)

    def _signatures(self, target: Target) -> Iterator[Finding]:
        """Compare what the package for an unpatched torch takes from the release."""
        if target.series == PACKAGED:
            released = self.released[target.name]
            for problem in signatures.differences(self.layout, target, released):
                yield Finding(target.name, f"{problem} (plugin/.../_signatures.py)")

    def _lint(self, members: list[Target]) -> Iterator[Finding]:
        """Lint as PyTorch does; what the released files have already is no finding."""
        changes = [(self.released[one.name], self.patched[one.name]) for one in members]
        for target, remarks in zip(members, upstream_lint.lint(changes), strict=True):
            for remark in remarks:
                # A new file is the same in every release.
                where = target.name if remark.path in target.files else target.series
                yield Finding(where, str(remark))
