"""PyTorch's own linters on the files of a release, as released and with a series."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

from acknap.base.errors import HarnessError, last_line
from acknap.base.files import scratch
from acknap.base.parallel import for_each

Files = Mapping[str, bytes]  # by path in the torch tree
_File = tuple[str, bytes]

_CONFIG = Path(__file__).with_name("lint.toml")
_RUFF = ("ruff", "check", "--no-cache", "--no-respect-gitignore", "--exit-zero")
_RUFF_FORMAT = ("ruff", "format", "--no-cache", "--no-respect-gitignore")
_PYREFLY = ("pyrefly", "check", "--config=pyproject.toml", "--threads=1")


@dataclass(frozen=True)
class Remark:
    """What a linter says of a line.

    Attributes:
        text: The line itself, which tells remarks apart: its number, `line`, moves.
    """

    path: str
    line: int = field(compare=False)
    code: str
    message: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.code} {self.message}"


def lint(changes: Sequence[tuple[Files, Files]]) -> list[list[Remark]]:
    """What PyTorch's linters for Python say of each pair of files before and after.

    What they say of the files before is left out. All that is in neither counts as
    `Any` for the type checker.
    """
    style = _style({file for old, new in changes for file in new.items() - old.items()})
    flagged = {path for (path, _), remarks in style.items() if remarks}
    # Mostly there are none, and usort takes a second for a large file.
    style |= _style(
        {file for old, _ in changes for file in old.items() if file[0] in flagged}
    )

    def of_change(change: tuple[Files, Files]) -> list[Remark]:
        old, new = change
        found = [one for file in new.items() - old.items() for one in style[file]]
        found += lint_types(new)
        known = [one for file in old.items() for one in style.get(file, ())]
        return added(known + lint_types(old), found) if found else []

    return for_each(of_change, changes)


def lint_types(files: Files, torch: Path | None = None) -> list[Remark]:
    """What PyTorch's type checker says of the files below torch/.

    Args:
        torch: An installed package, for the types of all that is not in `files`.
    """
    checked = [
        path for path in files if path.startswith("torch/") and path.endswith(".py")
    ]
    with _directory() as directory:
        if torch is None:
            there = [path.removesuffix(".py").replace("/", ".") for path in checked]
            any_typed = [*(f"!{module}" for module in there), "torch", "torch.*"]
        else:
            any_typed = []
            for source in (*torch.rglob("*.py"), *torch.rglob("*.pyi")):
                link = directory / "torch" / source.relative_to(torch)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(source.resolve())
        for path in checked:
            _write(directory / path, files[path])
        options = [f"--replace-imports-with-any={module}" for module in any_typed]
        command = (*_PYREFLY, "--output-format=json", *options, *checked)
        errors = json.loads(_run(directory, *command, found=1))["errors"]
    keys = ("line", "name", "concise_description")
    return [
        _remark((error["path"], files[error["path"]]), *(error[key] for key in keys))
        for error in errors
    ]


def added(before: Sequence[Remark], after: Sequence[Remark]) -> list[Remark]:
    """The remarks of `after` that `before` does not have, or has fewer times."""
    known = Counter(before)
    new = []
    for remark in sorted(after, key=lambda one: (one.path, one.line)):
        if known[remark]:
            known[remark] -= 1
        else:
            new.append(remark)
    return new


def _style(files: Collection[_File]) -> dict[_File, list[Remark]]:
    """What ruff, usort and ruff's formatter say of each file, taken by itself."""
    remarks: dict[_File, list[Remark]] = {file: [] for file in files}
    if not files:
        return remarks
    with _directory() as directory:
        # One folder each: the releases have different files of the same path.
        places = {
            directory / str(number) / file[0]: file for number, file in enumerate(files)
        }
        for place, (_, content) in places.items():
            _write(place, content)
        for error in json.loads(_run(directory, *_RUFF, "--output-format=json", ".")):
            place, line = Path(error["filename"]), error["location"]["row"]
            file = places[place]
            remarks[file].append(_remark(file, line, error["code"], error["message"]))
            if error["code"] == "invalid-syntax":  # the formatters would fail
                place.unlink(missing_ok=True)
        _run(directory, "usort", "format", ".")
        _run(directory, *_RUFF_FORMAT, ".")
        for place, file in places.items():
            if place.exists():
                remarks[file] += _formatted(file, place.read_bytes())
    return remarks


def _formatted(file: _File, wanted: bytes) -> Iterator[Remark]:
    """A remark wherever the formatters have changed the file."""
    if file[1] == wanted:
        return
    old, new = _lines(file[1]), _lines(wanted)
    for tag, line, _, first, last in SequenceMatcher(None, old, new).get_opcodes():
        if tag != "equal":
            shown = new[first].strip() if first < last else "no such line"
            message = f"usort and `ruff format` write: {shown}"
            yield _remark(file, line + 1, "PYFMT", message)


def _remark(file: _File, line: int, code: str, message: str) -> Remark:
    path, content = file
    lines = _lines(content)
    text = lines[line - 1].strip() if line <= len(lines) else ""  # the end of the file
    return Remark(path, line, code, message, text)


def _lines(content: bytes) -> list[str]:
    return content.decode(errors="replace").split("\n")


@contextmanager
def _directory() -> Iterator[Path]:
    """A directory with PyTorch's configuration in it, for the length of the block."""
    with scratch() as directory:
        shutil.copyfile(_CONFIG, directory / "pyproject.toml")
        yield directory


def _write(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)  # never through a link
    place.write_bytes(content)


def _run(directory: Path, tool: str, *arguments: str, found: int = 0) -> str:
    """Run a tool of the harness's environment; `found` is its other good status."""
    # Isolated: `test` and `torch` in the directory are no modules of ours.
    command = [sys.executable, "-I", "-m", tool, *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode not in (0, found):
        raise HarnessError(f"{tool} failed: {last_line(done.stderr)}")
    return done.stdout
