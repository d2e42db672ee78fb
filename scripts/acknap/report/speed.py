"""Speed and answers: the measured value behind each claim, as a number and words.

claims.toml names these functions and those of memory. They return None where the
record does not hold what they need.
"""

import re
import statistics
from collections.abc import Iterator

from acknap.base.text import short
from acknap.bench.finished import Answers, Run, Small, Speed, Threads, Training
from acknap.bench.record import Record
from acknap.knapsack.contenders import in_setting
from acknap.report.memory import Number
from acknap.report.stats import median_seconds, percentile, ratio


def speed(
    record: Record,
    topics: list[str],
    base: str,
    contender: str,
    pick: str = "median",
    problem: str = "",
    items: int = 0,
) -> Number | None:
    """How many times faster a contender is than `base`, over the points of topics.

    Args:
        record: The measurements.
        topics: The points' topics.
        base: The slower one.
        contender: The faster one.
        pick: Whether the value is the "median" or the "worst" of the points.
        problem: What the problem's spec must match.
        items: Points of fewer items do not count.
    """
    found = [
        (one, _named(point))
        for point in _points(record, topics, problem, items)
        if (one := ratio(point.seconds, base, contender)) is not None
    ]
    if not found:
        return None
    worst = min(found, key=lambda pair: pair[0].median)
    best = max(found, key=lambda pair: pair[0].median)
    middle = statistics.median(one.median for one, _ in found)
    value = worst[0].median if pick == "worst" else middle
    if len(found) == 1:
        return Number(value, f"{worst[0]}, {worst[1]}")
    vague = sum(one.low is not None and not one.significant for one, _ in found)
    text = (
        f"median {short(middle)}x of {len(found)} points, "
        f"worst {worst[0]} ({worst[1]}), best {short(best[0].median)}x"
    )
    return Number(value, text + (f"; {vague} not significant" if vague else ""))


def slower_share(
    record: Record, topics: list[str], base: str, contender: str, least_ms: float = 0
) -> Number | None:
    """The share of points on which a contender is slower than `base`.

    Those on which it takes less than `least_ms` do not count.
    """
    found = [
        (one.median < 1 and time >= least_ms / 1e3, _named(point), time)
        for point in _points(record, topics)
        if (time := median_seconds(point.seconds, contender)) is not None
        and (one := ratio(point.seconds, base, contender)) is not None
    ]
    if not found:
        return None
    slower = [(time, name) for is_slower, name, time in found if is_slower]
    text = f"{len(slower)} of {len(found)} points"
    if slower:
        time, name = max(slower)
        text += f", at most {short(time * 1e3)} ms ({name})"
    return Number(len(slower) / len(found), text)


def times(
    record: Record, topics: list[str], base: str, contender: str
) -> Number | None:
    """How many times the time of `base` a contender takes, at most."""
    found = [
        (one.median, _named(point))
        for point in _points(record, topics)
        if (one := ratio(point.seconds, contender, base)) is not None
    ]
    if not found:
        return None
    return Number(
        max(found)[0], "; ".join(f"{short(median)} on {name}" for median, name in found)
    )


def peers(record: Record, contender: str) -> Number | None:
    """How many peer runs beat a contender, of those that ended with an answer."""
    words, faster, total = [], 0, 0
    for name in ("peers.milp", "peers.branch_and_bound", "peers.cp_sat"):
        points = record.of("peers", Speed)
        ratios = [
            one.median for p in points if (one := ratio(p.seconds, name, contender))
        ]
        gave_up = sum(name in point.failed for point in points)
        answers = [point.answers[name] for point in points if name in point.answers]
        wrong = sum(answer.right is False for answer in answers)
        faster += sum(one < 1 for one in ratios)
        total += len(ratios)
        if ratios:
            words.append(
                f"{name.removeprefix('peers.')} {short(statistics.median(ratios))} "
                f"times its time, {short(min(ratios))} to {short(max(ratios))}"
                + (f", {wrong} answers wrong" if wrong else "")
                + (f", {gave_up} not proven in 10 s" if gave_up else "")
            )
    return Number(faster / total, "; ".join(words)) if total else None


def seconds(record: Record, topic: str, contender: str) -> Number | None:
    """The longest median time of a contender in a topic."""
    times = [
        median_seconds(point.seconds, contender) for point in record.of(topic, Speed)
    ]
    known = [time for time in times if time is not None]
    if not known:
        return None
    return Number(max(known), f"{short(max(known) * 1e3)} ms")


def threads(record: Record, contender: str, load: str) -> Number | None:
    """How many times the time of one thread the default number takes, at p99."""
    found = thread_ratios(record, contender, load)
    if not found:
        return None
    value, name = percentile(found, 0.99)
    middle = statistics.median(median for median, _ in found)
    text = f"p99 {short(value)}x ({name}), median {short(middle)}x"
    return Number(value, f"{text} of {len(found)} points")


def thread_ratios(record: Record, contender: str, load: str) -> list[tuple[float, str]]:
    """Return the default's time over one thread's under one load, in rising order.

    Where the default is one thread, there is nothing to compare.
    """
    one, default = (in_setting(contender, n, load) for n in ("one", "default"))
    return sorted(
        (found.median, _named(point))
        for point in record.of("threads", Threads)
        if point.threads["default"] > 1
        and (found := ratio(point.seconds, default, one))
    )


def wrong_in_timings(record: Record, contender: str) -> Number | None:
    """How many timed points a contender answered wrongly, or not always alike."""
    answers = [
        point.answers[contender]
        for point in record.points.values()
        if isinstance(point, Speed | Threads) and contender in point.answers
    ]
    if not answers:
        return None
    wrong = sum(answer.wrong for answer in answers)
    return Number(wrong, f"{wrong} of {len(answers)} timed points")


def count_real(
    record: Record, contenders: list[str], proven: bool = False, topic: str = "real"
) -> Number | None:
    """How many runs on real models are over the budget, below the optimum or open."""
    rows = [
        row
        for point in record.of(topic, Answers)
        for row in point.rows
        if row.contender in contenders
    ]
    if not rows:
        return None
    faults = {
        "failed": sum(bool(row.failed) for row in rows),
        "over": sum(row.over > 0 for row in rows),
        "below the optimum": sum(bool(row.loss) for row in rows),
    }
    if proven:
        faults["without proof"] = sum(row.is_open for row in rows)
    words = ", ".join(f"{count} {what}" for what, count in faults.items())
    return Number(sum(faults.values()), f"{words} of {len(rows)} runs")


def count_small(record: Record, contenders: list[str]) -> Number | None:
    """How many small random problems are answered wrongly."""
    words, wrong, seen = [], 0, False
    for contender in contenders:
        total: dict[str, int] = {}
        for point in record.of("small", Small):
            for what, count in point.counts.get(contender, {}).items():
                total[what] = total.get(what, 0) + count
        if total:
            seen = True
            faults = {what: c for what, c in total.items() if what != "right"}
            wrong += sum(faults.values())
            said = ", ".join(f"{c} {what}" for what, c in faults.items()) or "0 wrong"
            words.append(f"{contender}: {said} of {sum(total.values())}")
    return Number(wrong, "; ".join(words)) if seen else None


def training_losses(record: Record) -> Number | None:
    """The largest relative difference of a loss from that of the first run's step."""
    runs = _training(record)
    if not runs:
        return None
    first = runs[0].losses
    worst = max(
        abs(loss - wanted) / wanted
        for run in runs
        for loss, wanted in zip(run.losses, first, strict=True)
    )
    return Number(
        worst,
        f"largest difference {worst:.2g} in {len(runs)} runs of {len(first)} steps, "
        f"loss {first[0]:.3g} to {first[-1]:.3g}",
    )


def training_memory(record: Record, contender: str, budget: float) -> Number | None:
    """The bytes that a contender saves at a budget, over those at a budget of 1."""
    sizes = {
        (run.contender, run.budget): run.saved_bytes / 1e6 for run in _training(record)
    }
    if (contender, budget) not in sizes:
        return None
    words = (f"{name} at {at:g} {size:.3g} MB" for (name, at), size in sizes.items())
    share = sizes[contender, budget] / sizes[contender, 1.0]
    return Number(share, f"{share:.3f}: {', '.join(words)}")


def training_time(record: Record, contender: str, budget: float) -> Number | None:
    """How many times longer a step takes at a budget than at a budget of 1."""
    for point in record.of("training", Training):
        seconds = {
            f"{run.contender} at {run.budget:g}": run.seconds for run in point.runs
        }
        base, one = f"{contender} at 1", f"{contender} at {budget:g}"
        if found := ratio(seconds, one, base):
            words = (
                f"{name} {short(1e3 * statistics.median(times))} ms"
                for name, times in seconds.items()
            )
            return Number(found.median, f"{found}: {', '.join(words)}")
    return None


def _training(record: Record) -> list[Run]:
    return [run for point in record.of("training", Training) for run in point.runs]


def _named(point: Speed | Threads) -> str:
    name = point.problem.removeprefix("real:")
    one = point.budgets[0] if len(point.budgets) == 1 else None
    return (
        f"{name} at {one}" if one is not None and one <= 1 and ":" not in name else name
    )


def _points(
    record: Record, topics: list[str], problem: str = "", items: int = 0
) -> Iterator[Speed]:
    for topic in topics:
        for point in record.of(topic, Speed):
            if re.search(problem, point.problem) and point.items >= items:
                yield point
