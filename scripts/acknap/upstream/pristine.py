"""The files of a release as PyTorch published them, verified by blob id."""

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from acknap.base import git
from acknap.base.errors import HarnessError
from acknap.base.files import write_atomic
from acknap.base.layout import Layout
from acknap.base.progress import working
from acknap.upstream.targets import Target

VERSION = "torch/version.py"
_GIT_VERSION = re.compile(r"^git_version(?:: .*)? = '([0-9a-f]{40})'", re.MULTILINE)


def read(
    layout: Layout, target: Target, checkout: Path | None = None
) -> dict[str, bytes]:
    """The upstream files that the target's series works on, as released.

    They come from `checkout` if one is named, else from the cache under build/, else
    from the release's wheel.

    Raises:
        HarnessError: they cannot be had, or are not those that targets.toml pins.
    """
    if checkout is not None:
        return _from_checkout(target, checkout)
    return _from_cache(layout, target) or _from_wheel(layout, target, target.files)


def read_others(
    layout: Layout, target: Target, paths: Iterable[str]
) -> dict[str, bytes]:
    """Other files of the release: nothing pins them but the commit of the wheel.

    Raises:
        HarnessError: they cannot be had.
    """
    directory, paths = layout.build / "pristine" / target.release, sorted(paths)
    with suppress(OSError):
        return {path: (directory / path).read_bytes() for path in paths}
    return _from_wheel(layout, target, paths)


def verify(
    target: Target, files: Mapping[str, bytes], source: str, advice: str
) -> None:
    """Compare files with the ids that targets.toml pins; what is not pinned passes."""
    for path, content in files.items():
        found, pinned = git.blob_id(content), target.before.get(path)
        if pinned is not None and found != pinned:
            raise HarnessError(
                f"{path} of {source} has blob id {found}, patches/targets.toml pins "
                f"{pinned} for {target.name}: {advice}"
            )


def verify_commit(target: Target, version: bytes, source: str, advice: str) -> None:
    """Compare the commit in a torch/version.py with the one that targets.toml pins."""
    found = commit_of(version) or "unknown"
    if found != target.commit:
        raise HarnessError(
            f"{source} was built from commit {found}, patches/targets.toml pins "
            f"{target.commit} for {target.name}: {advice}"
        )


def commit_of(version: bytes) -> str | None:
    """The commit that a torch/version.py names."""
    match = _GIT_VERSION.search(version.decode(errors="replace"))
    return match.group(1) if match else None


def read_archive(
    archive: zipfile.ZipFile, paths: Iterable[str], source: str
) -> dict[str, bytes]:
    """Files of a wheel.

    Raises:
        HarnessError: it does not have one of them.
    """
    try:
        return {path: archive.read(path) for path in paths}
    except KeyError as error:
        raise HarnessError(f"{source}: {error.args[0]}") from None


def _from_cache(layout: Layout, target: Target) -> dict[str, bytes] | None:
    """The cached files, or None if one is missing, changed, or cannot be verified."""
    directory = layout.build / "pristine" / target.release
    with suppress(OSError):
        files = {path: (directory / path).read_bytes() for path in target.files}
        ids = {path: git.blob_id(content) for path, content in files.items()}
        if ids == {path: target.before.get(path) for path in files}:
            return files
    return None


def _from_wheel(
    layout: Layout, target: Target, wanted: Iterable[str]
) -> dict[str, bytes]:
    from acknap.upstream import wheel_reader  # slow to import, seldom needed

    scratch = layout.build / "pristine"
    with working(f"Reading files of torch {target.release} from the package index"):
        paths = (*wanted, VERSION)
        files = wheel_reader.read_from_wheel(target.release, paths, scratch)
    source = f"the wheel of torch {target.release}"
    advice = "pip's index-url has to name an index with PyTorch's own wheels"
    version = files.pop(VERSION)
    verify(target, files, source, advice)
    verify_commit(target, version, source, advice)
    for path, content in files.items():
        write_atomic(scratch / target.release / path, content)
    return files


def _from_checkout(target: Target, checkout: Path) -> dict[str, bytes]:
    advice = f"run `git -C {checkout} checkout {target.name}`"
    require_checkout(checkout)
    require_clean(checkout, target.files)
    if any(path not in target.before for path in target.files):
        head = git.text(checkout, "rev-parse", "HEAD")
        if head != target.commit:
            raise HarnessError(
                f"{checkout} is at {head}, {target.name} is {target.commit}: {advice}"
            )
    files = head_files(checkout, target.files)
    verify(target, files, str(checkout), advice)
    return files


def require_checkout(directory: Path) -> None:
    """Refuse what is not the top of a PyTorch git checkout."""
    if not (directory / "torch" / "_functorch").is_dir():
        raise HarnessError(f"{directory} is not a PyTorch checkout")
    try:
        top = git.text(directory, "rev-parse", "--show-toplevel")
    except git.GitError as error:
        raise HarnessError(f"{directory} is not a git checkout ({error})") from None
    if Path(top) != directory.resolve():
        raise HarnessError(f"{directory} is not a git checkout, {top} is")


def require_clean(checkout: Path, paths: Sequence[str]) -> None:
    """Refuse a checkout in which one of `paths` differs from its HEAD."""
    status = git.lines(checkout, "status", "--porcelain", "--", *paths)
    if status:
        raise HarnessError(
            f"{checkout} has local changes of {status[0][3:]}: commit or stash them"
        )


def head_files(checkout: Path, paths: Sequence[str]) -> dict[str, bytes]:
    """Files as the checkout's HEAD has them."""
    files = {}
    for path in paths:
        try:
            files[path] = git.run(checkout, "cat-file", "blob", f"HEAD:{path}")
        except git.GitError:
            raise HarnessError(f"{checkout} has no {path} at HEAD") from None
    return files
