"""A table over the capacity, for the exact knapsack solver (Bellman)."""

import math
from itertools import accumulate
from typing import NamedTuple

import torch
from torch._functorch._activation_checkpointing.knapsack_exact_branch import Incumbent
from torch._functorch._activation_checkpointing.knapsack_exact_items import (
    Knapsack,
    PIECE,
    slices,
)
from torch._functorch._activation_checkpointing.knapsack_exact_states import (
    Changes,
    Piece,
)


_TABLE_CELLS = 300_000_000
_LEAST_STEPS = 64  # few pieces have no longer rows than so many


def tabulate(knapsack: Knapsack, incumbent: Incumbent, larger_units: bool) -> None:
    """Runs the table if it has few enough cells in the units of the sizes.

    Args:
        knapsack: whose break solution is changed.
        incumbent: gets the best set and the bound.
        larger_units: whether to look for a good set, without a proof, where there are
            too many cells.

    O(``_TABLE_CELLS``) time.
    """
    few_units = knapsack.capacity * _LEAST_STEPS <= _TABLE_CELLS
    if larger_units or (knapsack.types.unit and few_units):
        table = _Table(Changes(knapsack, incumbent))
        if larger_units or table.exact:
            table.run()


class _Row(NamedTuple):
    """A piece and the cells from ``low`` to ``high`` that it can change."""

    piece: Piece
    size: int  # in units
    filled: int  # by all pieces up to this one
    low: int
    high: int


class _Table:
    """The pieces by dynamic programming over the capacity, in few enough units.

    A cell of the row holds a profit and, below it, which of the last 8 pieces give it:
    then the larger of two numbers is found in one operation, and one byte for 8 pieces
    is kept for the way back. Where the units of the weights are too many, larger ones
    are taken, changes are rounded so that they fit, and the bound stays as it is.

    Args:
        changes: the pieces; get the best set and the bound.

    O(``_TABLE_CELLS``) time, 1 bit per cell and 8 bytes per unit of capacity.
    """

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        unit = smallest = math.gcd(*(x.weight for x in changes.pieces)) or 1
        while (cells := self._lay_out(unit)) > _TABLE_CELLS:
            unit = max(unit + 1, unit * cells // _TABLE_CELLS)
        self.exact = unit == smallest

    def _lay_out(self, unit: int) -> int:
        """Sorts the pieces by size in units, and counts the cells. O(p log p) time."""
        knapsack = self.changes.knapsack
        sized = [
            (x.weight // -unit if x.weight < 0 else -(-x.weight // unit), x)
            for x in self.changes.pieces
        ]
        sized = [(size, x) for size, x in sized if size]  # without a size it stays
        sized.sort(key=lambda sized: sized[0])
        fills = list(accumulate(size for size, _ in sized))
        total = fills[-1] if fills else 0
        room = (knapsack.capacity - knapsack.break_weight) // unit
        room += sum(size for size, x in sized if x.weight < 0)
        self.capacity = min(room, total)
        # A piece can change only what the smaller ones fill, and of that only what the
        # larger ones can leave.
        self.rows = [
            _Row(
                piece=x,
                size=size,
                filled=filled,
                low=max(0, self.capacity - total + filled),
                high=min(self.capacity, filled),
            )
            for (size, x), filled in zip(sized, fills)
        ]
        cells = sum(max(0, x.high + 1 - max(x.low, x.size)) for x in self.rows)
        return cells + _LEAST_STEPS * self.capacity

    def run(self) -> None:
        """Fills the table and reports to the incumbent."""
        changes, incumbent = self.changes, self.changes.incumbent
        base = changes.knapsack.break_profit
        profits = [abs(x.piece.profit) for x in self.rows]
        shift = max(0, sum(profits).bit_length() - 53)
        best, taken = self._solve([-(-p >> shift) for p in profits])
        pieces = [
            x.piece
            for x, take in zip(self.rows, taken)
            if take != (x.piece.weight < 0)  # a removed piece is taken if it stays
        ]
        changes.offer(base + sum(x.profit for x in pieces), pieces)
        if self.exact and changes.left_out < incumbent.value:
            removed = sum(min(0, x.piece.profit) for x in self.rows)
            incumbent.lower(base + removed + (best << shift))

    def _solve(self, profits: list[int]) -> tuple[int, list[bool]]:
        """The most profit, and which pieces give it."""
        cells = torch.empty(self.capacity + 1, dtype=torch.int64, device="cpu")
        cells[0] = total = filled = 0
        decisions: list[torch.Tensor] = []
        for k, (row, profit) in enumerate(zip(self.rows, profits)):
            bit = k % 8
            # What the smaller pieces do not fill has all of them.
            for part in slices(cells[filled + 1 : row.high + 1], PIECE):
                part.fill_((total << 8) + (1 << bit) - 1)
            filled, total = row.high, total + profit
            _add_piece(cells, row, (profit << 8) + (1 << bit))
            if bit == 7 or k == len(profits) - 1:
                decisions.append(_take_choices(cells[row.low : row.high + 1]))
        return int(cells[filled]) >> 8, self._taken(decisions)

    def _taken(self, decisions: list[torch.Tensor]) -> list[bool]:
        """Walks back the choices, 8 pieces at a time."""
        taken = [False] * len(self.rows)
        room = self.capacity
        for group in range(len(decisions) - 1, -1, -1):
            last = min(8 * group + 8, len(taken)) - 1
            if room >= self.rows[last].filled:
                taken[: last + 1] = [True] * (last + 1)
                break
            byte = int(decisions[group][room - self.rows[last].low])
            for k in range(8 * group, last + 1):
                taken[k] = bool(byte >> (k % 8) & 1)
                room -= taken[k] * self.rows[k].size
        return taken


def _add_piece(cells: torch.Tensor, row: _Row, gain: int) -> None:
    """Takes the piece wherever that is better, the fullest cells first."""
    work = torch.empty(PIECE, dtype=torch.int64, device="cpu")
    first = max(row.low, row.size)
    for end in range(row.high + 1, first, -PIECE):
        start = max(first, end - PIECE)
        here = cells[start:end]
        more = torch.add(
            cells[start - row.size : end - row.size], gain, out=work[: end - start]
        )
        torch.maximum(here, more, out=here)


def _take_choices(cells: torch.Tensor) -> torch.Tensor:
    """The lowest 8 bits of each cell, which are cleared."""
    choices = torch.empty(len(cells), dtype=torch.uint8, device="cpu")
    for bits, part in zip(slices(choices, PIECE), slices(cells, PIECE)):
        bits.copy_(part)
        part.bitwise_and_(-256)
    return choices
