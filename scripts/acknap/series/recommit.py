"""Rebuild the commits of an edited tree from the two sources.

Files that upstream owns come from the commits; files that the series adds come from the
overlay and the suite. Of a staged one that is its last state, and the commits have the
earlier ones. The result has fixed committers, so it is the same everywhere.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from acknap.base import git
from acknap.base.errors import SeriesError
from acknap.base.layout import Layout
from acknap.series.messages import lint
from acknap.series.patches import new_files, source_of
from acknap.upstream.targets import SeriesEntry


@dataclass
class Rewriter:
    """Rewrites commits of one tree, in order.

    Attributes:
        repository: A bare repository with the tree's commits; the new ones go there.
        known_targets: What `Tested-on` may name.
        adders: New files that are in already, with the title of the adding patch.
        adopted: Those whose content in the tree was not that of their source.
    """

    layout: Layout
    series: SeriesEntry
    repository: Path
    known_targets: Collection[str]
    adders: dict[str, str] = field(default_factory=dict)
    adopted: list[str] = field(default_factory=list)

    def rewrite(self, first: str, last: str, parent: str) -> str:
        """Rewrite the commits after `first` up to `last` on top of `parent`."""
        listed = partial(git.lines, self.repository, "rev-list", f"{first}..{last}")
        if merges := listed("--merges"):
            raise SeriesError(f"commit {merges[0][:12]} is a merge: a series is a line")
        final = {
            path: git.text(self.repository, "rev-list", "-1", last, "--", path)
            for path in self.series.staged
        }
        for commit in listed("--reverse"):
            parent = self._rewrite_one(commit, parent, final)
        return parent

    def require_complete(self) -> None:
        """Refuse a file of the overlay or the suite that no commit adds."""
        for path in new_files(self.layout):
            if path not in self.adders:
                raise SeriesError(
                    f"{path} is in the overlay or the suite, but no commit of series "
                    f"{self.series.name} adds it: add it to the patch that needs it"
                )

    def _rewrite_one(self, commit: str, parent: str, final: Mapping[str, str]) -> str:
        """Rewrite a commit; ``final`` has the last one that touches a staged file."""
        message = git.text(self.repository, "log", "-1", "--format=%B", commit)
        message = message.strip("\n") + "\n"
        title = message.partition("\n")[0]
        lint(message, self.known_targets)
        entries = []
        changes = git.lines(
            self.repository, "diff-tree", "-r", "--no-renames", "--no-commit-id", commit
        )
        for change in changes:
            about, _, path = change.partition("\t")
            _, mode, _, blob, status = about.split()
            if status == "D":
                raise SeriesError(
                    f"{title!r} deletes {path}: a series only adds and edits"
                )
            if final.get(path, commit) == commit:
                blob = self._blob(path, blob, title)
            self.adders.setdefault(path, title)
            entries.append(f"{mode} {blob}\t{path}\n")
        tree = self._tree(parent, "".join(entries))
        if tree == git.text(self.repository, "rev-parse", f"{parent}^{{tree}}"):
            raise SeriesError(f"{title!r} changes nothing")
        return self._commit(commit, tree, parent, message)

    def _blob(self, path: str, blob: str, title: str) -> str:
        """The blob that the rewritten commit gets for a path."""
        if path in self.series.files:
            return blob
        source = source_of(self.layout, path)
        if source is None:
            raise SeriesError(
                f"{title!r} touches {path}, which is neither in torch_overlay/ nor in "
                f"test/functorch/, nor under `files` of series {self.series.name} in "
                "patches/targets.toml"
            )
        if path in self.adders and path not in self.series.staged:
            raise SeriesError(
                f"{title!r} touches {path}, which {self.adders[path]!r} adds: a new "
                "file belongs to one patch, if it is not under `staged` of series "
                f"{self.series.name} in patches/targets.toml"
            )
        content = source.read_bytes()
        if git.blob_id(content) != blob:
            self.adopted.append(path)
        return git.text(self.repository, "hash-object", "-w", "--stdin", stdin=content)

    def _tree(self, parent: str, entries: str) -> str:
        index = {"GIT_INDEX_FILE": str(self.repository / "rewrite.index")}
        run = partial(git.text, self.repository, environment=index)
        run("read-tree", parent)
        run("update-index", "--index-info", stdin=entries.encode())
        return run("write-tree")

    def _commit(self, original: str, tree: str, parent: str, message: str) -> str:
        shown = ("--date=iso-strict", "--format=%an%n%ae%n%ad")
        author = git.lines(self.repository, "log", "-1", *shown, original)
        names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE")
        return git.text(
            self.repository,
            *("commit-tree", tree, "-p", parent),
            stdin=message.encode(),
            environment=dict(zip(names, author, strict=True)),
        )
