"""Compare what blocks keep alive, stock against patched.

A pair of runs is two of the same model, precision, budget and solver, one of each
torch. Exact, which stock does not have, is compared with dp, its default.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from acknap.base.text import of_numbers
from acknap.knapsack.truth import excess

Row = dict[str, Any]

# Relative difference of gradients' norms that is an error: computing the same again
# gives the same bits.
_WRONG = 1e-5


class Pair(NamedTuple):
    """Two runs of the same, and how they compare.

    Attributes:
        allowed: Bytes that the budget allows; what no block keeps comes on top.
        recomputed: The operations that stock and ours compute again.
        stock_over_budget: Whether stock keeps more than our budget allows.
        ours_over_budget: Whether we do.
        is_more: Whether we keep more than stock.
        is_worse: Whether we do and compute no less in the backward.
        blocks_over: How many blocks keep more than in stock and than the budget allows.
        stock_is_wrong: Whether stock's gradients are not those without a budget.
        ours_is_wrong: Whether ours are not.
    """

    stock: Row
    ours: Row
    allowed: float
    recomputed: tuple[float, float]
    stock_over_budget: bool
    ours_over_budget: bool
    is_more: bool
    is_worse: bool
    blocks_over: int
    stock_is_wrong: bool
    ours_is_wrong: bool

    @property
    def is_over(self) -> bool:
        """Whether we keep more than stock and than the budget allows."""
        return self.is_more and self.ours_over_budget


def _pair(stock: Row, ours: Row, base: Row) -> Pair:
    """Compare two runs; a run without a budget has the gradients as they should be."""
    allowed = float(ours["live"] - ours["live_in_blocks"] + ours["allowed_in_blocks"])
    is_more = excess(ours["live"], stock["live"]) > 0
    # Where there are as many operations, nodes of the graph tell.
    again, ours_again = ((row["flops"], row.get("again", 0)) for row in (stock, ours))
    wrong, ours_wrong = (
        abs(row["gradient"] - base["gradient"]) > _WRONG * base["gradient"]
        for row in (stock, ours)
    )
    return Pair(
        stock,
        ours,
        allowed,
        (stock["flops"] - base["flops"], ours["flops"] - base["flops"]),
        excess(stock["live"], allowed) > 0,
        excess(ours["live"], allowed) > 0,
        is_more,
        is_more and ours_again >= again,
        sum(
            excess(block["live"], max(other["live"], block["allowed"])) > 0
            for other, block in zip(stock["graphs"], ours["graphs"], strict=True)
        ),
        wrong,
        ours_wrong,
    )


def pairs(stock: Iterable[Row], ours: Iterable[Row]) -> list[Pair]:
    """Return the runs that both have; the last of two alike counts."""
    theirs, found = (
        {(r["model"], r["dtype"], r["budget"], r["solver"]): r for r in rows}
        for rows in (stock, ours)
    )
    made = []
    for (model, dtype, budget, solver), row in found.items():
        if budget == 1 or "failed" in row:
            continue
        usual = "dp" if solver == "exact" else solver
        other = theirs.get((model, dtype, budget, usual))
        base = found.get((model, dtype, 1.0, "dp"))
        if other and base and "failed" not in other and "failed" not in base:
            made.append(_pair(other, row, base))
    return made


def unseen(rows: Iterable[Row]) -> int:
    """Return the most bytes by which autograd and the allocator disagree."""
    found = (row for row in rows if "allocated" in row)
    return max((abs(row["allocated"] - row["live"]) for row in found), default=0)


def summary(found: Sequence[Pair]) -> Mapping[str, Any]:
    """Return the counts over some pairs; those with stock's wrong gradients apart."""
    right = [pair for pair in found if not pair.stock_is_wrong]
    wrong = [pair for pair in found if pair.stock_is_wrong]
    more = [pair for pair in right if pair.is_more]
    stock_again = sum(pair.recomputed[0] for pair in more)
    ours_again = sum(pair.recomputed[1] for pair in more)
    ratios = [pair.ours["live"] / pair.stock["live"] for pair in right]
    return {
        "pairs": len(found),
        "stock_wrong": len(wrong),
        "ours_wrong": sum(pair.ours_is_wrong for pair in found),
        "over": sum(pair.is_over for pair in right),
        "over_where_stock_is_wrong": sum(pair.is_over for pair in wrong),
        "blocks": sum(len(pair.ours["graphs"]) for pair in right),
        "blocks_over": sum(pair.blocks_over for pair in right),
        "more_within": sum(not pair.is_over for pair in more),
        "more_saves": 1 - ours_again / stock_again if stock_again else 0.0,
        "worse": sum(pair.is_worse for pair in right),
        "less": sum(pair.ours["live"] < pair.stock["live"] for pair in right),
        "live": math.exp(statistics.mean(map(math.log, ratios))) if ratios else 1.0,
        "stock_over_budget": sum(pair.stock_over_budget for pair in right),
        "ours_over_budget": sum(pair.ours_over_budget for pair in right),
    }


_COLUMNS = {
    "pairs": "pairs of runs",
    "stock_wrong": "stock's gradients wrong",
    "ours_wrong": "ours wrong",
    "stock_over_budget": "stock over the budget",
    "ours_over_budget": "ours over the budget",
    "over": "ours above both",
    "blocks_over": "blocks above both",
    "less": "ours below stock",
    "more_within": "above stock, within the budget",
    "more_saves": "these recompute less by",
    "worse": "of those no less",
    "live": "live bytes, ours / stock",
}


def markdown(found: Sequence[Pair]) -> str:
    """Return a table by model and precision, and one by solver."""
    parts = []
    for name in ("model and dtype", "solver"):
        groups: dict[str, list[Pair]] = defaultdict(list)
        for pair in found:
            key = ", ".join(pair.ours[part] for part in name.split(" and "))
            groups[key].append(pair)
        groups["all"] = list(found)
        rows = ({name: key} | _cells(summary(group)) for key, group in groups.items())
        parts.append(of_numbers(rows))
    return "\n\n".join(parts)


def _cells(counts: Mapping[str, Any]) -> dict[str, str]:
    shown = dict(counts) | {"more_saves": f"{100 * counts['more_saves']:.1f} %"}
    shown["live"] = f"{counts['live']:.4f}"
    shown["blocks_over"] = f"{counts['blocks_over']} of {counts['blocks']}"
    return {column: str(shown[key]) for key, column in _COLUMNS.items()}


def exceptions(found: Sequence[Pair]) -> str:
    """Return a line for each pair that breaks the rule, or is worse than stock."""
    rows = []
    for pair in found:
        said = {
            "above both": pair.is_over,
            "no less recomputed": pair.is_worse,
            "a block above both": pair.blocks_over,
            "stock's gradients wrong": pair.stock_is_wrong,
            "our gradients wrong": pair.ours_is_wrong,
        }
        words = [word for word, holds in said.items() if holds]
        if words and (not pair.stock_is_wrong or pair.is_over or pair.ours_is_wrong):
            ours = pair.ours
            stock_again, ours_again = (f"{again:.3g}" for again in pair.recomputed)
            row = {
                "run": f"{ours['model']}, {ours['dtype']}, {ours['solver']}",
                "budget": f"{ours['budget']:g}",
                "stock keeps": f"{pair.stock['live']:,}",
                "ours keeps": f"{ours['live']:,}",
                "allowed": f"{pair.allowed:,.0f}",
                "stock recomputes": stock_again,
                "ours recomputes": ours_again,
                "": ", ".join(words),
            }
            rows.append(row)
    return of_numbers(rows, empty="None.")
