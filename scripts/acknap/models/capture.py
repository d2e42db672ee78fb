"""`capture`: the knapsacks that the partitioner states for a model, as JSON."""

import itertools
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
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
from acknap.models.parted import Parted
from acknap.models.tracer import TRANSFORMERS, Tracer, require_module
from acknap.torches import environments
from acknap.torches.inspect import inspect
from acknap.upstream.targets import Targets

_NOTE = (
    "fake tensors on the CPU; scaled-dot-product attention is costly to compute, as "
    "it is on CUDA"
)
# Of the solvers that the series has, those that it changes most and that it adds.
_OURS = ("dp", "exact")
# The way to plan that no solver is asked for.
PEAK = "peak"
_LEGEND = (
    "plan: the knapsack's use of the budget; ratio: what the partition saves by its "
    "own measure; live: what stays alive after the forward; all as shares of what a "
    "budget is a share of. *: over the budget. peak: the most bytes that live at once "
    "in the forward and the backward, without parameters. again: what is computed "
    "again, of the forward's floating point operations. Of the peak, a budget is a "
    "share of what can be taken off. All of it: benchmarks/SCHEMA.md."
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
        budgets: Budgets at which partitions are measured: of released torch with every
            solver, and of the series.
        out: The folder for the files.
        target: The release whose partitioner is asked, as published; as patched too,
            if there are budgets.

    Returns:
        0.

    Raises:
        HarnessError: The model cannot be captured.
    """
    require_module(model)
    asked = parse(budgets) if budgets else []
    release = targets.get(target)
    made = {"stock": environments.stock(layout, release)}
    if asked:
        made["patched"] = environments.patched(layout, release)
    for environment in made.values():
        inspect(environment)
    with ExitStack() as stack:
        tracers = {
            side: stack.enter_context(
                closing(Tracer(layout, side, one.python, model, Path.cwd()))
            )
            for side, one in made.items()
        }
        with working(f"Capturing {model} in torch {release.release}"):
            graphs = tracers["stock"].capture(model)
        if not any(graph["memory"] for graph in graphs):
            raise HarnessError(
                f"{model}: the partitioner states no knapsack for any budget: the "
                "activations are too small beside the parameters; try a larger batch"
            )
        if asked:
            with working("Capturing it with the series"):
                tracers["patched"].capture(model)
        number = 0
        for index, graph in enumerate(graphs):
            if not graph["memory"]:
                say(f"graph {index}: no budget reaches the knapsack")
                continue
            content = _header(model, number, tracers["stock"]) | graph
            parted = _partitions(tracers, index, asked)
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


def _partitions(
    tracers: Mapping[str, Tracer], graph: int, budgets: Sequence[float]
) -> list[Parted]:
    """Part a graph in all ways at all budgets, and first without one."""
    if not budgets:
        return []
    ways = [("stock", solver) for solver in tracers["stock"].description["solvers"]]
    ways = [way for way in ways if way[1] != "exact"]
    ways += [("patched", name) for name in (*_OURS, PEAK)]
    runs = [(1.0, ("stock", "dp")), *itertools.product(budgets, ways)]
    rows = []
    with working(f"Parting it: budgets: {len(budgets)}, ways to plan: {len(ways)}"):
        for budget, (side, solver) in runs:
            row = tracers[side].measure(graph, solver, budget)
            more = {"contender": f"{side}.{solver}"} | tracers[side].peak(graph)
            rows.append(row.model_copy(update=more))
    return rows


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
    for name in ("budget", "planned by", "plan", "ratio", "live", "peak MB", "again"):
        table.add_column(name, justify="left" if name == "planned by" else "right")
    for row in partitions:
        table.add_row(*_cells(row))
    console = Console()
    console.print(table)
    console.print(_LEGEND)


def _cells(row: Parted) -> list[str]:
    side, solver = row.contender.split(".")
    name = f"{'released' if side == 'stock' else 'series,'} {solver}"
    shares = [_share(row, "ratio"), _share(row, "live")]
    plan = _share(row, "plan") if row.knapsack_used else "- "
    if solver == PEAK:
        name, plan = "series, for the peak", "- "
        shares = ["- ", f"{row.live or 0:.4f} "]
    elif row.budget == 1:
        name = "no budget"
    elif not row.knapsack_used:
        name += ", no knapsack"
    peak = f"{(row.peak or 0) / 1e6:,.0f}"
    return [short(row.budget), name, plan, *shares, peak, f"{row.again or 0:.1%}"]


def _share(row: Parted, measure: str) -> str:
    over = "*" if row.excess(measure) else " "
    return f"{getattr(row, measure) or 0:.4f}{over}"
