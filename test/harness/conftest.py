import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from acknap.base import pip
from acknap.upstream import wheel_reader
from toy_upstream import RELEASES, Index, Repository, targets_toml


def pytest_configure() -> None:
    # Started in the background, a shell's job ignores Ctrl-C and hands that down to
    # the processes that the tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def toy_index() -> Iterator[Index]:
    served = Index()
    yield served
    served.close()


@pytest.fixture
def repository(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    toy_index: Index,
) -> Repository:
    """A repository without patches whose package index is the toy's."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ACKNAP_BUILD", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", toy_index.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pip.configuration.cache_clear()
    wheel_reader._wheels.cache_clear()
    made = Repository(tmp_path / "repository", toy_index, capsys, monkeypatch)
    made.layout.overlay.mkdir(parents=True)
    made.layout.suite.mkdir(parents=True)
    made.write("patches/targets.toml", targets_toml())
    for release in RELEASES:
        made.write(f"requirements/torch-{release}.txt", f"torch=={release}\n")
    return made
