"""What a caching allocator hands out for a sequence of allocations.

The rules are those of torch's `CUDACachingAllocator` as its source states them
(c10/cuda/CUDACachingAllocator.cpp): requests are rounded up to 512 bytes; those up to
1 MiB come out of segments of 2 MiB, others out of segments of 20 MiB, and those of
10 MiB or more have segments of their own, rounded up to 2 MiB. The smallest free block
that is large enough is taken. It is split, unless what is left of a block for large
requests is 1 MiB or less: then the caller gets all of it.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

_MI = 1 << 20
_UNIT, _SMALL = 512, _MI
_SMALL_SEGMENT, _LARGE_SEGMENT, _OWN_SEGMENT = 2 * _MI, 20 * _MI, 10 * _MI

# What an allocation is called, and its bytes; None for bytes frees it.
Event = tuple[int, int | None]


def requested_peak(events: Iterable[Event]) -> int:
    """Return the most bytes that are asked for and not given back."""
    alive: dict[int, int] = {}
    now = most = 0
    for name, size in events:
        if size is None:
            now -= alive.pop(name)
        else:
            alive[name] = size
            now += size
            most = max(most, now)
    return most


def allocated_peak(events: Iterable[Event]) -> int:
    """Return the most bytes of blocks in use: what `max_memory_allocated` says.

    The first request finds no free block.
    """
    pools = {True: _Pool(True), False: _Pool(False)}
    alive: dict[int, _Block] = {}
    now = most = 0
    for name, size in events:
        if size is None:
            block = alive.pop(name)
            now -= block.size
            block.pool.free(block)
        elif size:
            rounded = -(-size // _UNIT) * _UNIT
            block = alive[name] = pools[rounded <= _SMALL].take(rounded)
            now += block.size
            most = max(most, now)
        else:
            alive[name] = _Block(pools[True], 0, 0)
    return most


class _Block:
    def __init__(self, pool: "_Pool", start: int, size: int) -> None:
        self.pool, self.start, self.size = pool, start, size
        self.before: _Block | None = None
        self.after: _Block | None = None
        self.is_free = False

    @property
    def key(self) -> tuple[int, int]:
        return self.size, self.start


class _Pool:
    """The blocks of small, or those of large requests."""

    def __init__(self, is_small: bool) -> None:
        self._is_small = is_small
        self._end = 0
        self._keys: list[tuple[int, int]] = []
        self._free: dict[tuple[int, int], _Block] = {}

    def take(self, size: int) -> _Block:
        at = bisect_left(self._keys, (size, -1))
        if at < len(self._keys):
            block = self._remove(self._free[self._keys[at]])
        else:
            block = _Block(self, self._end, self._segment(size))
            # Segments do not touch, so that they are never joined.
            self._end += block.size + _UNIT
        left = block.size - size
        if left >= _UNIT if self._is_small else left > _SMALL:
            rest = _Block(self, block.start + size, left)
            rest.before, rest.after = block, block.after
            if rest.after:
                rest.after.before = rest
            block.after, block.size = rest, size
            self._add(rest)
        return block

    def free(self, block: _Block) -> None:
        if not block.size:
            return
        if block.before and block.before.is_free:
            block = self._join(self._remove(block.before), block)
        if block.after and block.after.is_free:
            block = self._join(block, self._remove(block.after))
        self._add(block)

    def _join(self, first: _Block, second: _Block) -> _Block:
        first.size += second.size
        first.after = second.after
        if second.after:
            second.after.before = first
        return first

    def _segment(self, size: int) -> int:
        if self._is_small:
            return _SMALL_SEGMENT
        if size < _OWN_SEGMENT:
            return _LARGE_SEGMENT
        return -(-size // _SMALL_SEGMENT) * _SMALL_SEGMENT

    def _add(self, block: _Block) -> None:
        block.is_free = True
        insort(self._keys, block.key)
        self._free[block.key] = block

    def _remove(self, block: _Block) -> _Block:
        block.is_free = False
        del self._keys[bisect_left(self._keys, block.key)]
        del self._free[block.key]
        return block
