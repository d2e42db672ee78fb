"""The package's environment: which releases it is for."""

import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.plugin.environment import with_plugin
from acknap.upstream.targets import Targets


def test_a_release_of_another_series_is_refused() -> None:
    layout = Layout.default()
    targets = Targets.load(layout)
    with pytest.raises(HarnessError, match=r"not for v2\.10\.0, but for v2\.11\.0, "):
        with_plugin(layout, targets, targets.get("v2.10.0"))
