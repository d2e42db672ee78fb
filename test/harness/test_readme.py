"""The README says what the code and the committed results say."""

import re
from pathlib import Path

import pytest

from acknap.base.layout import Layout
from acknap.series.patches import load
from acknap.upstream.targets import Targets

LAYOUT = Layout.default()
README = (LAYOUT.root / "README.md").read_text()


@pytest.mark.parametrize(
    "name", ["compare-v2.10.0-against-v2.10.0", "compare-v2.9.1-against-v2.10.0"]
)
def test_comparison_table_is_that_of_the_committed_report(name: str) -> None:
    report = (LAYOUT.results / name / "compare.md").read_text()
    table = re.search(r"^\| result \|.*?(?=\n\n)", report, re.MULTILINE | re.DOTALL)
    assert table
    assert table.group() in README


def test_status_table_has_every_patch() -> None:
    titles = {
        patch.title
        for name in Targets.load(LAYOUT).series
        for patch in load(LAYOUT, name).all
    }
    rows = re.findall(
        r"^\| ([^|]+?) \| [^|]+ \| [^|]+ \| \w+ \|$", README, re.MULTILINE
    )
    assert titles == set(rows) - {"Patch"}


@pytest.mark.parametrize("path", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_link_leads_somewhere(path: str) -> None:
    assert (LAYOUT.root / Path(path)).exists()
