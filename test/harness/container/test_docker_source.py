"""docker/build-torch.sh, run for real on a torch of a few lines.

It is built as PyTorch is: setuptools calls CMake with Ninja, which pip installs because
pyproject.toml asks for them; one extension in C++, one Python package.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acknap.base.layout import Layout
from toy_upstream import COMMITS, NEW, SOLVER, Repository, Tree

ROOT = Layout.default().root
ENVIRONMENT = dict(os.environ)  # with the real package index
FILES = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools>=77,<82", "cmake>=3.27", "ninja"]
build-backend = "setuptools.build_meta"
""",
    "setup.py": """
import os, subprocess, sysconfig
from pathlib import Path
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

assert os.environ["USE_CUDA"] == "0"

class CMake(build_ext):
    def build_extension(self, extension):
        library = Path(self.get_ext_fullpath(extension.name)).resolve()
        subprocess.check_call([
            *("cmake", "-G", "Ninja", "-S", ".", "-B", "build"),
            f"-DINCLUDE={sysconfig.get_path('include')}",
            f"-DFOLDER={library.parent}",
            f"-DNAME={library.name}",
        ])
        jobs = os.environ.get("MAX_JOBS", "1")
        subprocess.check_call(["cmake", "--build", "build", "--parallel", jobs])

setup(
    name="torch",
    version=os.environ["PYTORCH_BUILD_VERSION"],
    packages=find_packages(include=["torch*"]),
    ext_modules=[Extension("torch._C", [])],
    cmdclass={"build_ext": CMake},
)
""",
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.27)
project(torch CXX)
add_library(_C MODULE torch/csrc/module.cpp)
target_include_directories(_C PRIVATE ${INCLUDE})
set_target_properties(_C PROPERTIES
    PREFIX "" SUFFIX "" OUTPUT_NAME ${NAME} LIBRARY_OUTPUT_DIRECTORY ${FOLDER})
""",
    "torch/csrc/module.cpp": """
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__C() {
    PyObject* made = PyModule_Create(&module);
    PyModule_AddIntConstant(made, "answer", 42);
    return made;
}
""",
    "torch/__init__.py": "",
    "torch/_functorch/__init__.py": "",
    ".gitignore": "build/\n*.egg-info/\n",
    "test/functorch/test_ac.py": """
import sys
from torch import _C
from torch._functorch import new, solver

def test_the_built_and_patched_torch():
    assert _C.__file__.startswith(sys.prefix)
    assert _C.answer == 42
    assert new.NEW == 1
    assert solver.solve([-2, 1]) == [1, -2]
""",
}


@pytest.fixture
def upstream(repository: Repository) -> Tree:
    """A checkout of the stand-in at v1.0.0, and a repository with a series for it."""
    repository.add_series()
    tree = repository.checkout()
    for path, text in FILES.items():
        tree.write(path, text)
    tree.commit("What it takes to build it")
    tree.git("tag", "v1.0.0")
    table = repository.layout.patches / "targets.toml"
    head = tree.git("rev-parse", "HEAD")
    table.write_text(table.read_text().replace(COMMITS["1.0.0"], head))
    requirements = "torch==1.0.0\npytest==9.2.0\n"
    repository.write("requirements/torch-1.0.0.txt", requirements)
    hidden = shutil.ignore_patterns("__pycache__")
    for name in ("scripts", "docker"):
        shutil.copytree(ROOT / name, repository.root / name, ignore=hidden)
    shutil.copy(ROOT / "requirements/harness.txt", repository.layout.requirements)
    repository.layout.build.mkdir(exist_ok=True)
    (repository.layout.build / "harness-venv").symlink_to(sys.prefix)
    return tree


def run(
    repository: Repository, source: str | Path, target: str = "v1.0.0"
) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value for name, value in ENVIRONMENT.items() if name != "ACKNAP_BUILD"
    }
    script = repository.root / "docker" / "build-torch.sh"
    return subprocess.run(
        [script, target, source, repository.root / "out"],
        env=inherited | {"MAX_JOBS": "1"},
        capture_output=True,
        text=True,
    )


def error(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    return line.removeprefix("error: ")


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
@pytest.mark.parametrize("how", ["clone", "checkout"])
def test_build(repository: Repository, upstream: Tree, how: str) -> None:
    # What a build of the user's left: it must not be taken over.
    upstream.write("build/CMakeCache.txt", "CMAKE_GENERATOR:INTERNAL=Unix Makefiles\n")
    before = upstream.git("status", "--porcelain", "--ignored")
    url = f"file://{upstream.path}"
    done = run(repository, url if how == "clone" else upstream.path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 patches applied" in done.stdout
    assert "1 passed" in done.stdout
    out = repository.root / "out"
    (wheel,) = (out / "dist").iterdir()
    assert wheel.name.startswith("torch-1.0.0-")
    (packages,) = (out / "venv").glob("lib/python*/site-packages")
    assert "key=abs" in (packages / SOLVER).read_text()
    assert (packages / NEW).read_text() == "NEW = 1\n"
    assert upstream.git("status", "--porcelain", "--ignored") == before
    assert upstream.git("log", "-1", "--format=%s") == "What it takes to build it"


def test_unknown_target(repository: Repository, upstream: Tree) -> None:
    assert error(run(repository, upstream.path, "v3")) == "unknown target v3"


def test_no_such_repository(repository: Repository, upstream: Tree) -> None:
    done = run(repository, f"file://{upstream.path}-not")
    assert error(done) == "cannot clone v1.0.0"


def test_another_commit(repository: Repository, upstream: Tree) -> None:
    upstream.write("README.md", "later\n")
    upstream.commit("Later")
    head = upstream.git("rev-parse", "HEAD")
    assert error(run(repository, upstream.path)).startswith(
        f"the source is at {head}, "
    )


def test_local_changes(repository: Repository, upstream: Tree) -> None:
    upstream.write("README.md", "edited\n")
    said = error(run(repository, upstream.path))
    assert said == "the source has local changes:  M README.md"
