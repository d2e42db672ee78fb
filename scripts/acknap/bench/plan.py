"""What is measured: the list of points, short and full."""

from acknap.base.layout import Layout
from acknap.bench.plan_memory import limits, memory
from acknap.bench.point import Point, in_units
from acknap.knapsack.contenders import ALL, OURS, PEERS, TABLES, VARIANTS, Contender
from acknap.knapsack.families import captured, instances

BUDGETS = (0.02, 0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9)
SPEED_BUDGETS = (0.05, 0.1, 0.25, 0.5)
QUICK_BUDGETS = (0.05, 0.1, 0.5)
QUICK_SPEED = ("gpt2_small", "llama_8l_4096", "llama_80l_8192", "resnet50_profile")
# The models whose runs are drawn, one a plot, and their budgets.
PICTURED = {"budget": "llama_80l_8192", "frontier": "llama_8l_4096_eager_attn"}
PICTURED_BUDGETS = tuple(round(0.02 * i, 2) for i in range(1, 33))

TRAINING_STEPS = 5  # in a round
# What is asked of a partition.
ASKED = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
QUICK_CAPTURED = ("captured/decoder",)
QUICK_THREADS = ("real:gpt2_small", "groups:n=1200")

_SEEDS = 7000  # small random problems per point


def plan(layout: Layout, *, quick: bool) -> list[Point]:
    """Return all points, those that need memory last."""
    names = instances(layout)
    return [
        *_real(names, quick),
        *_captured(captured(layout), quick),
        *_small_random(quick),
        *_timings(quick),
        *_many_budgets(quick),
        *_threads(names, quick),
        *_peers(quick),
        _training(quick),
        *limits(quick),
        *memory(quick),
    ]


def _real(names: list[str], quick: bool) -> list[Point]:
    budgets = QUICK_BUDGETS if quick else BUDGETS
    timed = [name for name in names if name in QUICK_SPEED] if quick else names
    return [
        *(
            # Prepared, the exact solver returns its certificate.
            Point(
                "real", "answers", f"real:{name}", budgets, (*ALL, "patched.prepared")
            )
            for name in names
        ),
        *(
            Point(
                f"pictured-{plot}",
                "answers",
                f"real:{name}",
                PICTURED_BUDGETS[1::3] if quick else PICTURED_BUDGETS,
                ALL,
            )
            for plot, name in PICTURED.items()
        ),
        *(
            Point("real-speed", "speed", f"real:{name}", (budget,), ALL, 7)
            for name in timed
            for budget in ((0.1, 0.5) if quick else SPEED_BUDGETS)
        ),
    ]


def _captured(names: list[str], quick: bool) -> list[Point]:
    """Models that this project's own command captured: plans, and partitions."""
    budgets, asked = (QUICK_BUDGETS, (0.1, 0.3)) if quick else (BUDGETS, ASKED)
    solvers = (*ALL, "patched.prepared")
    parted = [name for name in names if not quick or name in QUICK_CAPTURED]
    return [
        *(Point("captured", "answers", f"real:{n}", budgets, solvers) for n in names),
        *(
            Point("delivered", "partition", f"real:{n}", asked, VARIANTS)
            for n in parted
        ),
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
    half = (0.5,)
    rounds = 7 if quick else 11
    with_base = (*TABLES, "patched.exact")
    with_ilp = (*with_base, "stock.ilp", "patched.ilp", "patched.greedy")
    hundred = "random:n=100,units=10000"
    # The publication repeats each call 1000 times.
    points = [
        Point("repeated", "speed", hundred, (1.0,), TABLES, 50 if quick else 1000)
    ]
    sizes = (100, 500) if quick else (50, 100, 200, 500, 1000, 2000, 5000, 10000)
    points += [
        Point(
            "size-speed",
            "speed",
            f"random:n={n},units=10000",
            (1.0,),
            with_ilp if n <= (100 if quick else 1000) else with_base,
            rounds,
        )
        for n in sizes
    ]
    widths = (100_000,) if quick else (1000, 100_000, 1_000_000)
    points += [
        in_units("width-speed", "speed", "random", 100, width, TABLES, rounds)
        for width in widths
    ]
    large = ["layers:n=2000", "uncorrelated:n=2000"]
    if not quick:
        large += ["layers:n=10000", "uncorrelated:n=10000"]
    points += [
        Point("large-speed", "speed", spec, half, with_base, rounds) for spec in large
    ]
    slow = ("patched.exact", "stock.ilp", "patched.ilp")
    points += [
        Point("large-ilp", "speed", spec, half, slow, 3)
        for spec in (large[:1] if quick else large[:3])
    ]
    wide = ("stock.dp", "patched.exact")
    points.append(Point("wide-speed", "speed", "wide:n=500", half, wide, rounds))
    huge = ("layers:n=100000", "uncorrelated:n=100000")
    yardstick = ("patched.sort", "patched.exact")
    points += [Point("huge", "speed", spec, half, yardstick, rounds) for spec in huge]
    return points


def _many_budgets(quick: bool) -> list[Point]:
    budgets = tuple(round(0.01 * i, 2) for i in range(1, 101, 5 if quick else 1))
    sizes = (640,) if quick else (640, 2000)
    return [
        Point(
            "budgets",
            "speed",
            f"{family}:n={n}",
            budgets,
            ("stock.dp", "patched.exact", "patched.prepared"),
            3 if quick else 6,
        )
        for family in ("layers",) + (() if quick else ("uncorrelated",))
        for n in sizes
    ]


def _threads(names: list[str], quick: bool) -> list[Point]:
    """Graphs and hard problems, with one thread and with as many as torch takes."""
    problems = {f"real:{name}": 0.1 for name in names}
    problems |= {"random:n=1000,units=10000": 1.0, "layers:n=2000": 0.5}
    problems |= {"uncorrelated:n=2000": 0.5, "wide:n=500": 0.5}
    problems |= {"strongly:n=2000,units=10000": 1.0, "groups:n=1200": 1.0}
    if quick:
        problems = {spec: problems[spec] for spec in QUICK_THREADS}
    return [
        Point("threads", "threads", spec, (budget,), OURS, 7 if quick else 9)
        for spec, budget in problems.items()
    ]


def _peers(quick: bool) -> list[Point]:
    names = ("gpt2_small", "resnet50_profile") if quick else QUICK_SPEED
    problems = [f"real:{name}" for name in names]
    if not quick:
        problems += ["layers:n=640", "uncorrelated:n=2000", "wide:n=500"]
    return [
        Point("peers", "speed", spec, (0.5,), PEERS, 3 if quick else 5)
        for spec in problems
    ]


def _training(quick: bool) -> Point:
    rounds = 2 if quick else 10
    solvers = ("stock.dp", "patched.exact")
    spec = f"decoder:steps={rounds * TRAINING_STEPS}"
    return Point("training", "training", spec, (1.0, 0.3), solvers, rounds)
