"""`try`: what each way to plan makes of a user's own model, in steps of training."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from acknap.base.errors import HarnessError
from acknap.base.files import require_folder, write_atomic
from acknap.base.layout import INSIDE, Layout
from acknap.base.progress import say, working
from acknap.base.text import short
from acknap.models.budgets import parse
from acknap.models.tracer import TRANSFORMERS, require_module, transformers
from acknap.torches import environments
from acknap.torches.environments import Environment
from acknap.torches.inspect import inspect
from acknap.torches.worker import Worker, WorkerError
from acknap.upstream.targets import Targets

WORKER = INSIDE / "tried" / "tried.py"
_FILE = "tried.json"
# A step of a large model on a CPU takes minutes; a user can interrupt.
_LIMIT = 24 * 3600.0


class Way(NamedTuple):
    """A way to plan, as the worker knows it and as a reader does."""

    side: str
    name: str
    title: str
    has_budget: bool = True


WAYS = (
    Way("stock", "no budget", "no budget", has_budget=False),
    Way("stock", "by hand", "by hand", has_budget=False),
    Way("stock", "dp", "released dp"),
    Way("patched", "dp", "series dp"),
    Way("patched", "exact", "series exact"),
    Way("patched", "peak", "series peak"),
)


class Tried(BaseModel, frozen=True):
    """One plan of a model, and steps of training by it.

    Attributes:
        side, way, budget: How it was planned.
        live: Bytes that stay alive after the forward, parameters left out.
        share: The same, as a share of what a budget is a share of.
        peak: Most bytes that live at once in one graph, as the emitted graphs say.
        again: What is computed again, of the forward's floating point operations.
        measured: Most bytes that were allocated at once for a step.
        seconds: Of a step.
        ratio: Its time, of that without a budget in the same process.
        off: How far loss and gradients are from eager's, or from those without a
            budget, as a share of their norm; None if there was nothing to compare.
        allowed: How far rounding can take them.
        failed: Why there are no numbers.
    """

    side: str
    way: str
    budget: float
    live: float | None = None
    share: float | None = None
    peak: int | None = None
    again: float | None = None
    measured: int | None = None
    seconds: float | None = None
    ratio: float | None = None
    off: float | None = None
    allowed: float | None = None
    failed: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether gradients are further off than rounding can take them."""
        return (self.off or 0.0) > (self.allowed or 0.0)

    @property
    def key(self) -> tuple[str, str, float]:
        return self.side, self.way, self.budget


class Record(BaseModel):
    """What was tried of a model.

    Attributes:
        model: As `capture` takes it.
        of: By side, the torch, its series, the graphs and the device that rows are of.
    """

    model: str
    of: dict[str, str] = {}
    rows: list[Tried] = []


def run_try(
    layout: Layout,
    targets: Targets,
    model: str,
    budgets: str,
    out: Path | None,
    target: str,
    *,
    run: bool,
) -> int:
    """Plan a model in all ways, train it by each plan, and show what that takes.

    Args:
        layout: The repository.
        targets: The release table.
        model: What `named.build` takes.
        budgets: Such as "0.1,0.3".
        out: The folder of table, picture and record, instead of tried/MODEL.
        target: The release, as published and patched.
        run: Whether steps of training are taken; else the plans are only counted.

    Returns:
        1 if the series failed or has wrong gradients somewhere, else 0.

    Raises:
        HarnessError: The model cannot be built or traced, or an environment not made.
    """
    from acknap.models.tried_page import show

    require_module(model)
    asked = parse(budgets)
    name = re.sub(r"\W+", "_", model.removeprefix(TRANSFORMERS)).strip("_")
    folder = (out or Path("tried") / name).absolute()
    record = _read(folder / _FILE, model)
    release = targets.get(target)
    both = environments.stock(layout, release), environments.patched(layout, release)
    for environment in both:
        inspect(environment)
        with closing(_start(layout, environment, model)) as worker:
            _try_side(worker, record, environment.kind, asked, folder, run=run)
    wanted = {(way.side, way.name, budget) for way, budget in _plans(asked)}
    rows = [row for row in record.rows if row.key in wanted]
    show(record.model_copy(update={"rows": rows}), folder)
    ours = (row for row in rows if row.side == "patched")
    return int(any(row.failed or row.is_wrong for row in ours))


def _read(path: Path, model: str) -> Record:
    """Return the record of a folder; refuse one that is of another model."""
    if not path.exists():
        return Record(model=model)
    try:
        found = Record.model_validate_json(path.read_bytes())
    except ValidationError:
        raise HarnessError(f"{path} is no record of `try`: remove it") from None
    if found.model != model:
        raise HarnessError(
            f"{path} is of {found.model}: name another folder with --out"
        )
    return found


def _start(layout: Layout, environment: Environment, model: str) -> Worker:
    packages = [transformers(layout)] if model.startswith(TRANSFORMERS) else []
    script = (WORKER, Path.cwd(), *packages)
    try:
        return Worker(environment.kind, environment.python, script, one_thread=False)
    except WorkerError as error:
        raise HarnessError(
            f"the {environment.kind} environment fails: {error}"
        ) from error


def _plans(budgets: Sequence[float]) -> Iterator[tuple[Way, float]]:
    for way in WAYS:
        for budget in budgets if way.has_budget else (1.0,):
            yield way, budget


def _try_side(
    worker: Worker,
    record: Record,
    side: str,
    budgets: Sequence[float],
    folder: Path,
    *,
    run: bool,
) -> None:
    """Try all ways of one torch that the record lacks; it is written after each."""
    with working(f"Tracing {record.model} in {side} torch"):
        of = _open(worker, record.model)
    require_folder(folder)
    if record.of.get(side) != of:  # the model, torch, the series or the device changed
        record.rows = [row for row in record.rows if row.side != side]
        record.of[side] = of
    done = {r.key for r in record.rows if not r.failed and (r.measured or not run)}
    plans = [(way, budget) for way, budget in _plans(budgets) if way.side == side]
    for number, (way, budget) in enumerate(plans, 1):
        key = (side, way.name, budget)
        if key in done:
            continue
        title = f"{way.title} at {short(budget)}" if way.has_budget else way.title
        with working(f"{side} torch, {number} of {len(plans)}: {title}"):
            row = _try_plan(worker, record.model, key, run=run)
        record.rows = [r for r in record.rows if r.key != key] + [row]
        write_atomic(folder / _FILE, record.model_dump_json(indent=1).encode())
        if row.failed:
            say(f"{title}: {row.failed}")


def _open(worker: Worker, model: str) -> str:
    """Let the worker trace a model; return what tells its graphs, torch and device."""
    try:
        found = worker.ask({"op": "open", "model": model}, _LIMIT)
    except WorkerError as error:
        known = error.kind == "ModelError"
        raise HarnessError(error.message if known else str(error)) from error
    there = worker.description
    of = f"{there['torch']} {found['code']}, graphs {found['graph']}"
    return f"{of}, steps on {there['device']}"


def _try_plan(
    worker: Worker, model: str, key: tuple[str, str, float], *, run: bool
) -> Tried:
    side, way, budget = key
    row = Tried(side=side, way=way, budget=budget)
    for op in ("plan", "train")[: 1 + run]:
        try:
            answer = worker.ask({"op": op, "way": way, "budget": budget}, _LIMIT)
        except WorkerError as error:
            known = error.kind == "ModelError"
            failed = " ".join((error.message if known else str(error)).split())
            if error.kind == "Died":  # its successor knows no model
                _open(worker, model)
            return row.model_copy(update={"failed": failed[:300]})
        row = row.model_copy(update=answer)
    return row
