"""Part the graphs of captured models, stock and patched, and record what comes out."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from acknap.bench_plan import Point
from acknap.paths import Layout
from acknap.tracer import Tracer, transformers


class Partition:
    """Measures points of the kind "partition"."""

    def __init__(self, layout: Layout, pythons: Mapping[str, Path]) -> None:
        self._layout = layout
        self._pythons = pythons
        self._tracers: dict[str, Tracer] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def __call__(self, point: Point) -> dict[str, Any]:
        """Part the largest graph of a model with every contender at every budget.

        The contenders take turns, and each budget starts with the next one. Each
        environment traces the model itself.
        """
        name = point.problem.removeprefix("real:")
        file = self._layout.root / "benchmarks" / "instances" / f"{name}.json"
        model = json.loads(file.read_text(encoding="utf-8"))["model"]
        pairs = [contender.split(".") for contender in point.contenders]
        sides = dict.fromkeys(side for side, _ in pairs)
        graphs = {side: self._capture(side, model) for side in sides}
        rows = []
        for budget in point.budgets:
            for side, solver in pairs:
                index = graphs[side][0]
                row = self._tracers[side].measure(index, solver, budget)
                rows.append({**row, "contender": f"{side}.{solver}"})
            pairs = pairs[1:] + pairs[:1]
        (items, total), *others = (graph[1:] for graph in graphs.values())
        same = all(other == (items, total) for other in others)
        return {"items": items, "total": total, "same_items": same, "rows": rows}

    def _capture(self, side: str, model: str) -> tuple[int, int, float]:
        """Trace a model; return its largest graph's place, items and runtime."""
        if side not in self._tracers:
            more = (transformers(self._layout),)
            python = self._pythons[side]
            tracer = Tracer(self._layout, side, python, packages=more)
            self._tracers[side] = self._stack.enter_context(tracer)
        graphs = self._tracers[side].capture(model)
        runtimes = [graph["runtimes"] for graph in graphs]
        index = max(range(len(graphs)), key=lambda i: len(runtimes[i]))
        return index, len(runtimes[index]), sum(runtimes[index])
