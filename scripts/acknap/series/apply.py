"""What `apply` does with a directory."""

from pathlib import Path

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.series import tree
from acknap.series.patches import OPTIONAL, Series, has_patches, load
from acknap.upstream import pristine
from acknap.upstream.targets import Target


def apply(
    layout: Layout, target: Target, directory: Path, checkout: Path | None
) -> str:
    """Put the series of a target into a directory.

    Args:
        directory: Absent or empty: a small git tree is made there. A PyTorch checkout:
            the patches go onto its current branch.
        checkout: Where the files of a small tree come from, instead of a wheel.

    Returns:
        One line that says what was done.
    """
    if (directory / "torch" / "_functorch").is_dir():
        patches = load(layout, target.series).mandatory
        tree.apply_to_checkout(directory, target, patches)
        return f"{len(patches)} patches applied to the current branch of {directory}"
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise HarnessError(
            f"{directory} is neither empty nor a PyTorch checkout: name another"
        )
    files = pristine.read(layout, target, checkout)
    # A series starts as a tree without patches.
    found = has_patches(layout, target.series)
    series = load(layout, target.series) if found else Series(())
    tree.create(directory, target, files, series)
    return (
        f"{directory}: {len(series.mandatory)} patches on branch {tree.SERIES}, "
        f"{len(series.optional)} more on branch {OPTIONAL}"
    )
