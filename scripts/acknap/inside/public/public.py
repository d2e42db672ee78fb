"""Peaks of the plans of which others published a GPU's, and of ours, without a GPU.

Runs inside an environment with torch, stock or patched::

    python -I -B public.py OUTPUT.jsonl [--packages DIR] [--models NAME...]

Stock torch makes the plans of the published budgets, patched torch those of the
objective `peak`. A line per plan: the peak of the emitted graphs, and that of what the
backend runs for them on a GPU. Plans that OUTPUT holds are left out.
"""

import argparse
import functools
import json
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

# Isolated, Python does not look beside this file.
sys.path.append(str(Path(__file__).parents[3]))

import torch
import torch._functorch.partitioners as partitioners
import torch._inductor.compile_fx as compile_fx
from torch._dynamo import lookup_backend
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V

from acknap.inside.models.joint_graphs import Joint, trace
from acknap.inside.models.partition import OBJECTIVE, options, versions
from acknap.inside.models.records import Row, parse, read
from acknap.inside.peaks.emitted import Emitted
from acknap.inside.peaks.plans import BY_PEAK
from acknap.inside.public import models
from acknap.inside.public.allocator import allocated_peak, requested_peak
from acknap.inside.public.gpu_program import run_step

# Of the objective `peak`: the lowest peak, and shares of the way to the default plan's.
BUDGETS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7)

_sdpa: Any = torch.nn.functional.scaled_dot_product_attention
_aten: Any = torch.ops.aten


def trace_point(facts: Row, backend: str) -> Joint:
    """Return the joint graph of a model as a backend gets it on a GPU.

    Args:
        facts: Of the model, as in benchmarks/public_points.toml.
        backend: "aot_eager" or "inductor".
    """
    compiled: Callable[[Any, Any], Any] = lookup_backend("aot_eager")
    if backend == "inductor":
        compiled = aot_autograd(
            fw_compiler=boxed_nop,
            bw_compiler=boxed_nop,
            decompositions=select_decomp_table(),
            partition_fn=_part,
        )
    attend = {"efficient": _efficient, "math": _in_parts}[facts["attention"]]

    def on_gpu(graph: Any, inputs: Any) -> Any:
        for node in graph.graph.nodes:
            if node.target is _sdpa:
                node.target = attend
        graph.recompile()
        return compiled(graph, inputs)

    this = sys.modules[__name__]
    made = functools.partial(models.make, facts)
    with mock.patch.object(this, "_made", made, create=True):
        (joint,) = trace(f"{__name__}:_made", backend=on_gpu)
    return joint


def _part(graph: Any, inputs: Any, **more: Any) -> Any:
    """Part a graph as Inductor does, after its passes over joint graphs."""
    context: Any = torch._guards.TracingContext.get()
    with V.set_fake_mode(context.fake_mode):
        return compile_fx.partition_fn(graph, inputs, **more)


def _efficient(
    q: Any, k: Any, v: Any, attn_mask: Any = None, is_causal: bool = False, **more: Any
) -> Any:
    """Attend as CUDA does in float32 without dropout."""
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            zero, never = (torch.scalar_tensor(x, dtype=q.dtype) for x in (0.0, -1e999))
            attn_mask = torch.where(attn_mask, zero, never)
        attn_mask = attn_mask.expand(*q.shape[:3], k.shape[2])
    attend = _aten._scaled_dot_product_efficient_attention
    scale = more.get("scale")
    return attend(q, k, v, attn_mask, True, 0.0, is_causal, scale=scale)[0]


def _in_parts(q: Any, k: Any, v: Any, attn_mask: Any = None, **more: Any) -> Any:
    """Attend by products and a softmax."""
    kept = {k: v for k, v in more.items() if k in ("dropout_p", "is_causal", "scale")}
    return _aten._scaled_dot_product_attention_math(q, k, v, attn_mask, **kept)[0]


@contextmanager
def _random_ops_saved() -> Iterator[None]:
    """Have released torch save what it draws, as pytorch issue 190758 asks for.

    Random ops are banned from recomputation for good: no candidates of the knapsack.
    """
    solve: Any = partitioners.solve_min_cut
    kind: Any = partitioners.OpTypes
    is_random = kind.is_random

    def draws(node: Any) -> bool:
        tags = getattr(node.target, "tags", ())
        return torch.Tag.nondeterministic_seeded in tags

    def solved(*arguments: Any) -> Any:
        first, rest = arguments[:3], arguments[3:]
        less = [type(r)(n for n in r if not draws(n)) if r else r for r in rest]
        saved, banned = solve(*first, *less)
        return saved, type(banned)(n for n in banned if not draws(n))

    with (
        mock.patch.object(partitioners, "solve_min_cut", solved),
        mock.patch.object(
            kind, "is_random", lambda of, n: is_random(of, n) or draws(n)
        ),
    ):
        yield


def measure(joint: Joint, facts: Row, backend: str, budget: float) -> Row:
    """Plan for a budget, and return the peaks and what is computed again."""
    chosen = options()
    kept: Any = nullcontext()
    if BY_PEAK:
        chosen[OBJECTIVE] = "peak"
    elif facts["random_ops_are_saved"]:
        kept = _random_ops_saved()
    with kept, config.patch(chosen):
        saved = list(partitioners.choose_saved_values_set(*joint, memory_budget=budget))
    emitted = Emitted(joint)
    row = emitted.measure(saved) | {"total": emitted.total}
    start = time.process_time()
    events = run_step(backend, *emitted.emit(saved))
    row |= {"requested": requested_peak(events), "allocated": allocated_peak(events)}
    return row | {"seconds": time.process_time() - start}


def wanted(facts: Row) -> Iterator[tuple[str, str, float]]:
    """Return model, backend and budget of each plan, in the order they are made."""
    for group in facts["points"]:
        if not BY_PEAK:
            for point in group["rows"]:
                yield group["model"], group["backend"], point[0]
        elif group["backend"] == "inductor":
            for budget in BUDGETS:
                yield group["model"], group["backend"], budget


def main() -> None:
    """Measure what is missing."""
    facts = tomllib.loads(models.POINTS.read_text())
    arguments = parse(argparse.ArgumentParser(), facts["model"])
    there = {(r["model"], r["backend"], r["budget"]) for r in read(arguments.output)}
    todo = [p for p in wanted(facts) if p[0] in arguments.models and p not in there]
    traced: tuple[Any, Any] = (None, None)
    with arguments.output.open("a") as output:
        for number, (model, backend, budget) in enumerate(todo, 1):
            of = facts["model"][model]
            if traced[0] != (model, backend):
                traced = (model, backend), trace_point(of, backend)
            named = {"model": model, "backend": backend, "budget": budget}
            row = named | measure(traced[1], of, backend, budget) | versions()
            output.write(json.dumps(row) + "\n")
            output.flush()
            print(f"{number}/{len(todo)} {model} {backend} {budget}", flush=True)


if __name__ == "__main__":
    main()
