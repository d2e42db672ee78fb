"""The peak of the graphs that are emitted for plans, and what they compute again.

Runs inside an environment with torch, stock or patched::

    python -I -B peaks.py OUTPUT.jsonl [--packages DIR] [--models NAME...]

A line per model, way to plan and budget. Models that OUTPUT holds are left out. Plans
by the peak are held against those of stock torch, in stock.jsonl beside OUTPUT. Nothing
is computed with; what lives is counted on the emitted graphs, call by call, as an
allocator would see it.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

# Isolated, Python does not look beside this file.
sys.path.append(str(Path(__file__).parents[3]))

import torch
import torch._functorch.partitioners as partitioners
from torch._functorch import config

from acknap.inside.models.joint_graphs import Joint, trace
from acknap.inside.models.live import storages
from acknap.inside.models.partition import options, versions

MODELS = {
    "decoder": "decoder",
    "encoder": "encoder",
    "convnet": "convnet",
    "moe": "moe",
    "llama": "transformers:llama?num_hidden_layers=6&hidden_size=1024"
    "&intermediate_size=2752&num_attention_heads=16&num_key_value_heads=16"
    "&vocab_size=8192&length=1024&batch=2&dtype=float32",
    "llama_32": "transformers:llama?num_hidden_layers=32&hidden_size=256"
    "&intermediate_size=688&num_attention_heads=8&num_key_value_heads=8"
    "&vocab_size=4096&length=1024&batch=2&dtype=float32",
    "gpt2": "transformers:gpt2?resid_pdrop=0&embd_pdrop=0&attn_pdrop=0&batch=4",
    "gpt2_dropout": "transformers:gpt2?n_layer=6&batch=4",
    "bert": "transformers:bert?hidden_dropout_prob=0&attention_probs_dropout_prob=0"
    "&length=512&batch=32",
    "bert_dropout": "transformers:bert?num_hidden_layers=6&length=512&batch=32",
    "vit": "transformers:vit?hidden_dropout_prob=0&batch=32",
    "t5": "transformers:t5?dropout_rate=0&batch=8&length=512",
    "resnet": "transformers:resnet?batch=32",
    "convnext": "transformers:convnext?batch=16",
}
BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
STEPS = 40  # of budgets for the peak
OBJECTIVE = "activation_memory_budget_objective"

Row = dict[str, Any]


class Emitted:
    """Measures the plans of one joint graph on what the partitioner emits for them."""

    def __init__(self, joint: Joint) -> None:
        self._joint = joint
        nodes = joint.graph.nodes
        (output,) = joint.graph.find_nodes(op="output")
        outputs = torch.utils._pytree.arg_tree_leaves(*output.args)
        gradients = _reading_tangents(joint.graph)
        # The backward's outputs begin with the first that depends on a tangent, and
        # those before it that are None; nothing else tells in every release.
        info = joint.node_info
        self._count = next(i for i, n in enumerate(outputs) if n in gradients)
        while self._count and outputs[self._count - 1] is None:
            self._count -= 1
        constants = [node for node in nodes if node.op == "get_attr"]
        static = [*info.static_lifetime_input_nodes, *constants]
        self._free = {s for node in static for s in storages(node)}
        entering = {s: size for n in info.inputs for s, size in storages(n).items()}
        self._entering = {s: b for s, b in entering.items() if s not in self._free}
        self._by_name = {node.name: node for node in nodes}
        self._forward = set(info.required_fw_nodes)
        self.total = sum(self._cost(node) for node in self._forward)

    def measure(self, saved: list[Any]) -> Row:
        """Return the most bytes that live, and the runtime that is spent again."""
        joint, sizes = self._joint, [n for n in saved if partitioners.is_sym_node(n)]
        forward, backward = partitioners._extract_fwd_bwd_modules(
            joint.graph.owning_module,
            [n for n in saved if n not in sizes],
            sizes,
            num_fwd_outputs=self._count,
            static_lifetime_input_nodes=joint.node_info.static_lifetime_input_nodes,
        )
        backward = partitioners.reordering_to_mimic_autograd_engine(backward)
        graphs = [partitioners.raise_getitems(m).graph for m in (forward, backward)]
        # The caller holds all inputs while the forward runs.
        held = sum(self._entering.values())
        forward_peak = held + _peak(graphs[0], {*self._free, *self._entering})
        backward_peak = _peak(graphs[1], self._free)
        computed = (self._by_name.get(n.name) for n in graphs[1].nodes if _is_call(n))
        again = sum(self._cost(n) for n in computed if n in self._forward)
        return {"peak": max(forward_peak, backward_peak), "again": again}

    @cache  # noqa: B019 -- as many nodes as the graph has
    def _cost(self, node: Any) -> float:
        if not _is_call(node) or not isinstance(node.target, torch._ops.OpOverload):
            return 0.0
        made = {*storages(node)}
        if not made or any(made <= {*storages(n)} for n in node.all_input_nodes):
            return 0.0
        return float(partitioners.estimate_runtime(node))


def _is_call(node: Any) -> bool:
    return bool(node.op == "call_function")


def _reading_tangents(graph: Any) -> set[Any]:
    found: set[Any] = set()
    for node in graph.nodes:
        is_tangent = node.op == "placeholder" and "tangents" in str(node.target)
        if is_tangent or not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _peak(graph: Any, free: set[Any]) -> int:
    """Return the most bytes that live if values go after the last that reads them."""
    readers = {node: len(node.users) for node in graph.nodes}
    holders: dict[Any, int] = {}
    alive = most = 0

    def hold(node: Any, by: int) -> None:
        nonlocal alive
        for storage, size in storages(node).items():
            if storage not in free:
                before = holders.get(storage, 0)
                holders[storage] = before + by
                alive += size * ((before + by > 0) - (before > 0))

    for node in graph.find_nodes(op="placeholder"):
        hold(node, 1)
    for node in graph.nodes:
        if _is_call(node):
            hold(node, 1)
            most = max(most, alive)
            if not readers[node]:
                hold(node, -1)
        if node.op != "output":
            for source in node.all_input_nodes:
                readers[source] -= 1
                if not readers[source] and source.op != "get_attr":
                    hold(source, -1)
    return max(most, alive)


@contextmanager
def one_search() -> Iterator[dict[str, Any]]:
    """Search the plans of a graph once for all budgets; gives where the search is."""
    found: dict[str, Any] = {}
    if not hasattr(config, OBJECTIVE):
        yield found
        return
    from torch._functorch._activation_checkpointing import peak_budget

    search = peak_budget._Search

    def keep(*arguments: Any) -> Any:
        if not found:
            found["search"] = search(*arguments)
        return found["search"]

    with mock.patch.object(peak_budget, "_Search", keep):
        yield found


def rows(joint: Joint, stock: list[Row]) -> Iterator[Row]:
    """Measure the plans of a joint graph, and those against stock's and ours."""
    emitted, others = Emitted(joint), list(stock)
    by_peak = hasattr(config, OBJECTIVE)
    asked = [("exact" if by_peak else "dp", budget) for budget in BUDGETS]
    asked += [("default", 1.0)] * by_peak
    asked += [("peak", k / STEPS) for k in range(STEPS) if by_peak]
    with one_search() as found:
        for way, budget in asked:
            row = _plan(joint, way, budget) | {"total": emitted.total}
            row |= emitted.measure(row.pop("saved"))
            yield row
            if way in ("exact", "default"):
                others.append(row)
        if by_peak:
            for row in others:
                yield _beat(emitted, found["search"], row)


def _plan(joint: Joint, way: str, budget: float) -> Row:
    chosen = options()
    chosen["activation_memory_budget_solver"] = "exact" if way == "exact" else "dp"
    if way == "peak":
        chosen[OBJECTIVE] = "peak"
    start = time.process_time()
    with config.patch(chosen):
        saved = partitioners.choose_saved_values_set(*joint, memory_budget=budget)
    seconds = time.process_time() - start
    row = {"way": way, "budget": budget, "seconds": seconds, "saved": list(saved)}
    if way == "peak":
        report: Any = joint.graph._memory_budget_report
        row |= {
            "promised": report["Planned Peak Bytes"],
            "limit": report["Target Peak Bytes"],
            "lowest": report["Lowest Peak Bytes"],
        }
    return row


def _beat(emitted: Emitted, search: Any, row: Row) -> Row:
    """Plan for the peak of another plan, and for no more than what it recomputes."""
    frontier, schedule = search.planner.frontier, search.planner._schedule
    slack = len(schedule.nodes)  # an op without a formula counts one
    fast = (plan for plan in frontier.plans if plan.runtime <= row["again"] + slack)
    low = frontier.find(row["peak"])
    found = {
        "way": f"peak for {row['way']}",
        "budget": row["budget"],
        "of_peak": row["peak"],
        "of_again": row["again"],
        "total": row["total"],
    }
    for key, plan in (("peak", next(fast, None)), ("again", low)):
        saved = schedule.get_saved_values(plan.saved) if plan else None
        found[key] = emitted.measure(saved)[key] if saved else math.inf
    return found


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--packages", default="")
    parser.add_argument("--models", nargs="*", default=[*MODELS], choices=[*MODELS])
    arguments = parser.parse_args()
    sys.path.append(arguments.packages)
    torch.set_num_threads(1)
    old = _read(arguments.output)
    stock = _read(arguments.output.with_name("stock.jsonl"))
    with arguments.output.open("a") as output:
        for number, name in enumerate(arguments.models, 1):
            if any(row["model"] == name for row in old):
                continue
            # The one with the most nodes: others are ends of it.
            joint = max(trace(MODELS[name]), key=lambda j: len(j.graph.nodes))
            others = [row for row in stock if row["model"] == name]
            more = versions() | {"nodes": len(joint.graph.nodes)}
            made = [{"model": name} | row | more for row in rows(joint, others)]
            output.write("".join(json.dumps(row) + "\n" for row in made))
            output.flush()
            print(f"{number}/{len(arguments.models)} {name}", flush=True)


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    main()
