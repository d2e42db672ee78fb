"""Speed and answers: the measured value behind each claim, as a number and words.

claims.toml names these functions and those of memory. They return None where the
record does not hold what they need.
"""

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator

from acknap.base.text import short
from acknap.bench.finished import Answers, Run, Small, Speed, Threads, Timed, Training
from acknap.bench.record import Record
from acknap.inside.peers import SOLVERS
from acknap.knapsack.contenders import in_setting
from acknap.report.memory import Number
from acknap.report.stats import Ratio, median_seconds, percentile, ratio


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
        for point, one in ratios(record, topics, base, contender)
        if re.search(problem, point.problem) and point.items >= items
    ]
    if not found:
        return None
    worst, name = min(found, key=lambda pair: pair[0].median)
    medians = [one.median for one, _ in found]
    middle = statistics.median(medians)
    value = worst.median if pick == "worst" else middle
    if len(found) == 1:
        return Number(value, f"{worst}, {name}")
    vague = sum(one.low is not None and not one.significant for one, _ in found)
    text = (
        f"median {short(middle)}x of {len(found)} points, "
        f"worst {worst} ({name}), best {short(max(medians))}x"
    )
    return Number(value, text + (f"; {vague} not significant" if vague else ""))


def slower_share(
    record: Record, topics: list[str], base: str, contender: str, least_ms: float = 0
) -> Number | None:
    """The share of points on which a contender is slower than `base`.

    Those on which it takes less than `least_ms` do not count.
    """
    found = [
        (time, _named(point), one.median < 1 and time >= least_ms / 1e3)
        for point, one in ratios(record, topics, base, contender)
        if (time := median_seconds(point.seconds, contender)) is not None
    ]
    if not found:
        return None
    slower = [(time, name) for time, name, is_slower in found if is_slower]
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
        for point, one in ratios(record, topics, contender, base)
    ]
    if not found:
        return None
    words = (f"{short(median)} on {name}" for median, name in found)
    return Number(max(found)[0], "; ".join(words))


def peers(record: Record, contender: str) -> Number | None:
    """How many peer runs beat a contender, of those that ended with an answer."""
    words, every = [], list[float]()
    points = record.of("peers", Speed)
    for name in SOLVERS:
        peer = f"peers.{name}"
        found = [one.median for _, one in ratios(record, ["peers"], peer, contender)]
        gave_up = sum(peer in point.failed for point in points)
        answers = [point.answers[peer] for point in points if peer in point.answers]
        wrong = sum(answer.right is False for answer in answers)
        every += found
        if found:
            words.append(
                f"{name} {short(statistics.median(found))} "
                f"times its time, {short(min(found))} to {short(max(found))}"
                + (f", {wrong} answers wrong" if wrong else "")
                + (f", {gave_up} not proven in 10 s" if gave_up else "")
            )
    if not every:
        return None
    return Number(sum(one < 1 for one in every) / len(every), "; ".join(words))


def seconds(record: Record, topic: str, contender: str) -> Number | None:
    """The longest median time of a contender in a topic."""
    found = (
        median_seconds(point.seconds, contender) for point in record.of(topic, Speed)
    )
    most = max((time for time in found if time is not None), default=None)
    return None if most is None else Number(most, f"{short(most * 1e3)} ms")


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
        if isinstance(point, Timed) and contender in point.answers
    ]
    if not answers:
        return None
    wrong = sum(answer.wrong for answer in answers)
    return Number(wrong, f"{wrong} of {len(answers)} timed points")


def count_real(
    record: Record, contenders: list[str], proven: bool = False, topic: str = "real"
) -> Number | None:
    """How many runs on real models are over the budget, below the optimum or open."""
    points = record.of(topic, Answers)
    rows = [row for p in points for row in p.rows if row.contender in contenders]
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
    words, wrong, totals = [], 0, small_counts(record)
    for contender in contenders:
        if total := totals.get(contender):
            faults = {what: c for what, c in total.items() if what != "right"}
            wrong += sum(faults.values())
            said = ", ".join(f"{c} {what}" for what, c in faults.items()) or "0 wrong"
            words.append(f"{contender}: {said} of {sum(total.values())}")
    return Number(wrong, "; ".join(words)) if words else None


def small_counts(record: Record) -> dict[str, Counter[str]]:
    """Return how often each contender's answers to small problems are what."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for point in record.of("small", Small):
        for contender, counts in point.counts.items():
            totals[contender].update(counts)
    return totals


def training_losses(record: Record) -> Number | None:
    """The largest relative difference of a loss from that of the first run's step."""
    runs = training_runs(record)
    if not runs:
        return None
    first = runs[0].losses
    pairs = (pair for run in runs for pair in zip(run.losses, first, strict=True))
    worst = max(abs(loss - wanted) / wanted for loss, wanted in pairs)
    text = f"largest difference {worst:.2g} in {len(runs)} runs of {len(first)} steps"
    return Number(worst, f"{text}, loss {first[0]:.3g} to {first[-1]:.3g}")


def training_memory(record: Record, contender: str, budget: float) -> Number | None:
    """The bytes that a contender saves at a budget, over those at a budget of 1."""
    sizes = {run.name: run.saved_mb for run in training_runs(record)}
    if f"{contender} at {budget:g}" not in sizes:
        return None
    words = (f"{name} {size:.3g} MB" for name, size in sizes.items())
    share = sizes[f"{contender} at {budget:g}"] / sizes[f"{contender} at 1"]
    return Number(share, f"{share:.3f}: {', '.join(words)}")


def training_time(record: Record, contender: str, budget: float) -> Number | None:
    """How many times longer a step takes at a budget than at a budget of 1."""
    runs = training_runs(record)
    seconds = {run.name: run.seconds for run in runs}
    found = ratio(seconds, f"{contender} at {budget:g}", f"{contender} at 1")
    if found is None:
        return None
    words = (f"{run.name} {short(1e3 * run.median_seconds)} ms" for run in runs)
    return Number(found.median, f"{found}: {', '.join(words)}")


def training_runs(record: Record) -> list[Run]:
    """Return the runs of the training."""
    return [run for point in record.of("training", Training) for run in point.runs]


def _named(point: Timed) -> str:
    name, budgets = point.problem.removeprefix("real:"), point.budgets
    if ":" in name or len(budgets) != 1 or budgets[0] > 1:
        return name
    return f"{name} at {budgets[0]}"


def ratios(
    record: Record, topics: list[str], base: str, contender: str
) -> Iterator[tuple[Speed, Ratio]]:
    """Return how many times faster than `base` a contender is, point by point."""
    for topic in topics:
        for point in record.of(topic, Speed):
            if (one := ratio(point.seconds, base, contender)) is not None:
                yield point, one
