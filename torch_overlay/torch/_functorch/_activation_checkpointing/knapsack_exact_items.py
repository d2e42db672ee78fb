"""The items of the exact knapsack solver as integers: all of its rounding.

Equal items make a *type*. For one budget the memory and the runtimes of the types
become integers, weights and profits, whose sums are exact. The contract: of up to 2^18
items, all sets of up to ``max_memory`` are considered and none of more than
``max_memory * (1 + 2**-40)`` is returned; a set is optimal if none has 1e-12 more
runtime. This table has every power of two that keeps it, with u and v for one unit of
weight and of profit:

Weight, without a common unit: to the nearest, and to 1 at least. The budget is 2^59 u
    or more, so 2^18 items err by 2^-42 of it down, by 2^-41 up. From 2^52 u on a weight
    may err by u, as float64 rounds a half; of those no more than 2^8 fit.
Weight, with a common unit: to the nearest, 2^-50 of each item and so of each set.
Capacity: up by 2^-41 of the budget, not less than all weights together err. A set that
    fits has at most 2^-41 + 2^-42 < 2^-40 too much.
Room for infinite runtimes: up by 2^-41 of the budget, in exact rationals.
Profit, integer runtimes: not at all, their sum is below 2^53.
Profit, all others: up, by less than v. The optimum is 2^57 v or more, so all bounds are
    valid. A set of k items is worth up to k v less than its profit: the gap gets them.
    Of up to 2^10 items no set would show it: `ORDER` raises bounds by more.
`CLOSING`: of other than integers, 2^-42 of the value is not searched for. For 10^5
    saved items 2^-42 and the rounding of profits, 10^5 * 2^-57, are less than 1e-12.
`ORDER`: types are sorted before they are rounded. Afterwards a ratio is in order up to
    2^-49, so Dantzig's bound is raised by 2^-48 of the profit. Without a common unit
    each type before the break can err by u/2 more, n types by n 2^-60 of the bound:
    from 2^12 types on that is beyond 2^-48, but for 2^18 still within `CLOSING`.
`MARGIN`: bounds in float64 err by a few times 2^-53, and by the order. What is less
    than 2^-48 below what is searched for is kept.
Common unit: above 2^-50 of all memory, so that sums stay below 2^50. Denominators up to
    2^20 are found; sizes have to be multiples up to 2^-50.
Ratios below 2^-969: float64 may have lost digits, mantissa and exponent are compared.
Table: profits are rounded up to 53 bits in all, beside the 8 bits of the choices.
`OVER`: 2^61 is more than fits, even after all removals: sums stop here.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import compress
from operator import gt, lt, mul
from typing import NamedTuple

import torch


_BITS = 60  # of the budget and of the optimum as integers
OVER = 2**61
CLOSING = 42
ORDER = 48
MARGIN = 2.0**-48
# Torch shares larger tensors out to threads, whose start and barriers take longer than
# the work, much longer where other processes hold the cores.
PIECE = 2**15 - 1


class Types(NamedTuple):
    """Distinct items by falling runtime / memory, both positive."""

    memory: torch.Tensor
    runtime: torch.Tensor
    items: list[list[int]]  # the indices of the copies of each type, ascending
    copies: torch.Tensor  # how many of each type
    exact: bool  # whether all runtimes are integers whose sum float64 can hold
    unit: float  # all memory is a multiple of it; 0 if it is not known


class Knapsack:
    """The types with one budget, in integers.

    Attributes:
        types: the distinct items, by falling ratio.
        weight: of one copy of each type.
        profit: of one copy of each type.
        columns: both as tensors.
        capacity: the most that a set may weigh.
        count: how many copies of each type a set may have.
        break_type: the first type of which not all copies fit beside those before it.
            Those before it are the break solution.
        break_weight: of the break solution.
        break_profit: of the break solution.
        everything_fits: whether nothing is to be chosen.
        marginal_runtime: per unit of memory of the first type that does not fit.
        digits: the binary digits after the point that runtimes have as profits.

    Args:
        types: the distinct items.
        max_memory: the budget, in the unit of their memory.

    O(n) time.
    """

    def __init__(self, types: Types, max_memory: float) -> None:
        self.types = types
        weight = self._weigh(max_memory)
        self.weight = weight.tolist()
        count = piecewise(
            lambda c, w: torch.minimum(c, self.capacity // w), types.copies, weight
        )
        self.count = count.tolist()
        self.break_type, self.break_weight = self._find_break()
        self.everything_fits = self.break_type == len(self.count)
        self.marginal_runtime = self._marginal_runtime()
        self.digits = 0 if types.exact else self._profit_digits()
        profit = piecewise(self._profit, types.runtime)
        self.profit = profit.tolist()
        self.break_profit = self._profit_before(self.break_type)
        self.columns = weight, profit

    def limit(self, count: list[int]) -> None:
        """Takes fewer copies of some types, and finds the break anew. O(n) time."""
        self.count = count
        self.break_type, self.break_weight = self._find_break()
        self.break_profit = self._profit_before(self.break_type)

    def dantzig_bound(self) -> int:
        """The profit of the break solution and of all that fits of the break type."""
        if self.everything_fits:
            return self.break_profit
        k = self.break_type
        return self.break_profit + self.count[k] * self.profit[k]

    def _weigh(self, max_memory: float) -> torch.Tensor:
        """The weights of the types, after the capacity."""
        unit = self.types.unit
        if unit:
            budget = min(max_memory / unit, 2.0**53)
            weight = piecewise(lambda x: _rounded(x / unit), self.types.memory)
        else:
            digits = _BITS - math.frexp(max_memory)[1]
            budget = math.ldexp(max_memory, digits)
            weight = piecewise(
                lambda x: _rounded(_scaled(x, digits)), self.types.memory
            )
        self.capacity = int(budget * (1 + 2.0**-41))
        return weight

    def _profit(self, runtime: torch.Tensor) -> torch.Tensor:
        if self.types.exact:
            return runtime.long()
        return _rounded_up(_scaled(runtime, self.digits))

    def _profit_before(self, k: int) -> int:
        return sum(map(mul, self.profit[:k], self.count))

    def _find_break(self) -> tuple[int, int]:
        """The break type, and the weight of the types before it."""
        total = 0
        for k, more in enumerate(map(mul, self.weight, self.count)):
            if total + more > self.capacity:
                return k, total
            total += more
        return len(self.count), total

    def _marginal_runtime(self) -> float:
        types = self.types
        fewer = map(lt, self.count, types.copies.tolist())
        first = next(compress(range(self.break_type), fewer), self.break_type)
        if first == len(self.count):
            return 0.0
        return float(types.runtime[first] / types.memory[first])

    def _profit_digits(self) -> int:
        """The binary digits after the point that give the optimum ``_BITS`` of them."""
        # The types before the break fit together, and the break type fits alone: they
        # are worth 1 to 2 optima. Shares, because the sum may overflow.
        copies = self.count[: self.break_type + 1]
        runtime = self.types.runtime.tolist()
        most = max(compress(runtime, copies), default=0.0)
        if not most:
            return 0
        share = sum(r / most * c for r, c in zip(runtime, copies))
        return _BITS - math.frexp(most)[1] - math.frexp(share)[1]


def sort_types(
    items: dict[tuple[float, float], list[int]], memory: float, runtime: float
) -> Types:
    """Sorts distinct items by falling runtime / memory. O(n log n) time.

    Args:
        items: the indices of the copies of each (memory, runtime).
        memory: of all items.
        runtime: of all items.
    """
    types = [x for x in items if x[0] and x[1]]
    types.sort(key=lambda x: x[1] / x[0], reverse=True)
    ratio = [r / m for m, r in types]
    is_sorted = all(map(gt, ratio, ratio[1:]))
    if types and not (is_sorted and ratio[-1] > 2.0**-969 and ratio[0] < math.inf):
        types.sort(key=_quotient, reverse=True)
    indices = [items[x] for x in types]
    sizes, values = [x[0] for x in types], [x[1] for x in types]
    return Types(
        memory=_float64(sizes),
        runtime=_float64(values),
        items=indices,
        copies=int64(list(map(len, indices))),
        exact=runtime < 2**53 and all(map(float.is_integer, values)),
        unit=_unit(sizes, memory),
    )


def _quotient(item: tuple[float, float]) -> tuple[float, ...]:
    """A key for runtime / memory, which float64 cannot always hold or tell apart."""
    (a, x), (b, y) = map(math.frexp, item)
    mantissa, exponent = math.frexp(b / a)
    # Of equal ratios sizes are mixed, so that changes around the break fill any room.
    mixed = a * 1e6 * (5**0.5 - 1) % 1
    return exponent + y - x, mantissa, mixed, *item


def _unit(sizes: list[float], total: float) -> float:
    """The largest number that divides all sizes up to 2^-50, or 0.

    Normalised sizes are fractions with a common denominator, rounded. O(n) time.
    """
    unit = min(sizes, default=0.0)
    while unit > total * 2.0**-50:
        for size in sizes:
            multiple = size / unit
            if abs(multiple - round(multiple)) > multiple * 2.0**-50:
                break
        else:
            return unit
        denominator = Fraction(multiple).limit_denominator(2**20).denominator
        if denominator == 1:
            break
        unit /= denominator
    return 0.0


def numbers(name: str, values: list[float], end: float | None = None) -> list[float]:
    """Converts each number once to float64, not negative, and finite unless ``end``.

    O(n) time and memory.
    """
    floats: list[float] = []
    plain = values and {float, int}.issuperset(map(type, values))
    if plain and min(values) >= 0 and max(values) <= 1e308:  # float() cannot fail
        floats = list(map(float, values))
    else:
        floats = [number(f"{name}[{i}]", x) for i, x in enumerate(values)]
    if floats and not (sum(floats) < math.inf and min(floats) >= 0):
        for i, x in enumerate(floats):  # a sum may overflow, a number may not
            if not (0 <= x < math.inf or x == end):
                raise ValueError(
                    f"{name}[{i}] must be finite and not negative, got {x}"
                )
    return floats


def number(name: str, value: float) -> float:
    """Converts to float64: numbers and what converts to one, but no strings."""
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        converted = complex(value)
    except OverflowError:
        raise ValueError(
            f"{name} must be finite, got more than float64 holds"
        ) from None
    if converted.imag != 0:
        raise ValueError(f"{name} must be real, got {value}")
    return converted.real


def int64(values: Sequence[int]) -> torch.Tensor:
    """A tensor on the CPU, whatever the default device is."""
    return _tensor(array("q", values), torch.int64)


def slices(values: torch.Tensor, size: int) -> list[torch.Tensor]:
    """The values in slices of that size."""
    if values.numel() <= size:
        return [values]
    return [values[i : i + size] for i in range(0, len(values), size)]


def _float64(values: list[float]) -> torch.Tensor:
    return _tensor(array("d", values), torch.float64)


def _tensor(values: "array[int] | array[float]", dtype: torch.dtype) -> torch.Tensor:
    if not values:  # frombuffer wants at least one
        return torch.zeros(0, dtype=dtype, device="cpu")
    return torch.frombuffer(values, dtype=dtype)


def piecewise(
    function: Callable[..., torch.Tensor], *columns: torch.Tensor
) -> torch.Tensor:
    """Applies a function of each row to columns, in slices of ``PIECE``."""
    if columns[0].numel() <= PIECE:
        return function(*columns)
    rows = zip(*(slices(column, PIECE) for column in columns))
    return torch.cat([function(*part) for part in rows])


def _rounded(values: torch.Tensor) -> torch.Tensor:
    """To integers from 1 to ``OVER``. Torch's own rounding starts threads early."""
    return values.clamp(max=OVER).add_(0.5).long().clamp_(min=1)


def _rounded_up(values: torch.Tensor) -> torch.Tensor:
    values = values.clamp(max=OVER)
    whole = values.long()
    return whole.add_(whole.double() < values).clamp_(min=1)


def _scaled(values: torch.Tensor, digits: int) -> torch.Tensor:
    """values * 2**digits, which float64 may hold when it does not hold 2**digits."""
    return values * 2.0 ** (digits // 2) * 2.0 ** (digits - digits // 2)
