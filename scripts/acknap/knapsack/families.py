"""The knapsacks that are measured: those of real models, and seeded families.

A problem is named by a short text, its spec, which is all that the raw record keeps:
`real:NAME` is benchmarks/instances/NAME.json, `FAMILY:n=..,seed=..` is generated here.
"""

import functools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout

# Units per 1.0 of memory in the solvers that quantise.
SCALE = 10_000


@dataclass(frozen=True)
class Problem:
    """Items of a knapsack, in the form in which the partitioner states them."""

    spec: str
    memory: list[float]
    runtimes: list[float]

    def exact_memory(self, items: list[int]) -> Fraction:
        """Return the memory of some items without rounding."""
        return sum((Fraction(self.memory[i]) for i in items), Fraction(0))

    def units(self) -> list[int]:
        """Return the memory as the quantising solvers see it."""
        return [round(m * SCALE) for m in self.memory]


def instances(layout: Layout) -> list[str]:
    """Return the names of the real instances."""
    return sorted(path.stem for path in folder(layout).glob("*.json"))


def captured(layout: Layout) -> list[str]:
    """Return the names of those that this project's own command captured."""
    paths = folder(layout).glob("captured/*.json")
    return sorted(f"captured/{path.stem}" for path in paths)


def load(layout: Layout, spec: str) -> Problem:
    """Return the problem that a spec names."""
    family, _, text = spec.partition(":")
    if family == "real":
        path = folder(layout) / f"{text}.json"
        if not path.is_file():
            raise HarnessError(f"there is no {layout.relative(path)}")
        found = json.loads(path.read_text(encoding="utf-8"))
        return Problem(spec, found["memory"], [float(r) for r in found["runtimes"]])
    if family not in FAMILIES:
        raise HarnessError(f"unknown family of problems {family!r}")
    return generated(spec, family, **sizes(spec))


def sizes(spec: str) -> dict[str, int]:
    """Return the n, units, ... of a generated problem."""
    pairs = (part.split("=") for part in spec.partition(":")[2].split(","))
    return {pair[0]: int(float(pair[1])) for pair in pairs if len(pair) == 2}


@functools.lru_cache(maxsize=4)
def generated(spec: str, family: str, **arguments: int) -> Problem:
    """Return a problem of a family."""
    memory, runtimes = FAMILIES[family](**arguments)
    return Problem(spec, memory, runtimes)


Items = tuple[list[float], list[float]]


def _random(n: int, units: int, seed: int = 1) -> Items:
    """Uniform weights of 2 x `units` in all; integer runtimes from 1 to 1000."""
    rng = random.Random(seed)
    weights = _to_units([rng.random() for _ in range(n)], 2 * units)
    return weights, [float(rng.randint(1, 1000)) for _ in range(n)]


def _strongly(n: int, units: int, seed: int = 1) -> Items:
    """Weights as in `random`; runtime = weight + a tenth of the largest weight."""
    rng = random.Random(seed)
    weights = _to_units([rng.random() for _ in range(n)], 2 * units)
    extra = round(max(weights) * SCALE) // 10
    return weights, [float(round(w * SCALE) + extra) for w in weights]


def _repeated(n: int, units: int, seed: int = 1) -> Items:
    """20 items of `random` kind, repeated like the layers of a model."""
    rng = random.Random(seed)
    items = [(rng.random(), float(rng.randint(1, 1000))) for _ in range(20)]
    shares, runtimes = zip(*islice(cycle(items), n), strict=True)
    return _to_units(shares, 2 * units), list(runtimes)


def _layers(n: int, seed: int = 1) -> Items:
    """20 tensors of a layer, repeated; memory normalised to a sum of 1."""
    rng = random.Random(seed)
    tensors, flops = [], []
    for _ in range(20):
        rows = rng.choice((1, 2, 3, 4, 6, 8, 11, 12, 16, 24, 32, 43, 64))
        tensors.append(512 * rows * rng.choice((64, 128, 768, 1024, 1536)))
        cost = rng.choice((1, 2, 4, 8, 3, 12)) * rng.randint(1, 4096)
        flops.append(float(cost * 2 ** rng.randint(0, 16)))
    memory = [float(size) for size in islice(cycle(tensors), n)]
    return _normalised(memory), list(islice(cycle(flops), n))


def _uncorrelated(n: int, seed: int = 1) -> Items:
    """53-bit floats, memory and runtime independent; memory sums to 1."""
    rng = random.Random(seed)
    memory = [rng.random() for _ in range(n)]
    return _normalised(memory), [rng.random() for _ in range(n)]


def _wide(n: int, seed: int = 1) -> Items:
    """All items distinct; runtimes 1 to 1e13, sizes 1e2 to 1e9, log-uniform."""
    rng = random.Random(seed)
    memory = [float(int(10 ** rng.uniform(2, 9))) for _ in range(n)]
    runtimes = [float(int(10 ** rng.uniform(0, 13))) for _ in range(n)]
    return _normalised(memory), runtimes


def _groups(n: int, seed: int = 1) -> Items:
    """Items of a third of the budget, which is 1, and a quarter of small ones.

    After Jooken, Leyman and De Causmaecker (EJOR 301, 2022): bounds take a part of a
    large item where there is no room for a whole one.
    """
    rng = random.Random(seed)
    small = n // 4
    sizes = [10**6 // 3] * (n - small) + [0] * small
    memory = [(size + rng.randint(1, 300)) / 10**6 for size in sizes]
    return memory, [float(size + rng.randint(1, 300)) for size in sizes]


FAMILIES: dict[str, Callable[..., Items]] = {
    "random": _random,
    "strongly": _strongly,
    "repeated": _repeated,
    "layers": _layers,
    "uncorrelated": _uncorrelated,
    "wide": _wide,
    "groups": _groups,
}


def small(seed: int) -> tuple[Problem, float]:
    """Return a problem of at most 12 items and a budget, for brute force.

    Weights and budget are whole units, so that the problem is the same for the solvers
    that quantise and for those that do not. Zero weights, ties and items larger than
    the budget occur; integer runtimes are exact in float32.
    """
    rng = random.Random(seed)
    n = rng.randint(1, 12)
    most = rng.choice((3, 30, 1000))
    weights = [rng.randint(rng.randint(0, 1), most) for _ in range(n)]
    runtimes = [float(rng.randint(1, rng.choice((3, 50, 1000)))) for _ in range(n)]
    capacity = rng.randint(1, max(1, sum(weights)))
    memory = [weight / SCALE for weight in weights]
    return Problem(f"small:seed={seed}", memory, runtimes), capacity / SCALE


def _to_units(shares: Sequence[float], total: int) -> list[float]:
    """Scale shares to whole units of `total` in all, at least one unit each."""
    scale = total / sum(shares)
    return [max(1, round(share * scale)) / SCALE for share in shares]


def _normalised(memory: list[float]) -> list[float]:
    total = sum(memory)
    return [m / total for m in memory]


def folder(layout: Layout) -> Path:
    """Return where the real instances lie."""
    return layout.root / "benchmarks" / "instances"
