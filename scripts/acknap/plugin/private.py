"""Files of a patched torch as modules of a private package.

Only import statements change, and the names of loggers that a module takes from its
own: `TORCH_LOGS` shows the same lines. Every line keeps its number.
"""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from acknap.base import git
from acknap.base.errors import SeriesError
from acknap.upstream.targets import Target

ROOT = "torch/_functorch"
CHECKPOINTING = f"{ROOT}/_activation_checkpointing"
_CONFIG, _PARTITIONERS = f"{ROOT}/config.py", f"{ROOT}/partitioners.py"
_SHARED = "shared"
_INIT = '"""The planner of PyTorch {release} with the series."""\n'
_ROOT_INIT = "\nfrom acknap import _config as config\n"
_FOLDER_INIT = """
from pathlib import Path

# What is the same in all releases lies there once.
__path__.append(str(Path(__file__).parents[2] / "shared"))
"""


@dataclass(frozen=True)
class Release:
    """What a package takes from one release.

    Attributes:
        modules: Their text, by their path below torch/_functorch.
        files: The blob ids that a file of an installed torch may have: as released, and
            with the series.
        options: The defaults of the options that the series adds.
    """

    target: Target
    modules: Mapping[str, str]
    files: Mapping[str, tuple[str, ...]]
    options: Mapping[str, object]

    @property
    def folder(self) -> str:
        return "v" + self.target.release.replace(".", "_")


def read_release(
    target: Target, released: Mapping[str, bytes], patched: Mapping[str, bytes]
) -> Release:
    """Make the private modules of a release.

    Args:
        target: The release.
        released: The files of upstream that its series works on, as released.
        patched: The files that the series adds or changes, with the series.

    Raises:
        SeriesError: A file imports in a way that is not known here.
    """
    private = {
        path: text.decode()
        for path, text in {**released, **patched}.items()
        if path == _PARTITIONERS or path.startswith(f"{CHECKPOINTING}/")
    }
    names = {_module(path) for path in private}
    return Release(
        target,
        {
            path.removeprefix(f"{ROOT}/"): _Rewriter(path, text, names).text()
            for path, text in private.items()
        },
        {
            path: tuple(
                dict.fromkeys(
                    git.blob_id(files[path])
                    for files in (released, patched)
                    if path in files
                )
            )
            for path in released
        },
        _new_options(released[_CONFIG], patched[_CONFIG]),
    )


def lay_out(releases: list[Release], revision: str) -> dict[str, str]:
    """The files of the private package, by their path in it.

    A module of the folder of checkpointing that is the same in all releases is there
    once.
    """
    first, *others = releases
    shared = {
        path: text
        for path, text in first.modules.items()
        if "/" in path and all(one.modules.get(path) == text for one in others)
    }
    files = {
        "__init__.py": '"""The planner, by release of PyTorch: made by a build."""\n'
    }
    for path, text in shared.items():
        files[f"{_SHARED}/{path.rpartition('/')[2]}"] = text
    for one in releases:
        init = _INIT.format(release=one.target.release)
        files[f"{one.folder}/__init__.py"] = init + _ROOT_INIT
        folder = f"{one.folder}/_activation_checkpointing"
        files[f"{folder}/__init__.py"] = init + _FOLDER_INIT
        for path, text in one.modules.items():
            if path not in shared:
                files[f"{one.folder}/{path}"] = text
    files["releases.json"] = _manifest(releases, revision)
    return files


def _manifest(releases: list[Release], revision: str) -> str:
    table = {
        "revision": revision,
        "releases": {
            one.target.release: {
                "folder": one.folder,
                "files": one.files,
                "options": one.options,
            }
            for one in releases
        },
    }
    return json.dumps(table, indent=1, sort_keys=True) + "\n"


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


@dataclass
class _Rewriter:
    """Points the imports of one file to the private package, or to torch."""

    path: str
    source: str
    private: set[str]
    _edits: list[tuple[int, str, str]] = field(default_factory=list)

    def text(self) -> str:
        tree = ast.parse(self.source)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                self._import(node)
            elif isinstance(node, ast.Import):
                if any(name.name.startswith("torch._functorch") for name in node.names):
                    self._fail(node)
            elif isinstance(node, ast.Attribute) and ast.unparse(node) in self.private:
                self._fail(node)
            elif isinstance(node, ast.Call):
                self._logger(node)
        lines = self.source.splitlines(keepends=True)
        for number, old, new in self._edits:
            line = lines[number - 1]
            if line.count(old) != 1:
                raise SeriesError(f"{self.path}:{number}: {old!r} is not there once")
            lines[number - 1] = line.replace(old, new)
        return "".join(lines)

    def _import(self, node: ast.ImportFrom) -> None:
        wanted = "." * node.level + (node.module or "")
        package = _module(self.path).split(".")[: -node.level]
        module = node.module or ""
        if node.level:
            module = ".".join([*package, node.module] if node.module else package)
        if not f"{module}.".startswith("torch._functorch."):
            return
        if module == "torch._functorch":
            known = {"config", "partitioners"}
            if not {name.name for name in node.names} <= known:
                self._fail(node)
            target = self._up()
        elif module in self.private:
            target = self._up() + module.removeprefix("torch._functorch.")
        else:
            target = module
        if target != wanted:
            self._edits.append(
                (node.lineno, f"from {wanted} import", f"from {target} import")
            )

    def _up(self) -> str:
        """The private package, as seen from the file."""
        return "." * (1 + self.path.removeprefix(f"{ROOT}/").count("/"))

    def _logger(self, node: ast.Call) -> None:
        if ast.unparse(node) == "logging.getLogger(__name__)":
            self._edits.append((node.lineno, "__name__", f'"{_module(self.path)}"'))

    def _fail(self, node: ast.stmt | ast.expr) -> None:
        raise SeriesError(
            f"{self.path}:{node.lineno}: the package cannot carry `{ast.unparse(node)}`"
        )


def _new_options(released: bytes, patched: bytes) -> dict[str, object]:
    """The options that one config.py has more than another, with their defaults."""
    before, after = (_assigned(text) for text in (released, patched))
    return {name: after[name] for name in after.keys() - before.keys()}


def _assigned(config: bytes) -> dict[str, object]:
    found: dict[str, object] = {}
    for node in ast.parse(config).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=ast.Constant(value))
                | ast.AnnAssign(target=ast.Name(name), value=ast.Constant(value))
            ):
                found[name] = value
    return found
