"""The environment of a stock release with the package for an unpatched torch in it."""

import hashlib
import subprocess
from pathlib import Path

from acknap.base import pip
from acknap.base.errors import HarnessError
from acknap.base.files import scratch
from acknap.base.layout import Layout
from acknap.base.locks import locked
from acknap.base.progress import working
from acknap.base.venv import Venv, require_requirements
from acknap.plugin.build import write_plugin
from acknap.torches import environments
from acknap.torches.environments import Environment
from acknap.upstream.targets import PACKAGED, Target, Targets

# The requirements of its tests with a trainer.
_TRAINER = ("capture-transformers", "trainer")


def with_plugin(layout: Layout, targets: Targets, target: Target) -> Environment:
    """Make or renew the environment beside the stock one; the package is built anew.

    Raises:
        HarnessError: It cannot be made, or the package is not for the release.
    """
    if target.series != PACKAGED:
        known = ", ".join(one.name for one in targets.of_series(PACKAGED))
        raise HarnessError(f"the package is not for {target.name}, but for {known}")
    original = environments.stock(layout, target)
    wheel, _ = write_plugin(layout, targets, layout.build / "dist")
    made = Venv(layout.build / "env" / f"{target.release}-plugin")
    trainer = [require_requirements(layout, name) for name in _TRAINER]
    with environments.hold(layout, target) as lock:
        _renew(original, made, trainer, wheel, lock)
    return Environment(target, "plugin", made, original.files)


def _renew(
    original: Environment, made: Venv, trainer: list[Path], wheel: Path, lock: int
) -> None:
    stamp = made.stamp
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    texts = [path.read_text() for path in trainer]
    base = {"stock": original.venv.stamp, "trainer": texts}
    wanted = {**base, "wheel": digest}
    if stamp == wanted:
        return
    made.incomplete()
    log = made.folder.with_name(f"{made.folder.name}.log")
    if {key: stamp.get(key) for key in base} != base:
        environments.link_packages(original.venv, made)
        with working(f"Installing a trainer into {made.folder.name}"):
            for path in trainer:
                options = ("--python", made.python, "install", "-r", path)
                pip.run(options, path.name, log, lock)
    with working(f"Installing {wheel.name}"):
        pip.run(_install(made, wheel), wheel.name, log, lock)
    made.complete(wanted)


def _install(made: Venv, wheel: Path) -> list[str | Path]:
    """To put the wheel in the place of one of the same version."""
    options = ("--no-deps", "--no-index", "--force-reinstall")
    return ["--python", made.python, "install", *options, wheel]


def left_behind(layout: Layout, targets: Targets) -> list[str]:
    """The files that are there after installing the package and uninstalling it.

    Raises:
        HarnessError: It cannot be built, or pip fails.
    """
    with scratch() as place, locked(place / "lock", "") as lock:
        made, log = Venv(place / "venv"), place / "log"
        made.create()
        wheel, _ = write_plugin(layout, targets, place / "dist")
        before = {*made.folder.rglob("*")}
        pip.run(_install(made, wheel), wheel.name, log, lock)
        # As after use.
        compileall = ("-m", "compileall", "-q", made.site_packages)
        subprocess.run([made.python, *compileall], check=True)
        uninstall = ("--python", made.python, "uninstall", "--yes", "acknap")
        pip.run(uninstall, "acknap", log, lock)
        left = {*made.folder.rglob("*")} - before
    return sorted(str(path.relative_to(made.folder)) for path in left)
