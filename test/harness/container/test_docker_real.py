"""A real engine, and one image with both environments of v2.10.0.

It takes 20 minutes and 20 GB, and brings up an engine as root: in CI only.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import certifi
import pytest

from acknap.base import pip
from acknap.base.layout import Layout
from acknap.container.image import Image, Stage
from acknap.upstream.targets import Targets
from toy_upstream import Index

LAYOUT = Layout.default()
TARGET = Targets.load(LAYOUT).get("v2.10.0")
OTHER = "v2.11.0"  # never built to the end
BASE = "acknap-base:test"
WORD, MARK = "s3cret-word", "# certificates of the test"
KNAPSACK = "torch/_functorch/_activation_checkpointing/knapsack.py"

pytestmark = pytest.mark.skipif(
    os.environ.get("CI") != "true" or os.geteuid() != 0 or not shutil.which("apt-get"),
    reason="brings up an engine of its own: only with CI=true, as root, with apt-get",
)


@dataclass
class Docker:
    """The harness and the client, with the engine's address."""

    variables: dict[str, str]

    def harness(
        self, *arguments: str | Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [LAYOUT.root / "scripts" / "harness", *arguments],
            env=self.variables | variables,
            capture_output=True,
            text=True,
        )

    def build(self, *arguments: str, **variables: str) -> str:
        done = self.harness("docker", "build", *OPTIONS, *arguments, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def error(self, *arguments: str, **variables: str) -> str:
        done = self.harness("docker", "build", *arguments, **variables)
        assert done.returncode == 2
        assert self("image", "ls", "--quiet", f"acknap:{OTHER}-*") == ""
        return done.stderr.splitlines()[-1]

    def __call__(self, *arguments: str) -> str:
        return subprocess.run(
            ["docker", *arguments],
            env=self.variables,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def run(self, tag: str, *command: str, user: str = "10001") -> str:
        return self("run", "--rm", "--network=none", f"--user={user}", tag, *command)


WAIT = 'echo "$DOCKER_HOST"; read -r _'
OPTIONS = ("--base-image", BASE, "--network", "host")


@contextmanager
def engine(variables: dict[str, str]) -> Iterator[str]:
    """Give the address of an engine that ends with the block."""
    with subprocess.Popen(
        [LAYOUT.root / "docker" / "engine.sh", "sh", "-c", WAIT],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        address = process.stdout.readline().strip()
        assert address  # else the script said why
        yield address
        process.stdin.close()


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """An engine with a base image, until the last test of this file."""
    # A package index with a password, and certificates: what must reach no layer.
    index = Index()
    address = index.url.removeprefix("http://")
    bundle = Path(pip.setting("cert") or certifi.where()).read_text()
    certificates = tmp_path_factory.mktemp("certificates") / "own.pem"
    certificates.write_text(f"{MARK}\n{bundle}")
    variables = os.environ | {
        "PIP_EXTRA_INDEX_URL": f"http://me:{WORD}@{address}",
        "PIP_CERT": str(certificates),
    }
    LAYOUT.build.mkdir(exist_ok=True)
    with (
        # Its images take 16 GB, which the suites after this one need.
        tempfile.TemporaryDirectory(prefix="engine-", dir=LAYOUT.build) as folder,
        engine(variables | {"ACKNAP_ENGINE": folder}) as address,
    ):
        variables["DOCKER_HOST"] = address
        script = LAYOUT.root / "docker" / "base-image.sh"
        subprocess.run([script, BASE], env=variables, check=True)
        yield Docker(variables)
    index.close()


@pytest.fixture(scope="module")
def image(docker: Docker) -> str:
    return docker.build("--stage", "compare")


def outcomes(report: Path) -> dict[str, Any]:
    record = json.loads((report / "compare.json").read_text())
    return {
        row["test"]: (
            row["category"],
            *(side and side["status"] for side in (row["stock"], row["patched"])),
        )
        for row in record["tests"]
    }


@pytest.mark.usefixtures("image")
def test_compare_inside_equals_the_committed_one(
    docker: Docker, tmp_path: Path
) -> None:
    """Another run outside would take ten minutes more, and show nothing more."""
    inside = tmp_path / "inside"
    done = docker.harness("docker", "compare", *OPTIONS, "--out", inside)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "patched v2.10.0 against stock v2.10.0" in done.stdout
    found = outcomes(inside)
    committed = LAYOUT.results / "compare-v2.10.0-against-v2.10.0"
    assert found == outcomes(committed)
    assert len(found) > 100
    assert not docker("ps", "--all", "--quiet")


@pytest.mark.usefixtures("image")
def test_stock_and_patched(docker: Docker) -> None:
    """Two more images of the same layer, each with its own python."""
    code = (
        "import hashlib, torch, sys; from torch._functorch._activation_checkpointing "
        "import knapsack; data = open(knapsack.__file__, 'rb').read(); print("
        "torch.version.git_version, "
        "hashlib.sha1(b'blob %d\\0' % len(data) + data).hexdigest())"
    )
    for stage, blobs in ((Stage.stock, TARGET.before), (Stage.patched, TARGET.after)):
        tag = docker.build("--stage", stage)
        assert tag == Image.of(LAYOUT, TARGET, stage).tag
        for user in ("10001", "54321:54321"):
            found = docker.run(tag, "python", "-c", code, user=user)
            assert found == f"{TARGET.commit} {blobs[KNAPSACK]}"
        (inspected,) = json.loads(docker("image", "inspect", tag))
        config = inspected["Config"]
        assert config["User"] == "10001:10001"
        labels = Image.of(LAYOUT, TARGET, stage).labels
        assert labels.items() <= config["Labels"].items()


def test_nothing_of_this_machine_in_a_layer(docker: Docker, image: str) -> None:
    address = docker.variables["PIP_EXTRA_INDEX_URL"].partition("@")[2]
    words = [WORD, address, MARK, str(LAYOUT.root), docker.variables["PIP_CERT"]]
    if len(socket.gethostname()) > 5:  # a short one is part of other words
        words.append(socket.gethostname())
    history = docker("history", "--no-trunc", "--format={{json .}}", image)
    # Not all that `inspect` says: where the engine keeps its layers is no part of them.
    history += docker("image", "inspect", "--format={{json .Config}}", image)
    files = docker.run(image, "find", "/", "-xdev", "!", "-path", "/proc/*", user="0")
    for word in words:
        assert word not in history
        assert word not in files
    listed = files.splitlines()
    assert [path for path in listed if path.startswith("/run/secrets/")] == []
    made = [path for path in listed if path.startswith("/opt/acknap/")]
    assert [path for path in made if path.endswith((".log", ".lock"))] == []
    patterns = [option for word in words for option in ("-e", word)]
    search = ["grep", "-rlF", "--exclude-dir=proc", "--exclude-dir=sys", *patterns, "/"]
    found = docker.run(image, "sh", "-c", '"$@" || true', "sh", *search, user="0")
    assert found == ""


def test_base_image_that_does_not_exist(docker: Docker) -> None:
    said = docker.error("--base-image", "acknap-none:never", "--target", OTHER)
    assert "failed: the base image cannot be had (" in said
    assert "name another with --base-image, or make one with docker/" in said


@pytest.mark.usefixtures("image")
def test_index_that_does_not_answer(docker: Docker) -> None:
    address = "http://127.0.0.1:9/simple/"
    said = docker.error(*OPTIONS, "--target", OTHER, PIP_INDEX_URL=address)
    assert "failed: the package index does not answer: check the network" in said


@pytest.mark.usefixtures("image")
def test_interrupted(docker: Docker) -> None:
    with subprocess.Popen(
        [
            LAYOUT.root / "scripts" / "harness",
            *("docker", "build", *OPTIONS, "--target", OTHER),
        ],
        env=docker.variables,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        for line in process.stderr:
            if "[environments 4/4]" in line:
                break
        time.sleep(3)  # pip is at work
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().splitlines()
    assert process.returncode == 130
    assert said[-1] == "interrupted; run the command again to continue"
    assert docker("image", "ls", "--quiet", f"acknap:{OTHER}-*") == ""
    assert not docker("ps", "--all", "--quiet")


def state() -> tuple[object, ...]:
    """What an engine may leave behind."""
    return (
        sorted(path.name for path in Path("/sys/class/net").iterdir()),
        Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        Path("/proc/self/mountinfo").read_text().count("acknap"),
        subprocess.run(["iptables-save"], capture_output=True).stdout,
        sorted(Path("/tmp").glob("acknap-engine.*")),
    )


def test_the_engine_leaves_nothing(tmp_path: Path) -> None:
    before = state()
    script = LAYOUT.root / "docker" / "engine.sh"
    done = subprocess.run(
        [script, "sh", "-c", "docker version && exit 7"],
        env=os.environ | {"ACKNAP_ENGINE": str(tmp_path / "engine")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 7, done.stderr
    assert "Server" in done.stdout
    assert state() == before
