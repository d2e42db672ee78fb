"""The list of undominated changes of the break solution, for the exact knapsack solver.

A *change* removes copies of types before the break type and adds copies of the others,
in *pieces* of 1, 2, 4, ... copies of one type. The list settles many distinct items and
correlated ones, which branching does not.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, chain
from typing import NamedTuple

import torch
from torch._functorch._activation_checkpointing.knapsack_exact_branch import Incumbent
from torch._functorch._activation_checkpointing.knapsack_exact_items import (
    int64,
    Knapsack,
    OVER,
    PIECE,
    piecewise,
    slices,
)


_MAX_TYPES = 2**14  # more are not listed
_MAX_STATES = 2**17
_STEP_CELLS = 1_000  # the fixed cost of a step of the list, in cells
_BATCH = 768  # a step adds runs until the list has so many states,
_MAX_RUN = 2**13  # and one run adds at most so many if it is long
_SEARCHED = 200  # more numbers start threads of searchsorted, as `PIECE` for others


class Piece(NamedTuple):
    """Copies of a type that a change adds (or removes: then all but k is negative)."""

    k: int
    copies: int
    weight: int
    profit: int
    bound: float  # of all sets with this change


class _Run(NamedTuple):
    """Pieces of one size, of which those nearest to the break come first."""

    added: list[Piece]
    removed: list[Piece]

    def changes(self) -> tuple[list[int], list[int]]:
        """Weight and profit of the first 0, 1, 2, ... pieces of each side."""
        weight, profit = [0], [0]
        for side in self:
            weight += (min(x, OVER) for x in accumulate(x.weight for x in side))
            profit += (min(x, OVER) for x in accumulate(x.profit for x in side))
        return weight, profit

    def chosen(self, change: int) -> list[Piece]:
        """The pieces of one of those changes."""
        if change <= len(self.added):
            return self.added[:change]
        return self.removed[: change - len(self.added)]


class _Step(NamedTuple):
    """What one step did to the list, to find the way back."""

    runs: list[tuple[int, _Run]]  # the length of the list before each run
    origin: torch.Tensor  # of each state, in the product of that list and the runs


class _Block(NamedTuple):
    """Some of the states that a step makes."""

    weight: torch.Tensor
    profit: torch.Tensor
    origin: torch.Tensor | None  # if it is not their order


class _States(NamedTuple):
    """States that are kept, by rising weight."""

    weight: torch.Tensor
    profit: torch.Tensor
    origin: torch.Tensor
    bound: torch.Tensor

    def select(self, index: torch.Tensor) -> "_States":
        return _States(*(x.index_select(0, index) for x in self))


class _Relaxation:
    """The best profit for a capacity, if items may be split, as Dantzig's bound.

    Args:
        weight: of one copy of each type, by falling profit / weight.
        profit: of one copy of each type.
        limit: the sums end here, before they overflow; the last slope then continues.
    """

    def __init__(
        self, weight: torch.Tensor, profit: torch.Tensor, limit: float
    ) -> None:
        self.each, self.limit = (weight, profit), limit
        self.slope = torch.zeros(1, dtype=torch.float64, device="cpu")
        if weight.numel():
            slope = piecewise(lambda w, p: p.double() / w, weight, profit)
            self.slope = torch.cat((*slices(slope, PIECE), self.slope))

    def fill(self, count: torch.Tensor) -> None:
        """Takes another number of copies of each type, 0 or more. O(n) time."""
        weight, profit = (piecewise(torch.mul, x, count) for x in self.each)
        total = piecewise(torch.Tensor.double, weight).cumsum(0)
        end = int(torch.searchsorted(total, self.limit))
        self.weight, self.profit = (_sums_from_0(x[:end]) for x in (weight, profit))

    def __call__(self, capacity: torch.Tensor) -> torch.Tensor:
        """The bound for each capacity. O(log n) time for one."""
        return self._bound(capacity, _search(self.weight, capacity, True).sub_(1))

    def of_descending(self, capacity: torch.Tensor) -> torch.Tensor:
        """The same for capacities in falling order: O(1) time for one of many."""
        if capacity.numel() <= _SEARCHED:
            return self(capacity)
        ends = torch.stack((capacity[-1], capacity[0]))
        first, last = torch.searchsorted(self.weight, ends, right=True).tolist()
        steps = self.weight[first:last]
        if len(steps) > len(capacity):
            return self(capacity)
        # Where the steps are among the capacities tells how many are below each.
        ascending = capacity.flip(0)
        where = _search(ascending, steps, False)
        below = where.bincount(minlength=len(capacity)).cumsum(0)
        return self._bound(capacity, below.flip(0).add_(first - 1))

    def _bound(self, capacity: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        rest = (capacity - self.weight.index_select(0, k)).double()
        rest.mul_(self.slope.index_select(0, k))
        return rest.add_(self.profit.index_select(0, k))


class Changes:
    """The pieces that a better set than the incumbent may be made of.

    A piece counts if Dantzig's bound with that change is hopeful.

    Attributes:
        pieces: in the order of the types.
        left_out: the bound of sets with pieces that counted, but were too many.

    Args:
        knapsack: whose break solution is changed.
        incumbent: has the value to beat.

    O(p log n) time for p pieces.
    """

    def __init__(self, knapsack: Knapsack, incumbent: Incumbent) -> None:
        self.knapsack, self.incumbent = knapsack, incumbent
        hopeful = incumbent.hopeful
        changes = [
            (k, copies, copies * knapsack.weight[k], copies * knapsack.profit[k])
            for k in self._types(hopeful)
            for copies in self._split(k)
        ]
        weight, profit = knapsack.columns
        relaxation = _Relaxation(weight, profit, 4.0 * knapsack.capacity)
        relaxation.fill(int64(knapsack.count))
        self.pieces: list[Piece] = []
        for start in range(0, len(changes), PIECE):
            some = changes[start : start + PIECE]
            _, _, more, gain = map(int64, zip(*some))
            bounds = relaxation(knapsack.capacity - more).add_(gain).tolist()
            pieces = (Piece(*x, bound) for x, bound in zip(some, bounds))
            self.pieces += (x for x in pieces if x.bound >= hopeful)

    def offer(self, value: int, pieces: list[Piece]) -> None:
        """Takes the break solution with these changes, worth ``value``, if better."""
        knapsack = self.knapsack
        changed: dict[int, int] = {}
        for x in pieces:
            before = knapsack.count[x.k] if x.k < knapsack.break_type else 0
            changed[x.k] = changed.get(x.k, before) + x.copies
        self.incumbent.offer(value, knapsack.break_type, changed, knapsack.count)

    def _types(self, hopeful: float) -> list[int]:
        """Types that may change by a cheaper bound, those around the break if many.

        What a change loses at the ratio of the break type tells of most that they
        change nothing. O(n) time.
        """
        knapsack = self.knapsack
        b = knapsack.break_type
        price = knapsack.profit[b] / knapsack.weight[b]
        room = knapsack.capacity - knapsack.break_weight
        most = knapsack.break_profit + room * price
        types: list[int] = []
        losses: list[torch.Tensor] = []
        count = int64(knapsack.count)
        for start in range(0, len(knapsack.count), PIECE):
            weight, profit, copies = (
                x[start : start + PIECE] for x in (*knapsack.columns, count)
            )
            lost = weight.clamp(max=knapsack.capacity).double().mul_(-price)
            lost.add_(profit)
            lost[: max(0, b - start)].neg_()
            keep = (lost >= hopeful - most).logical_and_(copies > 0)
            keep = keep.nonzero().view(-1)
            losses.append(lost.index_select(0, keep))
            types += keep.add_(start).tolist()
        first = max(0, bisect_left(types, b) - _MAX_TYPES // 2)
        lost = torch.cat(losses)
        others = chain(
            slices(lost[:first], PIECE), slices(lost[first + _MAX_TYPES :], PIECE)
        )
        least_lost = max((float(x.max()) for x in others if len(x)), default=-math.inf)
        self.left_out = most + least_lost
        return types[first : first + _MAX_TYPES]

    def _split(self, k: int) -> list[int]:
        """The copies of a type in pieces of 1, 2, 4, ... and the rest."""
        sign = -1 if k < self.knapsack.break_type else 1
        left, piece = self.knapsack.count[k], 1
        pieces: list[int] = []
        while left:
            piece = min(piece, left)
            pieces.append(sign * piece)
            left -= piece
            piece *= 2
        return pieces


class StateList:
    """The undominated changes of the break solution.

    A state is the (weight, profit) of a change. It goes if another one weighs no more
    and is worth as much, or if its bound, with the pieces to come, is no better than
    the best set. Too long a list keeps the states of the highest bounds; the highest
    bound dropped then limits the certificate.

    Args:
        changes: the pieces; get the best set and the bound.
        max_cells: the work after which the list is given up.

    O(cells log(cells)) time, 8 bytes per cell and 150 per state.
    """

    def __init__(self, changes: Changes, max_cells: int) -> None:
        knapsack, incumbent = changes.knapsack, changes.incumbent
        self.changes, self.max_cells = changes, max_cells
        # All from here on is told from the break solution.
        self.base = knapsack.break_profit
        self.room = knapsack.capacity - knapsack.break_weight
        self.beat = incumbent.enough - self.base
        self.margin = incumbent.margin
        self.dropped = changes.left_out - self.base
        self.weight = self.profit = int64([0])
        self.steps: list[_Step] = []
        self.cells = 0
        # Profit, step and position there of a state that beats the incumbent.
        self.found: tuple[int, int, int] | None = None

    def run(self) -> None:
        """Adds all pieces, or gives up, and reports to the incumbent."""
        pieces, capacity = self.changes.pieces, self.changes.knapsack.capacity
        unit = 1
        if self.changes.knapsack.types.unit:
            unit = _best_unit(pieces, self.room)
        while pieces and self.weight.numel():
            part = _Part(pieces, unit, 4.0 * capacity)
            while part.runs and self.weight.numel():
                self._step(part)
            pieces, unit = part.later, 1
        if self.found:
            profit, step, position = self.found
            self.changes.offer(self.base + profit, self._way_back(step, position))
        if self.dropped > self.beat:
            self.beat = math.ceil(self.dropped + self.margin)
        self.changes.incumbent.lower(self.base + self.beat)

    def _step(self, part: "_Part") -> None:
        """Adds the next runs, and drops dominated and hopeless states."""
        width = self.weight.numel()
        blocks: Iterator[_Block]
        if width <= PIECE // 3:
            runs = self._add_runs(part)
            part.relax()
            blocks = iter([_Block(self.weight, self.profit, None)])
        else:
            run = self._next_run(part, 1)
            runs = [(width, run)]
            part.relax()
            blocks = self._blocks(run, self.room + part.removable)
        self.cells += _STEP_CELLS + len(part.pieces)
        kept: list[_States] = []
        most = -OVER
        for block in blocks:
            self.cells += len(block.weight)
            states, most = self._prune(part, block, most)
            kept.append(states)
        self.weight, self.profit, origin = self._best(kept)
        self.steps.append(_Step(runs, origin))

    def _next_run(self, part: "_Part", longest: int) -> _Run:
        """The next run, without the pieces that the best set has made hopeless."""
        hopeful = self.base + self.beat + 1 - self.margin
        sides = part.next_run(longest)
        return _Run(*([x for x in side if x.bound >= hopeful] for side in sides))

    def _add_runs(self, part: "_Part") -> list[tuple[int, _Run]]:
        """Combines the states with the first 0, 1, 2, ... pieces of the next runs.

        Other choices of pieces of the same weight are dominated.
        """
        runs: list[tuple[int, _Run]] = []
        while part.runs and (not runs or self.weight.numel() < _BATCH):
            run = self._next_run(part, max(1, _MAX_RUN // self.weight.numel()))
            runs.append((self.weight.numel(), run))
            if run.added or run.removed:
                for_weight, for_profit = run.changes()
                self.weight = _sums(self.weight, for_weight)
                self.profit = _sums(self.profit, for_profit)
        return runs

    def _blocks(self, run: _Run, most: int) -> Iterator[_Block]:
        """The states of up to ``most`` with each change of a run, in sorted blocks.

        No block has more than ``PIECE`` states.
        """
        changes = list(zip(*run.changes()))
        # Of each changed list, itself sorted, every stride-th weight tells where to
        # part them all: between 8 of those weights no list has more than 9 strides.
        stride = PIECE // (8 + len(changes))
        samples = self.weight[stride - 1 :: stride].tolist()
        samples = sorted(x + change for x in samples for change, _ in changes)
        limits = sorted({x for x in samples[7::8] if x < most} | {most})
        ends = [
            torch.searchsorted(
                self.weight, int64([x - change for x in limits]), right=True
            ).tolist()
            for change, _ in changes
        ]
        starts = [0] * len(changes)
        for stops in zip(*ends):
            weight: list[torch.Tensor] = []
            profit: list[torch.Tensor] = []
            origin: list[torch.Tensor] = []
            for k, (i, j) in enumerate(zip(starts, stops)):
                weight.append(self.weight[i:j] + changes[k][0])
                profit.append(self.profit[i:j] + changes[k][1])
                first = k * self.weight.numel()
                origin.append(torch.arange(first + i, first + j, device="cpu"))
            yield _Block(torch.cat(weight), torch.cat(profit), torch.cat(origin))
            starts = stops

    def _prune(self, part: "_Part", block: _Block, before: int) -> tuple[_States, int]:
        """Notes the best set and drops dominated and hopeless states.

        ``before`` is the most profit of all lighter blocks; returned is that with this.
        """
        weight, order = block.weight.sort(stable=True)
        profit = block.profit.index_select(0, order)
        if block.origin is not None:
            order = block.origin.index_select(0, order)
        most, where = profit.cummax(0)
        ends = weight.new_tensor([self.room, self.room + part.removable])
        fit, end = torch.searchsorted(weight, ends, right=True).tolist()
        if fit and int(most[fit - 1]) > self.beat:
            self._note(int(most[fit - 1]), int(order[where[fit - 1]]))
        bound = part.bound(self.room - weight[:end]).add_(profit[:end])
        keep = bound >= self.beat + 1 - self.margin
        most.clamp_(min=before)
        keep[:1].logical_and_(profit[: min(end, 1)] > before)
        keep[1:].logical_and_(profit[1 : max(end, 1)] > most[: max(end - 1, 0)])
        states = _States(weight, profit, order, bound)
        kept = states.select(keep.nonzero().view(-1))
        return kept, int(most[-1]) if len(most) else before

    def _note(self, profit: int, position: int) -> None:
        """Remembers a state that beats all sets so far."""
        self.found = profit, len(self.steps), position
        enough = self.changes.incumbent.enough_for(self.base + profit)
        self.beat = enough - self.base

    def _best(
        self, kept: list[_States]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The states of the highest bounds, as one list. O(states) time."""
        limit = _MAX_STATES if self.cells < self.max_cells else 0
        if sum(len(states.bound) for states in kept) > limit:
            least = _bound_of_rank(kept, limit)
            self.dropped = max(self.dropped, least)
            kept = _best_states(kept, least, limit)
        weight, profit, origin, _ = (torch.cat(x) for x in zip(*kept))
        return weight, profit, origin

    def _way_back(self, step: int, position: int) -> list[Piece]:
        """The pieces of a state: walks back the list."""
        pieces: list[Piece] = []
        for i in range(step, -1, -1):
            for width, run in reversed(self.steps[i].runs):
                change, position = divmod(position, width)
                pieces += run.chosen(change)
            if i:
                position = int(self.steps[i - 1].origin[position])
        return pieces


def _sums(states: torch.Tensor, changes: list[int]) -> torch.Tensor:
    """Each state with each change."""
    sums = int64(changes).unsqueeze(1) + states
    return sums.view(-1).clamp_(max=OVER)


def _bound_of_rank(kept: list[_States], limit: int) -> float:
    """The bound from which on there are about so many states; for 0 the highest."""
    if not limit:
        return max(float(x.bound.max()) for x in kept if len(x.bound))
    total = sum(len(states.bound) for states in kept)
    stride = -(-total // (PIECE // 2))
    sample = torch.cat([states.bound[::stride] for states in kept])
    sample = sample.sort(descending=True).values
    return float(sample[min(limit // stride, len(sample) - 1)])


def _best_states(kept: list[_States], least: float, limit: int) -> list[_States]:
    """The states above a bound, and the first of those that have it."""
    ties = limit - sum(int((states.bound > least).sum()) for states in kept)
    best: list[_States] = []
    for states in kept:
        above = (states.bound > least).nonzero().view(-1)
        tied = (states.bound == least).nonzero().view(-1)[: max(0, ties)]
        ties -= len(tied)
        best.append(states.select(torch.cat((above, tied)).sort().values))
    return best


def _best_unit(pieces: list[Piece], room: int) -> int:
    """The unit of the first part whose relaxation bounds the changes best."""
    units: list[int] = []
    unit = 0
    for size in sorted({abs(x.weight) for x in pieces}, reverse=True):
        unit = math.gcd(unit, size)
        if unit not in units:
            units.append(unit)
    return min(units, key=lambda unit: _gain_in_units(pieces, room, unit), default=1)


def _gain_in_units(pieces: list[Piece], room: int, unit: int) -> float:
    """What changes can gain if the pieces of whole units fill whole units. O(p)."""
    gain = 0.0
    for x in pieces:
        if x.weight % unit:
            gain += max(x.profit, 0)
            room -= min(x.weight, 0)
    room -= room % unit
    for x in pieces:
        if x.weight > 0 and x.weight % unit == 0:
            if x.weight > room:
                return gain + room * x.profit / x.weight
            room -= x.weight
            gain += x.profit
    return gain


class _Part:
    """The pieces to be listed next: those whose weight is a multiple of ``unit``.

    Large sizes are often multiples of a unit that all small ones together hardly fill.
    Then room for half a unit is worth no more than the small ones. Without this bound
    large graphs whose runtimes differ by 0.1 % end unproven.

    Args:
        pieces: in the order of the types.
        unit: of the weights of this part.
        limit: more than any capacity that is asked for.

    O(p log(p)) time for p pieces.
    """

    def __init__(self, pieces: list[Piece], unit: int, limit: float) -> None:
        self.unit = unit
        self.pieces = [x for x in pieces if x.weight % unit == 0]
        self.later = [x for x in pieces if x.weight % unit]
        self.spare_room = -sum(min(x.weight, 0) for x in self.later)
        self.spare_profit = sum(max(x.profit, 0) for x in self.later)
        self.center = sum(x.weight < 0 for x in self.pieces)
        self.left = array("q", [1]) * len(self.pieces)  # 0 once a piece is listed
        size = int64([abs(x.weight) for x in self.pieces])
        value = int64([abs(x.profit) for x in self.pieces])
        self.sums = _Relaxation(size, value, limit)
        runs: dict[int, tuple[list[int], list[int]]] = {}
        nearest = sorted(
            range(len(self.pieces)), key=lambda i: abs(i - self.center + 0.5)
        )
        for i in nearest:
            weight = self.pieces[i].weight
            runs.setdefault(abs(weight), ([], []))[weight < 0].append(i)
        self.runs = list(runs.values())

    def next_run(self, longest: int) -> list[list[Piece]]:
        """Pieces of one weight, the nearest to the break first: added and removed."""
        sides = [side[:longest] for side in self.runs[0]]
        for side in self.runs[0]:
            del side[:longest]
        if not any(self.runs[0]):
            del self.runs[0]
        for i in chain(*sides):
            self.left[i] = 0
        return [[self.pieces[i] for i in side] for side in sides]

    def relax(self) -> None:
        """Takes the listed pieces out of the relaxation. O(p) time."""
        self.sums.fill(torch.frombuffer(self.left, dtype=torch.int64))
        k = min(self.center, len(self.sums.weight) - 1)
        self.removed, self.lost = int(self.sums.weight[k]), int(self.sums.profit[k])
        self.removable = self.removed + self.spare_room

    def bound(self, room: torch.Tensor) -> torch.Tensor:
        """What the pieces to come can add, if they may take ``room``."""
        room = room + self.spare_room
        room -= room % self.unit
        bound = self.sums.of_descending(room.add_(self.removed))
        return bound.add_(self.spare_profit - self.lost)


def _search(ascending: torch.Tensor, values: torch.Tensor, right: bool) -> torch.Tensor:
    some = slices(values, _SEARCHED)
    found = [torch.searchsorted(ascending, part, right=right) for part in some]
    return torch.cat(found) if len(found) > 1 else found[0]


def _sums_from_0(values: torch.Tensor) -> torch.Tensor:
    sums = torch.empty(len(values) + 1, dtype=values.dtype, device="cpu")
    sums[0] = 0
    torch.cumsum(values, 0, out=sums[1:])
    return sums
