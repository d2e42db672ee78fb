"""`capture`: the knapsacks that the partitioner states for a model, as JSON."""

import itertools
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from acknap.base.errors import HarnessError
from acknap.base.files import write_atomic
from acknap.base.layout import Layout
from acknap.base.progress import say, working
from acknap.base.text import short
from acknap.knapsack import instance_file
from acknap.models.budgets import parse
from acknap.models.parted import MEASURES, Parted
from acknap.models.tracer import TRANSFORMERS, Tracer
from acknap.torches import environments
from acknap.torches.inspect import inspect
from acknap.upstream.targets import Targets

_NOTE = (
    "fake tensors on the CPU; scaled-dot-product attention is costly to compute, as "
    "it is on CUDA"
)


def run_capture(
    layout: Layout,
    targets: Targets,
    model: str,
    budgets: str | None,
    out: Path,
    target: str,
) -> int:
    """Capture a model and write one file per joint graph.

    Args:
        layout: The repository.
        targets: The release table.
        model: What `named.build` takes.
        budgets: Budgets at which every solver's partition is measured.
        out: The folder for the files.
        target: The release whose partitioner is asked.

    Returns:
        0.

    Raises:
        HarnessError: The model cannot be captured.
    """
    asked = parse(budgets) if budgets else []
    release = targets.get(target)
    environment = environments.stock(layout, release)
    inspect(environment)
    with closing(
        Tracer(layout, "stock", environment.python, model, Path.cwd())
    ) as tracer:
        with working(f"Capturing {model} in torch {release.release}"):
            graphs = tracer.capture(model)
        if not any(graph["memory"] for graph in graphs):
            raise HarnessError(
                f"{model}: the partitioner states no knapsack for any budget: the "
                "activations are too small beside the parameters; try a larger batch"
            )
        number = 0
        for index, graph in enumerate(graphs):
            if not graph["memory"]:
                say(f"graph {index}: no budget reaches the knapsack")
                continue
            content = _header(model, number, tracer) | graph
            parted = _partitions(tracer, index, asked)
            content["partitions"] = [p.model_dump(exclude_unset=True) for p in parted]
            path = out / f"{content['name']}.json"
            write_atomic(path, instance_file.dumps(content))
            print(f"{path}: {_summary(graph)}")
            _show(parted)
            number += 1
    return 0


def _header(model: str, number: int, tracer: Tracer) -> dict[str, Any]:
    name = re.sub(r"\W+", "_", model.removeprefix(TRANSFORMERS)).strip("_")
    versions = tracer.description["versions"].items()
    return {
        "schema": instance_file.VERSION,
        "name": f"{name}_graph{number}" if number else name,
        "model": model,
        **{package: version for package, version in versions if version},
        "estimator": "flops",
        "note": _NOTE,
    }


def _partitions(tracer: Tracer, graph: int, budgets: Sequence[float]) -> list[Parted]:
    solvers = tracer.description["solvers"]
    if not budgets:
        return []
    with working(f"Parting it: solvers: {len(solvers)}, budgets: {len(budgets)}"):
        runs = itertools.product(budgets, solvers)
        return [tracer.measure(graph, solver, budget) for budget, solver in runs]


def _summary(graph: dict[str, Any]) -> str:
    pairs = zip(graph["memory"], graph["runtimes"], strict=True)
    exits = (graph["exit_ratio_more_aggressive"], graph["exit_ratio_aggressive"])
    return (
        f"{len(graph['memory'])} items, {len(set(pairs))} of them distinct, "
        f"{sum(graph['memory']):.3f} of what can be saved; the knapsack is used up to "
        f"a budget of {min(exits):.3f}"
    )


def _show(partitions: Sequence[Parted]) -> None:
    """Print what was asked for and what was delivered."""
    if not partitions:
        return
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in ("budget", "solver", "plan", *MEASURES, "cuts"):
        table.add_column(name, justify="left" if name == "solver" else "right")
    for row in partitions:
        solver, plan, cuts = "(no knapsack)", "-", "-"
        if row.knapsack_used:
            solver, plan, cuts = row.solver, _share(row, "plan"), str(row.cuts)
        shares = [_share(row, measure) for measure in MEASURES]
        table.add_row(short(row.budget), solver, plan, *shares, cuts)
    console = Console()
    console.print(table)
    console.print(
        "plan: the knapsack's use; ratio, bytes, storages, live: what the partition "
        "saves, by four measures (benchmarks/SCHEMA.md). *: over the budget. Parted by "
        "released torch, also for exact; with the series the partition keeps to it."
    )


def _share(row: Parted, measure: str) -> str:
    return f"{getattr(row, measure):.4f}{'*' if row.excess(measure) else ' '}"
