"""Git trees with a series on top: a fresh one, or a PyTorch checkout of the user's."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from acknap.base import git
from acknap.base.errors import HarnessError, SeriesError
from acknap.base.files import scratch
from acknap.base.layout import Layout
from acknap.series.patches import OPTIONAL, Patch, Series, has_patches, load
from acknap.upstream import pristine
from acknap.upstream.targets import Target

PRISTINE = "pristine"
SERIES = "series"

_AM = ("am", "--quiet", "--no-3way", "--no-keep-cr", "--no-scissors", "--no-gpg-sign")
_FAILED_PATCH = re.compile(r"^Patch failed at (\d+)", re.MULTILINE)
_FAILED_LINE = re.compile(r"^error: (?:patch failed: )?(.+)$", re.MULTILINE)


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
        _apply_to_checkout(directory, target, patches)
        return f"{len(patches)} patches applied to the current branch of {directory}"
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise HarnessError(
            f"{directory} is neither empty nor a PyTorch checkout: name another"
        )
    files = pristine.read(layout, target, checkout)
    # A series starts as a tree without patches.
    found = has_patches(layout, target.series)
    series = load(layout, target.series) if found else Series(())
    _create(directory, target, files, series)
    return (
        f"{directory}: {len(series.mandatory)} patches on branch {SERIES}, "
        f"{len(series.optional)} more on branch {OPTIONAL}"
    )


def build(
    repository: Path, target: Target, files: Mapping[str, bytes], series: Series
) -> None:
    """Make a repository: tag `pristine`, branches `series` and, on top, `optional`.

    Args:
        repository: An empty directory.
        files: The pristine files of the target.

    Raises:
        SeriesError: a patch does not apply.
    """
    git.run(repository, "init", "--quiet", f"--initial-branch={SERIES}")
    for path, content in files.items():
        file = repository / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    git.run(repository, "add", "--all")
    message = f"PyTorch {target.release} as released"
    git.run(repository, "commit", "--quiet", "-m", message)
    git.run(repository, "tag", PRISTINE)
    _am(repository, target, series.mandatory)
    if series.optional:
        git.run(repository, "checkout", "--quiet", "-b", OPTIONAL)
        _am(repository, target, series.optional)
        git.run(repository, "checkout", "--quiet", SERIES)


@contextmanager
def temporary(
    target: Target, files: Mapping[str, bytes], series: Series
) -> Iterator[Path]:
    """A tree as `build` makes it, for the length of the block."""
    with scratch() as repository:
        build(repository, target, files, series)
        yield repository


def patched_files(
    target: Target, released: Mapping[str, bytes], series: Series
) -> dict[str, bytes]:
    """The files below torch/ that the mandatory patches add to or change in a release.

    Raises:
        SeriesError: a patch does not apply, or targets.toml has other ids.
    """
    with temporary(target, released, Series(series.mandatory)) as repository:
        blobs = file_blobs(repository, SERIES)
        contents = {
            path: (repository / path).read_bytes()
            for path in blobs
            if path.startswith("torch/") and blobs[path] != target.before.get(path)
        }
    changed = {path: blobs[path] for path in contents if path in target.files}
    if changed != target.after:
        raise SeriesError(
            f"series {target.series} on {target.name} does not give the blob ids under "
            "`after` in patches/targets.toml: run `./scripts/harness export`"
        )
    return contents


def _create(
    directory: Path, target: Target, files: Mapping[str, bytes], series: Series
) -> None:
    """Make a tree at `directory`, absent or empty; it appears when it is complete."""
    work = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(work, ignore_errors=True)  # of a killed run
    work.mkdir(parents=True)
    try:
        build(work, target, files, series)
        work.rename(directory)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _apply_to_checkout(
    checkout: Path, target: Target, patches: Sequence[Patch]
) -> None:
    """`git am` the series onto the current branch of a checkout, all or nothing.

    Raises:
        HarnessError: local changes, another release, or a patch that does not apply.
    """
    pristine.require_checkout(checkout)
    state = git.text(checkout, "rev-parse", "--git-path", "rebase-apply")
    if (checkout / state).exists():
        raise HarnessError(
            f"a `git am` is open in {checkout}: run `git -C {checkout} am --abort`"
        )
    added = [path for patch in patches for path in patch.added]
    pristine.require_clean(checkout, [*target.files, *added])
    staged = git.lines(checkout, "diff", "--cached", "--name-only")
    if staged:
        raise HarnessError(f"{checkout} has staged changes of {staged[0]}: commit them")
    files = pristine.head_files(checkout, target.files)
    blobs = {path: git.blob_id(content) for path, content in files.items()}
    # In a tree of our own, which has the tag, commits may have been edited.
    in_it = git.has_ref(checkout, PRISTINE) or blobs == {
        **target.before,
        **target.after,
    }
    if in_it and blobs != target.before:
        raise HarnessError(
            f"the series is already in {checkout}: to change it, commit there and run "
            f"`./scripts/harness export {checkout}`"
        )
    advice = (
        f"the series for {target.name} goes onto that release, once; "
        f"run `git -C {checkout} checkout {target.name}`"
    )
    pristine.verify(target, files, f"{checkout} at HEAD", advice)
    _am(checkout, target, patches)


def file_blobs(repository: Path, revision: str) -> dict[str, str]:
    """Path to blob id of all files of a commit."""
    entries = git.lines(repository, "ls-tree", "-r", revision)
    return {path: entry.split()[2] for entry, path in (e.split("\t") for e in entries)}


def _am(repository: Path, target: Target, patches: Sequence[Patch]) -> None:
    if not patches:
        return
    try:
        git.run(repository, *_AM, *(patch.path.absolute() for patch in patches))
    except BaseException as error:
        with suppress(git.GitError):  # it may not have begun
            git.run(repository, "am", "--abort")
        if isinstance(error, git.GitError):
            raise SeriesError(_conflict(error.output, target, patches)) from None
        raise


def _conflict(output: str, target: Target, patches: Sequence[Patch]) -> str:
    """One line out of what `git am` says: which patch, and where."""
    number = _FAILED_PATCH.search(output)
    where = _FAILED_LINE.search(output)
    reason = where.group(1) if where else "git am failed"
    if not number:
        return f"the series does not apply to {target.name}: {reason}"
    patch = patches[int(number.group(1)) - 1]
    return f"{patch.path.name} does not apply to {target.name}: {reason}"
