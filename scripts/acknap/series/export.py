"""Write patches/ from an edited tree and the two sources of new files."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from acknap.base import git
from acknap.base.errors import HarnessError, SeriesError
from acknap.base.files import replace_directory, scratch, write_atomic
from acknap.base.layout import Layout
from acknap.base.parallel import for_each
from acknap.base.progress import say, working
from acknap.series import tree
from acknap.series.patches import OPTIONAL, load_from, load_sources
from acknap.series.recommit import Rewriter
from acknap.upstream import pristine
from acknap.upstream.targets import SeriesEntry, Target, Targets, save_blobs

_FORMAT = (
    "format-patch",
    "--quiet",
    "--zero-commit",
    "--full-index",
    "--no-signature",
    "--no-stat",
    "--no-numbered",
    "--no-renames",
    # The default one leaves out lines that are frequent in the file, so that the same
    # change can look different in two releases.
    "--diff-algorithm=patience",
)


@dataclass(frozen=True)
class Rendered:
    """A series as patch files.

    Attributes:
        content: File name (`0001-x.patch`, `optional/0001-y.patch`) to bytes.
        adopted: New files whose content in the tree was not that of their source.
    """

    content: Mapping[str, bytes]
    adopted: tuple[str, ...]


def export_all(
    layout: Layout, targets: Targets, series: str | None, source: Path | None
) -> Iterator[tuple[str, bool]]:
    """Export the named series, else that of the tree, else all; yield what changed.

    The variants of a series follow it.
    """
    if series is not None:
        names = [series]
    elif source is not None:
        names = [series_of(targets, source)]
    else:
        names = [one.name for one in targets.series.values() if not one.variant_of]
    for name in names:
        for one in (targets.get_series(name), *targets.variants_of(name)):
            with working(f"Exporting series {one.name}"):
                edited = source if one.name == name else None
                changed = export(layout, targets, one, edited)
            yield one.name, changed


def export(
    layout: Layout, targets: Targets, series: SeriesEntry, source: Path | None
) -> bool:
    """Rewrite the patches of a series and the blob ids of its targets.

    Nothing is replaced unless the new patches apply exactly to every target.

    Args:
        source: A tree made by `apply` for the base release; without one, a tree is made
            from the present patches, so that edits of new files are taken up.

    Returns:
        Whether anything changed.
    """
    base = targets.get(series.base)
    members = targets.of_series(series.name)
    read = for_each(lambda one: pristine.read(layout, one), members)
    released = {one.name: files for one, files in zip(members, read, strict=True)}
    with _tree(layout, series, base, released[base.name], source) as repository:
        rendered = render(layout, targets, series, repository)
    for path in rendered.adopted:
        say(f"{series.name}: {path} as in its source, not as in the tree")
    with scratch() as directory:
        for file, content in rendered.content.items():
            write_atomic(directory / file, content)
        patches = load_from(directory)

        def after(target: Target) -> dict[str, str]:
            with tree.temporary(target, released[target.name], patches) as repository:
                if target == base:
                    again = render(layout, targets, series, repository)
                    if again != Rendered(rendered.content, ()):
                        raise SeriesError("the patches do not reproduce the tree")
                blobs = tree.file_blobs(repository, tree.SERIES)
                return changed_files(released[target.name], blobs)

        results = for_each(after, members)
    changed = present(layout, series.name) != rendered.content
    if changed:
        replace_directory(layout.patches / series.name, dict(rendered.content))
    blobs = [
        (target, _ids(released[target.name]), ids)
        for target, ids in zip(members, results, strict=True)
    ]
    return save_blobs(layout, blobs) or changed


def render(
    layout: Layout, targets: Targets, series: SeriesEntry, repository: Path
) -> Rendered:
    """The patch files that a tree stands for.

    Raises:
        SeriesError: the tree or a message breaks a rule.
    """
    names = [target.name for target in targets.all]
    with scratch() as bare:
        git.run(bare, "init", "--quiet", "--bare")
        fetch = ("fetch", "--quiet", "--tags", repository.absolute())
        git.run(bare, *fetch, "refs/heads/*:refs/heads/*")
        rewriter = Rewriter(layout, series, bare, names)
        tip = rewriter.rewrite(tree.PRISTINE, tree.SERIES, tree.PRISTINE)
        if tip == tree.PRISTINE:
            raise SeriesError(f"branch {tree.SERIES} has no commits: nothing to export")
        last = tip
        if git.has_ref(bare, OPTIONAL):
            _require_on_top(bare)
            last = rewriter.rewrite(tree.SERIES, OPTIONAL, tip)
        rewriter.require_complete()
        content = {
            **_format(bare, tree.PRISTINE, tip, series.unified, ""),
            **_format(bare, tip, last, series.unified, f"{OPTIONAL}/"),
        }
        unknown = set(series.unified) - set(content)
        if unknown:
            raise SeriesError(
                f"patches/targets.toml sets `unified` of {series.name} for "
                f"{min(unknown)}, which is none of its patches: {', '.join(content)}"
            )
    return Rendered(content, tuple(rewriter.adopted))


def series_of(targets: Targets, source: Path) -> str:
    """The series whose base release a tree was made from."""
    found = _pristine_blobs(source)
    for series in targets.series.values():
        pinned = targets.get(series.base).before
        if found.keys() == set(series.files) and pinned.items() <= found.items():
            return series.name
    bases = ", ".join(series.base for series in targets.series.values())
    raise HarnessError(
        f"{source} was not made from the base release of a series ({bases})"
    )


@contextmanager
def _tree(
    layout: Layout,
    series: SeriesEntry,
    base: Target,
    files: Mapping[str, bytes],
    source: Path | None,
) -> Iterator[Path]:
    if source is None:
        with tree.temporary(base, files, load_sources(layout, series)) as repository:
            yield repository
    else:
        _require_tree_of(source, base, files)
        yield source


def _require_tree_of(source: Path, base: Target, files: Mapping[str, bytes]) -> None:
    if _pristine_blobs(source) != _ids(files):
        raise HarnessError(
            f"{source} was not made from {base.name}, the base of series {base.series}"
        )
    if not git.has_ref(source, tree.SERIES):
        raise HarnessError(f"{source} has no branch {tree.SERIES}")
    if git.lines(source, "status", "--porcelain", "--untracked-files=no"):
        raise HarnessError(f"{source} has uncommitted changes: commit them first")


def _pristine_blobs(source: Path) -> dict[str, str]:
    if not source.is_dir() or not git.has_ref(source, tree.PRISTINE):
        raise HarnessError(f"{source} is not a tree made by `apply`")
    return tree.file_blobs(source, tree.PRISTINE)


def _require_on_top(bare: Path) -> None:
    if git.text(bare, "merge-base", tree.SERIES, OPTIONAL) != git.text(
        bare, "rev-parse", tree.SERIES
    ):
        raise SeriesError(
            f"branch {OPTIONAL} is not on top of {tree.SERIES}: run "
            f"`git rebase --fork-point {tree.SERIES} {OPTIONAL}` in the tree"
        )


def _format(
    bare: Path, first: str, last: str, unified: Mapping[str, int], prefix: str
) -> dict[str, bytes]:
    """`git format-patch`, one commit at a time, since the context may differ."""
    content = {}
    commits = git.lines(bare, "rev-list", "--reverse", f"{first}..{last}")
    with scratch() as output:
        for number, commit in enumerate(commits, start=1):
            one = ("-1", f"--start-number={number}", "-o", output, commit)
            file = Path(git.text(bare, "format-patch", *one))
            context = f"--unified={unified.get(prefix + file.name, 3)}"
            git.run(bare, *_FORMAT, context, *one)
            content[prefix + file.name] = file.read_bytes()
    return content


def changed_files(
    files: Mapping[str, bytes], after: Mapping[str, str]
) -> dict[str, str]:
    """Those of the upstream files that a tree has in another state, with their ids."""
    before = _ids(files)
    return {path: after[path] for path in files if after[path] != before[path]}


def _ids(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: git.blob_id(content) for path, content in files.items()}


def present(layout: Layout, series_name: str) -> dict[str, bytes]:
    """The files of a series as they lie under patches/."""
    directory = layout.patches / series_name
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }
