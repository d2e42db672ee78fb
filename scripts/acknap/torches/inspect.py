"""The interpreter of an environment: started clean, described, and checked."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from acknap.base.errors import HarnessError, last_line
from acknap.base.files import scratch
from acknap.base.layout import INSIDE
from acknap.torches.environments import Environment
from acknap.torches.worker import clean_variables
from acknap.upstream import state

PROBE = INSIDE / "probe.py"


class Import(NamedTuple):
    """``from module import name``, or ``import module`` with an empty name."""

    module: str
    name: str


@dataclass(frozen=True)
class Interpreter:
    """What the probe found in one environment."""

    torch_version: str
    git_version: str
    knapsack_file: str
    knapsack_blob: str
    python: str
    platform: str
    packages: Mapping[str, str | None]
    blobs: Mapping[str, str | None]
    faults: Mapping[Import, str] = field(default_factory=dict)


def label(environment: Environment) -> str:
    """Name an environment in messages: ``stock v2.10.0``."""
    return f"{environment.kind} {environment.target.name}"


def inspect(environment: Environment, imports: Iterable[Import] = ()) -> Interpreter:
    """Describe an environment in a fresh process, and prove that it is the pinned one.

    ``imports`` are tried too; those that fail are in the answer's ``faults``.
    """
    pins = environment.files
    request = {"files": sorted(pins), "imports": sorted(imports)}
    with scratch() as folder:
        result = subprocess.run(
            # Isolated: only the environment's own packages can be imported.
            [environment.python, "-I", "-B", PROBE],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            cwd=folder,
            env=clean_variables(folder),
        )
    where = label(environment)
    if result.returncode:
        said = last_line(result.stderr, "no message")
        raise HarnessError(f"{where}: cannot be inspected: {said}")
    try:
        answer = json.loads(result.stdout)
        faults = {Import(*row[:2]): row[2] for row in answer.pop("faults")}
        interpreter = Interpreter(**answer, faults=faults)
    except (ValueError, TypeError, KeyError) as error:
        raise HarnessError(f"{where}: the probe's answer is broken: {error}") from None
    _check(environment, interpreter)
    return interpreter


def _check(environment: Environment, found: Interpreter) -> None:
    where, target = label(environment), environment.target
    if found.git_version != target.commit:
        raise HarnessError(
            f"{where}: torch.version.git_version is {found.git_version}, "
            f"patches/targets.toml says {target.commit}"
        )
    if path := state.differing(found.blobs, environment.files):
        raise HarnessError(
            f"{where} is not what patches/targets.toml pins: {path} is "
            f"{found.blobs[path] or 'missing'}, pinned is "
            f"{environment.files[path] or 'no file'}; remove this environment and run "
            "again"
        )
    if found.blobs.get(found.knapsack_file) != found.knapsack_blob:
        raise HarnessError(f"{where}: imports {found.knapsack_file} from elsewhere")
