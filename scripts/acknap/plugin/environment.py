"""The environment of a stock release with the package for an unpatched torch in it."""

import hashlib
from pathlib import Path

from acknap.base import pip
from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.base.progress import working
from acknap.base.venv import Venv
from acknap.plugin.build import write_plugin
from acknap.torches import environments
from acknap.torches.environments import Environment
from acknap.upstream.targets import PACKAGED, Target, Targets


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
    with environments.hold(layout, target) as lock:
        _renew(original, made, wheel, lock)
    return Environment(target, "plugin", made, original.files)


def _renew(original: Environment, made: Venv, wheel: Path, lock: int) -> None:
    stamp = made.stamp
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    wanted = {"stock": original.venv.stamp, "wheel": digest}
    if stamp == wanted:
        return
    made.incomplete()
    if stamp.get("stock") != wanted["stock"]:
        environments.link_packages(original.venv, made)
    with working(f"Installing {wheel.name}"):
        log = made.folder.with_name(f"{made.folder.name}.log")
        pip.install_wheel(made.python, wheel, log, lock)
    made.complete(wanted)
