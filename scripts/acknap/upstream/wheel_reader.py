"""The package index that pip uses: versions of torch, single files of their wheels."""

import functools
import threading
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import requests
from packaging.tags import Tag, sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version
from pypi_simple import (
    PYPI_SIMPLE_ENDPOINT,
    DigestMismatchError,
    DistributionPackage,
    NoSuchProjectError,
    PyPISimple,
    UnsupportedContentTypeError,
)
from remotezip import RangeNotSupported, RemoteZip, RemoteZipError
from requests.adapters import HTTPAdapter
from requests.utils import urldefragauth
from urllib3.util import Retry

from acknap.base import pip
from acknap.base.errors import HarnessError
from acknap.base.files import require_space
from acknap.base.progress import working
from acknap.upstream.pristine import read_archive

_TIMEOUT = 30.0
_NO_ANSWER = (requests.RequestException, RemoteZipError, UnsupportedContentTypeError)
_listing = threading.Lock()


def read_from_wheel(
    release: str, paths: Iterable[str], scratch: Path
) -> dict[str, bytes]:
    """Read files of torch `release` from one of its wheels.

    Any wheel will do: the Python files of a release are the same in all of them.

    Args:
        scratch: Where a whole wheel may lie for a moment, if the server has no ranges.

    Raises:
        HarnessError: the index does not answer, or has no such wheel or file.
    """
    with _errors():
        wheel = _choose(_listed(), release)
        with _session() as session:
            try:
                with RemoteZip(wheel.url, session=session, timeout=_TIMEOUT) as archive:
                    return read_archive(archive, paths, wheel.filename)
            except RangeNotSupported:
                return _read_whole(session, wheel, paths, scratch)


def newest_pre_release(after: str) -> str | None:
    """The newest version of torch that is no release, of those after a release.

    Raises:
        HarnessError: the index does not answer.
    """
    with _errors():
        versions = {version for version, _, _ in _listed()}
    found = [one for one in versions if one.is_prerelease and one > Version(after)]
    return max(found).public if found else None


@contextmanager
def _errors() -> Iterator[None]:
    """Say in one line what keeps the index from being read."""
    try:
        yield
    except NoSuchProjectError:
        raise HarnessError(f"the package index {_index()} has no torch") from None
    except _NO_ANSWER as error:
        raise HarnessError(
            f"the package index {_index()} gives no answer that can be used "
            f"({_reason(error)}): check the network and pip's index-url"
        ) from error


def _listed() -> list[tuple[Version, frozenset[Tag], DistributionPackage]]:
    """The wheels of torch on the index, with what their names say."""
    with _listing:  # several threads ask at once, one request is enough
        wheels = _wheels(pip.setting("index-url") or PYPI_SIMPLE_ENDPOINT)
    found = []
    for wheel in wheels:
        with suppress(InvalidWheelFilename):
            _, version, _, tags = parse_wheel_filename(wheel.filename)
            found.append((version, tags, wheel))
    return found


@functools.cache
def _wheels(index: str) -> tuple[DistributionPackage, ...]:
    with _session() as session, PyPISimple(index, session=session) as client:
        page = client.get_project_page("torch", timeout=_TIMEOUT)
    return tuple(one for one in page.packages if one.package_type == "wheel")


def _choose(
    wheels: Iterable[tuple[Version, frozenset[Tag], DistributionPackage]], release: str
) -> DistributionPackage:
    """The release's wheel for this platform, else its smallest one."""
    mine = frozenset(sys_tags())
    found = [
        ((mine.isdisjoint(tags), wheel.size or 0, wheel.filename), wheel)
        for version, tags, wheel in wheels
        if Version(version.public) == Version(release)
    ]
    if not found:
        raise HarnessError(
            f"the package index {_index()} has no wheel of torch {release}"
        )
    return min(found, key=lambda pair: pair[0])[1]


def _read_whole(
    session: requests.Session,
    wheel: DistributionPackage,
    paths: Iterable[str],
    scratch: Path,
) -> dict[str, bytes]:
    require_space(scratch, wheel.size or 1_000_000_000, f"reading {wheel.filename}")
    local = scratch / f"{wheel.filename}.part"
    name, verify = wheel.filename, "sha256" in wheel.digests
    try:
        with working(
            f"Reading the whole of {name}: the index serves no parts of files"
        ):
            client = PyPISimple(session=session)
            client.download_package(wheel, local, verify=verify, timeout=_TIMEOUT)
        with zipfile.ZipFile(local) as archive:
            return read_archive(archive, paths, name)
    except DigestMismatchError:
        raise HarnessError(f"{name} arrived damaged: run the command again") from None
    finally:
        local.unlink(missing_ok=True)


def _session() -> requests.Session:
    session = requests.Session()
    retry = Retry(total=2, backoff_factor=0.3, status_forcelist=(502, 503, 504))
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    session.verify = pip.setting("cert") or True
    return session


def _index() -> str:
    """The index's address without a user name or password."""
    return str(urldefragauth(pip.setting("index-url") or PYPI_SIMPLE_ENDPOINT))


def _reason(error: BaseException) -> str:
    """The innermost cause, without addresses (they may hold a password)."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"status {error.response.status_code}"
    return type(error).__name__
