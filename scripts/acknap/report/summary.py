"""What a reader of a report wants to know first: numbers, sentences, a picture."""

import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from acknap.base.layout import Layout
from acknap.base.text import short
from acknap.bench.finished import Threads
from acknap.bench.record import Record
from acknap.models.study import read
from acknap.report import delivered, speed
from acknap.report.verdicts import Verdict

PICTURED = "llama_32"
_PEAK_TEXT = (
    "The peak of a step of a 32-layer Llama by the budget: with a budget of saved "
    "bytes it falls and rises again, with a budget of the peak it only rises"
)
_BASE, _OURS = "stock.dp", "patched.exact"
_BUDGETS = (0.05, 0.1, 0.3)
# A load average is that of the last minute: some points follow on busy loops.
_FEW = 0.1
# What people say of a verdict, in the order in which they want to know it.
_WORDS = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not", "do not"),
    "reported": ("is reported without a bound", "are reported without a bound"),
    "not measured": ("was not measured", "were not measured"),
}


class Peaks(NamedTuple):
    """What `peaks` recorded of the release.

    Attributes:
        picture: Markdown of its picture.
        shares: The peak at no more recomputation than released dp, of its, by budget.
        models: How many were compared.
    """

    picture: str
    shares: dict[float, float]
    models: int


def peaks(layout: Layout, record: Record, page: Path) -> Peaks | None:
    """Return the committed peaks of a record's release, seen from a page's folder."""
    folder = layout.results / f"peaks-{record.header['key']['target']}"
    picture = folder / f"{PICTURED}.svg"
    if not (picture.exists() and (folder / "patched.jsonl").exists()):
        return None
    rows = [row for row in read(folder, "patched") if row["way"] == "peak for dp"]
    shares = {
        budget: statistics.geometric_mean(ratios)
        for budget in _BUDGETS
        if (ratios := [r["peak"] / r["of_peak"] for r in rows if r["budget"] == budget])
    }
    link = Path(os.path.relpath(picture, page)).as_posix()
    models = len({row["model"] for row in rows})
    return Peaks(f"![{_PEAK_TEXT}]({link})", shares, models)


def numbers(record: Record, found: Peaks | None) -> str:
    """Return the numbers that matter, as a list."""
    lines = []
    if (base := _over(record, _BASE)) and (ours := _over(record, _OURS)):
        lines.append(
            f"**{base[0]} of {base[1]} \N{RIGHTWARDS ARROW} {ours[0]} of {ours[1]}** "
            "partitions keep more alive than the budget allows: released `dp`, then "
            "`exact` with this series"
        )
    if found and (share := found.shares.get(0.1)):
        lines.append(
            f"**{share:.2f}x** the peak of a step, at no more recomputation than "
            f"released `dp` at 0.1: geometric mean of {found.models} models"
        )
    if ratio := speed.speed(record, ["real-speed"], _BASE, _OURS):
        lines.append(
            f"**{short(ratio.value)}x** as fast as released `dp`: `exact`, at the "
            "median of real models and budgets"
        )
    return "\n".join(f"- {line}" for line in lines)


def sentences(record: Record, found: Peaks | None) -> str:
    """Return what was found of budget, peak, solvers and cost: a sentence each."""
    said = (_budget(record), _peak(found), _solvers(record), _cost(record))
    return "\n\n".join(sentence for sentence in said if sentence)


def _budget(record: Record) -> str:
    base, ours = _over(record, _BASE), _over(record, _OURS)
    if not (base and ours):
        return ""
    text = (
        f"**The budget.** Of {base[1]} partitions by released `dp` {base[0]} keep more "
        f"bytes alive than was asked for, by up to {short(100 * base[2])} %; of "
        f"{ours[1]} by `exact` with this series {ours[0]} do"
    )
    forced = sum(r.allowed > r.budget for _, _, r in delivered.runs(record, _OURS))
    more = f", but for {forced} that keep what must be saved, which is more"
    return f"{text}{more if forced else ''}."


def _peak(found: Peaks | None) -> str:
    if not found or len(found.shares) < len(_BUDGETS):
        return ""
    budgets, shares = (
        _listed(form.format(value) for value in values)
        for form, values in (
            ("{:g}", found.shares.keys()),
            ("{:.2f}", found.shares.values()),
        )
    )
    return (
        "**The peak.** With a budget of the peak, and at no more recomputation than "
        f"released `dp` at {budgets}, the peak of a step is {shares} of its "
        f"(geometric means of {found.models} models, by `./scripts/harness peaks`)."
    )


def _solvers(record: Record) -> str:
    published = "stock.hirschberg"
    ours, theirs = (
        speed.speed(record, ["real-speed"], _BASE, name) for name in (_OURS, published)
    )
    counts = speed.small_counts(record).get(published)
    if not (ours and theirs and counts):
        return ""
    return (
        "**The solvers.** On real models `exact` takes "
        f"{short(100 / ours.value)} % of released `dp`'s time at the median; the "
        "released sliding-window solver, published as exact and 25 to 28 % faster, "
        f"takes {short(1 / theirs.value)} times its time, and is over the budget in "
        f"{counts['over budget']} of {counts.total()} small problems."
    )


def _cost(record: Record) -> str:
    again = delivered.recompute(record, _BASE, _OURS)
    unforced = delivered.recompute(record, _BASE, _OURS, unforced=True)
    time = delivered.extra_time(record, _BASE, _OURS)
    if not (again and unforced and time):
        return ""
    return (
        "**What it costs.** Where released `dp` keeps the budget, `exact` with this "
        f"series recomputes {again.value:.2f} times as much, and {unforced.value:.2f} "
        "times where nothing, such as random numbers, must be saved (geometric means); "
        f"a partition takes {1 + time.value:.2f} times as long."
    )


def _over(record: Record, contender: str) -> tuple[int, int, float] | None:
    """Return how many runs keep too much alive, of how many, and the worst excess."""
    found = [row.excess("live") for _, _, row in delivered.runs(record, contender)]
    return (sum(map(bool, found)), len(found), max(found)) if found else None


def load(record: Record) -> str:
    """Say that the machine was busy with something else, if it was; mostly nothing."""
    cores = record.header["key"]["machine"]["cores"]
    # Points of threads load the machine themselves.
    points = [p for p in record.points.values() if not isinstance(p, Threads)]
    busy = [point.load for point in points if point.load > cores]
    if len(busy) <= _FEW * len(points):
        return ""
    return (
        f"> **The machine was busy**: at {len(busy)} of {len(points)} points its load "
        f"was above its {cores} cores, up to {max(busy):g}. Times are less certain."
    )


def conclusion(verdicts: Sequence[Verdict]) -> str:
    """Count the publication's claims and ours, and name those that do not hold."""
    published, ours = split(verdicts)
    text = (
        f"**Of {len(verdicts)} claims {len(published)} are the publication's: "
        f"{_counted(published)}; {len(ours)} are this project's: {_counted(ours)}.**"
    )
    failed = {"the publication's": published, "ours": ours}
    for whose, some in failed.items():
        names = [v.claim.name for v in some if v.word == "does not hold"]
        if names:
            text += f" Not held of {whose}: {', '.join(names)}."
    return text


def split(verdicts: Iterable[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Return the verdicts on the publication's claims, and on ours."""
    sides: tuple[list[Verdict], list[Verdict]] = ([], [])
    for verdict in verdicts:
        sides[verdict.claim.source != "paper"].append(verdict)
    return sides


def _counted(verdicts: Sequence[Verdict]) -> str:
    counts = {
        word: sum(verdict.word == word for verdict in verdicts) for word in _WORDS
    }
    return _listed(
        f"{count} {_WORDS[word][count != 1]}" for word, count in counts.items() if count
    )


def _listed(words: Iterable[str]) -> str:
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last
