"""A raw record made by hand, with a few points of each kind."""

from pathlib import Path
from typing import Any

from acknap.bench import record as bench_record
from acknap.bench.finished import Speed
from acknap.bench.plan_memory import ROWS_UNITS, TABLE_UNITS
from acknap.bench.point import Point
from acknap.bench.record import FINISHED, Record
from acknap.knapsack.contenders import in_setting

CONTENDERS = ("stock.dp", "stock.hirschberg", "stock.greedy", "patched.exact")


def make(folder: Path, command: str = "./scripts/harness bench") -> Record:
    """Write the record into a folder."""
    key = {
        "machine": {"cpu": "toy", "cores": 2, "memory_gib": 24, "system": "Linux"},
        "target": "v1.0.0",
        "series": "0123456789abcdef",
        "sides": {
            side: {"python": "3.11.7", "packages": {"torch": "1.0", "numpy": None}}
            for side in ("stock", "patched")
        },
    }
    record = bench_record.open_record(folder, key, {"command": command})
    _memory(record)
    _limits(record)
    _answers(record)
    _speed(record)
    _threads(record)
    _training(record)
    _delivered(record)
    return record


def point(kind: str, contenders: tuple[str, ...], **more: Any) -> Point:
    """Return a point of three items at one budget, unless more is said."""
    defaults = {"problem": "real:toy", "budgets": (0.4,), "rounds": 7}
    return Point("topic", kind, contenders=contenders, **(defaults | more))


def speed(seconds: dict[str, list[float]], **more: Any) -> dict[str, Any]:
    """Return the result of a timing."""
    answers = {name: {"right": True, "over": 0.0, "used": 1.0} for name in seconds}
    rounds = len(next(iter(seconds.values())))
    made = {"items": 500, "rounds": rounds, "seconds": seconds, "answers": answers}
    return {**made, "failed": {}, "absent": [], **more}


def add(
    record: Record, topic: str, kind: str, problem: str, result: dict[str, Any]
) -> None:
    """Add a point of one contender, or of those that the result names."""
    names = tuple(result.pop("of", None) or result.get("seconds", CONTENDERS))
    point = Point(topic, kind, problem, (0.5,), names)
    record.add(point, FINISHED.validate_python({"kind": kind, **result}))


def _memory(record: Record) -> None:
    for n, units in ((50, 10**6), (100, 10**6), (50, 10**5), (99, 10**5), (80, 10**6)):
        growth = 4 * (n + 1) * (units + 1) + 8 * (units + 1)
        _peak(record, "stock.dp", n, units, growth)
    for n, units in ((20, 10**6), (200, 10**6), (20, 10**7), (9, 10**7), (7, 10**5)):
        _peak(record, "stock.hirschberg", n, units, 20 * units)
    _peak(record, "patched.exact", 20, 10**6, 40_000)
    _peak(record, "patched.exact", 2000, ROWS_UNITS, 420_000)


def _peak(record: Record, contender: str, n: int, units: int, growth: int) -> None:
    answer = {"right": True, "over": 0.0, "used": 1.0}
    result = {"of": [contender], "growth": growth, "seconds": 0.1, "answer": answer}
    add(record, "memory", "memory", f"random:n={n},units={units}", result)


def _limits(record: Record) -> None:
    table = f"random:n=100,units={TABLE_UNITS // 1000}"
    died = {"of": ["stock.dp"], "failed": "RuntimeError: no", "asked": 304_000_304}
    add(record, "limit", "limit", table, died)
    rows = f"random:n=2000,units={ROWS_UNITS // 1000}"
    answer = {"right": True, "over": 0.0, "used": 1.0}
    solved = {"growth": 58_600_000, "seconds": 12.0, "answer": answer}
    add(record, "limit", "limit", rows, {"of": ["stock.hirschberg"], **solved})


def _answers(record: Record) -> None:
    values = {"stock.dp": 40.0, "stock.hirschberg": 60.0, "stock.greedy": 45.0}
    for topic in ("real", "captured", "pictured-budget", "pictured-frontier"):
        rows: list[dict[str, Any]] = []
        for contender in CONTENDERS:
            value = values.get(contender, 50.0)
            excess = 0.25 if value > 50 else 0.0
            row = {"contender": contender, "budget": 0.5, "value": value}
            row |= {"used": 1 + excess, "over": excess, "excess": excess}
            rows.append(row | {"optimum": 50.0, "loss": 1 - value / 50})
        rows.append({"contender": "stock.ilp", "budget": 0.5, "failed": "no"})
        result = {"rows": rows, "best": {"0.5": 50.0}, "total": 100.0, "absent": []}
        add(record, topic, "answers", "real:toy_model", result)
    counts = {"stock.hirschberg": {"right": 954, "over budget": 46}}
    counts["patched.exact"] = {"right": 1000}
    small = {"of": list(counts), "counts": counts, "examples": {}, "absent": []}
    add(record, "small", "small", "small:first=0,count=1000", small)


def _speed(record: Record) -> None:
    for n in (100, 500):
        rounds = {"stock.dp": [0.01, 0.012, 0.011, 0.01, 0.01, 0.013]}
        rounds["stock.hirschberg"] = [0.02] * 6
        rounds["patched.exact"] = [0.001] * 6
        spec = f"random:n={n},units=10000"
        add(record, "size-speed", "speed", spec, speed(rounds))
    real = {"stock.dp": [0.01] * 6, "patched.exact": [0.02, 0.005] * 3}
    add(record, "real-speed", "speed", "real:toy_model", speed(real))
    peers = {"patched.exact": [0.001] * 3, "peers.milp": [0.01] * 3}
    failed = {"peers.cp_sat": "OpenError: not proven"}
    point = Point("peers", "speed", "wide:n=500", (0.5,), (*peers, *failed))
    record.add(point, Speed(**speed(peers, failed=failed)))


def _threads(record: Record) -> None:
    """Two problems on two cores; beside busy loops the default is slow on one."""
    for problem, slow in (("real:toy_model", 1.2), ("groups:n=8", 2.0)):
        timed = {
            in_setting("patched.exact", "one", "idle"): [0.01] * 7,
            in_setting("patched.exact", "default", "idle"): [0.011] * 7,
            in_setting("patched.exact", "one", "loaded"): [0.02] * 7,
            in_setting("patched.exact", "default", "loaded"): [0.02 * slow] * 7,
        }
        result = speed(timed, of=["patched.exact"], threads={"one": 1, "default": 2})
        result["failed"] = ""
        result["answers"] = {"patched.exact": {"right": True, "over": 0.0, "used": 1.0}}
        add(record, "threads", "threads", problem, result)


def _training(record: Record) -> None:
    runs = [
        {
            "contender": contender,
            "budget": budget,
            "saved_bytes": round(budget * 40_000_000),
            "losses": [4.0, 2.0, 1.0 if budget == 1 else 1.00001],
            "seconds": [0.1 / budget] * 6,
        }
        for contender in ("stock.dp", "patched.exact")
        for budget in (1.0, 0.25)
    ]
    training = {"of": ["stock.dp", "patched.exact"], "runs": runs, "absent": []}
    add(record, "training", "training", "decoder:steps=3", training)


def _delivered(record: Record) -> None:
    """Two models whose budget the last contender keeps; one with an early exit."""
    ratios = {"stock.dp": 0.75, "stock.hirschberg": 0.75, "stock.exact": 0.55}
    for name, dp in (("kept", 0.5), ("exceeded", 0.75)):
        rows: list[dict[str, Any]] = []
        for contender, ratio in (
            ratios | {"stock.dp": dp, "patched.exact": 0.5}
        ).items():
            row = {"contender": contender, "budget": 0.5, "knapsack_used": True}
            row |= {"plan": 0.5, "ratio": ratio, "bytes": ratio, "storages": 0.4}
            row["live"] = 0.45
            fast = contender == "patched.exact"
            row |= {"recomputed": 50.0 if fast else 100.0, "cuts": 2 if fast else 1}
            row |= {"solve_seconds": 0.01, "cut_seconds": 0.1, "base_seconds": 0.89}
            rows.append(row)
        result = {"of": [*ratios, "patched.exact"], "rows": rows, "total": 1000.0}
        result["unbudgeted"] = {"stock": 0.8, "patched": 1.0}
        add(record, "delivered", "partition", f"real:captured/{name}", result)
    early = {"contender": "stock.dp", "budget": 0.5, "knapsack_used": False}
    row = {**early, "ratio": 0.4, "bytes": 0.4, "storages": 0.4, "live": 0.4}
    failed = {"contender": "stock.exact", "budget": 0.5, "failed": "no luck"}
    result = {"of": ["stock.dp"], "rows": [row, failed], "total": 1000.0}
    result["unbudgeted"] = {"stock": 1.25, "patched": 1.0}
    add(record, "delivered", "partition", "real:captured/early", result)
