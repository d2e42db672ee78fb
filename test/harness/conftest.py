import signal
import sys
import venv
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from acknap.base import pip
from acknap.knapsack.session import Session
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


# A torch whose Hirschberg goes over the budget, whose ilp fails and which has no exact.
KNAPSACK = """
def dp_knapsack(memory, runtimes, max_memory):
    best = (0.0, [])
    for mask in range(1 << len(memory)):
        saved = [i for i in range(len(memory)) if mask >> i & 1]
        if sum(round(1e4 * memory[i]) for i in saved) <= round(1e4 * max_memory):
            best = max(best, (sum(runtimes[i] for i in saved), saved))
    return (*best, [i for i in range(len(memory)) if i not in best[1]])

def dp_knapsack_sliding_hirschberg(memory, runtimes, max_memory):
    return sum(runtimes), list(range(len(memory))), []

def greedy_knapsack(memory, runtimes, max_memory):
    return 0.0, [], [0]

def ilp_knapsack(memory, runtimes, max_memory):
    raise RuntimeError("no luck: tried to allocate 123 bytes")
"""


@pytest.fixture
def toy_python(tmp_path: Path) -> Path:
    """The interpreter of an environment with a torch of a few lines."""
    venv.EnvBuilder(symlinks=True).create(tmp_path / "env")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    folder = tmp_path / "env" / "lib" / version / "site-packages"
    package = folder / "torch" / "_functorch" / "_activation_checkpointing"
    package.mkdir(parents=True)
    for part in (package, package.parent):
        (part / "__init__.py").touch()
    (package.parents[1] / "__init__.py").write_text(
        "import os\nclass version: git_version = '1' * 40\n"
        "def get_num_threads(): return int(os.environ.get('OMP_NUM_THREADS', 4))\n"
    )
    (package / "knapsack.py").write_text(KNAPSACK)
    info = folder / "torch-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    return tmp_path / "env" / "bin" / "python"


@pytest.fixture
def session(toy_python: Path) -> Iterator[Session]:
    with closing(Session({"stock": toy_python, "patched": toy_python})) as opened:
        yield opened
