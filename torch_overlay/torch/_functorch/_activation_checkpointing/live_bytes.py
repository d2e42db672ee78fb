"""Bytes that are live at the steps of a schedule, with the highest of any range."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import isqrt


class LiveBytes:
    """Live bytes at steps that are ordered by integer keys.

    The steps lie in blocks of about the square root of their number. A block knows its
    highest step, and a change of all its steps is one number.

    Args:
        keys: The keys of the steps, in ascending order, at least one.
        live: The bytes that are live at each step.

    Time: construction is linear, all else takes the square root of the number of steps.
    Memory: linear.
    """

    def __init__(self, keys: Sequence[int], live: Sequence[int]) -> None:
        self._size = max(isqrt(len(keys)), 16)
        starts = range(0, len(keys), self._size)
        self._keys = [list(keys[i : i + self._size]) for i in starts]
        self._live = [list(live[i : i + self._size]) for i in starts]
        self._first = [block[0] for block in self._keys]
        self._added = [0] * len(self._keys)
        self._highest = [max(block) for block in self._live]

    def highest(self, start: int, end: int) -> int | None:
        """The most bytes at a step with ``start <= key < end``; None without a step."""
        i = max(bisect_right(self._first, start) - 1, 0)
        j = max(bisect_left(self._first, end) - 1, 0)
        a = bisect_left(self._keys[i], start)
        b = bisect_left(self._keys[j], end)
        if i == j:
            return max(self._live[i][a:b]) + self._added[i] if a < b else None
        found = self._highest[i + 1 : j]
        if a < len(self._live[i]):
            found.append(max(self._live[i][a:]) + self._added[i])
        if b:
            found.append(max(self._live[j][:b]) + self._added[j])
        return max(found) if found else None

    def peak(self) -> int:
        """The most bytes at any step."""
        return max(self._highest)

    def last_peak(self) -> int:
        """The key of the last step with the most bytes."""
        peak = self.peak()
        i = max(i for i, highest in enumerate(self._highest) if highest == peak)
        block = self._live[i]
        wanted = peak - self._added[i]
        return self._keys[i][max(k for k, live in enumerate(block) if live == wanted)]

    def following(self, key: int) -> tuple[int, int]:
        """The first step at or after a key, and its bytes."""
        i = max(bisect_right(self._first, key) - 1, 0)
        k = bisect_left(self._keys[i], key)
        if k == len(self._keys[i]):
            i, k = i + 1, 0
        return self._keys[i][k], self._live[i][k] + self._added[i]

    def add(self, start: int, end: int, change: int) -> None:
        """Adds bytes to the steps with ``start <= key < end``."""
        i = max(bisect_right(self._first, start) - 1, 0)
        j = max(bisect_left(self._first, end) - 1, 0)
        for k in {i, j}:
            live = self._live[k]
            a = bisect_left(self._keys[k], start)
            b = bisect_left(self._keys[k], end)
            live[a:b] = [value + change for value in live[a:b]]
            self._highest[k] = max(live) + self._added[k]
        for k in range(i + 1, j):
            self._added[k] += change
            self._highest[k] += change

    def insert(self, key: int, live: int) -> None:
        """Adds a step with a new key."""
        i = max(bisect_right(self._first, key) - 1, 0)
        k = bisect_left(self._keys[i], key)
        self._keys[i].insert(k, key)
        self._live[i].insert(k, live - self._added[i])
        self._first[i] = self._keys[i][0]
        self._highest[i] = max(self._highest[i], live)
        if len(self._keys[i]) > 2 * self._size:
            self._split(i)

    def remove(self, key: int) -> None:
        """Removes a step. The last one stays."""
        i = max(bisect_right(self._first, key) - 1, 0)
        k = bisect_left(self._keys[i], key)
        del self._keys[i][k]
        del self._live[i][k]
        if self._keys[i]:
            self._first[i] = self._keys[i][0]
            self._highest[i] = max(self._live[i]) + self._added[i]
        else:
            for column in self._columns():
                del column[i]

    def items(self) -> list[tuple[int, int]]:
        """The keys in ascending order, with the bytes that are live there."""
        return [
            (key, live + added)
            for keys, values, added in zip(self._keys, self._live, self._added)
            for key, live in zip(keys, values)
        ]

    def _columns(self) -> tuple[list, ...]:  # type: ignore[type-arg]
        return self._keys, self._live, self._first, self._added, self._highest

    def _split(self, i: int) -> None:
        middle = len(self._keys[i]) // 2
        for blocks in (self._keys, self._live):
            blocks.insert(i + 1, blocks[i][middle:])  # type: ignore[arg-type]
            del blocks[i][middle:]
        self._first.insert(i + 1, self._keys[i + 1][0])
        self._added.insert(i + 1, self._added[i])
        self._highest[i : i + 1] = [
            max(self._live[k]) + self._added[k] for k in (i, i + 1)
        ]


def accumulate_spans(
    keys: Sequence[int], spans: Sequence[tuple[int, int, int]]
) -> LiveBytes:
    """The live bytes of storages that live from a start up to before an end.

    Args:
        keys: The keys of the steps, in ascending order.
        spans: For each storage its start, its end and its bytes.

    Time: s log k for s spans and k steps.
    """
    changes = [0] * (len(keys) + 1)
    for start, end, size in spans:
        changes[bisect_left(keys, start)] += size
        changes[bisect_left(keys, end)] -= size
    return LiveBytes(keys, list(accumulate(changes[:-1])))
