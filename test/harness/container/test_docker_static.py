"""docker/ as text: what has to hold without an engine."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import pytest
import typer.main
from packaging.specifiers import SpecifierSet

from acknap.base.layout import Layout
from acknap.cli.docker import app
from acknap.container.image import Image, Stage
from acknap.upstream.targets import Targets

LAYOUT = Layout.default()
FOLDER = LAYOUT.root / "docker"
TEXT = (FOLDER / "Dockerfile").read_text()


@dataclass
class Part:
    """One stage of the Dockerfile."""

    parent: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        return [arguments for found, arguments in self.lines if found == word]


def instructions() -> Iterator[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE).replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip():
            word, arguments = line.split(maxsplit=1)
            yield word, re.sub(r"\s+", " ", arguments)


def stages() -> dict[str, Part]:
    found: dict[str, Part] = {}
    for word, arguments in instructions():
        if word == "FROM":
            parent, name = arguments.split(" AS ")
            found[name] = Part(parent)
        elif found:
            list(found.values())[-1].lines.append((word, arguments))
    return found


def default(name: str) -> set[str]:
    return set(re.findall(rf"^ARG {name}=(.*)$", TEXT, re.MULTILINE))


def is_ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path out of the build: the last match decides."""
    ignored = False
    parents = [path, *map(str, Path(path).parents)][:-1]
    for line in (LAYOUT.root / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if pattern[:1] not in ("", "#") and any(fnmatch(p, pattern) for p in parents):
            ignored = not line.startswith("!")
    return ignored


def test_every_from_is_an_argument_or_an_earlier_stage() -> None:
    known = ["${BASE_IMAGE}"]
    for name, stage in stages().items():
        assert stage.parent in known
        known.append(name)
    assert "syntax=" not in TEXT  # it would pull a frontend


def test_the_command_line_knows_every_stage() -> None:
    assert set(Stage) <= set(stages())
    inner = {stage.parent for stage in stages().values()} | {"checkout", "source-build"}
    assert set(stages()) - set(Stage) <= inner


@pytest.mark.parametrize("stage", Stage)
def test_last_user_is_numeric(stage: Stage) -> None:
    every = stages()
    name: str = stage
    while not (users := every[name].all("USER")):
        name = every[name].parent
    user, group = map(int, users[-1].split(":"))
    assert user > 0
    assert group > 0


def test_every_copied_file_exists_and_is_let_in() -> None:
    for stage in stages().values():
        for arguments in stage.all("COPY"):
            if arguments.startswith("--from="):
                assert arguments.removeprefix("--from=").split()[0] in stages()
                continue
            source = arguments.split()[0]
            assert (LAYOUT.root / source).exists()
            files = [
                path for path in (LAYOUT.root / source).rglob("*") if path.is_file()
            ]
            shown = {str(path.relative_to(LAYOUT.root)) for path in files} or {source}
            assert not all(map(is_ignored, shown)), source


@pytest.mark.parametrize(
    "path",
    [
        *(
            "README.md",
            ".git/config",
            "build/env/x",
            "results/x.json",
            "docker/engine.sh",
        ),
        *("scripts/acknap/__pycache__/cli.pyc", "test/harness/conftest.py", ".netrc"),
    ],
)
def test_the_rest_stays_out(path: str) -> None:
    assert is_ignored(path)


def test_defaults_agree_with_the_table_of_releases() -> None:
    (name,) = default("TARGET")
    target = Targets.load(LAYOUT).get(name)
    (base,) = default("BASE_IMAGE")
    match = re.fullmatch(r"python:(3\.\d+)-slim-\w+", base)
    assert match
    for one in Targets.load(LAYOUT).all:
        assert f"{match.group(1)}.99" in SpecifierSet(one.requires_python)
    for command in typer.main.get_command(app).commands.values():  # type: ignore[attr-defined]
        for option in command.params:
            if option.name == "target" and not option.required:
                assert option.default == target.name


def test_labels_agree_with_the_table_of_releases() -> None:
    for target in Targets.load(LAYOUT).all:
        image = Image.of(LAYOUT, target, Stage.patched)
        assert image.labels["org.opencontainers.image.version"] == target.release
        assert image.labels["acknap.torch-commit"] == target.commit
        assert image.labels["acknap.series"] == (
            f"{target.series}-{image.series_revision}"
        )
        assert re.fullmatch(r"acknap:v[\d.]+-[0-9a-f]{12}-patched", image.tag)


def test_every_step_with_pip_keeps_its_cache_and_settings_out_of_the_layer() -> None:
    steps = [step for stage in stages().values() for step in stage.all("RUN")]
    steps = [step for step in steps if "harness" in step or "build-torch" in step]
    assert len(steps) == 3
    for step in steps:
        assert "--mount=type=secret,id=pip " in step
        assert "--mount=type=secret,id=ca " in step
        assert "--mount=type=cache,target=/var/cache/pip " in step


def test_no_address_but_the_upstream_repository() -> None:
    found = {
        address
        for path in (*FOLDER.iterdir(), LAYOUT.root / ".dockerignore")
        for address in re.findall(r"\w+://[^/\s\"']+", path.read_text())
    }
    assert found == {"https://github.com", "unix://$run"}


def test_shellcheck() -> None:
    installed = Path(sys.executable).with_name("shellcheck")
    program = str(installed) if installed.exists() else shutil.which("shellcheck")
    if not program:
        pytest.skip("shellcheck is not installed")
    scripts = sorted(FOLDER.glob("*.sh"))
    assert len(scripts) == 3
    done = subprocess.run([program, *scripts], capture_output=True, text=True)
    assert done.stdout == ""
