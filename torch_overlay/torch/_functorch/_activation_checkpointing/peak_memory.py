"""The bytes that are live at each step of a plan's forward and backward.

The backward that the partitioner emits runs on demand: a value of the forward that was
not saved is computed again once, right before its first use, and lives until its last
one. So what is saved decides on the order, and with it on the bytes that are live at
every step. A :class:`Timeline` holds both for one plan, and tells what becomes of them
if other values are saved, in about the time that the part that moves needs.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch._functorch._activation_checkpointing.joint_schedule import JointSchedule
from torch._functorch._activation_checkpointing.live_bytes import (
    accumulate_spans,
    LiveBytes,
)


# Before the first step, where all that is saved lives, and after the last one.
_BEGIN = -1
_END = 1 << 62

# From a step up to before another one, by their keys.
_Span = tuple[int, int]


@dataclass
class Change:
    """What becomes of a timeline if some bases are saved, and others no more.

    Attributes:
        toggled: The bases.
        peak: The most bytes that are live at any step afterwards.
        runtime: The runtime that the backward gains.
        added: The bases that it runs and did not before.
        removed: The bases that it ran and does no more.
        work: The number of steps and storages that were looked at.
    """

    toggled: set[int]
    peak: int
    runtime: float
    added: list[int]
    removed: list[int]
    moves: dict[int, int]
    spans: list[tuple[int, _Span | None, _Span | None]]
    backward: dict[int, int]
    forward: dict[int, int]
    new_steps: list[tuple[int, int]]

    @property
    def work(self) -> int:
        return 1 + len(self.moves) + len(self.spans)


class Timeline:
    """The live bytes of the forward and the backward if some bases are saved.

    What runs because of a step of the backward has that step as its *anchor*. The key
    of what runs is (anchor, number), as one integer.

    Args:
        schedule: The joint graph.
        runtime: For each base what it costs to compute it again, in any unit.
        saved: The bases that are saved.

    Attributes:
        saved: The bases that are saved.
        runtime: What it costs to compute all the others again that the backward needs.

    Time: n log n for n nodes. Memory: linear.
    """

    def __init__(
        self, schedule: JointSchedule, runtime: Sequence[float], saved: Iterable[int]
    ) -> None:
        self._schedule = schedule
        self._runtime = runtime
        self._count = len(schedule.nodes)
        self._never = self._count + 1
        self.saved = set(saved)
        self._in_forward = set(schedule.forward)
        self._roots = set(schedule.roots)
        self._find_anchors()
        self._run_backward()
        self._run_forward()

    @property
    def peak(self) -> int:
        """The most bytes that are live at any step of the forward or the backward."""
        return max(self._backward.peak(), self._forward.peak())

    def get_live_bytes(self) -> tuple[list[int], list[int]]:
        """The live bytes at the steps of the forward, and at those of the backward."""
        return tuple(  # type: ignore[return-value]
            [live for _, live in side.items()]
            for side in (self._forward, self._backward)
        )

    def describe_peak(self) -> dict[str, int]:
        """The bytes that are live at the peak, by what they are."""
        schedule = self._schedule
        if self._forward.peak() > self._backward.peak():
            return {"the forward": self._forward.peak()}
        kinds: dict[str, int] = {}
        for storage in self._get_live_at_peak():
            kind = self._get_kind(storage)
            kinds[kind] = kinds.get(kind, 0) + schedule.sizes[storage]
        return dict(sorted(kinds.items(), key=lambda item: -item[1]))

    def get_recomputed_at_peak(self) -> set[int]:
        """The bases that live at the peak because the backward computed them again.

        None if the forward has the peak. Time: the number of storages.
        """
        if self._forward.peak() > self._backward.peak():
            return set()
        makers = {self._schedule.maker[s] for s in self._get_live_at_peak()}
        first = self._schedule.steps[0]
        return {i for i in makers - self.saved if 0 <= i < first}

    def _get_live_at_peak(self) -> Iterator[int]:
        """The storages that live at the last of the steps with the most bytes."""
        key = self._backward.last_peak()
        for storage, span in enumerate(self._spans):
            if span is not None and span[0] <= key < span[1]:
                yield storage

    def _get_kind(self, storage: int) -> str:
        schedule = self._schedule
        maker = schedule.maker[storage]
        if storage in schedule.gradients:
            return "gradients"
        if storage in schedule.tangents:
            return "tangents"
        if maker < 0:
            return "inputs"
        if maker in self.saved:
            return "saved activations"
        is_forward = maker < schedule.steps[0]
        return "recomputed activations" if is_forward else "temporary results"

    def runs(self, base: int) -> bool:
        """Whether the backward runs a base."""
        return self._anchor[base] != self._never

    def may_lower_peak(self, base: int) -> bool:
        """Whether fewer bytes live at the peak if a saved base is computed again.

        That is so if it is read after the peak for the first time. Time: its readers.
        """
        if self._forward.peak() >= self._backward.peak():
            return True
        readers = [self._anchor[user] for user in self._schedule.users[base]]
        if base in self._roots:
            readers.append(self._count)
        anchor = min(readers, default=0)
        return anchor * self._count + base > self._backward.last_peak()

    def is_exact(self, change: Change) -> bool:
        """Whether the peak of a change takes account of what the forward then runs."""
        return change.toggled <= self._in_forward

    def _find_anchors(self) -> None:
        self._anchor = [self._never] * self._count
        # What reads a base comes later in the graph.
        for i in reversed(range(self._count)):
            if i not in self.saved:
                self._anchor[i] = self._get_anchor(i, {})

    def _get_anchor(self, i: int, moves: dict[int, int]) -> int:
        """The anchor of a base that is not saved, if some of its readers have moved.

        That is the first one of its readers' anchors. Values of the forward that are
        gradients are computed at the very end.
        """
        anchor = self._count if i in self._roots else self._never
        for user in self._schedule.users[i]:
            at = moves[user] if user in moves else self._anchor[user]
            if at < anchor:
                anchor = at
        is_step = i >= self._schedule.steps[0]
        return i if is_step and anchor != self._never else anchor

    def _key(self, i: int) -> int:
        return self._anchor[i] * self._count + i

    def _run_backward(self) -> None:
        schedule, never = self._schedule, self._never
        run = [i for i, anchor in enumerate(self._anchor) if anchor != never]
        self.runtime = sum(self._runtime[i] for i in run)
        self._spans = [self._get_span(s) for s in range(len(schedule.sizes))]
        self._starting: defaultdict[int, int] = defaultdict(int)
        spans = []
        for span, size in zip(self._spans, schedule.sizes):
            if span is not None:
                start, end = span
                self._starting[start] += size
                spans.append((start, end, size))
        # The last step returns the gradients.
        last = self._count * self._count + self._count
        keys = [_BEGIN, *sorted(map(self._key, run)), last]
        self._backward = accumulate_spans(keys, spans)

    def _get_span(self, storage: int) -> _Span | None:
        """When a storage lives in the backward."""
        schedule, anchor, count = self._schedule, self._anchor, self._count
        maker = schedule.maker[storage]
        end = -1
        for reader in schedule.readers[storage]:
            if anchor[reader] != self._never:
                end = max(end, anchor[reader] * count + reader)
        end += 1
        if storage in schedule.gradients:
            end = _END
        if maker >= 0 and maker not in self.saved:
            if anchor[maker] == self._never:
                return None
            start = anchor[maker] * count + maker
            return start, max(end, start + 1)
        if storage in schedule.tangents:
            return _BEGIN, max(end, _BEGIN + 1)
        return (_BEGIN, end) if end else None

    def _run_forward(self) -> None:
        schedule = self._schedule
        more = schedule.reach(self.saved - self._in_forward, self._in_forward)
        order = sorted(self._in_forward | more)
        self._released: dict[int, int] = {}
        for i in order:
            for storage in (*schedule.uses[i], *schedule.makes[i]):
                if storage not in schedule.results and schedule.maker[storage] >= 0:
                    self._released[storage] = i + 1
        spans = [(_BEGIN, _END, schedule.sizes[s]) for s in schedule.inputs]
        for i in order:
            for s in schedule.makes[i]:
                end = _END if _is_kept(self._spans[s]) else self._released.get(s, _END)
                spans.append((i, end, schedule.sizes[s]))
        self._forward = accumulate_spans([_BEGIN, *order], spans)

    def price(self, toggled: Iterable[int]) -> Change:
        """What becomes of the timeline if bases are saved that are not, or no more.

        What only the backward needs is taken to run in the forward still, if it does.

        Time: what moves, times the square root of the number of steps.
        """
        schedule = self._schedule
        toggled = set(toggled)
        moves = self._get_moves(toggled)
        touched = {s: None for i in toggled for s in schedule.makes[i]}
        for i in moves:
            touched.update(dict.fromkeys(schedule.makes[i]))
            touched.update(dict.fromkeys(schedule.uses[i]))
        spans = self._get_changed_spans(toggled, moves, touched)
        backward: defaultdict[int, int] = defaultdict(int)
        forward: defaultdict[int, int] = defaultdict(int)
        for storage, was, now in spans:
            size = schedule.sizes[storage]
            if was is not None:
                backward[was[0]] -= size
                backward[was[1]] += size
            if now is not None:
                backward[now[0]] += size
                backward[now[1]] -= size
            kept = _is_kept(now) - _is_kept(was)
            if kept and storage in self._released:
                forward[self._released[storage]] += kept * size
                forward[_END] -= kept * size
        new_steps = self._get_new_steps(moves, backward)
        peak = max(
            _get_peak(self._backward, backward),
            _get_peak(self._forward, forward),
            *(live for _, live in new_steps),
            0,
        )
        added = [i for i in moves if self._anchor[i] == self._never]
        removed = [i for i, anchor in moves.items() if anchor == self._never]
        runtime = sum(self._runtime[i] for i in added)
        runtime -= sum(self._runtime[i] for i in removed)
        return Change(
            toggled=toggled,
            peak=peak,
            runtime=runtime,
            added=added,
            removed=removed,
            moves=moves,
            spans=spans,
            backward=backward,
            forward=forward,
            new_steps=new_steps,
        )

    def _get_moves(self, toggled: set[int]) -> dict[int, int]:
        """The new anchors of what runs elsewhere, or not at all, or did not before.

        What reads a base comes later in the graph, so that going back through it sees
        each base once.
        """
        moves: dict[int, int] = {}
        queue = [-i for i in toggled]
        heapq.heapify(queue)
        seen = set(toggled)
        while queue:
            i = -heapq.heappop(queue)
            if (i in self.saved) != (i in toggled):
                anchor = self._never
            else:
                anchor = self._get_anchor(i, moves)
            if anchor != self._anchor[i]:
                moves[i] = anchor
                for b in self._schedule.reads[i]:
                    if b not in seen and b not in self.saved:
                        seen.add(b)
                        heapq.heappush(queue, -b)
        return moves

    def _get_changed_spans(
        self, toggled: set[int], moves: dict[int, int], touched: Iterable[int]
    ) -> list[tuple[int, _Span | None, _Span | None]]:
        before = {i: self._anchor[i] for i in moves}
        self._place(toggled, moves)
        spans = [(s, self._spans[s], self._get_span(s)) for s in touched]
        self._place(toggled, before)
        return [(s, was, now) for s, was, now in spans if was != now]

    def _place(self, toggled: set[int], anchors: dict[int, int]) -> None:
        self.saved ^= toggled
        for i, anchor in anchors.items():
            self._anchor[i] = anchor

    def _get_new_steps(
        self, moves: dict[int, int], changes: dict[int, int]
    ) -> list[tuple[int, int]]:
        """The live bytes at steps that are new."""
        never, count = self._never, self._count
        keys = sorted(to * count + i for i, to in moves.items() if to != never)
        steps = []
        edges = sorted(changes)
        added = edge = 0
        for key in keys:
            while edge < len(edges) and edges[edge] <= key:
                added += changes[edges[edge]]
                edge += 1
            following, live = self._backward.following(key)
            steps.append((key, live - self._starting.get(following, 0) + added))
        return steps

    def apply(self, change: Change) -> None:
        """Makes a change, priced at the present state of the timeline.

        Time: what moves, times the square root of the number of steps. Linear in the
        size of the graph if only the backward needs what was toggled.
        """
        self.runtime += change.runtime
        for side, changes in (
            (self._backward, change.backward),
            (self._forward, change.forward),
        ):
            for segment in _get_segments(changes):
                side.add(*segment)
        for i in change.moves:
            if self._anchor[i] != self._never:
                self._backward.remove(self._key(i))
        self._place(change.toggled, change.moves)
        for key, live in change.new_steps:
            self._backward.insert(key, live)
        for storage, was, now in change.spans:
            size = self._schedule.sizes[storage]
            if was is not None:
                self._starting[was[0]] -= size
            if now is not None:
                self._starting[now[0]] += size
            self._spans[storage] = now
        if not self.is_exact(change):
            self._run_forward()


def _is_kept(span: _Span | None) -> bool:
    """Whether a storage lives when the backward begins."""
    return span is not None and span[0] == _BEGIN


def _get_segments(changes: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    """Where changes, each from a key on, have added how much: start, end, bytes."""
    edges = sorted(changes)
    added = 0
    for start, end in pairwise(edges):
        added += changes[start]
        if added:
            yield start, end, added


def _get_peak(live: LiveBytes, changes: dict[int, int]) -> int:
    """The most bytes at any step after some changes."""
    peak, done = 0, _BEGIN
    segments = list(_get_segments(changes))
    for start, end, added in [*segments, (_END, _END, 0)]:
        if done < start:
            peak = max(peak, live.highest(done, start) or 0)
        if start < end:
            found = live.highest(start, end)
            if found is not None:
                peak = max(peak, found + added)
        done = end
    return peak
