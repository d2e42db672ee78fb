"""The harness's rooms: imports go downwards, and nothing grows without end."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "scripts" / "acknap"
# From the roof down; rooms of one floor do not know each other.
FLOORS = (
    {"__main__"},
    {"cli"},
    {"report", "peaks"},
    {"bench"},
    {"models"},
    {"knapsack", "container", "suite"},
    {"plugin"},
    {"install", "torches"},
    {"series"},
    {"upstream"},
    {"base"},
    {"inside"},
)
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
MOST_MODULES, MOST_LINES = 11, 400


def rooms_of(package: Path) -> Iterator[tuple[Path, str]]:
    """Every module with the room that it lies in."""
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        if place != Path("__init__.py"):
            yield path, place.with_suffix("").parts[0]


def imported(path: Path, *, at_start: bool = False) -> Iterator[str]:
    """The modules that a file imports, or only those without which it cannot start."""
    tree = ast.parse(path.read_bytes())
    for node in tree.body if at_start else ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def upward(package: Path) -> list[str]:
    """The imports that do not go down, and those of `inside` that leave it.

    A function of `inside` may import what some environments have, such as scipy.
    """
    found = []
    for path, room in rooms_of(package):
        for name in imported(path, at_start=room == "inside"):
            top, other = (*name.split("."), "")[:2]
            allowed = other == room or LEVEL.get(other, -1) > LEVEL[room]
            if room == "inside" and top != "acknap":
                allowed = top in sys.stdlib_module_names or top == "torch"
            elif top != "acknap":
                continue
            if not allowed:
                found.append(f"{path.relative_to(package)} imports {name}")
    return found


def test_imports_go_downwards() -> None:
    assert upward(PACKAGE) == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("base", "from acknap.series import patches"),
        ("install", "from acknap.torches import inspect"),
        ("series", "import acknap.cli"),
        ("inside", "import rich"),
        ("inside", "from acknap.base import files"),
    ],
)
def test_another_import_is_found(tmp_path: Path, room: str, line: str) -> None:
    (tmp_path / room).mkdir()
    text = f"{line}\n" if room == "inside" else f"def f():\n    {line}\n"
    (tmp_path / room / "planted.py").write_text(text)
    assert len(upward(tmp_path)) == 1


def test_every_room_says_its_rule() -> None:
    page = (PACKAGE / "README.md").read_text()
    for room in set(LEVEL) - {"__main__"}:
        text = (PACKAGE / room / "__init__.py").read_text()
        assert ast.get_docstring(ast.parse(text))
        assert f"| `{room}` |" in page


def test_no_room_and_no_module_is_too_large() -> None:
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())]
    crowded = [f for f in folders if len([*f.glob("*.py")]) > MOST_MODULES]
    long = [
        p for p in PACKAGE.rglob("*.py") if p.read_bytes().count(b"\n") > MOST_LINES
    ]
    assert (crowded, long) == ([], [])


def test_inside_needs_nothing_but_python(tmp_path: Path) -> None:
    """What has no torch to ask starts in a Python without any package."""
    script = "import acknap.inside.solvers, acknap.inside.peers, acknap.inside.fuzz"
    code = f"import sys; sys.path.append({str(PACKAGE.parent)!r}); {script}"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
