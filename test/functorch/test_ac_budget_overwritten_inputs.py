# Owner(s): ["module: functorch"]
"""The backward does not read inputs that the forward has overwritten."""

import functools
from unittest import mock

import torch
import torch._functorch.config as config
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import partitioners
from torch._inductor.decomposition import select_decomp_table
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint, CheckpointPolicy


BUDGETS = (0.0, 0.2, 1.0)


def backend(mutations_in_graph):
    """Inductor's partition without its code.

    Mutations stay in the graph, where nobody notices that a saved input is overwritten,
    or are left to the runtime, after which autograd refuses such an input.
    """
    return aot_autograd(
        fw_compiler=boxed_nop,
        partition_fn=functools.partial(
            partitioners.min_cut_rematerialization_partition, compiler="inductor"
        ),
        decompositions=select_decomp_table,
        keep_inference_input_mutations=mutations_in_graph,
    )


def buffer(x, a, b, c):
    with torch.no_grad():
        c.mul_(3.0)
    return (((x @ a) * c).sin() @ b).cos().sum()


def read_before(x, a, b, c):
    """What is read before the mutation is needed after it."""
    gate = c.exp()
    with torch.no_grad():
        c.mul_(3.0)
    return (((x @ a) * gate).sin() @ b).cos().sum()


def view_read_before(x, a, b, c):
    first, second = c.split(16)
    gate = torch.cat([second.sin(), first.exp()])
    with torch.no_grad():
        c.add_(1.0)
    return (((x @ a) * gate).sin() @ b).cos().sum()


def view_overwritten(x, a, b, c):
    gate = c.exp()
    with torch.no_grad():
        c[8:].mul_(3.0)
    return (((x @ a) * gate * c).sin() @ b).cos().sum()


def activation(x, a, b, c):
    x.mul_(3.0)
    return (((x @ a) * c).sin() @ b).cos().sum()


def region(x, a, b, c):
    """The mutation is outside of the region, the first read inside."""
    y = checkpoint(lambda t: (t @ a).sin() * 2.0, x, use_reentrant=False)
    gate = c.exp()
    with torch.no_grad():
        c.mul_(3.0)
    return ((y * gate).sin() @ b).cos().sum()


FUNCTIONS = {
    f.__name__: f
    for f in (
        buffer,
        read_before,
        view_read_before,
        view_overwritten,
        activation,
        region,
    )
}


class Scaled(nn.Module):
    """Its buffer costs nothing to save, being alive anyway."""

    def __init__(self):
        super().__init__()
        # The norm makes the gradient of a bias zero.
        self.first, self.second = nn.Linear(64, 32, bias=False), nn.Linear(32, 16)
        self.norm = nn.BatchNorm1d(32)
        self.register_buffer("scale", torch.ones(32))

    def forward(self, x):
        self.scale.mul_(3.0)
        return self.second((self.norm(self.first(x)) * self.scale).sin()).cos().sum()


class TestOverwrittenInputs(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    def step(self, function, compiled, wrap=lambda t: t):
        """Gradients and buffer of one step."""
        torch.manual_seed(0)
        x, a, b = (
            wrap(torch.rand(shape) - 0.5).requires_grad_()
            for shape in ((16, 64), (64, 32), (32, 16))
        )
        c = wrap(torch.rand(32))
        (compiled or function)(x * 1.0, a, b, c).backward()
        return x.grad, a.grad, b.grad, c

    @parametrize("budget", BUDGETS)
    @parametrize("in_graph", (True, False))
    @parametrize("function", list(FUNCTIONS))
    def test_gradients(self, function, in_graph, budget):
        function = FUNCTIONS[function]
        with config.patch(
            activation_memory_budget=budget,
            activation_memory_budget_solver="greedy",
            enable_autograd_cache=False,
        ):
            compiled = torch.compile(function, backend=backend(in_graph))
            seen = self.step(function, compiled)
        self.assertEqual(seen, self.step(function, None))

    @parametrize("budget", BUDGETS)
    @parametrize("in_graph", (True, False))
    def test_module(self, in_graph, budget):
        results = []
        for compiled in (False, True):
            torch.manual_seed(0)
            model = Scaled().double()
            with config.patch(
                activation_memory_budget=budget,
                activation_memory_budget_solver="greedy",
                enable_autograd_cache=False,
            ):
                if compiled:
                    model.compile(backend=backend(in_graph))
                for seed in range(2):
                    model.zero_grad()
                    torch.manual_seed(seed)
                    model(torch.rand(8, 64).double()).backward()
            gradients = {name: p.grad for name, p in model.named_parameters()}
            results.append((gradients, model.state_dict()))
        self.assertEqual(results[1], results[0])

    @parametrize("budget", (0.0, 0.2))
    @parametrize("in_graph", (True, False))
    def test_subclass(self, in_graph, budget):
        def function(x, a, b, c):
            gate = c.exp()
            c.mul_(3.0)
            return (((x @ a) * gate).sin() @ b).cos().sum()

        def wrap(tensor):
            return TwoTensor(tensor, tensor + 0.25)

        with config.patch(
            activation_memory_budget=budget,
            activation_memory_budget_solver="greedy",
            enable_autograd_cache=False,
        ):
            compiled = torch.compile(function, backend=backend(in_graph))
            seen = self.step(function, compiled, wrap)
        for tensor, expected in zip(seen, self.step(function, None, wrap)):
            self.assertEqual(tensor.a, expected.a)
            self.assertEqual(tensor.b, expected.b)

    @parametrize("budget", (0.0, 0.4))
    def test_inductor(self, budget):
        # Its import compiles a file to see whether it can.
        from torch.testing._internal.inductor_utils import HAS_CPU

        if not HAS_CPU:
            self.skipTest("Inductor needs a C++ compiler for the CPU")
        with config.patch(
            activation_memory_budget=budget,
            activation_memory_budget_solver="greedy",
            enable_autograd_cache=False,
        ):
            seen = self.step(buffer, torch.compile(buffer))
        self.assertEqual(seen, self.step(buffer, None))

    def test_an_input_that_nobody_overwrites_is_recomputed_from(self):
        """A graph without mutations is parted as before."""
        marked = []
        split = partitioners._extract_fwd_bwd_modules

        def record(joint, *args, **kwargs):
            marked.extend(
                node
                for node in joint.graph.nodes
                if node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE
            )
            return split(joint, *args, **kwargs)

        def function(x, a, b, c):
            return (((x @ a) * c.exp()).sin() @ b).cos().sum()

        with mock.patch.object(partitioners, "_extract_fwd_bwd_modules", record):
            self.step(function, torch.compile(function, backend=backend(True)))
        self.assertEqual(marked, [])


instantiate_parametrized_tests(TestOverwrittenInputs)

if __name__ == "__main__":
    run_tests()
