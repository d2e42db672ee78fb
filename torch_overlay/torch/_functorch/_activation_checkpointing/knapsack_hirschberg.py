"""
Exact integer 0/1 knapsack in memory linear in the capacity.

Solves the problem that ``dp_knapsack`` states once memory is quantized, without its
``n x capacity`` table. The answer is the set that backtracking through a float64
table would give: from the last item to the first, an item stays out whenever an
optimal set without it exists (for all inputs whose sums are exact in float64).

Three steps, each of which keeps that set:

1. Runs of items of equal weight are merged into few pieces (binary splitting).
2. Pieces whose Lagrangian bound is strictly below the value of a known set are decided
   (Martello and Toth, "Knapsack Problems", 1990, section 2.4).
3. What is left is solved by dynamic programming over one row. The decisions are stored
   if one byte per cell fits into ``_TABLE_BYTES``. A larger segment is cut into halves
   (Hirschberg, CACM 18(6), 1975); how the capacity is shared is carried along with the
   row, so that ties are resolved as a full table would.
"""

import math
from itertools import accumulate, groupby

import torch


# Bytes of the decisions stored at once; a segment that needs more is split.
_TABLE_BYTES = 4 << 20
# Cells updated by one operation: enough to hide its fixed cost, few enough for a cache.
# Not above the size from which torch starts threads: they cost more than they save.
_BLOCK = 1 << 15


def hirschberg_saved_items(
    weights: list[int], values: list[float], capacity: int
) -> list[int]:
    """
    Find the most valuable set of items that fits into the capacity.

    Args:
        weights: Quantized memory of each item, in units of the capacity; not negative.
        values: Runtime of each item, in any unit; finite and not negative.
        capacity: Total weight that may be saved; not negative.

    Returns:
        Sorted indices of the saved items. Items without value are never saved, items
        without weight but with value always are.

    Let n be the number of pieces that bounds cannot decide and C the capacity that is
    left for them, divided by the weights' greatest common divisor. Time is
    ``O(n * C)``; memory is 16 bytes per unit of C, ``_TABLE_BYTES`` and
    ``O(len(weights))``.
    """
    values = [float(value) for value in values]
    saved = [i for i, w in enumerate(weights) if w == 0 and values[i] > 0]
    usable = [i for i, w in enumerate(weights) if 0 < w <= capacity and values[i] > 0]
    if sum(weights[i] for i in usable) <= capacity:
        return sorted(saved + usable)

    groups: list[list[int]] = []
    pieces: list[tuple[int, int]] = []
    for _, run in groupby(usable, key=weights.__getitem__):
        # Within a run an optimal set takes the largest values, and of equal values the
        # tie rule keeps the lowest indices: only the number of items is open.
        by_value = sorted(run, key=values.__getitem__)
        for _, equal in groupby(by_value, key=values.__getitem__):
            groups.append(list(equal))
            pieces += [(len(groups) - 1, size) for size in _split(len(groups[-1]))]

    piece_weights = [weights[groups[group][0]] * size for group, size in pieces]
    piece_values = [values[groups[group][0]] * size for group, size in pieces]
    counts = [0] * len(groups)
    for piece in _solve(piece_weights, piece_values, capacity):
        group, size = pieces[piece]
        counts[group] += size
    for members, count in zip(groups, counts, strict=True):
        saved += members[:count]
    return sorted(saved)


def _split(count: int) -> list[int]:
    """
    Split ``count`` equal items into about log2(count) pieces, in ascending size.

    No piece exceeds the sum of the smaller ones by more than one. So every number of
    items can be formed, and the tie rule applied to the pieces takes the fewest items.
    """
    sizes = []
    while count:
        sizes.append((count + 1) // 2)
        count //= 2
    return sizes[::-1]


def _solve(weights: list[int], values: list[float], capacity: int) -> list[int]:
    """Solve for positive weights and values; returns indices in no fixed order."""
    saved: list[int] = []
    row = origin = _cells(0)
    work = _cells(2, _BLOCK)
    stack = [(list(range(len(weights))), capacity)]
    while stack:
        items, capacity = stack.pop()
        certain, items, capacity, limit = _decide(weights, values, items, capacity)
        saved += certain
        if not items:
            continue

        scale = math.gcd(*(weights[i] for i in items))
        capacity //= scale
        scaled = [weights[i] // scale for i in items]
        rest = sum(scaled)
        width = capacity + 1
        if row.numel() < width:
            row = _cells(width)
        for part in row[:width].split(_BLOCK):
            part.zero_()
        middle = len(items) // 2
        leaf = len(items) * width <= _TABLE_BYTES
        cells = len(items) * width if leaf else 0
        table = torch.empty(cells, dtype=torch.bool, device="cpu")
        if not leaf and origin.numel() < width:
            origin = _cells(width)

        for k, (i, weight) in enumerate(zip(items, scaled, strict=True)):
            if k == middle and not leaf:
                # From here on, origin[c] is what the first half may use if the path of
                # decisions is traced back from capacity c.
                for start in range(0, width, _BLOCK):
                    end = min(start + _BLOCK, width)
                    torch.arange(start, end, out=origin[start:end], device="cpu")
                if row[capacity].item() >= limit:
                    break  # no later item can add to the best value
            rest -= weight
            # Later items cannot bring the optimal path below capacity - rest.
            low = max(weight, capacity - rest)
            for end in range(width, low, -_BLOCK):
                # From high to low capacity, so that `row` still holds the values
                # without the item where they are read.
                start = max(low, end - _BLOCK)
                without = row[start:end]
                saving = work[0, : end - start]
                torch.add(row[start - weight : end - weight], values[i], out=saving)
                flags = None
                if leaf:
                    decisions = table[k * width + start : k * width + end]
                    torch.gt(saving, without, out=decisions)
                elif k >= middle:
                    # Arithmetic on float64 flags: three times as fast as torch.where.
                    flags = torch.gt(saving, without, out=work[1, : end - start])
                torch.maximum(saving, without, out=without)
                if flags is not None:
                    here = origin[start:end]
                    torch.sub(origin[start - weight : end - weight], here, out=saving)
                    here.addcmul_(flags, saving)

        if not leaf:
            left = int(origin[capacity].item())
            stack.append((items[:middle], left * scale))
            stack.append((items[middle:], (capacity - left) * scale))
            continue
        total = list(accumulate(scaled))
        for k in range(len(items) - 1, -1, -1):
            if total[k] <= capacity:
                saved += items[: k + 1]
                break
            if scaled[k] <= capacity and table[k * width + capacity].item():
                saved.append(items[k])
                capacity -= scaled[k]
    return saved


def _cells(*size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.float64, device="cpu")


def _decide(
    weights: list[int], values: list[float], items: list[int], capacity: int
) -> tuple[list[int], list[int], int, float]:
    """
    Decide the items that are in all or in none of the optimal sets.

    For any price per unit of weight, ``price * capacity`` plus the sum of the positive
    ``value - price * weight`` bounds the value of every set, and a set that decides one
    item against the sign of that difference loses its absolute value. The item is
    decided if that leaves less than a set known from the greedy rule.

    Returns:
        Items to save, items left open (in the order given), capacity left for these,
        and a value that the best set of these cannot exceed.

    Takes ``O(len(items) * log(len(items)))``.
    """
    items = [i for i in items if weights[i] <= capacity]
    if sum(weights[i] for i in items) <= capacity:
        return items, [], 0, 0.0
    by_density = sorted(items, key=lambda i: values[i] / weights[i])
    room, known, price = capacity, 0.0, -1.0
    # From the end, so that of equal density the largest piece of a group comes first.
    for i in by_density[::-1]:
        if weights[i] <= room:
            room -= weights[i]
            known += values[i]
        elif price < 0:
            price = values[i] / weights[i]
    gains = [values[i] - price * weights[i] for i in items]
    bound = price * capacity + sum(gain for gain in gains if gain > 0)
    # Above the rounding error of the three sums, subnormal numbers included. If they
    # overflow, gap is infinite or not a number: nothing is decided.
    size = price * capacity + sum(values[i] for i in items)
    margin = (len(items) + 8) * (2.0**-50 * size + math.ulp(0.0) * capacity)
    gap = bound - known + margin
    certain = [i for i, gain in zip(items, gains, strict=True) if gain > gap]
    capacity -= sum(weights[i] for i in certain)
    left = [i for i, gain in zip(items, gains, strict=True) if not abs(gain) > gap]
    left = [i for i in left if weights[i] <= capacity]
    if sum(weights[i] for i in left) <= capacity:
        return certain + left, [], 0, 0.0
    limit = bound + margin - sum(values[i] for i in certain)
    if limit < 2.0**52 and all(values[i].is_integer() for i in left):
        return certain, left, capacity, math.floor(limit + margin)
    return certain, left, capacity, math.inf
