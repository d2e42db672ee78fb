"""What is measured: the list of points, short and full."""

from collections.abc import Iterable
from itertools import product

from acknap.base.layout import Layout
from acknap.bench.plan_memory import limits, memory
from acknap.bench.point import Point, in_units
from acknap.knapsack.contenders import ALL, OURS, PEERS, TABLES, VARIANTS, Contender
from acknap.knapsack.families import captured, instances

BUDGETS = (0.02, 0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9)
SPEED_BUDGETS = (0.05, 0.1, 0.25, 0.5)
QUICK_BUDGETS = (0.05, 0.1, 0.5)
QUICK_SPEED = (
    "real:gpt2_small",
    "real:llama_8l_4096",
    "real:llama_80l_8192",
    "real:resnet50_profile",
)
# The models whose runs are drawn, one a plot, and their budgets.
PICTURED = {"budget": "llama_80l_8192", "frontier": "llama_8l_4096_eager_attn"}
PICTURED_BUDGETS = tuple(round(0.02 * i, 2) for i in range(1, 33))

TRAINING_STEPS = 5  # in a round
# What is asked of a partition.
ASKED = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
QUICK_CAPTURED = ("real:captured/decoder",)
QUICK_THREADS = ("real:gpt2_small", "groups:n=1200")

_SEEDS = 7000  # small random problems per point
# Prepared, the exact solver returns its certificate.
_PROVEN = (*ALL, "patched.prepared")
_HALF = (0.5,)


def plan(layout: Layout, *, quick: bool) -> list[Point]:
    """Return all points, those that need memory last."""
    models = [f"real:{name}" for name in instances(layout)]
    rounds = 2 if quick else 10
    steps = f"decoder:steps={rounds * TRAINING_STEPS}"
    trained = ("stock.dp", "patched.exact")
    return [
        *_real(models, quick),
        *_captured([f"real:{name}" for name in captured(layout)], quick),
        *_small_random(quick),
        *_timings(quick),
        *_many_budgets(quick),
        *_threads(models, quick),
        *_peers(quick),
        Point("training", "training", steps, (1.0, 0.3), trained, rounds),
        *limits(quick),
        *memory(quick),
    ]


def _points(
    topic: str,
    kind: str,
    specs: Iterable[str],
    budgets: tuple[float, ...],
    contenders: tuple[str, ...],
    rounds: int = 0,
) -> list[Point]:
    """Return a point for each problem."""
    return [Point(topic, kind, spec, budgets, contenders, rounds) for spec in specs]


def _real(models: list[str], quick: bool) -> list[Point]:
    timed = [model for model in models if model in QUICK_SPEED or not quick]
    drawn = PICTURED_BUDGETS[1::3] if quick else PICTURED_BUDGETS
    points = _points(
        "real", "answers", models, QUICK_BUDGETS if quick else BUDGETS, _PROVEN
    )
    for plot, name in PICTURED.items():
        points += _points(f"pictured-{plot}", "answers", [f"real:{name}"], drawn, ALL)
    for model, budget in product(timed, (0.1, 0.5) if quick else SPEED_BUDGETS):
        points.append(Point("real-speed", "speed", model, (budget,), ALL, 7))
    return points


def _captured(models: list[str], quick: bool) -> list[Point]:
    """Models that this project's own command captured: plans, and partitions."""
    budgets, asked = (QUICK_BUDGETS, (0.1, 0.3)) if quick else (BUDGETS, ASKED)
    parted = [model for model in models if model in QUICK_CAPTURED or not quick]
    return [
        *_points("captured", "answers", models, budgets, _PROVEN),
        *_points("delivered", "partition", parted, asked, VARIANTS),
    ]


def _small_random(quick: bool) -> list[Point]:
    ilp = tuple(name for name in ALL if Contender.of(name).solver == "ilp")
    others = tuple(name for name in ALL if name not in ilp)
    ours = ("patched.dp", "patched.hirschberg", "patched.exact")
    grid = [(0, 1000, others), (0, 200 if quick else 1000, ilp)]
    if not quick:
        grid += [(first, _SEEDS, ours) for first in range(1000, 50_000, _SEEDS)]
    return [
        Point("small", "small", f"small:first={first},count={count}", (), contenders)
        for first, count, contenders in grid
    ]


def _timings(quick: bool) -> list[Point]:
    rounds = 7 if quick else 11
    base = (*TABLES, "patched.exact")
    with_ilp = (*base, "stock.ilp", "patched.ilp", "patched.greedy")
    # The publication repeats each call 1000 times.
    hundred = in_units("random", 100, 10_000)
    points = [Point("repeated", "speed", *hundred, TABLES, 50 if quick else 1000)]
    sizes = (100, 500) if quick else (50, 100, 200, 500, 1000, 2000, 5000, 10000)
    for n in sizes:
        names = with_ilp if n <= (100 if quick else 1000) else base
        problem = in_units("random", n, 10_000)
        points.append(Point("size-speed", "speed", *problem, names, rounds))
    points += [
        Point("width-speed", "speed", *in_units("random", 100, width), TABLES, rounds)
        for width in ((100_000,) if quick else (1000, 100_000, 1_000_000))
    ]
    large = ["layers:n=2000", "uncorrelated:n=2000"]
    if not quick:
        large += ["layers:n=10000", "uncorrelated:n=10000"]
    slow = ("patched.exact", "stock.ilp", "patched.ilp")
    wide = ("stock.dp", "patched.exact")
    huge = ("layers:n=100000", "uncorrelated:n=100000")
    yardstick = ("patched.sort", "patched.exact")
    return [
        *points,
        *_points("large-speed", "speed", large, _HALF, base, rounds),
        *_points("large-ilp", "speed", large[: 1 if quick else 3], _HALF, slow, 3),
        *_points("wide-speed", "speed", ["wide:n=500"], _HALF, wide, rounds),
        *_points("huge", "speed", huge, _HALF, yardstick, rounds),
    ]


def _many_budgets(quick: bool) -> list[Point]:
    budgets = tuple(round(0.01 * i, 2) for i in range(1, 101, 5 if quick else 1))
    families, sizes = ("layers", "uncorrelated"), (640, 2000)
    specs = [f"{family}:n={n}" for family, n in product(families, sizes)]
    solvers = ("stock.dp", "patched.exact", "patched.prepared")
    asked = specs[:1] if quick else specs
    return _points("budgets", "speed", asked, budgets, solvers, 3 if quick else 6)


def _threads(models: list[str], quick: bool) -> list[Point]:
    """Graphs and hard problems, with one thread and with as many as torch takes."""
    problems = dict.fromkeys(models, 0.1)
    problems |= {"random:n=1000,units=10000": 1.0, "layers:n=2000": 0.5}
    problems |= {"uncorrelated:n=2000": 0.5, "wide:n=500": 0.5}
    problems |= {"strongly:n=2000,units=10000": 1.0, "groups:n=1200": 1.0}
    return [
        Point("threads", "threads", spec, (budget,), OURS, 7 if quick else 9)
        for spec, budget in problems.items()
        if spec in QUICK_THREADS or not quick
    ]


def _peers(quick: bool) -> list[Point]:
    problems = [*QUICK_SPEED, "layers:n=640", "uncorrelated:n=2000", "wide:n=500"]
    if quick:
        problems = ["real:gpt2_small", "real:resnet50_profile"]
    return _points("peers", "speed", problems, _HALF, PEERS, 3 if quick else 5)
