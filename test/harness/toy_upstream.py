"""A repository for an upstream of a few lines, and a package index that serves it."""

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from acknap import cli
from acknap.base import git
from acknap.base.layout import Layout
from acknap.upstream.targets import Target, Targets

SOLVER = "torch/_functorch/solver.py"
CONFIG = "torch/_functorch/config.py"
NEW = "torch/_functorch/new.py"
TEST = "test/functorch/test_new.py"

# The two releases differ near the top, and beside the last line of config.py.
_FUNCTIONS = """

def solve(items):
    return sorted(items)


def size(items):
    return len(items)
"""
RELEASES = {
    "1.0.0": {
        SOLVER: f"import math\n{_FUNCTIONS}",
        CONFIG: "alpha = 1\nbeta = 2\ngamma = 3\n",
    },
    "1.1.0": {
        SOLVER: f"import math\nimport sys\n{_FUNCTIONS}",
        CONFIG: "alpha = 1\nbeta = 2\ngamma = 4\n",
    },
}
COMMITS = {release: str(number) * 40 for number, release in enumerate(RELEASES, 1)}

MESSAGE = """\
{title}

Symptom, cause, change.

Upstream-Status: Pending
Tested-on: v1.0.0, v1.1.0
Signed-off-by: Toy Author <toy@example.invalid>
"""


def wheel(release: str, **replaced: str) -> bytes:
    """A torch wheel that pip can install; `replaced` overrides files."""
    version = f"git_version = '{COMMITS[release]}'\n"
    info = f"torch-{release}.dist-info"
    files = {
        **RELEASES[release],
        "torch/__init__.py": "",
        "torch/_functorch/__init__.py": "",
        "torch/version.py": version,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {release}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n",
        **replaced,
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in files)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return buffer.getvalue()


@dataclass
class Index:
    """A simple package index on this machine."""

    ranges: bool = True
    wheels: dict[str, bytes] = field(
        default_factory=lambda: {
            f"torch-{release}-py3-none-any.whl": wheel(release) for release in RELEASES
        }
    )
    digests: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    @cached_property
    def server(self) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/simple/"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def page(self) -> bytes:
        digests = {
            name: hashlib.sha256(data).hexdigest() for name, data in self.wheels.items()
        } | self.digests
        links = (
            f'<a href="/files/{name}#sha256={digest}">{name}</a><br>'
            for name, digest in digests.items()
        )
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()

    def _handler(index) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.requests.append(self.path)
                name = self.path.removeprefix("/files/")
                if self.path == "/simple/torch/":
                    self.answer(200, index.page(), "text/html")
                elif name in index.wheels:
                    self.serve(index.wheels[name])
                else:
                    self.answer(404, b"", "text/plain")

            def serve(self, data: bytes) -> None:
                asked = self.headers.get("Range")
                if not index.ranges or not asked:
                    self.answer(200, data, "application/zip")
                    return
                match = re.fullmatch(r"bytes=(\d*)-(\d*)", asked)
                assert match
                first, last = match.groups()
                start = int(first) if first else max(0, len(data) - int(last))
                end = int(last) if first and last else len(data) - 1
                end = min(end, len(data) - 1)
                shown = f"bytes {start}-{end}/{len(data)}"
                self.answer(206, data[start : end + 1], "application/zip", shown)

            def answer(
                self, status: int, body: bytes, kind: str, shown: str | None = None
            ) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if shown:
                    self.send_header("Content-Range", shown)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@dataclass
class Result:
    """What one call of the command line gave."""

    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of an error."""
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, self.err
        assert self.status == 2
        return errors[0]


@dataclass
class Repository:
    """A repository of the harness's layout, for the toy upstream."""

    root: Path
    index: Index
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    @property
    def layout(self) -> Layout:
        return Layout(self.root)

    def target(self, name: str) -> Target:
        return Targets.load(self.layout).get(name)

    def write(self, path: str, content: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def patches(self) -> dict[str, str]:
        directory = self.layout.patches / "v1"
        return {
            path.relative_to(directory).as_posix(): path.read_text()
            for path in sorted(directory.rglob("*.patch"))
        }

    def run(self, *arguments: str | Path) -> Result:
        """Call the command line in this process."""
        self.monkeypatch.setattr(Layout, "default", lambda: self.layout)
        self.monkeypatch.setattr(sys, "argv", ["harness", *map(str, arguments)])
        self.capsys.readouterr()
        status = 0
        try:
            cli.main()
        except SystemExit as stop:
            status = int(str(stop.code))
        captured = self.capsys.readouterr()
        return Result(status, captured.out, captured.err)

    def ok(self, *arguments: str | Path) -> str:
        result = self.run(*arguments)
        assert result.status == 0, result
        return result.out

    def tree(self, name: str = "tree") -> "Tree":
        """A tree as `apply` makes it."""
        path = self.root.parent / name
        self.ok("apply", "v1.0.0", path)
        return Tree(path)

    def add_series(self) -> "Tree":
        """Export two patches and an optional one; return their tree."""
        # The first call of a session makes it, the others copy.
        template = self.root.parent.parent / "template"
        tree = Tree(self.root.parent / "series")
        table = self.layout.patches / "targets.toml"
        if table.read_text() != targets_toml():
            self._make_series()
        elif template.exists():
            shutil.copytree(template / "repository", self.root, dirs_exist_ok=True)
            shutil.copytree(template / "series", tree.path)
        else:
            self._make_series()
            shutil.copytree(self.root, template / "repository")
            shutil.copytree(tree.path, template / "series")
        return tree

    def _make_series(self) -> None:
        self.write(f"torch_overlay/{NEW}", "NEW = 1\n")
        self.write(TEST, "def test_new():\n    pass\n")
        tree = self.tree("series")
        tree.write(NEW, "NEW = 1\n")
        tree.write(TEST, "def test_new():\n    pass\n")
        tree.replace(SOLVER, "return sorted(items)", "return sorted(items, key=abs)")
        tree.commit("Sort by absolute value")
        tree.replace(SOLVER, "len(items)", "len(list(items))")
        tree.commit("Take iterators")
        tree.git("checkout", "-q", "-b", "optional")
        tree.replace(CONFIG, "alpha = 1", "alpha = 2")
        tree.commit("Change a default")
        # gamma, the third line, differs from release to release.
        self.set_unified("optional/0001-Change-a-default.patch", 1)
        self.ok("export", tree.path)

    def set_unified(self, patch: str, lines: int) -> None:
        path = self.layout.patches / "targets.toml"
        table = '[series."v1".unified]\n'
        text = path.read_text()
        if table not in text:
            text = text.replace("[targets", f"{table}\n[targets", 1)
        path.write_text(text.replace(table, f'{table}"{patch}" = {lines}\n'))

    def stage(self, path: str) -> None:
        """Let several patches of the series touch a new file."""
        table = self.layout.patches / "targets.toml"
        base = 'base = "v1.0.0"\n'
        text = table.read_text()
        table.write_text(text.replace(base, f'{base}staged = ["{path}"]\n'))

    def checkout(self, release: str = "1.0.0") -> "Tree":
        """A git checkout of the toy upstream."""
        path = self.root.parent / "pytorch"
        path.mkdir()
        tree = Tree(path)
        tree.git("init", "-q", "-b", "main")
        for name, content in RELEASES[release].items():
            tree.write(name, content)
        tree.write("README.md", "toy\n")
        tree.commit("Release")
        return tree


@dataclass
class Tree:
    """A git tree that a test edits."""

    path: Path

    def git(self, *arguments: str) -> str:
        identity = [
            "-c",
            "user.name=Toy Author",
            "-c",
            "user.email=toy@example.invalid",
        ]
        return subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.path,
            env={**os.environ, "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+0000"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def write(self, path: str, content: str) -> None:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def replace(self, path: str, old: str, new: str) -> None:
        text = (self.path / path).read_text()
        assert old in text
        (self.path / path).write_text(text.replace(old, new))

    def commit(self, title: str, message: str = MESSAGE) -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "-m", message.format(title=title))


def targets_toml() -> str:
    """The table of the toy's releases, before any patch."""
    text = f'[series."v1"]\nbase = "v1.0.0"\nfiles = ["{SOLVER}", "{CONFIG}"]\n\n'
    for release, files in RELEASES.items():
        text += (
            f'[targets."v{release}"]\ncommit = "{COMMITS[release]}"\nseries = "v1"\n'
            f'role = "toy"\nrequires_python = ">=3.10"\n\n'
            f'[targets."v{release}".before]\n'
        )
        for path, content in files.items():
            text += f'"{path}" = "{git.blob_id(content.encode())}"\n'
        text += f'\n[targets."v{release}".after]\n\n'
    return text
