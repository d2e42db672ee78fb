"""`docker` with a program in the engine's place that does what a test tells it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acknap.base import pip
from acknap.base.layout import Layout
from acknap.container import engine as docker_engine
from acknap.container.image import secrets
from toy_upstream import Repository, Result

# Notes each call. `version`, `build --help`, `build`, `run`, ... are files beside it
# that are sourced if they are there.
PROGRAM = """\
#!/bin/sh
here=$(dirname "$0")
printf '%s\\n' "$*" >>"$here/calls"
case "$1 $2" in
    "build --help") file=help ;;
    *) file=$1 ;;
esac
[ ! -e "$here/$file.sh" ] || . "$here/$file.sh"
"""
HELP = "echo '--secret --build-context'"
# Keeps what reached the build, and says what BuildKit says.
BUILD = """
for argument; do
    case $argument in
        --secret=*) cp "${argument#*src=}" "$here/" ;;
    esac
done
echo '#7 [base 2/6] RUN true' >&2
"""
RUN = """
for argument; do
    case $argument in
        --volume=*) out=${argument#--volume=} out=${out%%:*} ;;
    esac
done
ls -ld "$out" >"$here/mode"
echo '{"tests": []}' >"$out/compare.json"
echo '# Report' >"$out/compare.md"
mkdir -p "$out/suite/stock"
echo 'a test' >"$out/suite/stock/pytest.log"
echo 'a table'
exit 1
"""

# The command line in a process of its own.
CALL = """
import sys
from pathlib import Path
from acknap import cli
from acknap.base.layout import Layout
layout = Layout(Path(sys.argv[1]))
Layout.default = lambda: layout
sys.argv = ["harness", "docker", "build", "--target", "v1.0.0"]
cli.main()
"""


class Engine:
    """What the program does, and what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.program = folder / "docker"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)
        for name, text in {
            "help": HELP,
            "build": BUILD,
            "image": "echo 7930000000",
            "run": RUN,
        }.items():
            self.does(name, text)

    def does(self, name: str, text: str) -> None:
        (self.folder / f"{name}.sh").write_text(text)

    def calls(self, name: str) -> list[str]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(f"{name} ")]


@pytest.fixture
def engine(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Engine:
    """An engine that works, the first one on PATH, for a repository with a series."""
    repository.add_series()
    (repository.root / "docker").mkdir()
    made = Engine(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    return made


def build(repository: Repository, *options: str) -> Result:
    return repository.run("docker", "build", "--target", "v1.0.0", *options)


class TestBuild:
    def test_tag_labels_and_progress(
        self, engine: Engine, repository: Repository
    ) -> None:
        result = build(repository, "--stage", "stock", "--base-image", "python:mine")
        assert re.fullmatch(r"acknap:v1\.0\.0-[0-9a-f]{12}-stock\n", result.out)
        assert "  [base 2/6] RUN true\n" in result.err
        assert "7.93 GB" in result.err
        _, call = engine.calls("build")
        assert f"--tag={result.out.strip()} " in call
        for option in (
            *("--target=stock", "--build-arg=TARGET=v1.0.0"),
            *(
                "--build-arg=BASE_IMAGE=python:mine",
                "--label=acknap.torch-commit=11111111",
            ),
        ):
            assert option in call

    @pytest.mark.usefixtures("engine")
    def test_series_is_in_the_tag(self, repository: Repository) -> None:
        before = build(repository).out
        patch = repository.layout.patches / "v1" / "0002-Take-iterators.patch"
        patch.write_text(patch.read_text() + "\n")
        assert build(repository).out != before

    def test_from_source(
        self, engine: Engine, repository: Repository, tmp_path: Path
    ) -> None:
        assert "-source" in build(repository, "--from-source", "--jobs", "2").out
        assert "--build-arg=MAX_JOBS=2" in engine.calls("build")[-1]
        error = build(repository, "--repository", str(tmp_path)).error
        assert "is not a git checkout" in error
        checkout = repository.checkout().path
        assert "-source" in build(repository, "--repository", str(checkout)).out
        assert f"--build-context=checkout={checkout}" in engine.calls("build")[-1]
        assert "-source" in build(repository, "--repository", "git://mine").out
        assert "--build-arg=TORCH_REPOSITORY=git://mine" in engine.calls("build")[-1]
        engine.does("help", "echo --secret")
        error = build(repository, "--repository", str(checkout)).error
        assert "install its buildx plugin, or give --repository a URL" in error

    def test_pip_settings_are_secrets(
        self,
        engine: Engine,
        repository: Repository,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (tmp_path / "own.pem").write_text("certificates")
        monkeypatch.setenv("PIP_INDEX_URL", "https://me:word@index.invalid/simple")
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://x.invalid file:///of/mine")
        monkeypatch.setenv("PIP_CERT", str(tmp_path / "own.pem"))
        pip.configuration.cache_clear()
        assert build(repository).status == 0
        assert (engine.folder / "pip").read_text() == (
            "[global]\n"
            "index-url = https://me:word@index.invalid/simple\n"
            "extra-index-url = https://x.invalid\n"
            "cert = /run/secrets/ca\n"
        )
        assert (engine.folder / "ca").read_text() == "certificates"
        call = engine.calls("build")[-1]
        assert "word" not in call
        assert "invalid" not in call
        (place,) = re.findall(r"id=pip,src=(\S+)", call)
        assert not Path(place).exists()
        monkeypatch.setenv("PIP_CERT", "/no/such.pem")
        pip.configuration.cache_clear()
        assert "`cert` names /no/such.pem: No such file" in build(repository).error

    @pytest.mark.usefixtures("repository")
    def test_another_index_is_another_layer(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = []
        for url in ("https://a.invalid", "https://b.invalid", "https://me:x@b.invalid"):
            monkeypatch.setenv("PIP_INDEX_URL", url)
            pip.configuration.cache_clear()
            with secrets() as given:
                found.append(given.index_hash)
        assert found[0] != found[1] == found[2]

    def test_a_failed_build(self, engine: Engine, repository: Repository) -> None:
        engine.does("build", "echo '#9 1.5 error: it rains'; exit 1")
        error = build(repository).error
        assert re.search(r"-patched failed: it rains \(log: .*\.log\)", error)
        assert not engine.calls("image")

    def test_interrupted(self, engine: Engine, repository: Repository) -> None:
        """The engine is told, and told first: it drops the build and tags nothing."""
        engine.does(
            "build",
            """
            trap 'kill $!; touch "$here/stopped"; exit 1' TERM
            sleep 60 &
            touch "$here/building"
            wait
            """,
        )
        process = subprocess.Popen(
            [sys.executable, "-c", CALL, repository.root],
            env=os.environ | {"PYTHONPATH": str(Layout.default().root / "scripts")},
            stderr=subprocess.PIPE,
            text=True,
        )
        while not (engine.folder / "building").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert process.returncode == 130
        assert said.endswith("interrupted; run the command again to continue\n")
        assert "Traceback" not in said
        assert (engine.folder / "stopped").exists()


class TestCompare:
    def test_report_comes_out(self, engine: Engine, repository: Repository) -> None:
        result = repository.run("docker", "compare", "--target", "v1.0.0")
        assert result.status == 1
        folder = repository.root / "build/docker/compare-v1.0.0"
        assert (folder / "compare.md").read_text() == "# Report\n"
        assert (folder / "suite/stock/pytest.log").read_text() == "a test\n"
        assert (engine.folder / "mode").read_text().startswith("drwxrwxrwx")
        assert not list((repository.root / "build/docker").glob("out-*"))
        (call,) = engine.calls("run")
        assert "--rm" in call
        assert "--network=none" in call
        # The paths that compare prints in there are those of here.
        assert f":{folder} " in call
        assert call.endswith(f' --out "$0" {folder}')

    @pytest.mark.usefixtures("engine")
    def test_json(self, repository: Repository, tmp_path: Path) -> None:
        options = ("--target", "v1.0.0", "--json", "--out", str(tmp_path / "o"))
        assert repository.run("docker", "compare", *options).out == '{"tests": []}\n'

    def test_no_report(self, engine: Engine, repository: Repository) -> None:
        folder = repository.root / "build/docker/compare-v1.0.0"
        repository.run("docker", "compare", "--target", "v1.0.0")
        engine.does("run", "exit 2")
        result = repository.run("docker", "compare", "--target", "v1.0.0")
        assert result.status == 2
        assert "Report" not in result.out
        assert (folder / "compare.md").exists()  # of the run before
        engine.does("run", "echo 'docker: no such runtime' >&2; exit 125")
        result = repository.run("docker", "compare", "--target", "v1.0.0")
        assert "cannot be run" in result.error

    def test_shell(self, engine: Engine, repository: Repository) -> None:
        engine.does("run", "exit 3")
        result = repository.run("docker", "shell", "--target", "v1.0.0")
        assert result.status == 3
        assert engine.calls("run")[0].endswith("-patched bash")


class TestEngine:
    def test_none(
        self, engine: Engine, repository: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine.program.unlink()
        monkeypatch.setenv("PATH", str(engine.folder))
        assert build(repository).error == (
            "error: no docker on PATH: install it, or put `docker/engine.sh` before "
            "the command, as root: it brings one up"
        )

    def test_not_running(self, engine: Engine, repository: Repository) -> None:
        engine.does("version", "echo 'Is the docker daemon running?' >&2; exit 1")
        error = build(repository).error
        assert "finds no engine that answers (Is the docker daemon running?)" in error
        assert "start it, or put `docker/engine.sh` before the command" in error

    def test_no_buildkit(self, engine: Engine, repository: Repository) -> None:
        engine.does("help", "echo --file")
        assert "has no BuildKit: install its buildx plugin" in build(repository).error

    def test_second_on_path(
        self,
        engine: Engine,
        repository: Repository,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A client without BuildKit before one that has it."""
        other = Engine(tmp_path / "other")
        engine.does("help", "echo --file")
        monkeypatch.setenv("PATH", f"{engine.folder}:{other.folder}:/usr/bin:/bin")
        assert build(repository).status == 0
        assert len(other.calls("build")) == 2


# What an engine said (docker 20.10), and the line that it becomes.
SAID = {
    "#7 12.3 error: 0001-x.patch does not apply to v2.10.0\n#7 ERROR: exit code: 2\n": (
        "0001-x.patch does not apply to v2.10.0"
    ),
    "#7 9.1 OSError: [Errno 28] No space left on device\n#7 ERROR: exit code: 1\n": (
        "the engine's disk is full"
    ),
    "#7 2.1 error: torch-2.10.0.txt: the package index does not answer: check\n": (
        "the package index does not answer"
    ),
    "#7 ERROR: executor failed running [/bin/sh -c false]: exit code: 1\n": (
        "executor failed running [/bin/sh -c false]: exit code: 1"
    ),
    "": "it gives no reason",
}


@pytest.mark.parametrize(("said", "line"), SAID.items())
def test_reason(said: str, line: str) -> None:
    assert docker_engine.reason(said).startswith(line)
