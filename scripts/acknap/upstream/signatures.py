"""Whether a release has what the package for an unpatched torch takes from it."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from acknap.base.layout import Layout
from acknap.upstream import pristine
from acknap.upstream.targets import Target


def differences(
    layout: Layout, target: Target, released: Mapping[str, bytes]
) -> list[str]:
    """What of a release is not as the package's own table says.

    Args:
        layout: The repository.
        target: The release.
        released: Files of it that are read already.

    Raises:
        HarnessError: The other files cannot be had.
    """
    table = _table(layout)
    others = pristine.read_others(layout, target, set(table.TABLE) - set(released))
    files = {**released, **others}
    return list(table.differences(target.release, files.__getitem__))


def _table(layout: Layout) -> Any:
    """A module of the package, which has the harness's name and needs torch."""
    path = layout.plugin / "src" / "acknap" / "_signatures.py"
    spec: Any = importlib.util.spec_from_file_location("acknap_signatures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
