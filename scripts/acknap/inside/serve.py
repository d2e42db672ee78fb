"""Answer requests in an environment, one JSON line each, and say what it is."""

import hashlib
import importlib
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import TextIO

FOLDER = "torch._functorch._activation_checkpointing"


def version(package: str) -> str | None:
    """Return the installed version of a package, None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def code_hash() -> str:
    """Hash the solvers' sources, so that an environment cannot change unseen."""
    digest = hashlib.sha256()
    try:
        package = Path(importlib.import_module(FOLDER).__file__ or "")
    except ImportError:
        return ""
    for path in sorted(package.parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def answers_apart() -> TextIO:
    """Keep standard output for answers: what anyone prints goes to standard error.

    File descriptor 1 counts too: a library in C or a subprocess may print.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def serve(worker: object, answers: TextIO) -> None:
    """Answer requests by the worker's methods, "op", until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("op"))(**request)
        except Exception as error:  # a solver or a model may raise anything
            answer = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(answer), file=answers, flush=True)
