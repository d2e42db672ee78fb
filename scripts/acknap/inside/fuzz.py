"""Runs random programs inside an environment that has torch, and counts their ends.

Standard library and torch only::

    python fuzz.py TEST_FILE SEEDS.json OUTPUT.jsonl
        [--stock PARTITIONERS] [--package SWITCH]

OUTPUT gets one more line a program. A program that ended the process twice is noted as
crashed, if the process is started again with the same OUTPUT.
"""

import argparse
import collections
import contextlib
import gc
import importlib
import json
import logging
import math
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]

ABOVE = "measured above promised"
# Seconds a program: of the process, which a busy machine does not prolong, and, for one
# that waits for ever, by the clock.
_LIMIT, _CLOCK_LIMIT = 180, 1800


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
    """The module of a file, such as a test file."""
    sys.path.append(str(path.parent))
    return importlib.import_module(path.stem)


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
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

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
    residual = (matrix - flow.flow).T.tocsr()
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, index[sink], return_predecessors=False)
    part = {names[i] for i in reached}
    return flow.flow_value, (set(names) - part, part)


def out_of_time(*_: object) -> None:
    raise TimeoutError("the program took too long")


def run(args: argparse.Namespace) -> None:
    """Runs programs, and adds their records to the output."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    if args.package:
        # Ranks find it on their path, which this isolated Python does not have.
        os.environ["PYTHONPATH"] = str(args.package)
        runpy.run_path(str(args.package / "sitecustomize.py"))
    import torch

    torch.set_num_threads(1)
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    fuzz = load(args.test_file)
    if args.package:
        fuzz.has_exact = lambda: True  # it looks beside the partitioner
    cut_faster()
    # The search takes half of a program's time.
    one_search = load(Path(__file__).with_name("peak_search.py")).one_search
    options: Record = {"max_sets": 5}
    if args.stock:
        options["stock_partitioners"] = fuzz.load_stock(str(args.stock))
    seeds = json.loads(args.seeds.read_text())
    marker = args.output.with_suffix(".now")
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, out_of_time)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    with args.output.open("a") as output, one_search():
        for index, seed in enumerate(seeds):
            record: Record = {"seed": seed, "crashed": True}
            if started(marker, seed) <= 2:
                record = one(fuzz, seed, options, marker)
            print(json.dumps(record), file=output, flush=True)
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


def one(fuzz: Any, seed: int, options: Record, marker: Path) -> Record:
    """The record of one program; an error of the fuzzer is a record, too."""
    signal.setitimer(signal.ITIMER_PROF, _LIMIT)
    signal.alarm(_CLOCK_LIMIT)
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
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return record


def kinds(record: Record) -> set[str]:
    """What a record counts as."""
    missed = (name for name in ("crashed", "harness", "skipped") if name in record)
    found = {next(missed, "ran"), *(f["kind"] for f in record.get("failures", ()))}
    return found | ({"knapsack"} if record.get("knapsack") else set())


def wrong(record: Record) -> bool:
    return bool(kinds(record) & {"wrong gradient", "raises", "crashed"})


def failed(record: Record) -> bool:
    """Whether there is anything to hold against stock."""
    return bool(kinds(record) - {"ran", "knapsack", "skipped"})


def newly_wrong(ours: Record, stock: Record) -> bool:
    """Whether ours is wrong at a budget and solver with which stock is known right."""
    found = (
        point
        for failure in ours.get("failures", ())
        if failure["kind"] in ("wrong gradient", "raises")
        for point in failure.get("points", ())
    )
    return not set(stock.get("right", ())).isdisjoint(found)


def summary(ours: dict[int, Record], stock: dict[int, Record]) -> int:
    """Print the counts of one run by seed, or of one run beside stock's.

    The status is 1 if a plan of ours is over the budget or crashed, or if it is wrong,
    raises or keeps more than it says where stock's does not.
    """
    total = collections.Counter(kind for r in ours.values() for kind in kinds(r))
    seconds = [r["seconds"] for r in ours.values() if "seconds" in r]
    versions = {r["torch"] for r in ours.values() if "torch" in r}
    print(f"torch {', '.join(sorted(versions))}")
    print(f"programs {len(ours)}, seconds each {sum(seconds) / len(ours):.2f}")
    for kind, count in total.most_common():
        print(f"  {count:6} {kind}")
    for kind in ("wrong gradient", "raises", "over budget"):
        by_feature(kind, ours, stock)
    worse = any(total[kind] for kind in ("over budget", "ranks differ", "crashed"))
    if stock:
        worse |= beside(ours, stock)
    else:
        worse |= any(map(wrong, ours.values())) or bool(total[ABOVE])
    examples(ours)
    return int(worse)


def beside(ours: dict[int, Record], stock: dict[int, Record]) -> bool:
    """Print what stock's runs say of ours; return whether ours are worse somewhere."""
    both = sorted(ours.keys() & stock.keys())
    bad, bad_stock = ({s for s in both if wrong(side[s])} for side in (ours, stock))
    only = sorted(bad - bad_stock)
    newly = [s for s in both if newly_wrong(ours[s], stock[s])]
    print(f"programs that stock ran, too: {len(both)}")
    print(f"stock wrong or raising: {len(bad_stock)}")
    print(f"ours wrong or raising: {len(bad)}")
    print(f"stock right and ours wrong or raising: {len(only)} {only[:40]}")
    print(f"stock wrong and ours right: {len(bad_stock - bad)}")
    print(f"ours wrong at a budget where stock is right: {len(newly)} {newly[:40]}")
    above = {seed for seed, record in ours.items() if ABOVE in kinds(record)}
    # An op's result can have a larger storage than torch's tracing says.
    torchs = {seed for seed in above & stock.keys() if ABOVE in kinds(stock[seed])}
    more = sorted(above - torchs)
    print(
        f"stock keeps more than a plan says, too: {len(torchs)} {sorted(torchs)[:40]}"
    )
    print(f"ours alone keeps more than a plan says: {len(more)} {more[:40]}")
    return bool(only or newly or more)


def by_feature(kind: str, ours: dict[int, Record], stock: dict[int, Record]) -> None:
    """How often programs with a feature have a kind of failure, ours and stock's."""
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0, 0])
    for column, records in enumerate((ours, stock)):
        for record in records.values():
            for name in record.get("features", ()):
                counts[name][2 * column] += 1
                counts[name][2 * column + 1] += kind in kinds(record)
    print(f"{kind}, by feature (programs with it: ours of all, stock of all)")
    for name, (all_ours, bad, all_stock, bad_stock) in sorted(
        counts.items(), key=lambda item: -item[1][1] / max(item[1][0], 1)
    ):
        if bad or bad_stock:
            print(f"  {name:32} {bad:5} of {all_ours:5} {bad_stock:5} of {all_stock:5}")


def examples(records: dict[int, Record]) -> None:
    """A few seeds of each kind of failure."""
    seeds: dict[str, list[int]] = collections.defaultdict(list)
    for seed, record in sorted(records.items()):
        for kind in kinds(record) - {"ran", "knapsack"}:
            seeds[kind].append(seed)
    for kind, found in sorted(seeds.items()):
        print(f"{kind}: {' '.join(map(str, found[:20]))}")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("test_file", type=Path)
    parser.add_argument("seeds", type=Path, help="a list, in JSON")
    parser.add_argument("output", type=Path)
    parser.add_argument("--stock", type=Path, help="partitioners.py of the release")
    parser.add_argument(
        "--package", type=Path, help="folder whose sitecustomize makes it the planner"
    )
    run(parser.parse_args())


if __name__ == "__main__":
    main()
