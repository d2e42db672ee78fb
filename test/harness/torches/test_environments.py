"""The stock and the patched environment, made with the real pip from the toy index."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from acknap.base import pip
from acknap.base.errors import HarnessError, SeriesError
from acknap.torches import environments
from acknap.torches.environments import Environment
from toy_upstream import CONFIG, NEW, RELEASES, SOLVER, TEST, Repository

STOCK = RELEASES["1.0.0"]


def stock(repository: Repository) -> Environment:
    return environments.stock(repository.layout, repository.target("v1.0.0"))


def patched(repository: Repository) -> Environment:
    return environments.patched(repository.layout, repository.target("v1.0.0"))


def text(environment: Environment, path: str) -> str:
    return (environment.site_packages / path).read_text()


def failure(repository: Repository) -> str:
    with pytest.raises(HarnessError) as caught:
        patched(repository)
    message = str(caught.value)
    assert "\n" not in message
    return message


def edit(repository: Repository, new: str) -> None:
    """Edit the series: its new file, by export."""
    repository.write(f"torch_overlay/{NEW}", new)
    repository.ok("export")


def test_life_of_the_two(repository: Repository) -> None:
    """One pip run for all: made, shared, reused, refreshed, tampered with."""
    repository.add_series()
    original, changed = stock(repository), patched(repository)
    assert text(original, SOLVER) == STOCK[SOLVER]
    assert "key=abs" in text(changed, SOLVER)
    assert text(changed, NEW) == "NEW = 1\n"
    assert not (original.site_packages / NEW).exists()
    assert text(changed, CONFIG) == STOCK[CONFIG]  # the optional patch is left out

    # Untouched files are shared, changed ones are not.
    for path, shared in {CONFIG: True, "torch/version.py": True, SOLVER: False}.items():
        file = changed.site_packages / path
        assert file.samefile(original.site_packages / path) is shared

    # A stale compiled file never serves a changed source.
    assert not list(
        (changed.site_packages / SOLVER).parent.glob("__pycache__/solver.*")
    )
    assert list((original.site_packages / SOLVER).parent.glob("__pycache__/solver.*"))

    # Reused as they are.
    def inodes(environment: Environment) -> dict[str, int]:
        files = (SOLVER, CONFIG, NEW)
        return {
            path: (environment.site_packages / path).stat().st_ino
            for path in files
            if (environment.site_packages / path).exists()
        }

    before = inodes(original), inodes(changed)
    stock(repository)
    patched(repository)
    assert (inodes(original), inodes(changed)) == before

    # An edited series changes its own files only.
    edit(repository, "NEW = 2\n")
    patched(repository)
    assert text(changed, NEW) == "NEW = 2\n"
    assert inodes(changed)[CONFIG] == before[1][CONFIG]
    assert inodes(original) == before[0]

    # An interrupted refresh is done again.
    stamp = changed.python.parent.parent / "complete.json"
    (changed.site_packages / NEW).write_text("half")
    patched(repository)
    assert text(changed, NEW) == "NEW = 2\n"
    stamp.unlink()
    patched(repository)
    assert stamp.exists()

    # A stock file that somebody edited.
    (original.site_packages / CONFIG).write_text("edited\n")
    assert f"{CONFIG} of the environment " in failure(repository)
    assert "remove " in failure(repository)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (f"torch_overlay/{NEW}", "NEW = 3\n"),
        (TEST, "# A test was deleted.\n"),
        (TEST, None),
        ("test/functorch/test_more.py", "# In no patch yet.\n"),
    ],
)
def test_new_file_that_was_not_exported(
    repository: Repository, path: str, content: str | None
) -> None:
    repository.add_series()
    file = repository.layout.root / path
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    assert failure(repository) == (
        f"{path.removeprefix('torch_overlay/')} is not in its source as the patches of "
        "v1 add it: run `./scripts/harness export`"
    )


def test_file_that_the_series_gives_up(repository: Repository) -> None:
    """It is stock again, and a file that was new is gone."""
    tree = repository.add_series()
    changed = patched(repository)
    tree.git("checkout", "-q", "-B", "series", "pristine")
    tree.git("branch", "-q", "-D", "optional")
    tree.replace(CONFIG, "alpha = 1", "alpha = 9")
    tree.commit("Change a default")
    (repository.layout.overlay / NEW).unlink()
    (repository.layout.suite / "test_new.py").unlink()
    path = repository.layout.patches / "targets.toml"
    path.write_text(path.read_text().replace("optional/", ""))
    repository.ok("export", tree.path)
    patched(repository)
    assert text(changed, SOLVER) == STOCK[SOLVER]
    assert "alpha = 9" in text(changed, CONFIG)
    assert not (changed.site_packages / NEW).exists()


def test_interrupted_stock(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("acknap.base.pip.run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            stock(repository)
    assert text(stock(repository), SOLVER) == STOCK[SOLVER]


def test_killed_while_pip_runs(repository: Repository, tmp_path: Path) -> None:
    """The next run waits for the pip of the killed one, then starts afresh."""
    lock = repository.layout.build / "env" / "1.0.0.lock"
    started = tmp_path / "started"
    code = (
        "import subprocess, sys, time; from pathlib import Path\n"
        "from acknap.base.locks import locked\n"
        f"with locked(Path({str(lock)!r}), '') as held:\n"
        "    child = ['sh', '-c', f'sleep 3; echo > " + str(started) + "']\n"
        "    subprocess.Popen(child, pass_fds=(held,))\n"
        "    print('running', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(environments.__file__).parents[2])},
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.readline()
    process.kill()
    process.wait()
    assert not started.exists()
    stock(repository)
    assert started.exists()
    waited = "Another process works on the environments of v1.0.0: waiting"
    assert waited in repository.capsys.readouterr().err


def test_series_without_pins(repository: Repository) -> None:
    repository.add_series()
    path = repository.layout.patches / "targets.toml"
    after = repository.target("v1.0.0").after[SOLVER]
    path.write_text(path.read_text().replace(after, "0" * 40))
    with pytest.raises(SeriesError, match="does not give the blob ids under `after`"):
        patched(repository)


def test_python_too_old(repository: Repository) -> None:
    path = repository.layout.patches / "targets.toml"
    path.write_text(path.read_text().replace(">=3.10", ">=3.99"))
    assert failure(repository).startswith(
        "v1.0.0 needs Python >=3.99, the harness runs"
    )


def test_no_disk(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acknap.base.files._free", lambda _: 10**9)
    message = failure(repository)
    assert message.startswith("an environment with torch 1.0.0 needs about ")
    assert message.endswith("make room or set ACKNAP_BUILD to another disk")
    assert not (repository.layout.build / "env" / "1.0.0-stock").exists()


def test_no_requirements(repository: Repository) -> None:
    (repository.layout.requirements / "torch-1.0.0.txt").unlink()
    assert failure(repository) == "there is no requirements/torch-1.0.0.txt"


def test_release_that_pip_holds_back(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints, config = tmp_path / "constraints.txt", tmp_path / "pip.conf"
    constraints.write_text("torch<=0.9\n")
    config.write_text(f"[global]\nconstraint = {constraints}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    pip.configuration.cache_clear()
    message = failure(repository)
    assert message.startswith(
        f"torch-1.0.0.txt: pip is held to torch<=0.9 by pip's setting "
        f"`global.constraint` in {config}: remove that setting"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    pip.configuration.cache_clear()
    message = failure(repository)
    assert f"by the environment variable PIP_CONSTRAINT={constraints}" in message


def test_release_that_is_not_there(repository: Repository) -> None:
    repository.index.wheels.clear()
    message = failure(repository)
    assert "torch-1.0.0.txt: pip failed: ERROR: No matching distribution" in message
    log = repository.layout.build / "env" / "1.0.0-stock.log"
    assert message.endswith(f"(log: {log})")
    assert log.exists()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken\n"
            "ERROR: No matching distribution found for torch==1.0.0\n",
            "the package index does not answer: check the network",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space "
            "left on device\n",
            "the disk is full: make room or set ACKNAP_BUILD to another disk",
        ),
        ("Killed", "pip failed: Killed"),
        ("", "pip failed: no output"),
    ],
)
def test_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, reason: str
) -> None:
    script = f"import sys; sys.stdout.write({said!r}); sys.exit(1)"
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\nexec {sys.executable} -c {json.dumps(script)}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    log = tmp_path / "log"
    with pytest.raises(HarnessError) as caught:
        pip.run(["install"], "x.txt", log, 2)
    assert str(caught.value) == f"x.txt: {reason} (log: {log})"
