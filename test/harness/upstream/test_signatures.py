"""The package's table of what it takes from PyTorch is held against each release."""

from pathlib import Path

import pytest

from acknap.base.layout import Layout
from acknap.series import check
from acknap.upstream import pristine, signatures
from acknap.upstream.targets import PACKAGED, Targets
from toy_upstream import SOLVER, Repository

TABLE = signatures._table(Layout.default())


def test_a_difference_is_a_finding(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.add_series()
    monkeypatch.setattr(check, "PACKAGED", "v1")
    source = Path(TABLE.__file__).read_text()
    for parameters, status in (("items", 0), ("items, more", 1)):
        table = {SOLVER: {"solve": {"1.0.0": "items", "1.1.0": parameters}}}
        path = "plugin/src/acknap/_signatures.py"
        repository.write(path, f"{source}\nTABLE = {table}\n")
        result = repository.run("check")
        assert result.status == status, result.out
        said = (
            f"v1.1.0: {SOLVER}: the parameters of solve are (items), not ({parameters})"
        )
        assert (said in result.out) == bool(status)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def tracing(ctx): ...", "tracing are (ctx), not (context)"),
        ("def tracing(context, *, more): ...", "tracing are (context, *, more), not"),
        ("def tracing(context: 'C | None') -> int: ...", ""),
        ("", "has no tracing"),
    ],
)
def test_parameters_are_read_without_types(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"guards.py": {"tracing": {"2.11.0": "context"}}}
    monkeypatch.setattr(TABLE, "TABLE", table)
    found = list(TABLE.differences("2.13.0", lambda _: text.encode()))
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_fields_and_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"class A:\n    one: int\n    two: int = 2\n    def f(self): ...\n"
    table = {"a.py": {"A": {"2.11.0": "one, two"}, "A.f": {"2.11.0": "self"}}}
    monkeypatch.setattr(TABLE, "TABLE", table)
    assert not list(TABLE.differences("2.11.0", lambda _: text))


def test_every_release_of_the_package_is_in_the_table() -> None:
    targets = Targets.load(Layout.default()).of_series(PACKAGED)
    oldest = min((one.release for one in targets), key=TABLE._key)
    for names in TABLE.TABLE.values():
        assert all(oldest in since for since in names.values())


def test_other_files_are_read_once(repository: Repository) -> None:
    layout = repository.layout
    target = repository.target("v1.0.0")
    first = pristine.read_others(layout, target, ["torch/__init__.py"])
    cached = layout.build / "pristine" / "1.0.0" / "torch/__init__.py"
    assert first == {"torch/__init__.py": b""}
    cached.write_bytes(b"cached")
    again = pristine.read_others(layout, target, ["torch/__init__.py"])
    assert again == {"torch/__init__.py": b"cached"}
