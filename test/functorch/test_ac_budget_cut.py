# Owner(s): ["module: functorch"]
"""What a plan keeps alive, storage by storage, stays within the memory budget."""

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
from torch._functorch._activation_checkpointing.saved_storages import SavedStorages
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)
from torch.utils.checkpoint import checkpoint, CheckpointPolicy
from torch.utils.flop_counter import flop_registry, sdpa_flop_count, shape_wrapper


BUDGETS = (0.05, 0.2, 0.35, 0.5)
SOLVERS = ("exact", "dp")
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


def storages(nodes):
    """The storages of some nodes, with their bytes."""
    values = [node.meta["val"] for node in nodes]
    return {
        value.untyped_storage()._cdata: value.untyped_storage().nbytes()
        for value in values
        if isinstance(value, torch.Tensor)
    }


class Partition:
    """One run of the partitioner, measured by storages that stay alive for it."""

    def __init__(self, joint_graph, node_info, budget, solver="greedy", on=True):
        self.info, self.items = node_info, None
        solve = partitioners._optimize_runtime_with_given_memory

        def record(*args):
            if self.items is None:
                self.items = args[-1]
            return solve(*args)

        with (
            config.patch(
                activation_memory_budget_solver=solver,
                activation_memory_budget_count_storages=on,
            ),
            mock.patch.object(
                partitioners, "_optimize_runtime_with_given_memory", record
            ),
        ):
            choose = partitioners.choose_saved_values_set
            self.saved = choose(joint_graph, node_info, budget)
            default = choose(joint_graph, node_info, 1)
            least = choose(joint_graph, node_info, 0)
        self.live, high, self.least = map(self.keep, (self.saved, default, least))
        inputs = storages(node_info.inputs)
        low = {key: size for key, size in high.items() if key in inputs}
        self.live, self.least = sum(self.live.values()), sum(self.least.values())
        low, high = sum(low.values()), sum(high.values())
        self.allowed = low + budget * (high - low)

    def keep(self, saved):
        """The storages, but those of parameters, that the backward needs of a plan."""
        static = storages(self.info.static_lifetime_input_nodes)
        saved, needed, seen = set(saved), [], set()
        stack = [n for n in self.info.required_bw_nodes if n.op != "output"]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in saved:
                needed.append(node)
            else:
                stack.extend(node.all_input_nodes)
        return {k: size for k, size in storages(needed).items() if k not in static}


def fewest_bytes(info, banned):
    """The least bytes of storages from which the backward can be computed."""
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
            size = sum(storages([node]).values())
            search(needed, saved | {node}, computed, cost + size)

    start = [n for n in info.required_bw_nodes if n.op != "output"]
    search(start, set(), set(), 0)
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


def region(x, y, a, b, c, x2, d):
    """The backward needs nothing of the region, and 256 of x @ a's 2048 bytes."""
    products = ((x @ a)[:, :4], y @ b, y @ c)
    r = checkpoint(lambda t: t * 2.0, x2 @ d, use_reentrant=False)
    return sum(p.sin().sum() for p in products) + r.sum(1).sin().sum()


def part(x, a, w, y, b, c):
    """Of the first product the backward needs a quarter, which keeps all of it."""
    h = x @ a
    z = (h[48:] @ w).sin().sum() + h[:48].sum()
    return z + (y @ b).sin().sum() + (y @ c).sin().sum()


def several(x, a, w):
    """Three views of one storage, of which one is no view for the partitioner."""
    q, k, v = (x @ a).chunk(3, -1)
    return ((q.sin() @ k.cos().t()) @ v.tanh() + v.unbind(0)[0].exp() @ w).sum()


CASES = {
    "region": (
        region,
        ((16, 64), (16, 8), (64, 32), (8, 16), (8, 64), (16, 64), (64, 128)),
    ),
    "part": (part, ((64, 32), (32, 32), (32, 16), (32, 8), (8, 48), (8, 128))),
    "several": (several, ((16, 64), (64, 48), (16, 16))),
}


def kept_by_autograd(output, parameters=()):
    """Bytes of distinct storages that the graph of an output keeps alive."""
    parameters = {p.untyped_storage()._cdata for p in parameters}
    stack, seen, found = [output.grad_fn], set(), {}
    while stack:
        function = stack.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        for tensor in getattr(function, "saved_tensors", None) or ():
            storage = tensor.untyped_storage()
            found[storage._cdata] = storage.nbytes()
        stack.extend(following for following, _ in function.next_functions)
    return sum(size for key, size in found.items() if key not in parameters)


def keep_alive(function, args, budget, solver, on):
    """Bytes that a compiled function keeps alive for its backward."""
    torch._dynamo.reset()
    with config.patch(
        activation_memory_budget=budget,
        activation_memory_budget_solver=solver,
        activation_memory_budget_count_storages=on,
    ):
        compiled = torch.compile(function, backend="aot_eager_decomp_partition")
        return kept_by_autograd(compiled(*args))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.down(F.gelu(self.up(x)))


def keep_alive_blocks(budget, on):
    """Bytes that blocks, compiled one by one, keep alive, parameters apart."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    blocks = nn.ModuleList(Mlp() for _ in range(3))
    with config.patch(
        activation_memory_budget=budget,
        activation_memory_budget_solver="greedy",
        activation_memory_budget_count_storages=on,
    ):
        x = torch.rand(128, 64)
        for block in blocks:
            block.compile(backend="aot_eager_decomp_partition")
            x = block(x.float() * 1.0)
        return kept_by_autograd(x.sum(), blocks.parameters())


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
        self.assertLessEqual(result.live, result.allowed * (1 + 1e-9))

    @parametrize("model", list(MODELS))
    def test_knapsack_is_reached(self, model):
        self.assertIsNotNone(Partition(*capture_model(model), 0.3).items)

    @parametrize("model", list(MODELS))
    def test_off_changes_nothing(self, model):
        """Off is the default with every solver that a release has."""
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

    @parametrize("solver,on", [("dp", False), ("greedy", False), ("exact", True)])
    def test_default(self, solver, on):
        graph, info = capture_model("decoder_sdpa")
        with config.patch(activation_memory_budget_solver=solver):
            saved = partitioners.choose_saved_values_set(graph, info, 0.2)
        for value in (True, False):
            expected = Partition(graph, info, 0.2, solver, value).saved
            (self.assertEqual if value == on else self.assertNotEqual)(saved, expected)

    @parametrize("budget", (0.0, 0.3))
    @parametrize("model", list(MODELS))
    def test_gradients(self, model, budget):
        net, example = make(model)
        net(example).backward()
        expected = [p.grad.clone() for p in net.parameters()]
        net.zero_grad()
        with config.patch(
            activation_memory_budget=budget,
            activation_memory_budget_count_storages=True,
        ):
            compiled = torch.compile(net, backend="aot_eager_decomp_partition")
            compiled(example).backward()
        self.assertEqual([p.grad for p in net.parameters()], expected)

    def test_one_attention_output_is_saved_once(self):
        result = Partition(*capture_model("decoder_sdpa"), 0.3)
        inputs = storages(result.info.inputs)
        keys = [key for node in result.saved for key in storages([node])]
        keys = [key for key in keys if key not in inputs]
        self.assertEqual(len(keys), len(set(keys)))

    @parametrize("function", list(FUNCTIONS))
    def test_brute_force(self, function):
        f, example = FUNCTIONS[function]
        graph, info = capture(f, *example())
        options = partitioners.MinCutOptions(False, False, False, False, True)
        _, banned = partitioners.solve_min_cut(graph, info, options)
        items = [n for n in banned if n not in info.inputs and n.dist_from_bw < 1e9]
        priced = dataclasses.replace(options, price=SavedStorages(info).price)
        for n in range(len(items) + 1):
            for dont_ban in itertools.combinations(items, n):
                saved, _ = partitioners.solve_min_cut(
                    graph, info, priced, type(banned)(dont_ban)
                )
                expected = fewest_bytes(info, banned - dont_ban)
                self.assertEqual(sum(storages(saved).values()), expected)

    @parametrize("budget", (0.05, 0.1, 0.3, 0.5))
    def test_must_save_comes_first(self, budget):
        graph, info = capture(*make("decoder_eager"))
        marked = [n for n in graph.nodes if n.target is torch.ops.aten.bmm.default][:2]
        for node in marked:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        result = Partition(graph, info, budget, "exact")
        self.assertLessEqual(result.live, max(result.allowed, result.least))
        recomputed = SavedStorages(info).get_recomputed(result.saved)
        self.assertEqual(recomputed & set(marked), set())

    @parametrize("budget", (0.1, 0.2, 0.4))
    def test_alias_of_an_input_comes_first(self, budget):
        # No view for the partitioner, and so small that it bans the recomputation.
        def f(x, a, b):
            diagonal = x.diagonal()
            return (F.gelu(F.gelu(diagonal.sin() * x @ a) @ b) * diagonal).sum()

        graph, info = capture(f, rand(8, 8), rand(8, 16), rand(16, 8))
        result = Partition(graph, info, budget, "exact")
        self.assertLessEqual(result.live, max(result.allowed, result.least))

    @unittest.skipIf(not dist.is_available(), "needs torch.distributed")
    @parametrize("budget", (0.2, 0.4, 0.6))
    def test_collectives_come_first(self, budget):
        import torch.distributed._functional_collectives as funcol
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
        self.addCleanup(dist.destroy_process_group)

        def f(x, a, b):
            y = funcol.all_gather_tensor_autograd(x @ a, 0, dist.group.WORLD)
            return F.gelu(F.gelu(y @ b) @ b).sum()

        graph, info = capture(f, rand(8, 8), rand(8, 8), rand(8, 8))
        result = Partition(graph, info, budget, "exact")
        self.assertLessEqual(result.live, max(result.allowed, result.least))

    @parametrize("budget", (0.1, 0.4))
    @parametrize("solver", SOLVERS)
    @parametrize("case", list(CASES))
    def test_what_autograd_keeps(self, case, solver, budget):
        """No more than the budget allows, or the released cut keeps."""
        function, shapes = CASES[case]
        args = [rand(*shape) for shape in shapes]
        kept = [
            keep_alive(function, args, *setting)
            for setting in ((1.0, solver, True), (budget, solver, True))
        ]
        result = Partition(*capture(function, *args), budget, solver)
        self.assertEqual(kept[1], result.live)
        self.assertLessEqual(kept[1], max(result.allowed, result.least))
        self.assertLessEqual(kept[1], kept[0])

    def test_inputs_of_one_storage(self):
        """A cut pays for both, and saves other things that take more."""

        def f(x, y, mean, variance, weight, bias):
            y = F.batch_norm(y, mean, variance, weight, bias, training=True)
            return (x.cos() + y).sin().sum()

        base = rand(24, 16)
        others = (torch.rand(16), torch.rand(16), rand(16), rand(16))
        args = (base[8:], base[4:20], *others)
        for budget in (0.0, 0.2, 0.6):
            kept = [keep_alive(f, args, b, "greedy", True) for b in (1.0, budget)]
            self.assertLessEqual(kept[1], kept[0])

    @parametrize("budget", (0.1, 0.3))
    def test_blocks_under_autocast(self, budget):
        """A block's input is nobody's but the plan's: its cast is smaller."""
        kept = [keep_alive_blocks(budget, on) for on in (False, True)]
        self.assertLessEqual(kept[1], kept[0])

    def test_a_region_that_the_backward_does_not_need(self):
        """What only such a region reads is neither saved nor an item."""
        function, shapes = CASES["region"]
        graph, info = capture(function, *[rand(*shape) for shape in shapes])
        wide = [n for n in graph.nodes if n.name == "mm_3"]
        for budget in (0.1, 0.4, 0.7):
            result = Partition(graph, info, budget, "exact")
            self.assertEqual(set(result.saved) & set(wide), set())

    def test_dynamic_shapes(self):
        """Symbolic storages count by their hint."""
        a, b = rand(8, 24), rand(8, 8)
        x = rand(6, 8, 8)
        torch._dynamo.mark_dynamic(x, 0)
        graph, info = capture(attention, x, a, b)
        static = capture(attention, rand(6, 8, 8), a, b)
        price = SavedStorages(info).price
        expected = SavedStorages(static[1]).price
        (product,) = [n for n in graph.nodes if n.name == "mm"]
        (same,) = [n for n in static[0].nodes if n.name == "mm"]
        self.assertEqual(price(product), expected(same))

    @config.patch(recompute_views=True)
    def test_views_are_not_saved(self):
        result = Partition(*capture_model("decoder_sdpa"), 0.3)
        is_view = partitioners.get_default_op_list().is_view
        self.assertIsNotNone(result.items)
        self.assertFalse([n for n in result.saved if is_view(n)])


instantiate_parametrized_tests(TestBudgetCut)

if __name__ == "__main__":
    run_tests()
