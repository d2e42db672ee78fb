"""Print what one interpreter has, as JSON. Runs inside the target environment.

Standard library only: an environment under test holds torch and what torch's
tests need, nothing of the harness. Reads from standard input

    {"files": [path under site-packages], "imports": [[module, name or ""]]}

and writes one JSON object to standard output.
"""

import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import sys
from typing import Any

KNAPSACK = "torch._functorch._activation_checkpointing.knapsack"
PACKAGES = ("torch", "numpy", "scipy", "pytest", "expecttest")


def blob_id(path: str) -> str | None:
    """Return the id that git gives to the file's content, None without a file."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def version(package: str) -> str | None:
    """Return the installed version of a package, None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def import_fault(module: str, name: str) -> str | None:
    """Say why ``from module import name`` fails: None if it works.

    "absent" means that the module or the name itself does not exist. A module
    that exists and fails while it loads gives the text of its error instead.
    """
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        parents = f"{module}.".startswith(f"{error.name}.")
        return "absent" if parents else repr(error)
    except Exception as error:  # a module may raise anything while it loads
        return repr(error)
    if not name or hasattr(found, name):
        return None
    if not hasattr(found, "__path__"):
        return "absent"
    return import_fault(f"{module}.{name}", "")


def within(path: str, folder: str) -> str:
    """Return path relative to folder, so that records hold no machine's paths."""
    relative = os.path.relpath(path, folder)
    return os.path.basename(path) if relative.startswith("..") else relative


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Import torch and describe it."""
    torch: Any = importlib.import_module("torch")
    site = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
    knapsack = importlib.import_module(KNAPSACK).__file__ or ""
    faults = [
        [module, name, fault]
        for module, name in request["imports"]
        if (fault := import_fault(module, name)) is not None
    ]
    return {
        "torch_version": str(torch.__version__),
        "git_version": torch.version.git_version,
        "knapsack_file": within(knapsack, site),
        "knapsack_blob": blob_id(knapsack),
        "python": platform.python_version(),
        # Not the kernel: a record of a rerun elsewhere is to be the same.
        "platform": "-".join(
            [platform.system(), platform.machine(), *platform.libc_ver()]
        ),
        "packages": {package: version(package) for package in PACKAGES},
        "blobs": {
            path: blob_id(os.path.join(site, *path.split("/")))
            for path in request["files"]
        },
        "faults": faults,
    }


if __name__ == "__main__":
    # What torch or a module of the suite prints while it loads is not the answer.
    with contextlib.redirect_stdout(sys.stderr):
        result = answer(json.load(sys.stdin))
    json.dump(result, sys.stdout)
