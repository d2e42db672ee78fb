"""The tables of a benchmark's report, in Markdown."""

import itertools
import statistics
from collections.abc import Iterable

from acknap.base.text import Row, of_numbers, short, table
from acknap.bench.finished import Answer, Answers, Finished, Memory, Speed, Threads
from acknap.bench.record import Record
from acknap.inside.solvers import SOLVERS
from acknap.knapsack.contenders import ALL, SIDES, VARIANTS, in_setting, title
from acknap.models.parted import MEASURES, Parted
from acknap.report.delivered import extra_cuts, extra_time, points, recompute, runs
from acknap.report.memory import memory_points
from acknap.report.speed import ratios, small_counts, thread_ratios
from acknap.report.stats import median_seconds, percentile, ratio
from acknap.report.verdicts import Verdict

BASE = "stock.dp"  # that others are compared to


def claims(verdicts: Iterable[Verdict], *, commands: bool = False) -> str:
    """Return a line per claim."""
    header = ("claim", "holds?", "measured", "expected", "of", "name", "needs")
    rows = [
        (
            *(one.text, v.word, v.measured, one.expected, one.source),
            *(f"`{one.name}`", one.needs or "-"),
        )
        for v in verdicts
        for one in [v.claim]
    ]
    shown = len(header) if commands else 5
    return table(header[:shown], [row[:shown] for row in rows])


def quality(record: Record) -> str:
    """Return a line per solver: how good its sets on real models are."""
    points = record.of("real", Answers)
    names = (f"{side}.{solver}" for solver, side in itertools.product(SOLVERS, SIDES))
    return of_numbers(
        {"solver": title(name)} | _quality(runs)
        for name in names
        if (runs := [(p, row) for p in points for row in p.by(name)]) and name in ALL
    )


def _quality(runs: list[tuple[Answers, Answer]]) -> Row:
    answered = [(point, row) for point, row in runs if not row.failed]
    excess = [row.excess for _, row in answered if row.excess]
    kept = [(point, row) for point, row in answered if not row.excess]
    extra = [e for point, row in kept if (e := point.extra(row)) is not None]
    failed = len(runs) - len(answered)
    needless = sum(_is_needless(point, row) for point, row in kept)
    return {
        "runs": f"{len(runs)}" + (f" ({failed} failed)" if failed else ""),
        "over the budget": str(len(excess)),
        "worst excess": _percent(max(excess, default=0)),
        "over its own capacity": str(sum(row.over > 0 for _, row in answered)),
        "extra recomputation, median": _percent(statistics.median(extra or [0])),
        "worst": _percent(max(extra, default=0)),
        "recomputes though all fits": str(needless),
    }


def _is_needless(point: Answers, row: Answer) -> bool:
    """Whether something is recomputed where nothing has to be."""
    best = point.optimum(row)
    if best is None or point.extra(row) is not None:
        return False
    # Sums of whole numbers are exact; others may differ by rounding.
    return row.value < (best if float(best).is_integer() else best * (1 - 1e-13))


def captured(record: Record) -> str:
    """Return a line per captured model: the solvers' worst sets over all budgets."""
    return of_numbers(
        {"model": point.name} | {title(name): _worst(point, name) for name in ALL}
        for point in record.of("captured", Answers)
    )


def _worst(point: Answers, contender: str) -> str:
    found = point.by(contender)
    if not found or any(row.failed for row in found):
        return "failed" if found else "absent"
    beyond = max(row.excess for row in found)
    extra = max(
        (point.extra(row) or 0.0 for row in found if not row.excess), default=0.0
    )
    more = f"{short(100 * extra)} %" if extra >= 1e-5 else "< 0.001 %"
    more = more if extra > 1e-9 else "0"
    return f"{more}, over by {short(100 * beyond)} %" if beyond else more


def variants(record: Record) -> str:
    """Return a line per variant: how its partitions keep to the budget."""
    return of_numbers(
        {"partition by": title(name)} | _variant(record, name)
        for name in _variants(record)
    )


def _variants(record: Record) -> list[str]:
    return [name for name in VARIANTS if any(runs(record, name))]


def _variant(record: Record, contender: str) -> Row:
    found = [row for _, _, row in runs(record, contender)]
    beyond = {measure: [row.excess(measure) for row in found] for measure in MEASURES}
    worst = {m: f"{100 * max(values):+.1f} %" for m, values in beyond.items()}
    again = recompute(record, BASE, contender)
    time = extra_time(record, BASE, contender)
    cuts = extra_cuts(record, contender)
    return {
        "runs": str(len(found)),
        **{f"within by {m}": str(values.count(0.0)) for m, values in beyond.items()},
        "worst by ratio": worst.pop("ratio"),
        **{f"by {measure}": excess for measure, excess in worst.items()},
        "over though the plan is not": str(sum(row.is_broken for row in found)),
        "recomputed runtime against released dp": f"{again.value:.4f}"
        if again
        else "-",
        "cuts": f"{1 + cuts.value:.2f}" if cuts else "-",
        "partition time": f"{100 * time.value:+.2f} %" if time else "-",
    }


def delivered(record: Record) -> str:
    """Return a line per model and budget: plan and ratio of every variant."""
    lines, names = [], _variants(record)
    for point in points(record):
        for budget in point.budgets:
            rows = {row.contender: row for row in point.rows if row.budget == budget}
            cells = {title(name): _promise(rows.get(name)) for name in names}
            lines.append({"model, budget": f"{point.name}, {budget:g}"} | cells)
    return of_numbers(lines)


def _promise(row: Parted | None) -> str:
    if row is None:
        return "absent"
    if row.failed:
        return "failed"
    if not row.knapsack_used:
        return f"no knapsack, {row.ratio:.4f}"
    mark = " **over**" if row.is_broken else " over" if row.excess("ratio") else ""
    return f"{row.plan:.4f} to {row.ratio:.4f}{mark}"


def speeds(record: Record) -> str:
    """Return a line per solver: its speed against the base's on real models."""
    return of_numbers(
        {"solver": title(name)} | _speeds([one.median for _, one in found])
        for name in ALL
        if (found := list(ratios(record, ["real-speed"], BASE, name))) and name != BASE
    )


def _speeds(found: list[float]) -> Row:
    return {
        "points": str(len(found)),
        "median": f"{short(statistics.median(found))}x",
        "worst": f"{short(min(found))}x",
        "best": f"{short(max(found))}x",
        "slower on": str(sum(one < 1 for one in found)),
    }


def speed(record: Record, topic: str) -> str:
    """Return a line per point: the base's time, the others' ratios to it."""
    points = record.of(topic, Speed)
    names = list(dict.fromkeys(name for p in points for name in p.contenders))
    rows = []
    for point in points:
        seconds = median_seconds(point.seconds, names[0])
        row = {"problem": _problem(point), "rounds": str(point.rounds)}
        row[f"{title(names[0])} (ms)"] = short(1e3 * seconds) if seconds else "-"
        others = {title(name): _speed_cell(point, names[0], name) for name in names[1:]}
        rows.append(row | others)
    return of_numbers(rows)


def _speed_cell(point: Speed, base: str, name: str) -> str:
    if name in point.failed:
        return point.failed[name].partition(":")[2].strip()[:40]
    one = ratio(point.seconds, base, name)
    if one is None:
        return "absent" if name in point.absent else "-"
    wrong = name in point.answers and point.answers[name].right is False
    return f"{one}{' [wrong]' if wrong else ''}"


def threads(record: Record) -> str:
    """Return a line per solver and load: the default number of threads against one."""
    return of_numbers(
        {"solver": title(name), "beside it": said} | _threads(record, name, load)
        for point in record.of("threads", Threads)[:1]
        for name in point.contenders
        for load, said in (("idle", "nothing"), ("loaded", "two busy loops"))
    )


def _threads(record: Record, contender: str, load: str) -> Row:
    points = record.of("threads", Threads)
    one, idle = (in_setting(contender, "one", where) for where in (load, "idle"))
    slower = [
        over.median for point in points if (over := ratio(point.seconds, one, idle))
    ]
    shares = [median for median, _ in thread_ratios(record, contender, load)]
    wrong = sum(
        point.answers[contender].wrong for point in points if contender in point.answers
    )
    median = short(statistics.median(shares)) if shares else "-"
    return {
        "points": str(len(slower)),
        "one thread, over one idle": short(statistics.median(slower))
        if slower
        else "-",
        "default over one thread, median": median,
        "p99": short(percentile(shares, 0.99)) if shares else "-",
        "wrong answers": str(wrong),
    }


def memory(record: Record) -> str:
    """Return a line per measured peak, then one where a solver died."""
    names = dict.fromkeys(p.contenders[0] for p in record.of("memory", Memory))
    solved = [point for name in names for point in memory_points(record, name)]
    died = [point for point in record.of("limit", Memory) if point.asked]
    return of_numbers(map(_memory, (*solved, *died)))


def _memory(point: Memory) -> Row:
    limited = ", limited" if point.kind == "limit" else ""
    row = {"problem": _problem(point) + limited, "solver": title(point.contenders[0])}
    growth, seconds, right = f"{point.peak / 1e6:.2f}", short(point.seconds), "no"
    if point.asked:
        growth, seconds, right = f"died, asking for {point.asked / 1e6:.1f}", "-", "-"
    elif point.answer.right:
        right = "yes"
    return row | {"peak growth (MB)": growth, "seconds": seconds, "right": right}


def small(record: Record) -> str:
    """Return a line per solver: how often it is wrong on small random problems."""
    totals = small_counts(record)
    faults = sorted({w for counts in totals.values() for w in counts} - {"right"})
    return of_numbers(
        {"solver": title(name), "problems": str(counts.total())}
        | {fault: str(counts[fault]) for fault in faults}
        for name, counts in totals.items()
    )


def setting(record: Record) -> str:
    """Return what the record was made on."""
    key = record.header["key"]
    machine = key["machine"]
    loads = [point.load for point in record.points.values()]
    spread = f", {min(loads)} to {max(loads)}" if loads else ""
    rows = [
        ("started", record.header["started"]),
        ("points", str(len(record.points))),
        ("machine", f"{machine['cpu']}, {machine['cores']} cores"),
        ("memory", f"{machine['memory_gib']} GiB"),
        ("system", machine["system"]),
        ("load while measuring", f"median {statistics.median(loads or [0])}{spread}"),
        ("series", f"{key['target']}, SHA-256 of the patches {key['series']}"),
    ]
    for side, found in key["sides"].items():
        packages = (f"{n} {v}" for n, v in found["packages"].items() if v)
        rows.append((side, f"Python {found['python']}, {', '.join(packages)}"))
    return table(("", ""), rows)


def _problem(point: Finished) -> str:
    name, budgets = point.name, point.budgets
    if len(budgets) > 1:
        return f"{name}, {len(budgets)} budgets"
    return name if "units" in name else f"{name}, budget {budgets[0]:g}"


def _percent(value: float) -> str:
    return "0" if value < 1e-9 else f"{short(100 * value)} %"
