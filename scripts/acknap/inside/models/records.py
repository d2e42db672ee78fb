"""A record: a line of JSON for each of what a worker measured.

Runs inside an environment with torch, stock or patched.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]


def parse(parser: argparse.ArgumentParser, models: Iterable[str]) -> argparse.Namespace:
    """Read the command line of a worker, and let it find packages; one thread is used.

    Args:
        parser: Has what the worker takes beside its record and models.
        models: The names of all models.

    Returns:
        `output`, the record, and `models`, those that are asked for, and what else the
        parser takes.
    """
    known = [*models]
    parser.add_argument("output", type=Path)
    parser.add_argument("--packages", default="")
    parser.add_argument("--models", nargs="*", default=known, choices=known)
    arguments = parser.parse_args()
    sys.path.append(arguments.packages)
    torch.set_num_threads(1)
    return arguments


def write(
    models: Mapping[str, str], measure: Callable[[str, list[Row]], Iterable[Row]]
) -> None:
    """Measure the models of the command line that its record lacks.

    Args:
        models: All models, by their names.
        measure: Returns the rows of a model; it gets those that stock torch has of it,
            in stock.jsonl beside the record.
    """
    arguments = parse(argparse.ArgumentParser(), models)
    done = {row["model"] for row in read(arguments.output)}
    stock = read(arguments.output.with_name("stock.jsonl"))
    with arguments.output.open("a") as output:
        for number, name in enumerate(arguments.models, 1):
            if name in done:
                continue
            others = [row for row in stock if row["model"] == name]
            made = [{"model": name} | row for row in measure(name, others)]
            output.write("".join(json.dumps(row) + "\n" for row in made))
            output.flush()
            print(f"{number}/{len(arguments.models)} {name}", flush=True)


def read(path: Path) -> list[Row]:
    """Return the rows of a record; none if there is none."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]
