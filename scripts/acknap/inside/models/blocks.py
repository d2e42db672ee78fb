"""What stays alive after the forward if each block of a model is compiled on its own.

Runs inside an environment with torch, stock or patched::

    python -I -B blocks.py OUTPUT.jsonl [--packages DIR]
        [--models NAME...] [--budgets NUMBER...]

A line per model, precision, solver and budget. Those that OUTPUT holds are left out.
The input of a block is a temporary: nobody but the block's backward keeps it.
"""

import argparse
import gc
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

# Isolated, Python does not look beside this file.
sys.path.append(str(Path(__file__).parents[3]))
# The profiler's own words.
os.environ.setdefault("KINETO_LOG_LEVEL", "9")

import torch
import torch._functorch.partitioners as partitioners
from torch._functorch import config
from torch._functorch._aot_autograd.logging_utils import get_aot_compilation_context
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from acknap.inside.known import BLOCKS
from acknap.inside.models import block_models, records
from acknap.inside.models.builtin import Built
from acknap.inside.models.joint_graphs import treat_attention_as_on_cuda
from acknap.inside.models.live import Live
from acknap.inside.models.partition import COUNTING, options, versions
from acknap.inside.models.records import Row

BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
BACKEND = "aot_eager_decomp_partition"


class _Graphs:
    """The joint graphs that were parted, by the number of their compilation."""

    def __init__(self) -> None:
        self.noted: dict[int, Row] = {}
        self.again: dict[int, int] = {}
        self._choose: Any = partitioners.choose_saved_values_set

    def choose(self, graph: Any, node_info: Any, memory_budget: float = 1) -> Any:
        """Part a graph, and note what the budget allows."""
        live = Live(node_info, self._choose(graph, node_info, memory_budget=1))
        saved = self._choose(graph, node_info, memory_budget=memory_budget)
        number = int(get_aot_compilation_context()[0][0].partition("_")[0])
        unit = live.most - live.least
        allowed = live.least + memory_budget * unit
        self.noted[number] = {"allowed": allowed, "planned": live.count(saved)}
        forward = set(node_info.required_fw_nodes)
        self.again[number] = len(live.recomputed(saved) & forward)
        return saved


def kept_by(node: Any) -> list[torch.Tensor]:
    """Return the tensors that a node of the autograd graph keeps."""
    found: list[torch.Tensor] = []
    values = [getattr(node, n, None) for n in dir(node) if n.startswith("_saved_")]
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        # Those without a version check, and whatever else is held.
        values += [node.saved_tensors, *vars(node).values()]
    while values:
        value = values.pop()
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, tuple | list):
            values.extend(value)
    return found


def autograd_nodes(result: torch.Tensor) -> list[Any]:
    """Return the nodes of the autograd graph of a result."""
    found: list[Any] = []
    seen: set[Any] = set()
    todo: list[Any] = [result.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            if not hasattr(node, "variable"):  # a parameter's gradient adds up
                found.append(node)
            todo.extend(following for following, _ in node.next_functions)
    return found


def run_once(built: Built, dtype: str) -> Any:
    """Return the loss of one forward."""
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "autocast"):
        result = built.model(*built.arguments, **built.keywords)
    return result if isinstance(result, torch.Tensor) else result["loss"]


def measure(name: str, dtype: str, solver: str, budget: float) -> Row:
    """Compile a model's blocks, run it forward and backward, and measure."""
    torch._dynamo.reset()
    built, graphs = block_models.make(name), _Graphs()
    parts = block_models.blocks(built.model)
    for _, block in parts:
        block.compile(backend=BACKEND, dynamic=False)
    asked = options() | {
        "activation_memory_budget": budget,
        "activation_memory_budget_solver": solver,
        "enable_autograd_cache": False,
    }
    instead = mock.patch.object(partitioners, "choose_saved_values_set", graphs.choose)
    start = time.perf_counter()
    with config.patch(asked), instead:
        run_once(built, dtype).backward()  # compiles
        seconds = time.perf_counter() - start
        built.model.zero_grad()
        gc.collect()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            loss = run_once(built, dtype)
            gc.collect()
        row = _alive(loss, graphs, block_models.held(built))
        row["allocated"] = sum(
            event.nbytes()
            for event in seen.profiler.kineto_results.events()
            if event.name() == "[memory]"
        )
        row["allocated"] -= loss.untyped_storage().nbytes()
        with FlopCounterMode(display=False) as counter:
            loss.backward()
    row["flops"] = counter.get_total_flops()
    row["again"] = sum(graphs.again.values())
    row |= _result(loss, built)
    return row | {"seconds": round(seconds, 3), "blocks": len(parts)}


def _result(loss: torch.Tensor, built: Built) -> Row:
    """Return a loss, and the norm of the gradients that its backward left."""
    grads = [p.grad for p in built.model.parameters() if p.grad is not None]
    norm = float(sum(g.double().pow(2).sum() for g in grads)) ** 0.5
    return {"loss": float(loss.detach()), "gradient": norm}


def _alive(loss: torch.Tensor, graphs: _Graphs, others: dict[int, int]) -> Row:
    """Measure what autograd keeps: all of it, and by compiled graph."""
    everything: dict[int, int] = {}
    compiled: dict[int, int] = {}
    rows = []
    for node in autograd_nodes(loss):
        kept = {
            s: b
            for s, b in block_models.storages(kept_by(node)).items()
            if s not in others
        }
        everything |= kept
        number = getattr(getattr(node, "_forward_cls", None), "_aot_id", None)
        if number is not None:
            compiled |= kept
            row = {"graph": number, "live": sum(kept.values())}
            rows.append(row | graphs.noted[number])
    if not rows:
        raise RuntimeError("no block was compiled")
    first = min(row["graph"] for row in rows)
    for row in rows:
        row["graph"] -= first
    return {
        "live": sum(everything.values()),
        "live_in_blocks": sum(compiled.values()),
        "allowed_in_blocks": sum(row["allowed"] for row in rows),
        # The gradient's graph is walked from the loss down.
        "graphs": rows[::-1],
    }


def eager(name: str, dtype: str) -> Row:
    """Measure a model without compiling anything: what its gradients should be."""
    built = block_models.make(name)
    loss = run_once(built, dtype)
    loss.backward()
    return _result(loss, built)


def plan(
    models: list[str], budgets: list[float]
) -> Iterator[tuple[str, str, str, float]]:
    """Return what is measured: model, precision, solver, budget."""
    solvers = ("dp", "greedy", *(("exact",) if hasattr(config, COUNTING) else ()))
    for name in models:
        for dtype in (
            "float32",
            *(() if name in block_models.FLOAT32_ONLY else ("autocast",)),
        ):
            yield name, dtype, "eager", 1.0
            yield name, dtype, "dp", 1.0
            for budget, solver in itertools.product(budgets, solvers):
                yield name, dtype, solver, budget


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--budgets", nargs="*", type=float, default=list(BUDGETS))
    arguments = records.parse(parser, BLOCKS)
    treat_attention_as_on_cuda()
    rows = records.read(arguments.output)
    done = {(r["model"], r["dtype"], r["solver"], r["budget"]) for r in rows}
    failed: Counter[str] = Counter()
    with arguments.output.open("a") as output:
        for key in plan(arguments.models, arguments.budgets):
            if key in done:
                continue
            name, dtype, solver, budget = key
            row: Row = {"model": name, "dtype": dtype, "solver": solver}
            row |= {"budget": budget} | versions()
            try:
                ran = eager(name, dtype) if solver == "eager" else measure(*key)
            except Exception as error:  # the others go on
                ran = {"failed": f"{type(error).__name__}: {error}"[:500]}
                failed[name] += 1
            print(json.dumps(row | ran), file=output, flush=True)
            print(*key, ran.get("failed", ran.get("live", "")), file=sys.stderr)
    if failed:
        print(f"failed: {dict(failed)}", file=sys.stderr)


if __name__ == "__main__":
    main()
