"""What there is: this package, the series, and the releases that they are for."""

from rich.console import Console

from acknap.base import git
from acknap.base.layout import Layout
from acknap.base.text import print_table
from acknap.series.patches import has_patches, load
from acknap.upstream.targets import PACKAGED, Targets


def version(layout: Layout, targets: Targets) -> str:
    """The state of the package and of each series, a line each."""
    lines = [f"acknap, commit {git.describe(layout.root)}"]
    lines += [
        f"series {name}, revision {_revision(layout, name)}" for name in targets.series
    ]
    return "\n".join(lines)


def list_targets(layout: Layout, targets: Targets) -> None:
    """Print the releases with their series."""
    rows = [
        (
            target.name,
            f"patches/{target.series}",
            _revision(layout, target.series),
            "yes" if target.series == PACKAGED else "no",
            target.role,
        )
        for target in targets.all
    ]
    header = ("release", "series", "revision", "package", "role")
    print_table(Console(soft_wrap=True), header, rows)


def _revision(layout: Layout, series: str) -> str:
    """The revision as `install` and `wheel` name it."""
    found = has_patches(layout, series)
    return load(layout, series).revision[:8] if found else "none yet"
