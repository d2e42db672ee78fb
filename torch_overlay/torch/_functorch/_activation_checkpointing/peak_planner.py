"""Plans of a joint graph, from the fastest one to the one with the lowest peak.

Each plan is a set of bases that are saved. The search gives up saved values greedily,
from several starts, and then looks around the best plans found: Pareto local search
(Paquete, Chiarandini and Stuetzle, 2004), iterated (Lourenco, Martin and Stuetzle,
2003). It knows no limit for the peak, so that what is recomputed within a limit never
grows with the limit.
"""

import heapq
import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from torch._functorch._activation_checkpointing.joint_schedule import JointSchedule
from torch._functorch._activation_checkpointing.peak_memory import Change, Timeline


# A value whose price has gone up by less than this is given up all the same.
_SLACK = 1.02

# Work is counted in the steps and storages that a change of a plan looks at. Beyond
# this much the search gives up no more, and looks around no more.
_DESCENT_WORK = 50_000
_EXPLORING_WORK = 40_000
_EXPLORING_WORK_PER_NODE = 40

# How many kinds of values a plan is changed by when its neighbors are looked at.
_KINDS = 16


@dataclass
class PeakPlan:
    """A plan by what it costs.

    Attributes:
        peak: The most bytes that are live at any step of the forward or the backward.
        runtime: What it costs to compute again what the backward does.
    """

    peak: int
    runtime: float
    _start: frozenset[int]
    _toggled: Sequence[int]
    _count: int
    _is_explored: bool = field(default=False, init=False)

    @property
    def saved(self) -> frozenset[int]:
        """The bases that are saved."""
        saved = set(self._start)
        for base in self._toggled[: self._count]:
            saved ^= {base}
        return frozenset(saved)


class Frontier:
    """Plans such that none has both no higher peak and no more runtime than another."""

    def __init__(self) -> None:
        # By their peak, and so the other way round by their runtime.
        self.plans: list[PeakPlan] = []

    def find(self, peak: int) -> PeakPlan | None:
        """The plan with the least runtime whose peak is no higher; None without one.

        Time: log n.
        """
        i = self._count(peak)
        return self.plans[i - 1] if i else None

    def _count(self, peak: int) -> int:
        """How many plans have no higher peak."""
        return bisect_right(self.plans, peak, key=lambda plan: plan.peak)

    def is_better(self, peak: int, runtime: float) -> bool:
        """Whether no plan has both no higher peak and no more runtime. Time: log n."""
        plan = self.find(peak)
        return plan is None or runtime < plan.runtime

    def add(self, plan: PeakPlan) -> None:
        """Adds a plan if it is better, in place of those that it is better than."""
        if not self.is_better(plan.peak, plan.runtime):
            return
        end = self._count(plan.peak)
        start = end - (end > 0 and self.plans[end - 1].peak == plan.peak)
        while end < len(self.plans) and self.plans[end].runtime >= plan.runtime:
            end += 1
        self.plans[start:end] = [plan]

    def get_gap(self, i: int) -> float:
        """How much better than a plan and the next one a plan between them could be."""
        if i + 1 == len(self.plans):
            return 0.0
        plan, faster = self.plans[i : i + 2]
        return (faster.peak - plan.peak) * (plan.runtime - faster.runtime)


class PeakPlanner:
    """Searches plans of a joint graph.

    Args:
        schedule: The joint graph.
        runtime: For each base what it costs to compute it again, in any unit.
        is_bound: For each base whether the backward runs it in every plan, or in none.
        can_save: For each base whether plans may save it that no start saves.

    Attributes:
        frontier: The best plans found so far.
        evaluations: How many changes of plans were priced.
        work: How many steps and storages were looked at for that.
    """

    def __init__(
        self,
        schedule: JointSchedule,
        runtime: Sequence[float],
        is_bound: Sequence[bool],
        can_save: Sequence[bool],
    ) -> None:
        self._schedule = schedule
        self._runtime = runtime
        self._is_bound = is_bound
        self._savable = [i for i, is_savable in enumerate(can_save) if is_savable]
        self.frontier = Frontier()
        self.evaluations = 0
        self.work = 0

    def descend(self, start: Iterable[int]) -> PeakPlan:
        """Gives up saved values, each time the one that costs least per byte of peak.

        Where that leads no further, it saves one of the values whose recomputation is
        the peak.

        Args:
            start: The bases that the first plan saves.

        Returns:
            The first plan.

        Time: a price or two for each of them.
        """
        timeline = Timeline(self._schedule, self._runtime, start)
        return self._descend(timeline, self.work + _DESCENT_WORK)

    def _descend(self, timeline: Timeline, end: int) -> PeakPlan:
        """Changes a timeline until nothing lowers its peak, or so much work is done."""
        first = frozenset(timeline.saved)
        toggled: list[int] = []

        def apply(change: Change | None) -> PeakPlan:
            if change is not None:
                timeline.apply(change)
                toggled.extend(change.toggled)
            peak, runtime = timeline.peak, timeline.runtime
            plan = PeakPlan(peak, runtime, first, toggled, len(toggled))
            self.frontier.add(plan)
            return plan

        start_plan = apply(None)
        while self.work < end:
            self._drop(timeline, apply, end)
            # Where recomputed values are the peak, saving one lowers it.
            change = self._find_save(timeline)
            if change is None:
                break
            apply(change)
        return start_plan

    def _drop(
        self, timeline: Timeline, apply: Callable[[Change], object], end: int
    ) -> None:
        """Gives up values of a timeline until none lowers its peak."""
        useless = sorted(timeline.saved)
        count, progress = 0, -1
        while progress < count and self.work < end:
            progress = count
            # At first as if nothing else had to be computed again for a value.
            queue = [(self._runtime[b] / max(self._get_size(b), 1), b) for b in useless]
            heapq.heapify(queue)
            useless = []
            priced: dict[int, tuple[int, Change]] = {}
            while queue and self.work < end:
                _, base = heapq.heappop(queue)
                at, change = priced.get(base, (-1, None))
                if at != count:
                    if not timeline.may_lower_peak(base):
                        useless.append(base)
                        continue
                    change = self._price(timeline, [base])
                if change is None:
                    continue
                gain = timeline.peak - change.peak
                if gain <= 0:
                    useless.append(base)
                    continue
                score = max(change.runtime, 0.0) / gain
                if queue and score > queue[0][0] * _SLACK:
                    priced[base] = count, change
                    heapq.heappush(queue, (score, base))
                else:
                    apply(change)
                    count += 1

    def _find_save(self, timeline: Timeline) -> Change | None:
        """The saving of a value that lowers the peak the most, or None."""
        recomputed = timeline.get_recomputed_at_peak().intersection(self._savable)
        changes = [
            self._price(timeline, kind)
            for kind in self._get_kinds(recomputed, self._get_size)
        ]
        return min(
            (c for c in changes if c is not None and c.peak < timeline.peak),
            key=lambda c: (c.peak, c.runtime),
            default=None,
        )

    def _price(self, timeline: Timeline, bases: Sequence[int]) -> Change | None:
        """A change of a plan, or None if it is not allowed."""
        change = timeline.price(bases)
        self.evaluations += 1
        self.work += change.work
        if any(self._is_bound[i] for i in (*change.added, *change.removed)):
            return None
        return change

    def explore(self) -> None:
        """Looks for better plans around the best ones, where the gaps are largest.

        If there are none, it goes on from random ones, with a fixed seed.
        """
        rng = random.Random(0)
        size = len(self._schedule.nodes)
        end = self.work + min(_EXPLORING_WORK, _EXPLORING_WORK_PER_NODE * size)
        timeline = Timeline(self._schedule, self._runtime, self.frontier.plans[0].saved)
        while self.work < end:
            plans = self.frontier.plans
            unexplored = [i for i, plan in enumerate(plans) if not plan._is_explored]
            if unexplored:
                plan = plans[max(unexplored, key=self.frontier.get_gap)]
                plan._is_explored = True
                saved = plan.saved
                self._move(timeline, saved)
                self._explore(timeline, saved)
            elif self._savable:
                self._move(timeline, rng.choice(plans).saved)
                self._kick(timeline, rng, end)
            else:
                return

    def _move(self, timeline: Timeline, saved: frozenset[int]) -> None:
        change = timeline.price(saved ^ timeline.saved)
        self.work += change.work
        timeline.apply(change)

    def _kick(self, timeline: Timeline, rng: random.Random, end: int) -> None:
        """Goes down from a plan that differs from a good one in a few values."""
        count = min(rng.randint(2, 4), len(self._savable))
        change = self._price(timeline, rng.sample(self._savable, count))
        if change is not None:
            timeline.apply(change)
            self._descend(timeline, end)

    def _explore(self, timeline: Timeline, saved: frozenset[int]) -> None:
        """Prices the plans that save a value more, one less, or one for another."""
        drops = self._try(timeline, saved, self._get_kinds(saved, self._get_size))
        unsaved = [i for i in self._savable if i not in saved and timeline.runs(i)]
        kinds = self._get_kinds(unsaved, self._runtime.__getitem__)
        for more in self._try(timeline, saved, kinds):
            if more.runtime >= 0:
                continue
            for less in drops:
                # As if they had nothing to do with each other.
                peak = more.peak + less.peak - timeline.peak
                runtime = timeline.runtime + more.runtime + less.runtime
                if self.frontier.is_better(peak, runtime):
                    self._try(timeline, saved, [more.toggled | less.toggled])

    def _try(
        self,
        timeline: Timeline,
        saved: frozenset[int],
        neighbors: Iterable[Iterable[int]],
    ) -> list[Change]:
        changes = []
        for toggled in neighbors:
            change = self._price(timeline, [*toggled])
            if change is not None and timeline.is_exact(change):
                changes.append(change)
                runtime = timeline.runtime + change.runtime
                bases = sorted(change.toggled)
                self.frontier.add(
                    PeakPlan(change.peak, runtime, saved, bases, len(bases))
                )
        return changes

    def _get_size(self, base: int) -> int:
        return sum(self._schedule.sizes[s] for s in self._schedule.makes[base])

    def _get_kinds(
        self, bases: Iterable[int], weight: Callable[[int], float]
    ) -> list[list[int]]:
        """The first and the last base of each kind, of the kinds that weigh most.

        In a model of equal layers there are few kinds.
        """
        kinds: dict[object, list[int]] = {}
        for base in sorted(bases):
            target = self._schedule.nodes[base].target
            kind = target, self._get_size(base), self._runtime[base]
            kinds.setdefault(kind, []).append(base)
        found = sorted(kinds.values(), key=lambda kind: -weight(kind[0]))[:_KINDS]
        return [[base] for kind in found for base in sorted({kind[0], kind[-1]})]


def get_waists(schedule: JointSchedule) -> tuple[list[int], set[int]]:
    """The bases through which everything in the forward passes, or that go past these.

    In a model of layers the waists are what is between two layers, and what is narrow
    within one. What is read through more than a quarter of the forward, such as a mask
    or the output of an encoder, goes past them.

    Returns:
        The waists in the order of the forward, and what goes past them.

    Time and memory: linear in the size of the graph.
    """
    order = schedule.forward
    last: dict[int, int] = {}
    for step, base in enumerate(order):
        last.update(dict.fromkeys(schedule.uses[base], step))
    waists: dict[int, None] = {}
    lasting: set[int] = set()
    count = [0] * (len(order) + 1)
    names = [0] * (len(order) + 1)
    for step, base in enumerate(order):
        for storage in schedule.makes[base]:
            end = last.get(storage, step)
            if 4 * (end - step) > len(order):
                lasting.add(base)
            elif end > step:
                for at, sign in ((step, 1), (end, -1)):
                    count[at] += sign
                    names[at] += sign * base
    alive = name = 0
    for step in range(len(order)):
        alive += count[step]
        name += names[step]
        if alive == 1:
            waists[name] = None
    return list(waists), lasting
