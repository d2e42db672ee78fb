"""`bench`: measure what the claims need, point by point, into one raw record."""

import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from rich import progress
from rich.console import Console

from acknap.base import venv
from acknap.base.layout import Layout
from acknap.base.progress import say
from acknap.bench import claims as bench_claims
from acknap.bench import record as bench_record
from acknap.bench.finished import Finished
from acknap.bench.measure import Measure
from acknap.bench.partition import Partition
from acknap.bench.plan import plan
from acknap.bench.point import Point
from acknap.bench.record import Record
from acknap.bench.threads import InThreads
from acknap.knapsack import families
from acknap.knapsack.session import Session
from acknap.series.patches import load
from acknap.torches import environments
from acknap.torches.inspect import inspect
from acknap.upstream.targets import Target, Targets

# The modules that a measured value depends on.
_MEASURING = {
    "bench": "measure partition point threads",
    "knapsack": "checker families session truth",
    "models": "tracer",
    "inside": "peers solvers trainer",
    "inside/models": "builtin capture joint_graphs live named partition",
}
_Measuring = Callable[[Point], Finished]

FULL, QUICK = "bench", "bench-quick"


def run_bench(
    layout: Layout,
    targets: Targets,
    claims: Sequence[str],
    target: str,
    *,
    quick: bool,
    record: bool,
) -> int:
    """Measure the points that are not in the record yet.

    Args:
        layout: The repository.
        targets: The release table.
        claims: Names of the claims to measure; all if empty.
        target: Name of the release, stock and patched.
        quick: Measure the short list of points.
        record: Go on with the record in results/, instead of the one in build/.

    Returns:
        0: what the points say is for `report`.

    Raises:
        HarnessError: An environment cannot be made, or there is no such claim.
    """
    name = QUICK if quick else FULL
    points = plan(layout, quick=quick)
    if claims:
        topics = bench_claims.topics(layout, claims)
        points = [point for point in points if point.topic in topics]
    release = targets.get(target)
    made = environments.stock(layout, release), environments.patched(layout, release)
    for environment in made:
        inspect(environment)
    pythons: dict[str, Path] = {one.kind: one.python for one in made}
    pythons["peers"] = venv.extra(layout, "bench-peers", "the peers").python
    with (
        Session(pythons) as session,
        Partition(layout, pythons) as partition,
        InThreads(layout, session) as threads,
    ):
        raw = bench_record.open_record(
            layout.output(name, None, record=record),
            _key(layout, release, session, pythons),
            {"command": "./scripts/harness bench" + (" --quick" if quick else "")},
        )
        measure = Measure(layout, session)
        kinds: dict[str, _Measuring] = {"partition": partition, "threads": threads}
        _measure(lambda p: kinds.get(p.kind, measure)(p), raw, points)
    print(f"Record: {layout.relative(raw.path)}")
    print(f"Draw it: ./scripts/harness report {name}{' --record' if record else ''}")
    return 0


def _key(
    layout: Layout, target: Target, session: Session, pythons: dict[str, Path]
) -> dict[str, Any]:
    """Return what makes two runs comparable."""
    package = Path(__file__).parents[1]
    files = [
        package / room / f"{name}.py"
        for room, names in _MEASURING.items()
        for name in names.split()
    ]
    files += sorted(families.folder(layout).rglob("*.json"))
    files.append(layout.requirements / "capture-transformers.txt")
    code = sha256(b"".join(file.read_bytes() for file in files))
    return {
        "machine": bench_record.machine(),
        "target": target.name,
        "series": load(layout, target.series).revision[:16],
        "bench": code.hexdigest()[:16],
        "sides": {side: dict(session.worker(side).description) for side in pythons},
    }


def _measure(measure: _Measuring, record: Record, points: Sequence[Point]) -> None:
    """Measure what is missing; each point is on disk before the next one starts."""
    missing = [point for point in points if point.id not in record.points]
    if len(missing) < len(points):
        say(f"{len(points) - len(missing)} of {len(points)} points are in the record")
    text = progress.TextColumn("{task.description}")
    done = progress.MofNCompleteColumn()
    columns = (text, progress.BarColumn(), done, progress.TimeElapsedColumn())
    plain = not sys.stderr.isatty()
    console = Console(stderr=True)
    with progress.Progress(*columns, console=console, disable=plain) as display:
        task = display.add_task("", total=len(missing))
        for number, point in enumerate(missing, 1):
            about = f"{point.topic} {point.problem}"
            display.update(task, description=about)
            if plain:
                say(f"[{number}/{len(missing)}] {about} {','.join(point.contenders)}")
            record.add(point, measure(point))
            display.advance(task)
