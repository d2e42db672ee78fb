"""A study, with a worker of a few lines in a torch of a few lines."""

from pathlib import Path
from typing import Any

import pytest

from acknap.base.errors import HarnessError
from acknap.models import study
from acknap.models.study import Study
from acknap.upstream.targets import Targets
from toy_torch import Toy

WORKER = """
import json, sys
with open(sys.argv[1], "a") as file:
    file.write(json.dumps({"model": "toy"}) + "\\n")
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    monkeypatch.setattr(study, "transformers", lambda _: tmp_path)
    return Toy(tmp_path, monkeypatch)


def run(toy: Toy, *models: str, **more: Any) -> Path:
    """Run it, and return the folder of which it reports."""
    found = []

    def report(folder: Path, command: str) -> int:
        assert command == "./scripts/harness toys --target v1.0.0"
        assert len(study.read(folder, "stock")) == len(study.read(folder, "patched"))
        found.append(folder)
        return 0

    made = Study(
        "toys", toy.write("worker.py", WORKER), "a second", report, ("toy", "other")
    )
    targets = Targets((toy.target,), {})
    usual = {"out": None, "record": False}
    assert made.run(toy.layout, targets, "v1.0.0", models, **usual | more) == 0
    return found[0]


def test_only_a_record_goes_into_results(toy: Toy, tmp_path: Path) -> None:
    assert run(toy) == toy.layout.build / "toys-v1.0.0"
    assert run(toy, out=tmp_path / "out") == tmp_path / "out"
    assert not toy.layout.results.exists()
    assert run(toy, record=True) == toy.layout.results / "toys-v1.0.0"
    with pytest.raises(HarnessError, match="leave out --out"):
        run(toy, out=tmp_path, record=True)


def test_unknown_model_is_refused_before_anything_is_made(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(toy, "other").is_dir()
    monkeypatch.delattr("acknap.torches.environments.stock")
    with pytest.raises(HarnessError, match="unknown model 'toi'; known: toy; other"):
        run(toy, "other", "toi")
