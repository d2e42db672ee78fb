"""The package's environment: which releases it is for, and what it leaves."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.plugin import environment
from acknap.plugin.environment import with_plugin
from acknap.upstream.targets import Targets


def test_a_release_of_another_series_is_refused() -> None:
    layout = Layout.default()
    targets = Targets.load(layout)
    with pytest.raises(HarnessError, match=r"not for v2\.10\.0, but for v2\.11\.0, "):
        with_plugin(layout, targets, targets.get("v2.10.0"))


def write_wheel(_layout: Layout, _targets: Targets, out: Path) -> tuple[Path, Path]:
    """A package of the name, in the place of the one that a build makes."""
    info = "acknap-1.dist-info"
    files = {
        "acknap/__init__.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: acknap\nVersion: 1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in files)
    out.mkdir()
    wheel = out / "acknap-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return wheel, wheel


def test_what_uninstalling_leaves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout.default()
    targets = Targets.load(layout)
    monkeypatch.setattr(environment, "write_plugin", write_wheel)
    assert environment.left_behind(layout, targets) == []
    run = environment.pip.run

    def keep(arguments: Sequence[str | Path], *rest: Any) -> None:
        if "uninstall" not in arguments:
            run(arguments, *rest)

    monkeypatch.setattr(environment.pip, "run", keep)
    left = environment.left_behind(layout, targets)
    assert any(path.endswith("acknap/__init__.py") for path in left)
