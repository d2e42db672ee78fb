"""A worker that captures models and parts their graphs in one environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acknap.base import venv
from acknap.base.errors import HarnessError
from acknap.base.layout import INSIDE, Layout
from acknap.models.parted import Parted
from acknap.torches.worker import Worker, WorkerError

WORKER = INSIDE / "models" / "capture.py"
EXACT = "torch/_functorch/_activation_checkpointing/knapsack_exact.py"
TRANSFORMERS = "transformers:"

# A graph of a hundred layers takes minutes; a user can interrupt.
_LIMIT = 24 * 3600.0


class Tracer(Worker):
    """One long-lived interpreter with torch, to be closed."""

    def __init__(
        self,
        layout: Layout,
        side: str,
        python: Path,
        model: str = "",
        folder: Path | None = None,
    ) -> None:
        """Start it.

        Args:
            layout: The repository.
            side: "stock" or "patched".
            python: The environment's interpreter.
            model: Of which library its models are, as `capture` takes them.
            folder: Where it works; one of its own if None.
        """
        self._exact = None if side == "patched" else layout.overlay / EXACT
        packages = [transformers(layout)] if model.startswith(TRANSFORMERS) else []
        try:
            super().__init__(side, python, (WORKER, folder or ".", *packages))
        except WorkerError as error:
            raise HarnessError(f"the {side} environment fails: {error}") from error

    def capture(self, model: str) -> list[dict[str, Any]]:
        """Trace a model and return the knapsacks of its graphs; they stay loaded.

        Raises:
            HarnessError: There is no such model, or it cannot be traced.
        """
        answer = self._ask({"op": "capture", "model": model})
        graphs: list[dict[str, Any]] = answer["graphs"]
        return graphs

    def measure(self, graph: int, solver: str, budget: float) -> Parted:
        """Part one of the graphs; a torch without `exact` is handed ours.

        Raises:
            HarnessError: The solver failed.
        """
        request = {"op": "measure", "graph": graph, "solver": solver, "budget": budget}
        file = str(self._exact) if solver == "exact" and self._exact else None
        return Parted.model_validate(self._ask(request | {"file": file}))

    def peak(self, graph: int) -> dict[str, Any]:
        """Return `peak` and `again`, as in `Parted`, of the partition measured last."""
        return self._ask({"op": "peak", "graph": graph})

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.ask(request, _LIMIT)
        except WorkerError as error:
            known = error.kind == "ModelError"
            raise HarnessError(error.message if known else str(error)) from error


def require_module(model: str) -> None:
    """Refuse a file in the place of a module, before anything is made.

    Raises:
        HarnessError: With the name to give instead.
    """
    file, _, function = model.partition(":")
    if file.endswith(".py"):
        path = Path(file)
        raise HarnessError(
            f"{file} is a file: name its module, {path.stem}:{function or 'FUNCTION'}, "
            f"in the folder {path.parent.absolute()}"
        )


def transformers(layout: Layout) -> Path:
    """Return the folder of the transformers library, installed on first use.

    Raises:
        HarnessError: It cannot be installed.
    """
    return venv.extra(layout, "capture-transformers", "transformers").site_packages
