"""What the files of a suite import, and which of them are new to a stock release.

Decided from the files' text and by asking both interpreters, never from the text
of an error: a file that fails to import for another reason must not pass as new.
"""

import ast
from collections.abc import Collection, Mapping
from pathlib import Path

from acknap.torches.inspect import Import


def of_suite(suite: Path) -> dict[str, frozenset[Import]]:
    """Return what each test file of a suite imports, by file name.

    Imports of a helper file beside the tests count for each test file that uses it.
    """
    direct = {path.stem: _of_file(path) for path in sorted(suite.glob("*.py"))}
    return {
        f"{stem}.py": _closure(stem, direct)
        for stem in direct
        if stem.startswith("test_")
    }


def new_files(
    imports: Mapping[str, frozenset[Import]],
    stock: Mapping[Import, str],
    patched: Mapping[Import, str],
    series: Collection[str],
) -> dict[str, list[str]]:
    """Return the test files that stock cannot have, each with what stock lacks.

    Args:
        imports: What each test file imports.
        stock: The imports that fail on stock, with the reason.
        patched: The imports that fail on the patched side.
        series: Paths of the files that the series adds or touches.
    """
    new: dict[str, list[str]] = {}
    for file, wanted in imports.items():
        lacking = sorted(wanted & stock.keys())
        if lacking and all(
            stock[item] == "absent" and item not in patched and _added(item, series)
            for item in lacking
        ):
            new[file] = [".".join(filter(None, item)) for item in lacking]
    return new


def _added(item: Import, series: Collection[str]) -> bool:
    """Whether an import leads to a file that the series adds or touches."""
    paths = [item.module.replace(".", "/")]
    if item.name:
        paths.append(f"{paths[0]}/{item.name}")
    return any(
        path + end in series for path in paths for end in (".py", "/__init__.py")
    )


def _of_file(path: Path) -> frozenset[Import]:
    """Return the imports that decide whether a file can be collected.

    Those at the top level, outside ``if`` and ``try``: they always run.
    """
    try:
        body = ast.parse(path.read_bytes()).body
    except SyntaxError:
        # pytest reports it, as a file that cannot be collected.
        return frozenset()
    found = set()
    for node in body:
        if isinstance(node, ast.Import):
            found |= {Import(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = ["" if alias.name == "*" else alias.name for alias in node.names]
            found |= {Import(node.module, name) for name in names}
    return frozenset(found)


def _closure(stem: str, direct: Mapping[str, frozenset[Import]]) -> frozenset[Import]:
    """Return a file's imports with its helpers' in place of the helpers."""
    seen, todo = {stem}, [stem]
    outside: set[Import] = set()
    while todo:
        for item in direct[todo.pop()]:
            if item.module not in direct:
                outside.add(item)
            elif item.module not in seen:
                seen.add(item.module)
                todo.append(item.module)
    return frozenset(outside)
