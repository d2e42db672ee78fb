"""A set that fits is no plan that fits: PyTorch cuts again after the solver."""

from functools import partial

import pytest
import torch
from programs import blocks
from torch._functorch import config
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from acknap import _hooks


def keep_gelu(_context, op, *_args, **_kwargs):
    if op is torch.ops.aten.gelu.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def over(budget):
    """The bytes over a budget of a model with values that must be saved."""
    reports = []
    pair = _hooks.Pair(budget, tell=reports.append)
    contexts = partial(create_selective_checkpoint_contexts, keep_gelu)
    (first, *rest), x = blocks(4)

    def function(x):
        x = checkpoint(first, x, use_reentrant=False, context_fn=contexts)
        return torch.nn.Sequential(*rest)(x)

    torch._dynamo.reset()
    with config.patch(pair.options()):
        torch.compile(function, backend="aot_eager_decomp_partition")(x)
    (report,) = reports
    return report.saved - report.details["Allowed Bytes"]


@pytest.mark.parametrize("budget", [0.3, 0.4, 0.5, 0.6])
def test_sets_shrink_until_the_cut_fits(budget, monkeypatch):
    assert over(budget) <= 0
    monkeypatch.setattr(_hooks, "_ROUNDS", 0)
    assert over(budget) > 0
