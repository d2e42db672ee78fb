"""Part the graphs of captured models, stock and patched, and record what comes out."""

import json
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.bench.finished import Partitions
from acknap.bench.point import Point
from acknap.knapsack import families
from acknap.knapsack.contenders import Contender
from acknap.models.parted import Parted
from acknap.models.tracer import TRANSFORMERS, Tracer


class Partition(ExitStack):
    """Measures points of the kind "partition", with workers that it closes."""

    def __init__(self, layout: Layout, pythons: Mapping[str, Path]) -> None:
        super().__init__()
        self._layout = layout
        self._pythons = pythons
        self._tracers: dict[tuple[str, bool], Tracer] = {}

    def __call__(self, point: Point) -> Partitions:
        """Part the largest graph of a model with every contender at every budget.

        The contenders take turns, and each budget starts with the next one. Each
        environment traces the model itself.

        Raises:
            HarnessError: The environments trace different graphs, or one cannot trace
                the model. A solver that fails is in the result.
        """
        name = point.problem.removeprefix("real:")
        file = families.folder(self._layout) / f"{name}.json"
        model = json.loads(file.read_text(encoding="utf-8"))["model"]
        order = [Contender.of(name) for name in point.contenders]
        sides = dict.fromkeys(side for side, _ in order)
        graphs = {side: self._capture(side, model) for side in sides}
        found = [graph for _, _, graph in graphs.values()]
        if len({graph["joint_nodes"] for graph in found}) > 1:
            raise HarnessError(f"{model}: stock and patched trace different graphs")
        rows: list[Parted] = []
        for budget in point.budgets:
            for contender in order:
                tracer, index, *_ = graphs[contender.side]
                try:
                    row = tracer.measure(index, contender.solver, budget)
                except HarnessError as error:  # the others go on
                    row = Parted(budget=budget, failed=str(error))
                name = ".".join(contender)
                rows.append(row.model_copy(update={"contender": name}))
            order = order[1:] + order[:1]
        return Partitions(
            items=len(found[0]["runtimes"]),
            total=sum(found[0]["runtimes"]),
            unbudgeted={side: k["unbudgeted"] for side, (*_, k) in graphs.items()},
            rows=tuple(rows),
        )

    def _capture(self, side: str, model: str) -> tuple[Tracer, int, dict[str, Any]]:
        """Trace a model; return its largest graph's place and knapsack."""
        key = side, model.startswith(TRANSFORMERS)
        if key not in self._tracers:
            made = Tracer(self._layout, side, self._pythons[side], model)
            self._tracers[key] = self.enter_context(closing(made))
        graphs = self._tracers[key].capture(model)
        index = max(range(len(graphs)), key=lambda i: len(graphs[i]["runtimes"]))
        return self._tracers[key], index, graphs[index]
