"""`limits`: steps of training within a limit in bytes, and what they allocate."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from acknap.base.layout import INSIDE
from acknap.base.text import of_numbers
from acknap.inside.known import LIMITS
from acknap.models.study import Row, Study, read, versions, write_page
from acknap.peaks.numbers import megabytes, percent

WORKER = INSIDE / "limits" / "limits.py"
_PAGE = Path(__file__).with_name("limits.md").read_text(encoding="utf-8")

# The caller holds the loss and its gradient; some kernels take a few bytes.
_SLACK = 64
# How far gradients may be from eager's, or from those without a limit.
_ERROR = 1e-5
_SHOWN = "llama"  # in the short table


def write_report(folder: Path, command: str) -> int:
    """Write the report of the record in a folder.

    Returns:
        1 if a step holds more than its limit, or has wrong gradients, else 0.
    """
    found = read(folder, "patched")
    limited = [row for row in found if row["limit"] is not None]
    compiled = [row for row in limited if row["backend"] == "inductor"]
    eager = [row for row in limited if row["backend"] != "inductor"]
    over = [row for row in eager if row["held"] > row["limit"] + _SLACK]
    wrong = [row for row in limited if min(row["error"], row["change"]) > _ERROR]
    text = _PAGE.format(
        command=command,
        versions=versions(found),
        short=of_numbers(_short(eager, compiled)),
        eager=of_numbers(map(_eager, eager)),
        compiled=of_numbers(map(_compiled, compiled)),
        over=len(over),
        wrong=len(wrong),
        **_counts(eager),
        **_ratios(compiled),
    )
    write_page(folder, text)
    return 1 if over or wrong else 0


def _counts(rows: Sequence[Row]) -> dict[str, str]:
    """Return how near eager steps come to their limits."""
    far = [row for row in rows if row["held"] < 0.99 * row["limit"]]
    slow = [row for row in far if row["again"] > 0.001 * row["total"]]
    exceeding = [row for row in rows if row["measured"] > row["limit"] + _SLACK]
    names = sorted({row["model"] for row in exceeding})
    return {
        "steps": str(len(rows)),
        "models": str(len({row["model"] for row in rows})),
        "near": str(len(rows) - len(far)),
        "free": str(len(far) - len(slow)),
        "slow": str(len(slow)),
        "farthest": _largest([1 - row["held"] / row["limit"] for row in slow]),
        "unlike": str(sum(row["planned"] != row["peak"] for row in rows)),
        "apart": str(max((row["held"] - row["peak"] for row in rows), default=0)),
        "exceeding": f"{len(exceeding)} ({', '.join(names) or 'none'})",
        "excess": _largest([row["measured"] / row["limit"] - 1 for row in exceeding]),
    }


def _ratios(rows: Sequence[Row]) -> dict[str, str]:
    """Return how far Inductor's steps are from what was promised."""
    ratios = [row["measured"] / row["planned"] for row in rows] or [1.0]
    times = [row["time"] for row in rows] or [1.0]
    estimates = [row["estimate"] / row["measured"] for row in rows] or [1.0]
    return {
        "compiled_steps": str(len(rows)),
        "compiled_median": f"{statistics.median(abs(r - 1) for r in ratios):.1%}",
        "compiled_range": f"{min(ratios) - 1:+.1%} to {max(ratios) - 1:+.1%}",
        "compiled_over": str(sum(r["measured"] > r["limit"] for r in rows)),
        "estimate": f"{statistics.median(estimates):.2f}",
        "time": f"{statistics.median(times):.3f}",
        "times": f"{min(times):.2f} to {max(times):.2f}",
    }


def _largest(shares: Sequence[float]) -> str:
    return f"{max(shares, default=0):.1%}"


def _short(eager: Sequence[Row], compiled: Sequence[Row]) -> list[dict[str, str]]:
    by_share = {row["share"]: row for row in compiled if row["model"] == _SHOWN}
    return [
        {
            "limit MB": _mb(row["limit"]),
            "promised": _mb(row["planned"]),
            "simulated": _mb(row["peak"]),
            "measured, eager": _mb(row["held"]),
            "measured, inductor": _mb(by_share[row["share"]]["measured"]),
            "recomputed": _percent(row),
        }
        for row in eager
        if row["model"] == _SHOWN and row["share"] in by_share
    ]


def _eager(row: Row) -> dict[str, str]:
    return {
        **_promise(row),
        "simulated": _mb(row["peak"]),
        "held": _mb(row["held"]),
        "held of the limit": f"{row['held'] / row['limit'] - 1:+.2%}",
        "with kernels' own": _mb(row["measured"]),
        "recomputed": _percent(row),
        **_errors(row),
    }


def _compiled(row: Row) -> dict[str, str]:
    return {
        **_promise(row),
        "measured": _mb(row["measured"]),
        "of the promise": f"{row['measured'] / row['planned'] - 1:+.1%}",
        "Inductor's estimate": _mb(row["estimate"]),
        "recomputed": _percent(row),
        "time": f"{row['time']:.2f}",
        **_errors(row),
    }


def _promise(row: Row) -> dict[str, str]:
    return {
        "model": row["model"],
        "limit MB": _mb(row["limit"]),
        "promised": _mb(row["planned"]),
    }


def _errors(row: Row) -> dict[str, str]:
    return {
        "from eager": f"{row['error']:.0e}",
        "from no limit": f"{row['change']:.0e}",
    }


def _mb(size: int) -> str:
    return megabytes(size, 2)


def _percent(row: Row) -> str:
    return f"{percent(row):.1f} %"


STUDY = Study(
    "limits", WORKER, "about half an hour", write_report, LIMITS, ("patched",)
)
