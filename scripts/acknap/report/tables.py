"""The tables of a benchmark's report, in Markdown."""

import itertools
import statistics
from collections.abc import Iterable

from acknap.base.text import Cells, short, table
from acknap.bench.finished import Answer, Answers, Finished, Memory, Speed, Threads
from acknap.bench.record import Record
from acknap.inside.solvers import SOLVERS
from acknap.knapsack.contenders import ALL, SIDES, in_setting, title
from acknap.report.memory import memory_points
from acknap.report.speed import small_counts, thread_ratios
from acknap.report.stats import median_seconds, percentile, ratio
from acknap.report.verdicts import Verdict


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
    header = (
        "solver",
        "runs",
        "over the budget",
        "worst excess",
        "over its own capacity",
        "extra recomputation, median",
        "worst",
        "recomputes though all fits",
    )
    points = record.of("real", Answers)
    names = (f"{side}.{solver}" for solver, side in itertools.product(SOLVERS, SIDES))
    rows = [
        (title(name), *_quality_row([(p, row) for p in points for row in p.by(name)]))
        for name in names
        if any(p.by(name) for p in points) and name in ALL
    ]
    return table(header, rows, numbers=True)


def _quality_row(runs: list[tuple[Answers, Answer]]) -> Cells:
    answered = [(point, row) for point, row in runs if not row.failed]
    excess = [row.excess for _, row in answered if row.excess]
    kept = [(point, row) for point, row in answered if not row.excess]
    extra = [e for point, row in kept if (e := point.extra(row)) is not None]
    failed = len(runs) - len(answered)
    return (
        f"{len(runs)}" + (f" ({failed} failed)" if failed else ""),
        str(len(excess)),
        _percent(max(excess, default=0)),
        str(sum(row.over > 0 for _, row in answered)),
        _percent(statistics.median(extra) if extra else 0),
        _percent(max(extra, default=0)),
        str(sum(_is_needless(point, row) for point, row in kept)),
    )


def _is_needless(point: Answers, row: Answer) -> bool:
    """Whether something is recomputed where nothing has to be."""
    best = point.optimum(row)
    if best is None or point.extra(row) is not None:
        return False
    # Sums of whole numbers are exact; others may differ by rounding.
    return row.value < (best if float(best).is_integer() else best * (1 - 1e-13))


def speed(record: Record, topic: str) -> str:
    """Return a line per point: the base's time, the others' ratios to it."""
    points = record.of(topic, Speed)
    if not points:
        return "Not measured."
    base, *others = dict.fromkeys(name for p in points for name in p.contenders)
    header = ("problem", "rounds", f"{title(base)} (ms)", *map(title, others))
    rows = []
    for point in points:
        seconds = median_seconds(point.seconds, base)
        cells = [_speed_cell(point, base, name) for name in others]
        shown = short(1e3 * seconds) if seconds else "-"
        rows.append((_problem(point), str(point.rounds), shown, *cells))
    return table(header, rows, numbers=True)


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
    points = record.of("threads", Threads)
    if not points:
        return "Not measured."
    header = (
        "solver",
        "beside it",
        "points",
        "one thread, over one idle",
        "default over one thread, median",
        "p99",
        "wrong answers",
    )
    rows = [
        (title(name), said, *_threads_row(points, record, name, load))
        for name in points[0].contenders
        for load, said in (("idle", "nothing"), ("loaded", "two busy loops"))
    ]
    return table(header, rows, numbers=True)


def _threads_row(
    points: list[Threads], record: Record, contender: str, load: str
) -> Cells:
    one, idle = (in_setting(contender, "one", where) for where in (load, "idle"))
    slower = [
        over.median for point in points if (over := ratio(point.seconds, one, idle))
    ]
    shares = [median for median, _ in thread_ratios(record, contender, load)]
    wrong = sum(
        point.answers[contender].wrong for point in points if contender in point.answers
    )
    return (
        str(len(slower)),
        short(statistics.median(slower)) if slower else "-",
        short(statistics.median(shares)) if shares else "-",
        short(percentile(shares, 0.99)) if shares else "-",
        str(wrong),
    )


def memory(record: Record) -> str:
    """Return a line per measured peak."""
    names = dict.fromkeys(p.contenders[0] for p in record.of("memory", Memory))
    rows = [
        (
            _problem(point) + (", limited" if point.kind == "limit" else ""),
            title(name),
            f"{point.peak / 1e6:.2f}",
            short(point.seconds),
            "yes" if point.answer.right else "no",
        )
        for name in names
        for point in memory_points(record, name)
    ]
    rows += [
        (
            f"{_problem(point)}, limited",
            title(point.contenders[0]),
            f"died, asking for {point.asked / 1e6:.1f}",
            "-",
            "-",
        )
        for point in record.of("limit", Memory)
        if point.asked
    ]
    header = ("problem", "solver", "peak growth (MB)", "seconds", "right")
    return table(header, rows, numbers=True)


def small(record: Record) -> str:
    """Return a line per solver: how often it is wrong on small random problems."""
    totals = small_counts(record)
    faults = sorted({w for counts in totals.values() for w in counts} - {"right"})
    rows = [
        (title(name), str(counts.total()), *(str(counts[f]) for f in faults))
        for name, counts in totals.items()
    ]
    return table(("solver", "problems", *faults), rows, numbers=True)


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
