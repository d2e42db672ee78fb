# Owner(s): ["module: functorch"]
"""The peak of a training step keeps its limit, and costs no more than it has to."""

import contextlib
import functools
import itertools
import logging
import os
import subprocess
import sys
import unittest
from unittest import mock

import torch
import torch._functorch.config as config
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch._functorch import partitioners
from torch._functorch._activation_checkpointing import peak_budget
from torch._functorch._activation_checkpointing.joint_schedule import JointSchedule
from torch._functorch._activation_checkpointing.peak_memory import Timeline
from torch._functorch._activation_checkpointing.peak_planner import (
    get_waists,
    PeakPlanner,
)
from torch.profiler import profile, ProfilerActivity
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


class Block(nn.Module):
    def __init__(self, dim, dropout=0.0):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.dropout = dropout

    def forward(self, x):
        y = F.gelu(self.up(self.norm(x)))
        if self.dropout:
            y = F.dropout(y, self.dropout)
        return x + self.down(y)


def blocks(**options):
    return nn.Sequential(*(Block(16, **options) for _ in range(4))), torch.rand(32, 16)


def convolutions():
    layers = [nn.Conv2d(3, 6, 3, padding=1)]
    for _ in range(3):
        layers += [nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6), nn.SiLU()]
    return nn.Sequential(*layers), torch.rand(2, 3, 16, 16)


class Attention(nn.Module):
    def __init__(self, layers=2, dim=16):
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(layers))
        self.mlp = nn.ModuleList(Block(dim) for _ in range(layers))

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        for qkv, mlp in zip(self.qkv, self.mlp):
            q, k, v = (
                t.unflatten(-1, (2, -1)).transpose(1, 2) for t in qkv(x).chunk(3, -1)
            )
            scores = (q @ k.transpose(-2, -1)).masked_fill(~mask, float("-inf"))
            x = x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)
            x = mlp(x)
        return x


def attention():
    return Attention(), torch.rand(2, 16, 16)


class PostNorm(nn.Module):
    """Layers with a norm after each sum, as BERT's without attention."""

    def __init__(self, layers=12, dim=32):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList(
                (
                    nn.Linear(dim, dim),
                    nn.LayerNorm(dim),
                    nn.Linear(dim, 4 * dim),
                    nn.Linear(4 * dim, dim),
                    nn.LayerNorm(dim),
                )
            )
            for _ in range(layers)
        )

    def forward(self, x):
        for first, norm, up, down, last in self.layers:
            x = norm(x + first(x))
            x = last(x + down(nn.functional.gelu(up(x))))
        return x


def deep():
    return PostNorm(), torch.rand(256, 32)


class Mutating(nn.Module):
    """Multiplies by a buffer that it has overwritten."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Block(16), Block(16)
        self.register_buffer("scale", torch.ones(16))

    def forward(self, x):
        with torch.no_grad():
            self.scale.mul_(1.5)
        return self.second(self.first(x) * self.scale)


def mutating():
    return Mutating(), torch.rand(32, 16)


def policy(policy, _ctx, op, *_args, **_kwargs):
    is_mm = op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return policy if is_mm else CheckpointPolicy.PREFER_RECOMPUTE


class Checkpointed(nn.Module):
    def __init__(self, context_fn=None, **options):
        super().__init__()
        self.blocks = nn.ModuleList(Block(16, **options) for _ in range(3))
        self.options = {"context_fn": context_fn} if context_fn else {}

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, **self.options)
        return x


def checkpointed(**options):
    return Checkpointed(**options), torch.rand(32, 16)


def selective(kind):
    contexts = functools.partial(
        create_selective_checkpoint_contexts, functools.partial(policy, kind)
    )
    return checkpointed(context_fn=contexts)


class Sharing(nn.Module):
    """Views of one value, several results of one op, a value that is a gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        a, b, c = self.first(x).chunk(3, -1)
        values, order = a.sort(-1)
        y = values.t()[:8].exp().sum() + values.sigmoid() * b.cos()
        return self.second(y) * c + order


def sharing():
    return Sharing(), torch.rand(16, 16)


class Empty(nn.Module):
    """Saves a value of no bytes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        y = self.first(x)
        return self.second(torch.cat([y[:0].exp().sin(), y.sin()]))


def empty():
    return Empty(), torch.rand(8, 16)


PROGRAMS = {
    "blocks": blocks,
    "convolutions": convolutions,
    "attention": attention,
    "mutating": mutating,
    "sharing": sharing,
    "empty": empty,
    "checkpointed": checkpointed,
    "must_save": functools.partial(selective, CheckpointPolicy.MUST_SAVE),
    "must_recompute": functools.partial(selective, CheckpointPolicy.MUST_RECOMPUTE),
}
RANDOM_PROGRAMS = {
    "dropout": functools.partial(blocks, dropout=0.4),
    "checkpointed_dropout": functools.partial(checkpointed, dropout=0.4),
}


def make(name):
    torch.manual_seed(0)
    model, x = {**PROGRAMS, **RANDOM_PROGRAMS, "deep": deep}[name]()
    return model, x.requires_grad_()


def train(model, function, x):
    """Two steps from the same state: losses, gradients and buffers."""
    start = {name: value.clone() for name, value in model.state_dict().items()}
    found = []
    for step in range(2):
        model.zero_grad()
        x.grad = None
        torch.manual_seed(step)
        value = function(x).square().mean()
        value.backward()
        found.append(value.detach().clone())
        found += [p.grad.clone() for p in (x, *model.parameters())]
    found += [buffer.clone() for buffer in model.buffers()]
    model.load_state_dict(start)
    return found


def capture(function, *args):
    """The joint graphs of a function and the partitioner's notes on their nodes."""
    captured = []
    choose = partitioners.choose_saved_values_set

    def record(joint_graph, node_info, **_):
        captured.append((joint_graph, node_info))
        return choose(joint_graph, node_info, memory_budget=1)

    torch._dynamo.reset()
    with mock.patch.object(partitioners, "choose_saved_values_set", record):
        torch.compile(function, backend=BACKEND)(*args)
    return captured


def chain(seed, sums):
    """Products of random widths, each with a cheap op; with a sum of all or without."""
    generator = torch.Generator().manual_seed(seed)
    widths = torch.randint(2, 40, (6,), generator=generator).tolist()
    weights = [
        torch.rand(a, b, requires_grad=True) for a, b in itertools.pairwise(widths)
    ]

    def function(x):
        results = []
        for weight in weights:
            x = (x @ weight).sin()
            results.append(x.mean())
        return x.sum() + sum(results) if sums else x

    return function, torch.rand(16, widths[0], requires_grad=True)


@functools.lru_cache(None)
def capture_program(name):
    ((graph, info),) = capture(*make(name))
    return graph, info


def plan(graph, info, budget=0.5, limit=None, **options):
    """A plan's saved values, and what is reported about it."""
    options = {
        "activation_memory_budget_objective": "peak",
        "activation_memory_budget_bytes": limit,
        **options,
    }
    with config.patch(options):
        saved = partitioners.choose_saved_values_set(graph, info, budget)
    return saved, graph._memory_budget_report


@functools.lru_cache(None)
def search(name):
    """All plans that are found for a program, and what they are made of."""
    graph, info = capture_program(name)
    schedule = JointSchedule(graph, info)
    default = partitioners.choose_saved_values_set(graph, info, 1)
    return schedule, peak_budget._Search(graph, info, schedule, default)


@contextlib.contextmanager
def peak_objective(**options):
    torch._dynamo.reset()
    options = {"activation_memory_budget_objective": "peak", **options}
    with config.patch({"enable_autograd_cache": False, **options}):
        yield


class TestValues(TestCase):
    @parametrize("name", list(PROGRAMS))
    @parametrize("budget", [0.0, 0.3, 0.7])
    def test_are_those_of_eager(self, name, budget):
        model, x = make(name)
        expected = train(model, model, x)
        with peak_objective(activation_memory_budget=budget):
            found = train(model, torch.compile(model, backend=BACKEND), x)
        self.assertEqual(found, expected, atol=1e-5, rtol=1e-5)

    @parametrize("name", list(RANDOM_PROGRAMS))
    @parametrize("budget", [0.0, 0.5])
    def test_random_numbers_are_those_without_a_budget(self, name, budget):
        model, x = make(name)
        torch._dynamo.reset()
        expected = train(model, torch.compile(model, backend=BACKEND), x)
        with peak_objective(activation_memory_budget=budget):
            found = train(model, torch.compile(model, backend=BACKEND), x)
        for value, wanted in zip(found, expected):
            self.assertTrue(torch.equal(value, wanted))

    def test_sizes_can_be_symbolic(self):
        model, _ = make("blocks")
        with peak_objective(activation_memory_budget=0.1):
            compiled = torch.compile(model, backend=BACKEND, dynamic=True)
            for size in (32, 24, 9):
                x = torch.rand(size, 16, requires_grad=True)
                self.assertEqual(train(model, compiled, x), train(model, model, x))

    def test_graph_can_break(self):
        model, x = make("blocks")

        def function(x):
            y = model[1](model[0](x))
            torch._dynamo.graph_break()
            return model[3](model[2](y))

        expected = train(model, function, x)
        with peak_objective(activation_memory_budget=0.2):
            found = train(model, torch.compile(function, backend=BACKEND), x)
        self.assertEqual(found, expected)


class TestLimits(TestCase):
    @parametrize("name", [*PROGRAMS, *RANDOM_PROGRAMS])
    def test_peak_and_runtime_are_monotone(self, name):
        graph, info = capture_program(name)
        _, found = search(name)
        with mock.patch.object(peak_budget, "_Search", lambda *_: found):
            reports = [plan(graph, info, k / 40)[1] for k in range(40)]
        peaks = [report["Planned Peak Bytes"] for report in reports]
        runtimes = [report["Recomputed Runtime"] for report in reports]
        self.assertEqual(peaks, sorted(peaks))
        self.assertEqual(runtimes, sorted(runtimes, reverse=True))
        for report in reports:
            self.assertLessEqual(
                report["Planned Peak Bytes"], report["Target Peak Bytes"]
            )
            self.assertLessEqual(
                report["Target Peak Bytes"], report["Default Peak Bytes"]
            )

    @parametrize("name", list(PROGRAMS))
    def test_report_is_of_the_plan(self, name):
        graph, info = capture_program(name)
        schedule, found = search(name)
        for budget in (0.0, 0.4, 0.8):
            saved, report = plan(graph, info, budget)
            timeline = Timeline(schedule, found.runtime, schedule.get_saved(saved))
            self.assertEqual(timeline.peak, report["Planned Peak Bytes"])
            self.assertEqual(timeline.runtime, report["Recomputed Runtime"])

    # The convolutions of some CPUs allocate memory of their own.
    @parametrize("name", ["blocks", "attention", "sharing"])
    @parametrize("share", [0.1, 0.5, 0.9])
    def test_a_training_step_allocates_no_more(self, name, share):
        model, x = make(name)
        graph, info = capture_program(name)
        _, report = plan(graph, info, share)
        limit = report["Target Peak Bytes"]
        with peak_objective(activation_memory_budget_bytes=limit):
            compiled = torch.compile(model, backend=BACKEND)

            def step():
                compiled(x).sum().backward()

            step()
            x.grad = None
            model.zero_grad()
            with profile(
                activities=[ProfilerActivity.CPU], profile_memory=True
            ) as profiler:
                step()
        events = profiler.profiler.kineto_results.events()
        changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
        live = itertools.accumulate(change for _, change in sorted(changes))
        self.assertLessEqual(max(live), limit + 64)

    def test_limit_below_the_lowest_peak_warns_once_per_graph(self):
        model, x = make("blocks")
        graph, info = capture_program("blocks")
        lowest = plan(graph, info, 0)[1]["Lowest Peak Bytes"]
        expected = train(model, model, x)
        with (
            peak_objective(activation_memory_budget_bytes=1000),
            self.assertLogs(partitioners.log, logging.WARNING) as logs,
        ):
            found = train(model, torch.compile(model, backend=BACKEND), x)
        self.assertEqual(found, expected)
        (line,) = logs.output
        self.assertIn("activation_memory_budget_bytes is 1000", line)
        self.assertIn(f"{lowest} bytes", line)
        self.assertIn("gradients", line)

    def test_limit_above_the_default_peak_recomputes_no_more(self):
        for name in PROGRAMS:
            graph, info = capture_program(name)
            _, report = plan(graph, info, 1, limit=10**12)
            self.assertLessEqual(
                report["Recomputed Runtime"], report["Default Recomputed Runtime"]
            )
            self.assertLessEqual(
                report["Planned Peak Bytes"], report["Default Peak Bytes"]
            )

    @parametrize("limit", [-1, 1.5, "1GB", True])
    def test_limit_that_is_no_number_of_bytes_is_refused(self, limit):
        graph, info = capture_program("blocks")
        with self.assertRaisesRegex(RuntimeError, "_budget_bytes is a"):
            plan(graph, info, limit=limit)

    def test_unknown_objective_is_refused(self):
        graph, info = capture_program("blocks")
        with self.assertRaisesRegex(RuntimeError, "memory budget objective: fastest"):
            plan(graph, info, activation_memory_budget_objective="fastest")

    @parametrize("budget", [-0.1, 1.1])
    def test_budget_out_of_range_is_refused(self, budget):
        graph, info = capture_program("blocks")
        with self.assertRaisesRegex(RuntimeError, "valid ranges for memory budget"):
            plan(graph, info, budget)

    def test_default_options_make_no_such_plan(self):
        graph, info = capture_program("blocks")
        with mock.patch.object(JointSchedule, "__init__", side_effect=AssertionError):
            for budget in (0, 0.3, 1):
                partitioners.choose_saved_values_set(graph, info, budget)


class TestSearch(TestCase):
    @parametrize("name", ["blocks", "convolutions", "attention", "sharing"])
    def test_is_not_above_plans_for_saved_bytes(self, name):
        graph, info = capture_program(name)
        schedule, found = search(name)
        for budget, count in itertools.product((0.1, 0.2, 0.3, 0.5), (False, True)):
            with config.patch(activation_memory_budget_count_storages=count):
                saved = partitioners.choose_saved_values_set(graph, info, budget)
            timeline = Timeline(schedule, found.runtime, schedule.get_saved(saved))
            plan = found.planner.frontier.find(timeline.peak)
            self.assertIsNotNone(plan)
            # An op that has no formula counts one.
            self.assertLessEqual(plan.runtime, timeline.runtime + len(schedule.nodes))

    def test_is_near_the_optimum_of_small_graphs(self):
        misses = []
        for seed, sums in itertools.product(range(6), (False, True)):
            ((graph, info),) = capture(*chain(seed, sums))
            schedule = JointSchedule(graph, info)
            default = partitioners.choose_saved_values_set(graph, info, 1)
            found = peak_budget._Search(graph, info, schedule, default)
            run = schedule.get_run(())
            bases = [i for i in run if schedule.makes[i] and i < schedule.steps[0]]
            points = []
            for saved in itertools.chain.from_iterable(
                itertools.combinations(bases, k) for k in range(len(bases) + 1)
            ):
                timeline = Timeline(schedule, found.runtime, saved)
                points.append((timeline.peak, timeline.runtime))
            lowest, highest = min(points)[0], found.default.peak
            for k in range(11):
                target = lowest + k * (highest - lowest) // 10
                optimum = min(runtime for peak, runtime in points if peak <= target)
                plan = found.planner.frontier.find(target)
                # An op that has no formula counts one.
                if plan is None or plan.runtime > 1.05 * optimum + len(bases):
                    misses.append((seed, sums, k))
        self.assertLessEqual(len(misses), 0.05 * 6 * 2 * 11, misses)

    @parametrize("name", list(PROGRAMS))
    def test_plans_run_what_is_bound_as_the_default_plan_does(self, name):
        schedule, found = search(name)
        bound = {i for i, is_bound in enumerate(found._is_bound) if is_bound}
        expected = schedule.get_run(found.default.saved) & bound
        for plan in found.planner.frontier.plans:
            self.assertEqual(schedule.get_run(plan.saved) & bound, expected)

    @parametrize("name", list(PROGRAMS))
    def test_every_plan_costs_what_it_says(self, name):
        schedule, found = search(name)
        for plan in found.planner.frontier.plans:
            timeline = Timeline(schedule, found.runtime, plan.saved)
            self.assertEqual(timeline.peak, plan.peak)
            self.assertEqual(timeline.runtime, plan.runtime)

    def test_work_is_bounded(self):
        for name in PROGRAMS:
            schedule, found = search(name)
            planner = PeakPlanner(
                schedule,
                found.runtime,
                found._is_bound,
                [False] * len(schedule.nodes),
            )
            planner.descend(found.default.saved)
            self.assertLessEqual(planner.evaluations, 4 * len(found.default.saved) + 4)

    def test_values_between_layers_are_waists(self):
        schedule, _ = search("blocks")
        waists = [schedule.nodes[i] for i in get_waists(schedule)[0]]
        # What comes out of a block is a sum, and read by the next one's norm and sum.
        sums = [n for n in waists if len(n.users) > 1 and n.name.startswith("add")]
        self.assertGreaterEqual(len(sums), 3)

    def test_no_peak_is_lower_with_each_nth_waist(self):
        # As people checkpoint by hand.
        schedule, found = search("deep")
        waists, lasting = get_waists(schedule)
        for n in range(1, 12):
            for i in range(n):
                saved = found._complete(lasting.union(waists[i::n]))
                if saved is not None:
                    timeline = Timeline(schedule, found.runtime, saved)
                    self.assertLessEqual(found.lowest.peak, timeline.peak)

    def test_estimator_that_returns_inf_is_heeded(self):
        graph, info = capture_program("blocks")

        def estimate(node):
            return float("inf") if "mm" in node.name else 1.0

        with mock.patch.object(partitioners, "estimate_runtime", estimate):
            saved, _ = plan(
                graph,
                info,
                0,
                activation_memory_budget_runtime_estimator="profile",
            )
        schedule = JointSchedule(graph, info)
        default = partitioners.choose_saved_values_set(graph, info, 1)
        before = schedule.get_run(schedule.get_saved(default))
        for i in schedule.get_run(schedule.get_saved(saved)) - before:
            if i < schedule.steps[0]:
                self.assertNotIn("mm", schedule.nodes[i].name)


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import torch
torch.set_num_threads({threads})
import test_ac_peak_budget as t
for name in ("attention", "convolutions"):
    graph, info = t.capture_program(name)
    for budget in (0, 0.2, 0.6):
        print([n.name for n in t.plan(graph, info, budget)[0]])
"""


class TestDeterminism(TestCase):
    def test_plans_do_not_depend_on_hash_seed_and_threads(self):
        folder = os.path.dirname(os.path.abspath(__file__))
        outputs = set()
        for seed, threads in (("0", 1), ("1", 2)):
            script = SCRIPT.format(folder=folder, threads=threads)
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            outputs.add(
                subprocess.check_output([sys.executable, "-c", script], env=environment)
            )
        self.assertEqual(len(outputs), 1)


@unittest.skipUnless(dist.is_available(), "needs torch.distributed")
class TestCollectives(TestCase):
    def setUp(self):
        super().setUp()
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())

    def tearDown(self):
        dist.destroy_process_group()
        super().tearDown()

    def test_run_once(self):
        import torch.distributed._functional_collectives as collectives

        first, second = (torch.rand(16, 16, requires_grad=True) for _ in range(2))

        def function(x):
            y = collectives.all_gather_tensor(x @ first, 0, dist.group.WORLD)
            return (y.sin() @ second).cos()

        x = torch.rand(8, 16, requires_grad=True)
        ((graph, info),) = capture(function, x)
        schedule = JointSchedule(graph, info)
        for budget in (0, 0.3, 0.7):
            saved, _ = plan(graph, info, budget)
            run = schedule.get_run(schedule.get_saved(saved))
            names = [schedule.nodes[i].name for i in run if i < schedule.steps[0]]
            for name in names:
                self.assertNotIn("all_gather", name)


for test_case in (TestValues, TestLimits, TestSearch):
    instantiate_parametrized_tests(test_case)

if __name__ == "__main__":
    run_tests()
