# Owner(s): ["module: functorch"]
"""torch.compile with the solvers of the activation memory budget, from end to end.

The solvers that PyTorch 2.10 has are tested here, the exact ones in a file beside it.
"""

import contextlib
import copy
import functools
import tempfile
from fractions import Fraction
from typing import NamedTuple
from unittest import mock

import torch
import torch._functorch.config as config
import torch.nn.functional as F
from torch import nn
from torch._functorch import partitioners
from torch._inductor.utils import fresh_cache
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.utils.checkpoint import (
    checkpoint,
    CheckpointPolicy,
    create_selective_checkpoint_contexts,
)


BACKEND = "aot_eager_decomp_partition"
UNITS = 10000  # of the dp solvers: they round memory and budget to so many
SLACK = Fraction(1, 10**12)  # of the others: the rounding of the normalized sizes

# The partitioner asks the solver only where its own cuts do not settle the budget. At
# 0 it saves nothing but inputs, at 1 what the default cut saves. From about 0.7 on for
# the decoder, 0.67 for the experts and 0.5 to 0.63 for the convolutional net, depending
# on the release, a cut that recomputes what is cheap fits already.
SOLVED = {"decoder": (0.02, 0.2, 0.5), "experts": (0.02, 0.5), "convnet": (0.02, 0.4)}
SETTLED = {"decoder": (0.0, 0.8, 1.0), "experts": (0.0, 0.8), "convnet": (0.7, 1.0)}


class Block(nn.Module):
    """Attention, then a feed-forward layer or experts of which each token takes two."""

    def __init__(self, dim, experts):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.experts = experts
        if experts:
            self.router = nn.Linear(dim, experts, bias=False)
            self.up = nn.Parameter(torch.randn(experts, dim, 2 * dim) * 0.1)
            self.down = nn.Parameter(torch.randn(experts, 2 * dim, dim) * 0.1)
        else:
            self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def attend(self, x):
        q, k, v = (
            t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        weights = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(-2))

    def feed(self, x):
        if not self.experts:
            return self.down(F.gelu(self.up(x)))
        tokens = x.flatten(0, 1)
        gate, index = self.router(tokens).softmax(-1).topk(2)
        gates = torch.zeros(tokens.shape[0], self.experts).scatter(1, index, gate)
        inputs = tokens.expand(self.experts, -1, -1)
        outputs = F.silu(inputs.bmm(self.up)).bmm(self.down)
        return (outputs * gates.t().unsqueeze(-1)).sum(0).view_as(x)

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.feed(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, layers=1, experts=0, dim=32):
        super().__init__()
        self.embedding = nn.Embedding(64, dim)
        self.blocks = nn.ModuleList(Block(dim, experts) for _ in range(layers))
        self.head = nn.Linear(dim, 64, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.loss(x, tokens)

    def loss(self, x, tokens):
        logits = self.head(x[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class ConvNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()

        def layer(inputs):
            return nn.Sequential(
                nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.SiLU()
            )

        self.first, self.second, self.third = layer(3), layer(width), layer(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.first(x)
        x = F.max_pool2d(x + self.second(x), 2)
        x = x + self.third(x)
        return self.head(x.mean((2, 3))).logsumexp(-1).mean()


class Tanhs(nn.Module):
    """Of few kernels, for Inductor."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x.sum()


def save_products(_context, op, *_args, **_kwargs):
    """A user's policy: save what the attention's products of matrices give."""
    if op == torch.ops.aten.bmm.default:
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


class Checkpointed(Decoder):
    """A decoder with a policy of its own."""

    def forward(self, tokens):
        x = self.embedding(tokens)
        contexts = functools.partial(
            create_selective_checkpoint_contexts, save_products
        )
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
        return self.loss(x, tokens)


def tokens(batch=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(64, (batch, 32), generator=generator)


def image():
    return torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))


MODELS = {
    "decoder": (Decoder, tokens),
    "experts": (functools.partial(Decoder, experts=4), tokens),
    "convnet": (ConvNet, image),
}


def build(name):
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    return make(), inputs()


class Solve(NamedTuple):
    """One call of a solver, with the names of the nodes that are its items."""

    items: list
    memory: list
    runtimes: list
    max_memory: float
    saved: list
    recomputable: list


class Partition(NamedTuple):
    """Names of nodes in the two graphs that a joint graph was split into."""

    saved: list  # what the forward graph hands over
    taken: list  # what the backward graph takes, but for gradients
    recomputed: set  # what the backward graph computes
    must_save: list  # what a user's policy says must be saved


def names(nodes):
    return [node.name for node in nodes]


@contextlib.contextmanager
def recorded():
    """Records the solver's calls and the partitions made while it is active."""
    solves, partitions = [], []
    solve = partitioners._optimize_runtime_with_given_memory
    split = partitioners._extract_fwd_bwd_modules

    def record_solve(graph, memory, runtimes, max_memory, info, items):
        answer = solve(graph, memory, runtimes, max_memory, info, items)
        solves.append(Solve(names(items), memory, runtimes, max_memory, *answer[1:]))
        return answer

    def record_split(joint, *args, num_fwd_outputs, **kwargs):
        forward, backward = split(
            joint, *args, num_fwd_outputs=num_fwd_outputs, **kwargs
        )
        (outputs,) = next(iter(reversed(forward.graph.nodes))).args
        inputs = names(backward.graph.find_nodes(op="placeholder"))
        must_save = [
            node
            for node in joint.graph.nodes
            if node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE
        ]
        partitions.append(
            Partition(
                names(outputs[num_fwd_outputs:]),
                [name for name in inputs if "tangents" not in name],
                {n.name for n in backward.graph.nodes if n.op == "call_function"},
                names(must_save),
            )
        )
        return forward, backward

    with (
        mock.patch.object(
            partitioners, "_optimize_runtime_with_given_memory", record_solve
        ),
        mock.patch.object(partitioners, "_extract_fwd_bwd_modules", record_split),
    ):
        yield solves, partitions


class CompiledStep:
    """One step of training, compiled with a solver and compared with eager."""

    solver = ""
    quantized = False

    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        # A compiled graph from a cache has been partitioned before.
        patches = config.patch(
            activation_memory_budget_solver=self.solver, enable_autograd_cache=False
        )
        patches.__enter__()
        self.addCleanup(patches.__exit__, None, None, None)

    def step(self, model, inputs, budget, backend=BACKEND, estimator="flops"):
        """Checks gradients and plan of one step; returns what `recorded` recorded."""
        eager = copy.deepcopy(model)
        eager(inputs).backward()
        with (
            config.patch(
                activation_memory_budget=budget,
                activation_memory_budget_runtime_estimator=estimator,
            ),
            recorded() as (solves, partitions),
        ):
            compiled = torch.compile(model, backend=backend, fullgraph=True)
            compiled(inputs).backward()
        self.compare(model, eager)
        for partition in partitions:
            self.assertEqual(sorted(partition.saved), sorted(partition.taken))
            self.assertEqual(len(partition.saved), len(set(partition.saved)))
            # The plan of the budget is the first; another may spend what it left. With
            # no capacity at all another cut can keep less alive.
            for solve in [one for one in solves[:1] if one.max_memory > 0]:
                kept = {solve.items[i] for i in solve.saved}
                self.assertEqual(kept & partition.recomputed, set())
        # Dynamic solvers take no capacity for an answer.
        for solve in [one for one in solves if one.max_memory > 0]:
            self.check_solve(solve)
        return solves, partitions

    def compare(self, model, eager):
        gradients, expected = (
            {name: p.grad for name, p in one.named_parameters()}
            for one in (model, eager)
        )
        self.assertEqual(gradients, expected)
        self.assertEqual(model.state_dict(), eager.state_dict())

    def check_solve(self, solve):
        n = len(solve.items)
        self.assertEqual(sorted(solve.saved + solve.recomputable), list(range(n)))
        if self.quantized:
            used = sum(round(solve.memory[i] * UNITS) for i in solve.saved)
            self.assertLessEqual(used, round(solve.max_memory * UNITS))
        else:
            used = sum(Fraction(solve.memory[i]) for i in solve.saved)
            self.assertLessEqual(used, Fraction(solve.max_memory) * (1 + SLACK))


class BudgetTests(CompiledStep):
    """The tests of every solver; a class of its own gives them its name."""

    @parametrize("budget", SOLVED["decoder"])
    def test_budget(self, budget):
        solves, partitions = self.step(*build("decoder"), budget)
        self.assertEqual(solves[0].max_memory, budget)
        self.assertEqual(len(partitions), 1)

    @parametrize(
        "name,estimator",
        [("convnet", "testing"), ("decoder", "testing"), ("experts", "flops")],
    )
    def test_model(self, name, estimator):
        solves, _ = self.step(*build(name), 0.25, estimator=estimator)
        self.assertEqual(solves[0].max_memory, 0.25)

    def test_must_save(self):
        torch.manual_seed(0)
        solves, (partition,) = self.step(Checkpointed(), tokens(), 0.1)
        must_save = set(partition.must_save)
        self.assertGreaterEqual(len(must_save), 2)
        self.assertEqual(must_save & partition.recomputed, set())
        self.assertEqual(must_save & set(solves[0].items), set())

    def test_dynamic_shapes(self):
        model, inputs = build("decoder")
        torch._dynamo.mark_dynamic(inputs, 0)
        solves, _ = self.step(model, inputs, 0.25)
        # Where storages are counted, what must be saved comes first.
        self.assertLessEqual(solves[0].max_memory, 0.25)
        self.assertGreater(solves[0].max_memory, 0.2)
        # Another batch needs no other plan, and has gradients of its own.
        model.zero_grad()
        with torch.compiler.set_stance("fail_on_recompile"):
            solves, _ = self.step(model, tokens(batch=3), 0.25)
        self.assertEqual(solves, [])

    def test_losses_of_five_steps(self):
        plain, asked = self.train(1.0)
        self.assertFalse(asked)
        saving, asked = self.train(0.3)
        self.assertTrue(asked)
        self.assertEqual(saving, plain, atol=1e-5, rtol=1e-5)

    def train(self, budget):
        """Returns the losses of five steps, and whether the solver was asked."""
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Decoder()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        losses = []
        with config.patch(activation_memory_budget=budget), recorded() as (solves, _):
            compiled = torch.compile(model, backend=BACKEND, fullgraph=True)
            for seed in range(5):
                optimizer.zero_grad()
                loss = compiled(tokens(seed=seed))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, bool(solves)


class ParetoTests:
    """Of solvers that solve one budget a call; the others' plot would take minutes."""

    def test_pareto_plot(self):
        model, inputs = build("convnet")
        pyplot = mock.MagicMock()  # matplotlib may be missing; its drawing is not ours
        modules = {"matplotlib": mock.Mock(pyplot=pyplot), "matplotlib.pyplot": pyplot}
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict("sys.modules", modules),
            config.patch(
                activation_memory_budget=0.25,
                visualize_memory_budget_pareto=True,
                memory_budget_pareto_dir=folder,
            ),
            recorded() as (solves, _),
        ):
            torch.compile(model, backend=BACKEND, fullgraph=True)(inputs).backward()
        asked = {solve.max_memory for solve in solves}
        self.assertLessEqual({0.0, 0.25, 0.5, 1.0}, asked)
        for solve in solves:
            self.check_solve(solve)
        (_, recomputed), _ = pyplot.plot.call_args
        self.assertEqual(max(recomputed), recomputed[0])
        pyplot.gcf().savefig.assert_called_once()


class InductorTests:
    """Once for the released solvers and once for the new: it takes half a minute."""

    def test_inductor(self):
        # Its import compiles a file to see whether it can.
        from torch.testing._internal.inductor_utils import HAS_CPU

        if not HAS_CPU:
            self.skipTest("Inductor needs a C++ compiler for the CPU")
        torch.manual_seed(0)
        with fresh_cache():
            inputs = torch.randn(128, 64)
            solves, _ = self.step(Tanhs(), inputs, 0.5, backend="inductor")
        self.assertEqual(solves[0].max_memory, 0.5)
        self.assertEqual(len(solves[0].items), 3)


instantiate_parametrized_tests(BudgetTests)


class TestDp(BudgetTests, ParetoTests, InductorTests, TestCase):
    solver = "dp"
    quantized = True


class TestSlidingHirschberg(BudgetTests, ParetoTests, TestCase):
    solver = "dp_knapsack_sliding_hirschberg"
    quantized = True


class TestDynamicMemoryBudgetDp(BudgetTests, TestCase):
    solver = "dynamic_memory_budget_dp"
    quantized = True


class TestGreedy(BudgetTests, ParetoTests, TestCase):
    solver = "greedy"


class TestIlp(BudgetTests, ParetoTests, TestCase):
    solver = "ilp"


@instantiate_parametrized_tests
class TestSolverName(CompiledStep, TestCase):
    solver = "no_such_solver"

    @parametrize("name,budget", [(name, b) for name in SETTLED for b in SETTLED[name]])
    def test_nobody_is_asked(self, name, budget):
        solves, partitions = self.step(*build(name), budget)
        self.assertEqual(solves, [])
        self.assertEqual(len(partitions), 1)

    @parametrize("name,budget", [(name, b) for name in SOLVED for b in SOLVED[name]])
    def test_unknown_name_is_refused(self, name, budget):
        message = "Not aware of memory budget knapsack solver: no_such_solver"
        with self.assertRaisesRegex(RuntimeError, message):
            self.step(*build(name), budget)


if __name__ == "__main__":
    run_tests()
