"""The plans of a joint graph whose peak is low enough, as an integer program.

Runs inside an environment with patched torch. The program is that of Checkmate (Jain
et al., MLSys 2020) for plans as the partitioner makes them: the order of the backward
is given, a value is saved, or computed again at most once, on demand. What it leaves
out of account only makes more plans solutions than there are.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from acknap.inside.optimum.groups import Grouped

_MB = 1e6
# Of a row: how far off a solution may be.
_CLOSE = 1e-6

# A sum of variables with their factors, and its lower and upper limit.
Row = tuple[list[tuple[int, float]], float, float]


class Program:
    """The program of a joint graph; the target is given when its rows are asked for.

    Args:
        schedule: The series' `JointSchedule` of it.
        fixed: For each base whether no plan may compute it again.

    Attributes:
        count: The number of variables, all from 0 to 1.
    """

    def __init__(self, schedule: Any, fixed: list[bool]) -> None:
        self._schedule = schedule
        grouped = Grouped(schedule)
        self._late, self._group_of = grouped.late, grouped.group_of
        self._bases, self._maker = grouped.bases, grouped.maker
        self._groups = grouped.groups
        self._demand(fixed)
        self._number()
        self._rows: list[Row] = []
        # Those whose upper limit is the target less some bytes.
        self._limits: list[tuple[list[tuple[int, float]], float]] = []
        # Of the variables beside these: group, base, storage, and who reads it later.
        self._waiting: dict[int, tuple[int, int, int, list[int]]] = {}
        self._connect()
        self._limit_backward()
        self._limit_again()
        self._limit_forward()

    def _demand(self, fixed: list[bool]) -> None:
        """Find in which groups bases may be computed, and until when storages count."""
        schedule = self._schedule
        self._when: dict[int, set[int]] = defaultdict(set)
        self._last: dict[int, int] = {}
        for number, group in enumerate(self._groups):
            for storage in group.reads:
                self._when[self._maker[storage]].add(number)
                self._last[storage] = number
        for base in reversed(self._bases):
            if base in self._late:
                self._when[base] = {self._group_of[base]}
            if fixed[base]:
                self._when[base] = set()
            if base in schedule.roots:
                self._when[base].add(len(self._groups) - 1)
            if not self._when[base]:
                continue
            last = max(self._when[base])
            for storage in schedule.uses[base]:
                if storage in self._maker:
                    self._when[self._maker[storage]] |= self._when[base]
                    self._last[storage] = max(self._last.get(storage, 0), last)

    def _number(self) -> None:
        self._kept: dict[tuple[int, int], int] = {}
        self._computed: dict[tuple[int, int], int] = {}
        for storage, last in self._last.items():
            for group in range(last + 1):
                self._kept[group, storage] = len(self._kept)
        for base in self._bases:
            for group in sorted(self._when[base]):
                at = len(self._kept) + len(self._computed)
                self._computed[group, base] = at

    def _there(self, group: int, storage: int) -> Iterator[tuple[int, float]]:
        """Return the variables of which one is 1 if a storage is there in a group."""
        for table, key in (
            (self._kept, (group, storage)),
            (self._computed, (group, self._maker[storage])),
        ):
            if key in table:
                yield table[key], 1.0

    def _connect(self) -> None:
        schedule = self._schedule
        for number, group in enumerate(self._groups):
            for storage in group.reads:
                self._rows.append(([*self._there(number, storage)], 1, math.inf))
        end = len(self._groups) - 1
        for (number, base), at in self._computed.items():
            # On demand: of the group's step, or of another base that runs in it.
            reads = self._groups[number].reads
            is_root = base in schedule.roots and number == end
            is_read = not reads.isdisjoint(schedule.makes[base])
            if not (base in self._late or is_root or is_read):
                users = ((number, user) for user in schedule.users[base])
                calls = [self._computed[key] for key in users if key in self._computed]
                row = [(at, -1.0), *((call, 1.0) for call in calls)]
                self._rows.append((row, 0, math.inf))
            for storage in schedule.uses[base]:
                if storage in self._maker:
                    row = [*self._there(number, storage), (at, -1.0)]
                    self._rows.append((row, 0, math.inf))
        for (number, storage), at in self._kept.items():
            if number:
                row = [(v, -x) for v, x in self._there(number - 1, storage)]
                self._rows.append(([(at, 1.0), *row], -math.inf, 0))
        for base in self._bases:
            times = [(self._computed[g, base], 1.0) for g in sorted(self._when[base])]
            for storage in schedule.makes[base]:
                if (0, storage) in self._kept and times:
                    row = [(self._kept[0, storage], 1.0), *times]
                    self._rows.append((row, -math.inf, 1))

    def _weigh(self, group: int, without: Iterable[int]) -> list[tuple[int, float]]:
        sizes, apart = self._schedule.sizes, set(without)
        return [
            (at, sizes[storage] / _MB)
            for (number, storage), at in self._kept.items()
            if number == group and storage not in apart and sizes[storage]
        ]

    def _limit_backward(self) -> None:
        sizes = self._schedule.sizes
        for number, group in enumerate(self._groups):
            own = group.alive + sum(sizes[storage] for storage in group.reads)
            self._limits.append((self._weigh(number + 1, group.reads), own))
            if group.behind:
                self._limits.append((self._weigh(number + 1, ()), group.behind))

    def _limit_again(self) -> None:
        """What a base reads and makes lives beside what is used later."""
        self.count = len(self._kept) + len(self._computed)
        kept: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for (number, storage), at in self._kept.items():
            if number:
                kept[number - 1].append((storage, at))
        for number, base in [*self._computed]:
            row, own = self._own(number, base)
            waits = self._find_waiting(number, base, own)
            row += [
                (at, self._schedule.sizes[storage] / _MB)
                for storage, at in kept[number]
                if self._is_there(number, storage, base)
                and storage not in own
                and storage not in waits
            ]
            for storage, users in waits.items():
                at = self._wait(number, base, storage, users)
                row.append((at, self._schedule.sizes[storage] / _MB))
            self._limits.append((row, self._groups[number].before))

    def _is_there(self, number: int, storage: int, base: int) -> bool:
        """Return whether a storage that is used later is there when a base runs.

        In a group the bases run in the order of the graph, so that what an earlier one
        makes is there, whether it was kept or was just made.
        """
        maker = self._maker[storage]
        return maker < base or number not in self._when[maker]

    def _own(self, number: int, base: int) -> tuple[list[tuple[int, float]], set[int]]:
        """Return what certainly lives when a base runs in a group, as a row."""
        uses, makes = self._schedule.uses[base], self._schedule.makes[base]
        own = {s for s in uses if s in self._maker} | {*makes}
        reads = self._groups[number].reads
        own.update(s for s in reads if self._is_there(number, s, base))
        size = sum(self._schedule.sizes[s] for s in own)
        return [(self._computed[number, base], size / _MB)], own

    def _find_waiting(
        self, number: int, base: int, own: set[int]
    ) -> dict[int, list[int]]:
        """Return the storages that others of a group may read later, with these."""
        found: dict[int, list[int]] = defaultdict(list)
        for user in self._bases[bisect_right(self._bases, base) :]:
            if (number, user) in self._computed:
                for storage in self._schedule.uses[user]:
                    maker = self._maker.get(storage, base)
                    if maker < base and storage not in own:
                        found[storage].append(user)
        return found

    def _wait(self, number: int, base: int, storage: int, users: list[int]) -> int:
        """Return a variable that is 1 if a storage has to be there when a base runs."""
        at = self.count
        self.count += 1
        if (number + 1, storage) in self._kept:
            row = [(at, 1.0), (self._kept[number + 1, storage], -1.0)]
            self._rows.append((row, 0, math.inf))
        for user in users:
            both = [(self._computed[number, one], -1.0) for one in (base, user)]
            self._rows.append(([(at, 1.0), *both], -1, math.inf))
        self._waiting[at] = (number, base, storage, users)
        return at

    def _limit_forward(self) -> None:
        """What is saved lives on from the last step of the forward that reads it.

        What only the backward needs is made at the end, of what is kept until then.
        """
        schedule = self._schedule
        self._find_held()
        order = [*sorted(schedule.forward), *sorted(self._late)]
        place = {base: number for number, base in enumerate(order)}
        end: dict[int, int] = {}
        for base in schedule.forward:
            for storage in (*schedule.makes[base], *schedule.uses[base]):
                end[storage] = max(end.get(storage, 0), place[base])
        makers = [
            (s, place.get(schedule.maker[s], -1)) for s in self._held | end.keys()
        ]
        inputs = sum(schedule.sizes[s] for s in schedule.inputs)
        for number, base in enumerate(order):
            made = {*schedule.makes[base], *schedule.uses[base]}
            own, row = inputs, []
            if base in self._late:
                size = sum(schedule.sizes[s] for s in made if s in self._maker)
                row.append((self._early[base], size / _MB))
            for storage, start in makers:
                size = schedule.sizes[storage]
                if start < 0 or start > number or not size:
                    continue
                if end.get(storage, -1) >= number or storage in schedule.results:
                    own += size
                elif storage in self._held and not (
                    base in self._late and storage in made
                ):
                    row.append((self._held[storage], size / _MB))
            self._limits.append((row, own))

    def _find_held(self) -> None:
        """Number what the forward makes of late bases, and what it holds to its end."""
        schedule = self._schedule
        self._early: dict[int, int] = {}
        self._held: dict[int, int] = {}
        made = [s for s, maker in self._maker.items() if maker >= 0]
        for table, keys in ((self._early, self._late), (self._held, made)):
            for key in sorted(keys):
                table[key] = self.count
                self.count += 1
        saved = {s: at for (number, s), at in self._kept.items() if not number}
        causes = [(saved[s], at) for s, at in self._held.items() if s in saved]
        for base, at in self._early.items():
            causes += [(saved[s], at) for s in schedule.makes[base] if s in saved]
            causes += [
                (at, self._early[b]) for b in schedule.reads[base] if b in self._early
            ]
            causes += [
                (at, self._held[s]) for s in schedule.uses[base] if s in self._held
            ]
        for cause, effect in causes:
            self._rows.append(([(effect, 1.0), (cause, -1.0)], 0, math.inf))

    def get_rows(self, target: int) -> list[Row]:
        """Return the rows for a target in bytes."""
        limits = ((r, -math.inf, (target - o) / _MB) for r, o in self._limits)
        return [*self._rows, *limits]

    def get_computed(self) -> list[tuple[int, int]]:
        """Return the variables of what is computed again, each with its base."""
        return [(at, base) for (_, base), at in self._computed.items()]

    def get_saved(self) -> list[tuple[int, int]]:
        """Return the variables of what is saved, each with its base."""
        made = self._maker
        found = ((at, made[s]) for (group, s), at in self._kept.items() if not group)
        return [(at, base) for at, base in found if base >= 0]

    def count_broken(self, timeline: Any, target: int) -> int:
        """Return how many rows a plan breaks: 0 if the program has it as a solution.

        Args:
            timeline: The series' `Timeline` of the plan.
            target: In bytes, no less than its peak.
        """
        chosen, broken = self._encode(timeline), 0
        for row, low, high in self.get_rows(target):
            found = sum(x for at, x in row if at in chosen)
            broken += not low - _CLOSE <= found <= high + _CLOSE
        return broken

    def _encode(self, timeline: Any) -> set[int]:
        """Return the variables that are 1 in a plan."""
        schedule = self._schedule
        end = len(self._groups) - 1
        computed = {
            base: self._group_of.get(timeline._anchor[base], end)
            for base in self._bases
            if timeline.runs(base)
        }
        last: dict[int, int] = {}
        for number, group in enumerate(self._groups):
            last.update(dict.fromkeys(group.reads, number))
        for base, number in computed.items():
            for storage in schedule.uses[base]:
                last[storage] = max(last.get(storage, 0), number)
        chosen = {self._computed[number, base] for base, number in computed.items()}
        for storage, end in last.items():
            maker = self._maker.get(storage)
            if maker is not None:
                # What is saved is there, else from the group on behind its own.
                is_there = maker < 0 or maker in timeline.saved
                start = 0 if is_there else computed[maker] + 1
                chosen |= {self._kept[k, storage] for k in range(start, end + 1)}
        for at, (number, base, storage, users) in self._waiting.items():
            runs = (self._computed[number, one] in chosen for one in users)
            is_read = self._computed[number, base] in chosen and any(runs)
            if is_read or self._kept.get((number + 1, storage)) in chosen:
                chosen.add(at)
        # What is saved and not read does not live on.
        held = {s for (n, s), at in self._kept.items() if not n and at in chosen}
        saved = {self._maker[storage] for storage in held}
        early = schedule.reach(saved & self._late, set(schedule.forward)) & self._late
        held.update(s for i in early for s in schedule.uses[i])
        chosen |= {self._early[i] for i in early}
        return chosen | {self._held[s] for s in held if s in self._held}
