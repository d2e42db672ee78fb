"""Runs random programs inside an environment that has torch.

Two modes, standard library and torch only::

    python fuzz.py run TEST_FILE SEEDS.json OUTPUT.jsonl [--stock PARTITIONERS]
    python fuzz.py summary OURS.jsonl ... [--stock STOCK.jsonl ...]

OUTPUT gets one more line a program. A program that ended the process twice is noted as
crashed, if the process is started again with the same OUTPUT.
"""

import argparse
import collections
import contextlib
import gc
import importlib.util
import json
import logging
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def read(paths: Iterable[Path]) -> dict[int, Record]:
    """The records of some files by seed; the last one of a seed counts."""
    found: dict[int, Record] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            # The last line of a run that was killed can be cut off.
            with contextlib.suppress(json.JSONDecodeError):
                record = json.loads(line)
                found[record["seed"]] = record
    return found


def load(path: Path) -> Any:
    """The module of a test file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def started(marker: Path, seed: int) -> int:
    """How often a program was begun, this time included."""
    before = marker.read_text().split() if marker.exists() else []
    times = int(before[1]) + 1 if before[:1] == [str(seed)] else 1
    marker.write_text(f"{seed} {times}")
    return times


def cut_faster() -> None:
    """Put scipy's maximum flow in the place of networkx's, which takes half the time.

    The cut is the same, whatever the flow: its second part is what reaches the sink in
    the residual graph, and that is so for one set of nodes only.
    """
    import networkx as nx
    from torch._functorch import partitioners

    usual = getattr(partitioners, "minimum_cut", nx.minimum_cut)

    def minimum_cut(graph: Any, source: str, sink: str) -> Any:
        return _cut(graph, source, sink) or usual(graph, source, sink)

    nx.minimum_cut = minimum_cut
    if hasattr(partitioners, "minimum_cut"):  # since 2.15
        partitioners.minimum_cut = minimum_cut


def _cut(graph: Any, source: str, sink: str) -> Any:
    """The minimum cut as networkx returns it; None if scipy's integers don't do."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_flow

    names = list(graph)
    index = {name: i for i, name in enumerate(names)}
    edges = [(index[u], index[v], d["capacity"]) for u, v, d in graph.edges(data=True)]
    finite = [capacity for _, _, capacity in edges if capacity != math.inf]
    infinite = int(sum(finite)) + 1
    if infinite >= 2**30 or any(capacity != int(capacity) for capacity in finite):
        return None
    rows, columns, values = zip(*edges, strict=True)
    capacities = np.array([min(c, infinite) for c in values], dtype=np.int32)
    matrix = csr_matrix((capacities, (rows, columns)), shape=(len(names), len(names)))
    flow = maximum_flow(matrix, index[source], index[sink])
    if flow.flow_value >= infinite:
        return None  # networkx has the error that torch expects
    residual = (matrix - flow.flow).tocsc()
    reached, stack = {index[sink]}, [index[sink]]
    while stack:
        node = stack.pop()
        for k in range(residual.indptr[node], residual.indptr[node + 1]):
            before = residual.indices[k]
            if residual.data[k] > 0 and before not in reached:
                reached.add(before)
                stack.append(before)
    part = {names[i] for i in reached}
    return flow.flow_value, (set(names) - part, part)


def out_of_time(*_: object) -> None:
    raise TimeoutError("the program took too long")


def run(args: argparse.Namespace) -> int:
    """Runs programs, and adds their records to the output."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch

    torch.set_num_threads(1)
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    fuzz = load(args.test_file)
    cut_faster()
    options: Record = {
        "inductor_share": args.inductor_share,
        "max_sets": args.max_sets,
    }
    if args.stock:
        options["stock_partitioners"] = fuzz.load_stock(str(args.stock))
    seeds = json.loads(args.seeds.read_text())
    marker = args.output.with_suffix(".now")
    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    with args.output.open("a") as output:
        for index, seed in enumerate(seeds):
            if started(marker, seed) > 2:
                record = {"seed": seed, "crashed": True}
            else:
                record = one(fuzz, seed, options, args.timeout, marker)
            output.write(json.dumps(record) + "\n")
            output.flush()
            counts.update(kinds(record))
            if index == 4:
                gc.collect()
                gc.freeze()
            if index % 25 == 24 or index == len(seeds) - 1:
                each = (time.monotonic() - begin) / (index + 1)
                left = each * (len(seeds) - index - 1) / 60
                shown = ", ".join(f"{k} {n}" for k, n in sorted(counts.items()))
                print(
                    f"{index + 1}/{len(seeds)} {each:.2f} s each, {left:.0f} min left"
                    f" | {shown}",
                    flush=True,
                )
    marker.unlink(missing_ok=True)
    return 0


def one(fuzz: Any, seed: int, options: Record, timeout: int, marker: Path) -> Record:
    """The record of one program; an error of the fuzzer is a record, too."""
    signal.alarm(timeout)
    try:
        record: Record = fuzz.run_program(seed, options)
    except KeyboardInterrupt:
        marker.unlink(missing_ok=True)
        raise
    except Exception as error:
        return {
            "seed": seed,
            "harness": f"{type(error).__name__}: {error}"[:500],
            "trace": traceback.format_exc()[-1500:],
        }
    finally:
        signal.alarm(0)
    return record


def kinds(record: Record) -> set[str]:
    """What a record counts as."""
    missed = [name for name in ("crashed", "harness", "skipped") if name in record]
    found: set[str] = {missed[0] if missed else "ran"}
    if record.get("knapsack"):
        found.add("knapsack")
    return found | {failure["kind"] for failure in record.get("failures", ())}


def wrong(record: Record) -> bool:
    return bool(kinds(record) & {"wrong gradient", "raises", "crashed"})


def failed(record: Record) -> bool:
    """Whether there is anything to hold against stock."""
    return bool(kinds(record) - {"ran", "knapsack", "skipped"})


def wrong_points(record: Record) -> set[str]:
    """Budgets and solvers with a wrong gradient or an error."""
    return {
        point
        for failure in record.get("failures", ())
        if failure["kind"] in ("wrong gradient", "raises")
        for point in failure.get("points", ())
    }


def newly_wrong(ours: Record, stock: Record) -> set[str]:
    """Points that are wrong in ours and known to be right in stock."""
    return wrong_points(ours) & set(stock.get("right", ()))


def summary(args: argparse.Namespace) -> int:
    """Counts of one run, or of one run beside stock's.

    The status is 1 if a plan of ours is over the budget or crashed, or is wrong or
    raises where stock's does not.
    """
    ours = read(args.outputs)
    stock = read(args.stock or [])
    total: collections.Counter[str] = collections.Counter()
    for record in ours.values():
        total.update(kinds(record))
    seconds = [r["seconds"] for r in ours.values() if "seconds" in r]
    versions = {r["torch"] for r in ours.values() if "torch" in r}
    print(f"torch {', '.join(sorted(versions))}")
    print(f"programs {len(ours)}, seconds each {sum(seconds) / len(ours):.2f}")
    for kind, count in total.most_common():
        print(f"  {count:6} {kind}")
    for kind in ("wrong gradient", "raises", "over budget"):
        by_feature(kind, ours, stock)
    alone = ("over budget", "measured above promised", "ranks differ")
    worse = any(total[kind] for kind in alone)
    worse |= any("crashed" in record for record in ours.values())
    if not stock:
        worse |= any(map(wrong, ours.values()))
    else:
        both = ours.keys() & stock.keys()
        only = sorted(s for s in both if wrong(ours[s]) and not wrong(stock[s]))
        gone = sorted(s for s in both if wrong(stock[s]) and not wrong(ours[s]))
        print(f"programs that stock ran, too: {len(both)}")
        print(f"stock wrong or raising: {sum(wrong(stock[s]) for s in both)}")
        print(f"ours wrong or raising: {sum(wrong(ours[s]) for s in both)}")
        print(f"stock right and ours wrong or raising: {len(only)} {only[:40]}")
        print(f"stock wrong and ours right: {len(gone)}")
        newly = [s for s in sorted(both) if newly_wrong(ours[s], stock[s])]
        print(f"ours wrong at a budget where stock is right: {len(newly)} {newly[:40]}")
        worse |= bool(only or newly)
    examples(ours)
    return int(worse)


def by_feature(kind: str, ours: dict[int, Record], stock: dict[int, Record]) -> None:
    """How often programs with a feature have a kind of failure, ours and stock's."""
    counts: dict[str, list[int]] = {}
    for column, records in enumerate((ours, stock)):
        for record in records.values():
            for name in record.get("features", ()):
                row = counts.setdefault(name, [0, 0, 0, 0])
                row[2 * column] += 1
                row[2 * column + 1] += kind in kinds(record)
    print(f"{kind}, by feature (programs with it: ours of all, stock of all)")
    for name, (all_ours, bad, all_stock, bad_stock) in sorted(
        counts.items(), key=lambda item: -item[1][1] / max(item[1][0], 1)
    ):
        if bad or bad_stock:
            print(f"  {name:32} {bad:5} of {all_ours:5} {bad_stock:5} of {all_stock:5}")


def examples(records: dict[int, Record]) -> None:
    """A few seeds of each kind of failure."""
    seeds: dict[str, list[int]] = {}
    for seed, record in sorted(records.items()):
        for kind in kinds(record) - {"ran", "knapsack"}:
            seeds.setdefault(kind, []).append(seed)
    for kind, found in sorted(seeds.items()):
        print(f"{kind}: {' '.join(map(str, found[:20]))}")


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    modes = parser.add_subparsers(required=True)
    runs = modes.add_parser("run")
    runs.add_argument("test_file", type=Path)
    runs.add_argument("seeds", type=Path, help="a list, in JSON")
    runs.add_argument("output", type=Path)
    runs.add_argument("--stock", type=Path, help="partitioners.py of the release")
    runs.add_argument("--inductor-share", type=float, default=0.0)
    runs.add_argument("--max-sets", type=int, default=5)
    runs.add_argument("--timeout", type=int, default=180, help="seconds a program")
    runs.set_defaults(function=run)
    counts = modes.add_parser("summary")
    counts.add_argument("outputs", type=Path, nargs="+")
    counts.add_argument("--stock", type=Path, nargs="*")
    counts.set_defaults(function=summary)
    args = parser.parse_args()
    return int(args.function(args))


if __name__ == "__main__":
    raise SystemExit(main())
