# Owner(s): ["module: functorch"]
"""What the partitioner saves stays within the budget that the knapsack kept."""

import dataclasses
import functools
import itertools
import unittest
from unittest import mock

import torch
import torch._functorch.config as config
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch._functorch import partitioners
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.utils.checkpoint import CheckpointPolicy
from torch.utils.flop_counter import flop_registry, sdpa_flop_count, shape_wrapper


BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
# Solvers that keep the budget itself. The dp solvers keep it after quantization.
SOLVERS = ("greedy", "exact")
SDPA = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def sdpa_as_on_cuda():
    """Treats the attention of the CPU as the partitioner treats that of CUDA."""
    types = partitioners.get_default_op_list()
    types = dataclasses.replace(
        types,
        fusible_ops=types.fusible_ops - [SDPA],
        compute_intensive_ops=types.compute_intensive_ops | [SDPA],
        recomputable_ops=types.recomputable_ops - [SDPA],
    )
    formula = shape_wrapper(lambda q, k, v, *_args, **_: sdpa_flop_count(q, k, v))
    return (
        mock.patch.object(partitioners, "get_default_op_list", lambda: types),
        mock.patch.dict(flop_registry, {SDPA: formula}),
    )


class Attention(nn.Module):
    def __init__(self, dim, heads, sdpa):
        super().__init__()
        self.heads, self.sdpa = heads, sdpa
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in self.qkv(x).chunk(3, -1)
        )
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            y = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).flatten(-2))


class Experts(nn.Module):
    def __init__(self, dim, experts, active):
        super().__init__()
        self.active = active
        self.router = nn.Linear(dim, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, dim, 2 * dim) * 0.1)
        self.down = nn.Parameter(torch.randn(experts, 2 * dim, dim) * 0.1)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        gate, index = self.router(tokens).softmax(-1).topk(self.active)
        gates = torch.zeros(len(tokens), len(self.up)).scatter(1, index, gate)
        inputs = tokens.expand(len(self.up), -1, -1)
        outputs = F.silu(inputs.bmm(self.up)).bmm(self.down)
        return (outputs * gates.t().unsqueeze(-1)).sum(0).view_as(x)


class Decoder(nn.Module):
    def __init__(self, layers=2, dim=32, heads=2, sdpa=True, experts=0):
        super().__init__()
        self.embedding = nn.Embedding(64, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * layers))
        self.attention = nn.ModuleList(
            Attention(dim, heads, sdpa) for _ in range(layers)
        )
        self.mlp = nn.ModuleList(
            Experts(dim, experts, 2)
            if experts
            else nn.Sequential(
                nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(dim, 64, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for i, (attention, mlp) in enumerate(zip(self.attention, self.mlp)):
            x = x + attention(self.norms[2 * i](x))
            x = x + mlp(self.norms[2 * i + 1](x))
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


class SkipNet(nn.Module):
    """Two levels down, two up, each joined with its level by a concatenation."""

    def __init__(self, width=8):
        super().__init__()

        def block(inputs, outputs, stride=1):
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, padding=1),
                nn.GroupNorm(2, outputs),
                nn.SiLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1),
                nn.SiLU(),
            )

        self.first = block(3, width)
        self.down1 = block(width, 2 * width, 2)
        self.down2 = block(2 * width, 4 * width, 2)
        self.up1 = block(6 * width, 2 * width)
        self.up2 = block(3 * width, width)
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.down1(a)
        c = self.down2(b)
        b = self.up1(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.up2(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.last(a).square().mean()


def tokens():
    return torch.arange(2 * 64).view(2, 64) * 7 % 64


MODELS = {
    "decoder_sdpa": (Decoder, tokens),
    "decoder_eager": (functools.partial(Decoder, sdpa=False), tokens),
    "experts": (functools.partial(Decoder, experts=4), tokens),
    "skip_net": (SkipNet, lambda: torch.rand(2, 3, 32, 32)),
}


def make(name):
    torch.manual_seed(0)
    model, example = MODELS[name]
    return model(), example()


def capture(function, *args):
    """The joint graph of a function and the partitioner's notes on its nodes."""
    captured = []
    choose = partitioners.choose_saved_values_set

    def record(joint_graph, node_info, **_):
        captured.append((joint_graph, node_info))
        return choose(joint_graph, node_info, memory_budget=1)

    torch._dynamo.reset()
    with mock.patch.object(partitioners, "choose_saved_values_set", record):
        torch.compile(function, backend="aot_eager_decomp_partition")(*args)
    (result,) = captured
    return result


@functools.lru_cache(None)
def capture_model(name):
    return capture(*make(name))


def size(nodes):
    return sum(map(partitioners._size_of, nodes))


class Partition:
    """One run of the partitioner: what the knapsack kept and what was saved."""

    def __init__(self, joint_graph, node_info, budget, solver="greedy"):
        self.items, self.kept = None, None
        cuts = []
        solve = partitioners._optimize_runtime_with_given_memory

        def record(*args):
            result = solve(*args)
            # A later call is about what an earlier one left.
            if self.items is None:
                self.items, self.kept = args[-1], [args[-1][i] for i in result[1]]
            return result

        cut = partitioners.solve_min_cut

        def record_cut(*args):
            result = cut(*args)
            cuts.append(result[0])
            return result

        with (
            config.patch(activation_memory_budget_solver=solver),
            mock.patch.object(
                partitioners, "_optimize_runtime_with_given_memory", record
            ),
            mock.patch.object(partitioners, "solve_min_cut", record_cut),
        ):
            self.saved = partitioners.choose_saved_values_set(
                joint_graph, node_info, memory_budget=budget
            )
        self.inputs = size(node_info.inputs)
        self.range = size(cuts[0]) - self.inputs
        # The partitioner's own measure: inputs that are not saved count as a gain.
        self.ratio = (size(self.saved) - self.inputs) / self.range
        inputs = set(node_info.inputs)
        self.activations = [node for node in self.saved if node not in inputs]
        self.used = size(self.activations) / self.range


def unavoidable(graph, info, items):
    """Nodes that may not be recomputed and that the knapsack doesn't know."""
    options = partitioners.MinCutOptions(False, False, False, False, True)
    _, banned = partitioners.solve_min_cut(graph, info, options)
    known = {*items, *info.inputs}
    return [n for n in banned if n not in known and n.dist_from_bw < int(1e9)]


def fewest_bytes(info, banned):
    """The least bytes beside the inputs from which the backward can be computed."""
    best = float("inf")

    def search(needed, saved, computed, cost):
        """Tries to save and to recompute each node that is needed."""
        nonlocal best
        needed = [n for n in needed if n not in saved and n not in computed]
        if cost >= best:
            return
        if not needed:
            best = cost
            return
        node, *needed = needed
        if node not in banned:
            inputs = node.all_input_nodes
            search([*inputs, *needed], saved, computed | {node}, cost)
        is_tensor = isinstance(node.meta["val"], torch.Tensor)
        if is_tensor and node not in info.required_bw_nodes:
            search(needed, saved | {node}, computed, cost + size([node]))

    start = [n for n in info.required_bw_nodes if n.op != "output"]
    search(start, set(info.inputs), set(), 0)
    return best


@functools.lru_cache(None)
def early_exits(model):
    return cuts_without_knapsack(*capture_model(model))


def cuts_without_knapsack(joint_graph, node_info):
    """The saved sets of the default, of less and of least saving."""
    options = partitioners.MinCutOptions(True, True, True, True, True)
    less = dataclasses.replace(
        options,
        ban_if_used_far_apart=False,
        ban_if_long_fusible_chains=False,
        ban_if_materialized_backward=False,
    )
    least = dataclasses.replace(less, ban_if_not_in_allowlist=False)
    return [
        partitioners.solve_min_cut(joint_graph, node_info, o)[0]
        for o in (options, less, least)
    ]


def attention(x, a, b):
    q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (x @ a).chunk(3, -1))
    y = F.scaled_dot_product_attention(q, k, v)
    return (y.transpose(1, 2).flatten(-2) @ b).square().sum()


def gated(x, a, b):
    y, gate = (x @ a).chunk(2, -1)
    return ((y * gate.sigmoid()) @ b).exp().sum()


def skip(x, a, b):
    y = F.silu(F.conv2d(x, a, stride=2, padding=1))
    return F.conv2d(torch.cat([F.interpolate(y, scale_factor=2), x], 1), b).sum()


def rand(*shape):
    return torch.rand(shape, requires_grad=True)


FUNCTIONS = {
    "attention": (attention, lambda: (rand(2, 8, 8), rand(8, 24), rand(8, 8))),
    "gated": (gated, lambda: (rand(8, 8), rand(8, 32), rand(16, 8))),
    "skip": (skip, lambda: (rand(1, 2, 8, 8), rand(4, 2, 3, 3), rand(2, 6, 3, 3))),
}


class TestBudgetCut(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        for patch in (
            *sdpa_as_on_cuda(),
            config.patch(enable_autograd_cache=False),
        ):
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)

    @parametrize("budget", BUDGETS)
    @parametrize("solver", SOLVERS)
    @parametrize("model", list(MODELS))
    def test_within_budget(self, model, solver, budget):
        result = Partition(*capture_model(model), budget, solver)
        if result.items is None:
            self.assertIn(result.saved, early_exits(model)[1:])
            return
        kept = size(result.kept) / result.range
        self.assertLessEqual(kept, budget * (1 + 1e-9))
        self.assertLessEqual(result.used, budget * (1 + 1e-9))
        self.assertLessEqual(result.ratio, budget * (1 + 1e-9))

    @parametrize("model", list(MODELS))
    def test_knapsack_is_reached(self, model):
        self.assertIsNotNone(Partition(*capture_model(model), 0.3).items)

    @parametrize("model", list(MODELS))
    def test_no_knapsack_no_change(self, model):
        graph, info = capture_model(model)
        exits = early_exits(model)
        choose = partitioners.choose_saved_values_set
        self.assertEqual(choose(graph, info, 1), exits[0])
        self.assertEqual(choose(graph, info, 0), info.inputs)
        low, high = size(info.inputs), size(exits[0])
        for saved in exits[1:]:
            ratio = (size(saved) - low) / (high - low)
            if ratio < 0.999:
                self.assertIn(choose(graph, info, ratio + 1e-3), exits[1:])

    @parametrize("budget", (0.1, 0.3))
    @parametrize("solver", SOLVERS)
    @parametrize("model", list(MODELS))
    def test_gradients(self, model, solver, budget):
        net, example = make(model)
        net(example).backward()
        expected = [p.grad.clone() for p in net.parameters()]
        net.zero_grad()
        with config.patch(
            activation_memory_budget=budget, activation_memory_budget_solver=solver
        ):
            compiled = torch.compile(net, backend="aot_eager_decomp_partition")
            compiled(example).backward()
        self.assertEqual([p.grad for p in net.parameters()], expected)

    def test_one_attention_output_is_saved_once(self):
        result = Partition(*capture_model("decoder_sdpa"), 0.3)
        tensors = [node.meta["val"] for node in result.activations]
        places = [(t.untyped_storage()._cdata, t.storage_offset()) for t in tensors]
        self.assertEqual(len(places), len(set(places)))

    @parametrize("function", list(FUNCTIONS))
    def test_brute_force(self, function):
        f, example = FUNCTIONS[function]
        graph, info = capture(f, *example())
        options = partitioners.MinCutOptions(False, False, False, False, True)
        _, banned = partitioners.solve_min_cut(graph, info, options)
        items = [n for n in banned if n not in info.inputs and n.dist_from_bw < 1e9]
        for n in range(len(items) + 1):
            for dont_ban in itertools.combinations(items, n):
                saved, _ = partitioners.solve_min_cut(
                    graph, info, options, type(banned)(dont_ban)
                )
                expected = fewest_bytes(info, banned - dont_ban)
                self.assertEqual(size(set(saved) - set(info.inputs)), expected)

    def check_excess(self, graph, info, budget):
        """Over the budget by no more than what the knapsack isn't told about."""
        result = Partition(graph, info, budget)
        self.assertIsNotNone(result.items)
        more = unavoidable(graph, info, result.items)
        self.assertLessEqual(size(result.kept), budget * result.range * (1 + 1e-9))
        limit = size(result.kept) + size(more)
        self.assertLessEqual(size(result.activations), limit)
        return more

    @parametrize("budget", (0.1, 0.3))
    def test_must_save_is_added(self, budget):
        graph, info = capture(*make("decoder_eager"))
        marked = [n for n in graph.nodes if n.target is torch.ops.aten.bmm.default][:2]
        for node in marked:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        self.assertEqual(self.check_excess(graph, info, budget), marked)

    @parametrize("budget", (0.1, 0.2))
    def test_alias_of_an_input_is_added(self, budget):
        # No view for the partitioner, and so small that it bans the recomputation.
        def f(x, a, b):
            diagonal = x.diagonal()
            return (F.gelu(F.gelu(diagonal.sin() * x @ a) @ b) * diagonal).sum()

        graph, info = capture(f, rand(8, 8), rand(8, 16), rand(16, 8))
        (alias,) = self.check_excess(graph, info, budget)
        self.assertIs(alias.target, torch.ops.aten.diagonal.default)

    @unittest.skipIf(not dist.is_available(), "needs torch.distributed")
    def test_collectives_are_added(self):
        import torch.distributed._functional_collectives as funcol
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
        self.addCleanup(dist.destroy_process_group)

        def f(x, a, b):
            y = funcol.all_gather_tensor_autograd(x @ a, 0, dist.group.WORLD)
            return F.gelu(F.gelu(y @ b) @ b).sum()

        graph, info = capture(f, rand(8, 8), rand(8, 8), rand(8, 8))
        for budget in (0.2, 0.4):
            more = self.check_excess(graph, info, budget)
            self.assertEqual({n.target.namespace for n in more}, {"_c10d_functional"})

    @config.patch(recompute_views=True)
    def test_views_are_not_saved(self):
        result = Partition(*capture_model("decoder_sdpa"), 0.3)
        is_view = partitioners.get_default_op_list().is_view
        self.assertIsNotNone(result.items)
        self.assertFalse([n for n in result.saved if is_view(n)])

    def test_mutated_inputs_are_not_saved(self):
        def f(x, a, b):
            y = x.sin()
            return (F.gelu(F.gelu(y @ a) @ b) * y).sum()

        graph, info = capture(f, rand(8, 8), rand(8, 16), rand(16, 8))
        x = info.inputs[0]
        x.meta["aot_runtime_epilogue_input_mutation"] = True
        if partitioners.choose_saved_values_set(graph, info, 0) == info.inputs:
            self.skipTest("this release can save such inputs")
        for budget in (0.1, 0.3, 0.5):
            result = Partition(graph, info, budget)
            self.assertIsNotNone(result.items)
            self.assertNotIn(x, result.saved)


instantiate_parametrized_tests(TestBudgetCut)

if __name__ == "__main__":
    run_tests()
