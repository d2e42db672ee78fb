"""`check`: passes what export wrote, and names what drifted."""

import json
from pathlib import Path

import pytest

from acknap.series.lint import lint_types
from toy_upstream import CONFIG, MESSAGE, NEW, SOLVER, TEST, Repository

PATCH = "patches/v1/0002-Take-iterators.patch"


@pytest.fixture
def exported(repository: Repository) -> Repository:
    repository.add_series()
    return repository


def findings(repository: Repository) -> list[tuple[str, str]]:
    result = repository.run("check", "--json")
    found = json.loads(result.out)["findings"]
    assert result.status == (1 if found else 0)
    return [(one["where"], one["problem"]) for one in found]


def test_good_series(exported: Repository) -> None:
    out = exported.ok("check")
    assert [line.split()[::3] for line in out.splitlines()[1:-1]] == [
        ["v1.0.0", "ok"],
        ["v1.1.0", "ok"],
    ]
    assert out.splitlines()[-1].startswith("2 targets, 0 findings, ")
    assert json.loads(exported.ok("check", "--json")) == {
        "targets": ["v1.0.0", "v1.1.0"],
        "findings": [],
    }


def test_one_target(exported: Repository) -> None:
    report = json.loads(exported.ok("check", "--json", "--target", "1.1.0"))
    assert report["targets"] == ["v1.1.0"]


@pytest.mark.parametrize("path", [f"torch_overlay/{NEW}", TEST])
def test_drifted_source(exported: Repository, path: str) -> None:
    exported.write(path, "edited = True\n")
    where, problem = findings(exported)[0]
    assert where == "v1"
    assert problem == (
        f"{path.removeprefix('torch_overlay/')} was edited since the last export: "
        "run `./scripts/harness export`"
    )
    exported.ok("export")
    assert not findings(exported)


def test_new_source(exported: Repository) -> None:
    exported.write("torch_overlay/torch/more.py", "x = 1\n")
    (finding,) = findings(exported)
    assert "torch/more.py is in the overlay or the suite, but no commit" in finding[1]


def test_edited_patch(exported: Repository) -> None:
    text = (exported.root / PATCH).read_text()
    exported.write(PATCH, text.replace("len(list(", "len(set("))
    found = findings(exported)
    assert {where for where, _ in found} == {"v1", "v1.0.0", "v1.1.0"}
    assert found[0][1].startswith(f"{PATCH} is not what export writes")
    assert f"{SOLVER}: the series gives " in found[1][1]


def test_edited_ending(exported: Repository) -> None:
    """Even a byte that git am does not mind."""
    exported.write(PATCH, (exported.root / PATCH).read_text() + "-- \n2.99\n")
    assert findings(exported) == [
        ("v1", f"{PATCH} is not what export writes: run `./scripts/harness export`")
    ]


def test_patch_that_does_not_apply(exported: Repository) -> None:
    text = (exported.root / PATCH).read_text()
    exported.write(PATCH, text.replace(" def size", " def length"))
    problems = [problem for _, problem in findings(exported)]
    assert len(problems) == 3
    assert all("0002-Take-iterators.patch does not apply to" in one for one in problems)


def test_missing_patch(exported: Repository) -> None:
    (exported.root / PATCH).unlink()
    assert {where for where, _ in findings(exported)} == {"v1.0.0", "v1.1.0"}


def test_wrong_pin(exported: Repository) -> None:
    path = "patches/targets.toml"
    after = exported.target("v1.1.0").after[SOLVER]
    exported.write(path, (exported.root / path).read_text().replace(after, "0" * 40))
    where, problem = findings(exported)[-1]
    assert where == "v1.1.0"
    assert f"gives {after}, patches/targets.toml pins {'0' * 40}" in problem


def test_message(exported: Repository) -> None:
    text = (exported.root / PATCH).read_text()
    exported.write(PATCH, text.replace("Pending", "Perhaps"))
    assert "Upstream-Status 'Perhaps' is not" in findings(exported)[0][1]


def test_no_patches(repository: Repository) -> None:
    (finding,) = findings(repository)
    assert finding[1].startswith("patches/v1 has no patches: ")
    assert repository.run("check").status == 1


LINTED = """\
import os
import abc as abc

NEW: int = os.name
double = lambda x: 2 * x
"""


def test_lint_of_new_file(exported: Repository) -> None:
    exported.write(f"torch_overlay/{NEW}", LINTED)
    exported.ok("export")
    found = findings(exported)
    assert {where for where, _ in found} == {"v1"}
    assert [problem.split()[:2] for _, problem in found] == [
        [f"{NEW}:1:", "PYFMT"],
        [f"{NEW}:2:", "PLC0414"],
        [f"{NEW}:2:", "PYFMT"],
        [f"{NEW}:4:", "bad-assignment"],
        [f"{NEW}:5:", "E731"],
    ]


def test_lint_of_syntax(exported: Repository) -> None:
    exported.write(f"torch_overlay/{NEW}", "NEW =\n")
    exported.ok("export")
    assert "invalid-syntax" in findings(exported)[0][1]


def test_lint_of_changed_file(exported: Repository) -> None:
    """The release itself has the first `import math`, which is unused too."""
    tree = exported.tree()
    lines = "    import math\n\n    return len"
    tree.replace(SOLVER, "    return len", lines)
    tree.commit("Import it again")
    tree.git("rebase", "-q", "--fork-point", "series", "optional")
    exported.ok("export", tree.path)
    message = "F401 `math` imported but unused"
    assert [one for one in findings(exported) if message in one[1]] == [
        ("v1.0.0", f"{SOLVER}:9: {message}"),
        ("v1.1.0", f"{SOLVER}:10: {message}"),
    ]


def test_lint_of_optional_patch(exported: Repository) -> None:
    tree = exported.tree()
    tree.git("checkout", "-q", "optional")
    tree.replace(CONFIG, "alpha = 2", 'alpha: int = "2"')
    tree.git("commit", "-qa", "--amend", "--no-edit")
    exported.ok("export", tree.path)
    assert {where for where, _ in findings(exported)} == {"v1.0.0", "v1.1.0"}


def test_types_of_installed_torch(tmp_path: Path) -> None:
    """What `test` looks up, and what is Any for `check`."""
    (tmp_path / "__init__.py").write_text("def size() -> int: ...\n")
    files = {NEW: b"import torch\n\n\nNEW: str = torch.size()\n"}
    assert not lint_types(files)
    assert [one.code for one in lint_types(files, tmp_path)] == ["bad-assignment"]
    assert not (tmp_path / "_functorch").exists()


def test_message_round_trip(repository: Repository) -> None:
    """What is hard to carry through a mail: letters, indented text, long titles."""
    title = "Keep “naïve” sums of the 0/1 problem as they are in the table of today"
    tree = repository.tree()
    tree.replace(SOLVER, "len(items)", "0")
    message = MESSAGE.replace(
        "Symptom,", "\n    indented: code\n\n> quoted\n\nFrom here on, é.\n\nSymptom,"
    )
    tree.commit(title, message)
    repository.ok("export", tree.path)
    assert not findings(repository)
    again = repository.tree("again")
    assert again.git("log", "-1", "--format=%B", "series") == tree.git(
        "log", "-1", "--format=%B", "series"
    )
