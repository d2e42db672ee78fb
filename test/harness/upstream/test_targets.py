"""The version table: the real one, and broken ones."""

import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.upstream.targets import Targets
from toy_upstream import COMMITS, Repository


def test_real_table() -> None:
    layout = Layout.default()
    targets = Targets.load(layout)
    assert [target.name for target in targets.all] == [
        "v2.9.1",
        "v2.10.0",
        "v2.11.0",
        "v2.12.0",
        "v2.13.0",
        "v2.14.1",
        "v2.15.0",
    ]
    assert targets.get("2.10.0") is targets.get("v2.10.0")
    assert {name: one.base for name, one in targets.series.items()} == {
        "v2.9": "v2.9.1",
        "v2.10": "v2.10.0",
        "v2.11": "v2.11.0",
    }
    for target in targets.all:
        assert target.before.keys() == set(target.files)
        assert target.after.keys() <= target.before.keys()
        requirements = layout.requirements / f"torch-{target.release}.txt"
        assert f"torch=={target.release}" in requirements.read_text().splitlines()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('series = "v1"', 'series = "v2"', "v1.0.0: there is no series v2"),
        (COMMITS["1.0.0"], "1" * 39, "v1.0.0: commit is not a full commit id"),
        ('base = "v1.0.0"', 'base = "v1.2.0"', "unknown target 'v1.2.0'"),
        ('role = "toy"\n', "", "no key 'role'"),
        (">=3.10", "3.10 or newer", "3.10 or newer"),
        ("[targets", "[[targets", "patches/targets.toml: "),
    ],
)
def test_broken_table(repository: Repository, old: str, new: str, problem: str) -> None:
    path = repository.layout.patches / "targets.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert problem in repository.run("check").error


def test_no_table(repository: Repository) -> None:
    (repository.layout.patches / "targets.toml").unlink()
    with pytest.raises(HarnessError, match="there is no patches/targets.toml"):
        Targets.load(repository.layout)
