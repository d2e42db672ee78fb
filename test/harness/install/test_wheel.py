"""The patched wheel, from the toy index, installed with the real pip."""

import base64
import csv
import hashlib
import io
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from acknap.base import pip
from acknap.series.patches import load
from toy_upstream import CONFIG, NEW, RELEASES, SOLVER, Repository, wheel

RELEASED = "torch-1.0.0-py3-none-any.whl"


def make(repository: Repository, *arguments: str | Path) -> Path:
    """Call `wheel`; return the file that it names."""
    said = repository.ok("wheel", "--target", "v1.0.0", *arguments)
    return Path(said.removesuffix(": install it with pip\n"))


def label(repository: Repository) -> str:
    written = f"1+acknap.{load(repository.layout, 'v1').revision[:8]}"
    return str(Version(written).local)  # digits alone lose their leading zeros


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_patched_wheel(repository: Repository, tmp_path: Path) -> None:
    repository.add_series()
    made = make(repository, "--out", tmp_path / "out")
    version = f"1.0.0+{label(repository)}"
    assert made == tmp_path / "out" / f"torch-{version}-py3-none-any.whl"
    assert [*made.parent.iterdir()] == [made]
    files = contents(made)
    assert b"key=abs" in files[SOLVER]
    assert files[NEW] == b"NEW = 1\n"
    assert files[CONFIG].decode() == RELEASES["1.0.0"][CONFIG]
    assert (
        f"Version: {version}\n".encode() in files[f"torch-{version}.dist-info/METADATA"]
    )
    # RECORD is the last, and lists every file once, with its hash if it is other.
    record = f"torch-{version}.dist-info/RECORD"
    assert [*files][-1] == record
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(files[record].decode()))}
    assert rows.keys() == files.keys()
    for path in (SOLVER, NEW, f"torch-{version}.dist-info/METADATA"):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest())
        expected = [f"sha256={digest.decode().rstrip('=')}", str(len(files[path]))]
        assert rows[path] == expected
    assert rows[record] == ["", ""]
    # What is not of the series is the released wheel's.
    with zipfile.ZipFile(io.BytesIO(wheel("1.0.0"))) as released:
        for name in ("torch/version.py", "torch/__init__.py", CONFIG):
            assert files[name] == released.read(name)
    # The same input gives the same file.
    first = made.read_bytes()
    make(repository, "--out", tmp_path / "out")
    assert made.read_bytes() == first


def test_installed_wheel(repository: Repository, tmp_path: Path) -> None:
    repository.add_series()
    made = make(repository)
    assert made.parent == repository.layout.build / "wheels"
    prefix = tmp_path / "environment"
    venv.create(prefix, with_pip=False)
    (site,) = prefix.glob("lib/python*/site-packages")

    def call(*arguments: str | Path) -> str:
        command = [sys.executable, "-m", "pip", "--python", prefix, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    call("install", made)
    assert "already satisfied: torch==1.0.0" in call("install", "torch==1.0.0")
    call("check")
    result = repository.run("status", "--python", prefix)
    assert result.status == 0
    assert "which is part of this build" in result.out
    assert "nothing to install: patched: " in repository.ok(
        "install", "--python", prefix
    )
    error = repository.run("uninstall", "--python", prefix).error
    assert "nothing is changed: " in error
    call("uninstall", "-y", "torch")
    assert [*site.iterdir()] == []


def test_wheel_with_a_label_and_a_build(repository: Repository, tmp_path: Path) -> None:
    repository.add_series()
    source = tmp_path / "torch-1.0.0+cpu-3-py3-none-any.whl"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        with zipfile.ZipFile(io.BytesIO(wheel("1.0.0"))) as released:
            for name in released.namelist():
                content = released.read(name).replace(
                    b"torch-1.0.0.", b"torch-1.0.0+cpu."
                )
                archive.writestr(
                    name.replace("torch-1.0.0.", "torch-1.0.0+cpu."), content
                )
        archive.writestr("torch/lib/large.so", bytes(3_000_000))
    made = make(repository, "--from", source, "--out", tmp_path)
    version = f"1.0.0+cpu.{label(repository)}"
    assert made.name == f"torch-{version}-3-py3-none-any.whl"
    assert not repository.index.requests[1:]
    assert contents(made)["torch/lib/large.so"] == bytes(3_000_000)
    assert made.stat().st_size < 100_000
    assert f"torch-{version}.dist-info/RECORD" in contents(made)
    assert not any("+cpu.dist-info" in name for name in contents(made))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.whl", None, "there is no "),
        (RELEASED, None, "there is no "),
        (RELEASED, b"PK", "is not a whole wheel"),
        ("torch.zip", wheel("1.0.0"), "torch.zip does not have the name of a wheel"),
        (
            "torch-1.1.0-py3-none-any.whl",
            wheel("1.1.0"),
            "is of torch 1.1.0, not 1.0.0: add --target v1.1.0",
        ),
        ("numpy-1.0.0-py3-none-any.whl", wheel("1.0.0"), "is not a wheel of torch"),
        (RELEASED, wheel("1.1.0"), "no item named 'torch-1.0.0.dist-info/METADATA'"),
        (RELEASED, wheel("1.0.0", **{CONFIG: "x = 1\n"}), f"{CONFIG} of "),
        (
            RELEASED,
            wheel("1.0.0", **{"torch/version.py": f"git_version = '{'9' * 40}'\n"}),
            f"was built from commit {'9' * 40}",
        ),
    ],
)
def test_no_wheel_of_the_release(
    repository: Repository,
    tmp_path: Path,
    name: str,
    content: bytes | None,
    message: str,
) -> None:
    repository.add_series()
    source = tmp_path / name
    if content is not None:
        source.write_bytes(content)
    out = tmp_path / "out"
    error = repository.run(
        "wheel", "--target", "v1.0.0", "--from", source, "--out", out
    ).error
    assert message in error
    assert [*out.iterdir()] == []


def test_release_that_the_index_does_not_have(repository: Repository) -> None:
    repository.add_series()
    repository.index.wheels.clear()
    error = repository.run("wheel", "--target", "v1.0.0").error
    assert "error: torch==1.0.0: pip failed: ERROR: No matching distribution" in error
    log = Path(error.partition("(log: ")[2].removesuffix(")"))
    assert log.exists()


def test_wheel_needs_room(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.add_series()
    monkeypatch.setattr("acknap.base.files._free", lambda _: 100)
    error = repository.run("wheel", "--target", "v1.0.0", "--out", tmp_path).error
    assert error.startswith("error: a wheel of v1.0.0 needs about ")
    assert error.endswith("make room or name another folder with --out")


def test_killed_while_it_writes(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rerun removes what is left; a complete wheel is never touched before."""
    repository.add_series()
    out = tmp_path / "out"
    made = make(repository, "--out", out)
    complete = made.read_bytes()
    (out / ".torch-acknap.partial").mkdir()
    (out / ".torch-acknap.partial" / made.name).write_bytes(b"half")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pip, "download", stop)
        assert repository.run("wheel", "--target", "v1.0.0", "--out", out).status == 130
    assert [*out.iterdir()] == [made]
    assert made.read_bytes() == complete
