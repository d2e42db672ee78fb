"""The steps of a backward in groups, by where values of the forward are wanted.

Runs inside an environment with patched torch.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple


class Group(NamedTuple):
    """A step of the backward that reads values of the forward, and those behind it.

    Attributes:
        reads: The forward's storages that the step reads.
        alive: Other bytes that live at the step.
        before: Those of them that live before it, too.
        behind: The most that live at the steps behind it, which read none.
    """

    reads: frozenset[int]
    alive: int
    before: int
    behind: int


class Grouped:
    """The backward of a joint graph.

    Args:
        schedule: The series' `JointSchedule` of it.

    Attributes:
        late: The backward's bases that can be saved: they read no tangent.
        bases: Those that can be saved or computed again, these and the forward's.
        maker: Of the storages that these make, which one does; -1 for inputs that only
            these read: they are there from the start.
        groups: What runs in every plan, and the late bases, in order. The last one
            stands for the end, where gradients that are values of the forward are made.
        group_of: For each step of the backward the number of its group.
    """

    def __init__(self, schedule: Any) -> None:
        self._schedule = schedule
        first = schedule.steps[0]
        self.late = self._find_late()
        self.bases = [i for i in sorted(schedule.needed) if i < first]
        self.bases += sorted(self.late)
        self.maker = {s: i for i in self.bases for s in schedule.makes[i]}
        for storage in schedule.inputs:
            if {*schedule.readers[storage]} <= {*self.bases}:
                self.maker[storage] = -1
        self.groups = list(self._find_groups())

    def _find_late(self) -> set[int]:
        """Return the backward's bases that read no tangent: they can be saved, too.

        Views that are read by what reads a tangent run in every plan.
        """
        schedule = self._schedule
        steps = {*schedule.steps}
        after: set[int] = set()
        for step in schedule.steps:
            if not (
                after.isdisjoint(schedule.reads[step])
                and schedule.tangents.isdisjoint(schedule.uses[step])
            ):
                after.add(step)
        steps -= after
        return {
            step
            for step in steps
            if schedule.makes[step] or steps.issuperset(schedule.users[step])
        }

    def _find_groups(self) -> Iterator[Group]:
        schedule = self._schedule
        alive, before = self._backward_bytes()
        self.group_of: dict[int, int] = {}
        heads: list[int] = []
        for number, step in enumerate(schedule.steps):
            if self._find_reads(step) or step in self.late or not number:
                heads.append(number)
            self.group_of[step] = len(heads) - 1
        for head, end in pairwise((*heads, len(alive))):
            step = schedule.steps[head]
            # A late base has rows of its own.
            now = (before if step in self.late else alive)[head]
            behind = max(alive[head + 1 : end], default=0)
            yield Group(self._find_reads(step), now, before[head], behind)
        # Gradients that are values of the forward come last.
        rest = sum(
            schedule.sizes[s]
            for s in schedule.gradients
            if s not in self.maker and schedule.maker[s] >= 0
        )
        yield Group(frozenset(), rest, rest, 0)

    def _find_reads(self, step: int) -> frozenset[int]:
        """Return what a step reads of the forward, if it runs in every plan."""
        uses = () if step in self.late else self._schedule.uses[step]
        return frozenset(s for s in uses if s in self.maker)

    def _backward_bytes(self) -> tuple[list[int], list[int]]:
        """Return the bytes not of the forward that live at each step, and before it."""
        schedule = self._schedule
        places = enumerate(schedule.steps)
        place = {step: number for number, step in places if step not in self.late}
        last = len(schedule.steps) - 1
        alive, before = [0] * (last + 1), [0] * (last + 1)
        for storage, size in enumerate(schedule.sizes):
            start = place.get(schedule.maker[storage])
            if storage in schedule.tangents or (
                storage in schedule.inputs
                and not place.keys().isdisjoint(schedule.readers[storage])
            ):
                start = -1
            if start is None:
                continue
            readers = (place.get(r, start) for r in schedule.readers[storage])
            end = max(readers, default=start)
            if storage in schedule.gradients:
                end = last
            for number in range(max(start, 0), max(end, start, 0) + 1):
                alive[number] += size
                before[number] += size * (number > start)
        return alive, before
