"""The saved values of several budgets for the joint graphs of a model, as JSON.

Runs in an environment with a patched torch, or with the package in a stock one::

    python saved_sets.py [--library FOLDER] SCRIPTS OUTPUT.json MODEL ...

The library is transformers, the same one on both sides.
"""

import argparse
import copy
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._dynamo.backends import debugging
from torch._functorch import config, partitioners

# A share of what is saved, one of the peak, and bytes of it.
BUDGETS: tuple[tuple[Any, str], ...] = (
    *((share, "saved") for share in (0.0, 0.05, 0.2, 0.5)),
    *((share, "peak") for share in (0.0, 0.3)),
    (4 * 10**9, "saved"),
)

Part = Callable[..., tuple[Any, Any]]
TORCHS: Part = partitioners.min_cut_rematerialization_partition
CHOOSE: Any = partitioners.choose_saved_values_set


def patched(budget: Any, objective: str) -> Part:
    """A patched torch's partitioner with a budget."""

    def part(*arguments: Any, **keywords: Any) -> Any:
        share = isinstance(budget, float)
        options = {
            "activation_memory_budget": budget if share else 1.0,
            "activation_memory_budget_solver": "exact",
            "activation_memory_budget_objective": objective if share else "peak",
            # Tracing names Inductor, for which the package leaves a tenth.
            "activation_memory_budget_bytes": None if share else budget * 9 // 10,
        }
        # Tracing has another one in its place.
        choose = mock.patch.object(partitioners, "choose_saved_values_set", CHOOSE)
        with config.patch(options), choose:
            return TORCHS(*arguments, **keywords)

    return part


def by_package(budget: Any, objective: str) -> Part:
    """The package's partitioner with a budget."""
    import acknap
    from acknap import _planner  # type: ignore[attr-defined]

    # Tracing has changed torch's: there attention is costly, as on CUDA.
    _planner._partitioners().get_default_op_list = partitioners.get_default_op_list
    made: Part = acknap.Partitioner(budget, objective=objective)  # type: ignore[attr-defined]
    return made


def saved_sets(model: str, make: Callable[[Any, str], Part]) -> list[list[str]]:
    """For each graph and budget what the forward saves, in order."""
    from acknap.inside.models.joint_graphs import trace

    found: list[list[str]] = []

    def part_all(gm: Any, joint_inputs: Any, **keywords: Any) -> Any:
        for budget, objective in BUDGETS:
            parts = make(budget, objective)(copy.deepcopy(gm), joint_inputs, **keywords)
            output = parts[0].graph.find_nodes(op="output")[0].args[0]
            found.append([str(one) for one in output[keywords["num_fwd_outputs"] :]])
        return TORCHS(gm, joint_inputs, **keywords)

    # The backend that traces has a name of its own for it.
    with mock.patch.object(debugging, TORCHS.__name__, part_all):
        trace(model)
    return found


def main() -> None:
    """Write the sets of some models."""
    parser = argparse.ArgumentParser()
    for name in ("--library", "scripts", "output"):
        parser.add_argument(name)
    parser.add_argument("models", nargs="+")
    asked = parser.parse_args()
    if asked.library:
        sys.path.insert(1, asked.library)
    torch.set_num_threads(1)
    has_series = hasattr(config, "activation_memory_budget_bytes")
    if importlib.util.find_spec("acknap"):
        import acknap

        # The package has the harness's name.
        acknap.__path__.append(str(Path(asked.scripts, "acknap")))
    else:
        sys.path.append(asked.scripts)
    make = patched if has_series else by_package
    sets = {model: saved_sets(model, make) for model in asked.models}
    Path(asked.output).write_text(json.dumps(sets))


if __name__ == "__main__":
    main()
