# Owner(s): ["module: functorch"]
"""With a memory budget the backward uses the random numbers of the forward."""

import functools
from unittest import mock

import torch
import torch._functorch.config as config
import torch.nn.functional as F
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import partitioners
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.utils.checkpoint import checkpoint


BUDGETS = (0.0, 0.3)

# Without decompositions, so that random ops stay what they are.
PLAIN = aot_autograd(
    fw_compiler=boxed_nop,
    partition_fn=functools.partial(
        partitioners.min_cut_rematerialization_partition, compiler="inductor"
    ),
)
BACKENDS = {"plain": PLAIN, "decomposed": "aot_eager_decomp_partition"}


def dropout(x, a, b):
    return (F.dropout(x @ a, 0.3).sin() @ b).cos().sum()


def rand(x, a, b):
    return ((torch.rand(16, 32) * (x @ a)).sin() @ b).cos().sum()


def rand_like(x, a, b):
    y = x @ a
    return ((torch.rand_like(y) * y).sin() @ b).cos().sum()


def bernoulli(x, a, b):
    y = x @ a
    return ((torch.bernoulli(y.sigmoid()) * y).sin() @ b).cos().sum()


def noise(x, a, b):
    """Noise on which nothing but what is recomputed depends."""
    y = (x + torch.randn(16, 64)) @ a
    return ((y.tanh() + 1.0).sin() @ b).cos().sum()


def rrelu(x, a, b):
    return (F.rrelu(x @ a, training=True).sin() @ b).cos().sum()


def attention(x, a, b):
    y = (x @ a).view(1, 2, 16, 16)
    y = F.scaled_dot_product_attention(y, y.sin(), y.cos(), dropout_p=0.4)
    return (y.view(16, 32).sin() @ b).cos().sum()


def region(x, a, b):
    """A random op in a checkpointed region, whose state is saved, and one outside."""
    y = checkpoint(lambda t: F.dropout((t @ a).sin(), 0.3), x, use_reentrant=False)
    return (F.dropout(y, 0.3).sin() @ b).cos().sum()


FUNCTIONS = {
    f.__name__: f
    for f in (dropout, rand, rand_like, bernoulli, noise, rrelu, attention, region)
}


def step(function, budget, backend):
    """Loss and gradients of one step."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    args = [
        (torch.rand(shape) - 0.5).requires_grad_()
        for shape in ((16, 64), (64, 32), (32, 16))
    ]
    with config.patch(
        activation_memory_budget=budget,
        activation_memory_budget_solver="greedy",
        enable_autograd_cache=False,
    ):
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        torch.manual_seed(1)
        loss = compiled(*args)
        loss.backward()
    return loss, [arg.grad for arg in args]


class TestRandomOps(TestCase):
    @parametrize("budget", BUDGETS)
    @parametrize("backend", list(BACKENDS))
    @parametrize("function", list(FUNCTIONS))
    def test_gradients(self, function, backend, budget):
        """At budget 1 all random numbers, or masks, are saved."""
        function, backend = FUNCTIONS[function], BACKENDS[backend]
        expected = step(function, 1.0, backend)
        self.assertEqual(step(function, budget, backend), expected)

    @parametrize("budget", (0.0, 0.3))
    def test_gradient_is_that_of_the_loss(self, budget):
        """An oracle that knows nothing of partitions: finite differences."""
        torch.manual_seed(0)
        x = torch.randn(4, 8, dtype=torch.float64, requires_grad=True)
        a = torch.randn(8, 8, dtype=torch.float64, requires_grad=True)

        def function(x, a):
            return (F.dropout((x @ a).sin(), 0.5) @ a).cos().sum()

        def seeded(*args):
            torch.manual_seed(1)
            return compiled(*args)

        torch._dynamo.reset()
        with config.patch(
            activation_memory_budget=budget,
            activation_memory_budget_solver="greedy",
            enable_autograd_cache=False,
        ):
            compiled = torch.compile(function, backend="aot_eager_decomp_partition")
            torch.autograd.gradcheck(seeded, (x, a))

    @parametrize("budget", (0.0, 0.3))
    @parametrize("function", ("dropout", "rand"))
    def test_inductor(self, function, budget):
        # Its import compiles a file to see whether it can.
        from torch.testing._internal.inductor_utils import HAS_CPU

        if not HAS_CPU:
            self.skipTest("Inductor needs a C++ compiler for the CPU")
        function = FUNCTIONS[function]
        expected = step(function, 1.0, "inductor")
        self.assertEqual(step(function, budget, "inductor"), expected)

    def test_two_dropouts_train(self):
        """Both losses of two steps and all gradients, as at budget 1."""
        results = []
        for budget in (1.0, 0.2):
            torch._dynamo.reset()
            torch.manual_seed(0)
            layers = [nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.5)]
            model = nn.Sequential(*layers, nn.Linear(32, 32), nn.Dropout(0.2))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            losses = []
            with config.patch(
                activation_memory_budget=budget,
                activation_memory_budget_solver="greedy",
                enable_autograd_cache=False,
            ):
                compiled = torch.compile(model, backend="aot_eager_decomp_partition")
                for seed in range(2):
                    optimizer.zero_grad()
                    torch.manual_seed(seed)
                    loss = compiled(torch.rand(8, 32)).square().sum()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
            results.append((losses, list(model.parameters())))
        self.assertEqual(results[1], results[0])

    @parametrize("p,recomputable", [(0.0, True), (0.4, False)])
    def test_attention_without_dropout_is_not_random(self, p, recomputable):
        def function(x, a, b):
            y = (x @ a).view(1, 2, 16, 16)
            y = F.scaled_dot_product_attention(y, y.sin(), y.cos(), dropout_p=p)
            return (y.view(16, 32).sin() @ b).cos().sum()

        computed = []
        split = partitioners._extract_fwd_bwd_modules

        def record(*args, **kwargs):
            forward, backward = split(*args, **kwargs)
            computed.extend(
                node.target
                for node in backward.graph.nodes
                if "attention" in str(node.target) and "backward" not in node.name
            )
            return forward, backward

        with mock.patch.object(partitioners, "_extract_fwd_bwd_modules", record):
            step(function, 0.0, PLAIN)
        if p:
            self.assertEqual(computed, [])
        self.assertEqual(bool(computed), recomputable)

    @parametrize("budget", (0.0, 0.2))
    def test_the_mask_is_saved_rather_than_the_numbers(self, budget):
        saved = []
        split = partitioners._extract_fwd_bwd_modules

        def record(joint, saved_values, *args, **kwargs):
            result = split(joint, saved_values, *args, **kwargs)
            saved.extend(node.meta["val"].dtype for node in saved_values)
            return result

        with mock.patch.object(partitioners, "_extract_fwd_bwd_modules", record):
            step(dropout, budget, "aot_eager_decomp_partition")
        self.assertIn(torch.bool, saved)


instantiate_parametrized_tests(TestRandomOps)

if __name__ == "__main__":
    run_tests()
