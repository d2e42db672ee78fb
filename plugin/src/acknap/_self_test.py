"""Whether a door works in this torch: a graph of ten nodes, parted and run."""

from typing import TypeAlias

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

from acknap import _planner
from acknap._budget import understand

_aten = torch.ops.aten
_Parts: TypeAlias = tuple[fx.GraphModule, fx.GraphModule]
# Too little for any intermediate result.
_SHARE = 1e-3


def run(door: str) -> None:
    """Part the graph by a door, and run the parts, outside of what is compiled now.

    Args:
        door: "private", the private partitioner, or "hooks", torch's with our solver.

    Raises:
        Exception: Whatever goes wrong.
    """
    part = {"private": _part_by_ours, "hooks": _part_by_hooks}[door]
    with tracing(None), unset_fake_temporarily(), torch.no_grad():
        _compare(*part(_joint_graph()))


def _part_by_ours(gm: fx.GraphModule) -> _Parts:
    request = understand(_SHARE)
    forward, backward, reports = _planner.partition(request, gm, [], num_fwd_outputs=1)
    if not (reports and reports[0].recomputed):
        raise RuntimeError("nothing is recomputed")
    return forward, backward


def _part_by_hooks(gm: fx.GraphModule) -> _Parts:
    from torch._functorch import partitioners

    from acknap._hooks import Pair

    pair = Pair(_SHARE, tell=lambda _: None)
    with functorch_config.patch(pair.options()):
        parts: _Parts = partitioners.min_cut_rematerialization_partition(
            gm, [], num_fwd_outputs=1
        )
    if not pair.plans:
        raise RuntimeError("the solver is not asked")
    return parts


def _joint_graph() -> fx.GraphModule:
    """Forward and backward of `(x @ w).sin()`, for x, as AOTAutograd has them."""
    graph = fx.Graph()
    x, w = graph.placeholder("primals_1"), graph.placeholder("primals_2")
    tangent = graph.placeholder("tangents_1")
    product = graph.call_function(_aten.mm.default, (x, w))
    result = graph.call_function(_aten.sin.default, (product,))
    slope = graph.call_function(_aten.cos.default, (product,))
    through = graph.call_function(_aten.mul.Tensor, (tangent, slope))
    turned = graph.call_function(_aten.permute.default, (w, [1, 0]))
    gradient = graph.call_function(_aten.mm.default, (through, turned))
    graph.output((result, gradient, None))
    with FakeTensorMode() as mode:
        given = map(mode.from_tensor, (*_inputs(), _tangent()))
        for node in graph.nodes:
            if node.op == "placeholder":
                node.meta["val"] = next(given)
            elif node.op == "call_function":
                arguments = fx.map_arg(node.args, lambda one: one.meta["val"])
                node.meta["val"] = node.target(*arguments)
    return fx.GraphModule(torch.nn.Module(), graph)


def _compare(forward: fx.GraphModule, backward: fx.GraphModule) -> None:
    """Raise unless the parts compute what autograd does."""
    (x, w), tangent = _inputs(), _tangent()
    result, *saved = forward(x, w)
    gradient = backward(*saved, tangent)[0]
    torch.testing.assert_close(result, (x @ w).sin())
    torch.testing.assert_close(gradient, (tangent * (x @ w).cos()) @ w.T)


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    # No random numbers: the user's stay as they are.
    return _ramp(32, 2), _ramp(2, 32)


def _tangent() -> torch.Tensor:
    return _ramp(32, 32)


def _ramp(*shape: int) -> torch.Tensor:
    size = shape[0] * shape[1]
    return torch.arange(size, dtype=torch.float32, device="cpu").view(shape) / size
