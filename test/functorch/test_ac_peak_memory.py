# Owner(s): ["module: functorch"]
"""The simulated live bytes of a plan are those of the graphs emitted for it."""

import functools
import random
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import partitioners
from torch._functorch._activation_checkpointing.joint_schedule import (
    JointSchedule,
    UnsupportedGraphError,
)
from torch._functorch._activation_checkpointing.live_bytes import LiveBytes
from torch._functorch._activation_checkpointing.peak_memory import Timeline
from torch._functorch._activation_checkpointing.saved_storages import get_storage_sizes
from torch._functorch.compilers import nop
from torch._inductor.decomposition import select_decomp_table
from torch.profiler import profile, ProfilerActivity
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


class Layer(nn.Module):
    """Attention and a gated unit around a stream, with views of most values."""

    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.gate = nn.Linear(dim, 4 * dim, bias=False)
        self.out = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (2, -1)).transpose(-3, -2)
            for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        scores = (q @ k.transpose(-2, -1)).softmax(-1)
        x = x + (scores @ v).transpose(-3, -2).flatten(-2)
        y, gate = self.gate(x).chunk(2, -1)
        return x + self.out(F.silu(gate) * y)


def layers():
    return nn.Sequential(*(Layer(16) for _ in range(3))), torch.rand(2, 8, 16)


def convolutions():
    net = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3),
        nn.SiLU(),
    )
    return net, torch.rand(2, 2, 12, 12)


class Pieces(nn.Module):
    """Ops of several results, some unread, results that are views, and dropout."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 24)
        self.register_buffer("scale", torch.ones(24))

    def forward(self, x):
        self.scale.mul_(1.5)
        h = self.first(x) * self.scale
        a, b, _ = h.split((8, 8, 8), -1)
        values, index = a.sort(-1)
        spread, mean = torch.var_mean(b, -1, keepdim=True)
        y = F.dropout(values * spread + mean, 0.3) + index
        return y.cumsum(0), y.t()[2:], h.exp().sum()


def pieces():
    return Pieces(), torch.rand(10, 12)


def several_inputs(x, y, a):
    return (x @ a).sin().cos() @ a, (y @ a).tanh(), x * 2


def inputs():
    values = [torch.rand(6, 6, requires_grad=True) for _ in range(3)]
    return several_inputs, *values


PROGRAMS = {f.__name__: f for f in (layers, convolutions, pieces, inputs)}


@functools.lru_cache(None)
def capture(name, decomposed=True):
    """The joint graph of a program and the partitioner's notes on its nodes."""
    captured = []
    choose = partitioners.choose_saved_values_set

    def record(joint_graph, node_info, **_):
        captured.append((joint_graph, node_info))
        return choose(joint_graph, node_info, memory_budget=1)

    torch.manual_seed(0)
    function, *args = PROGRAMS[name]()
    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=nop,
        partition_fn=partitioners.min_cut_rematerialization_partition,
        decompositions=select_decomp_table() if decomposed else {},
    )
    with mock.patch.object(partitioners, "choose_saved_values_set", record):
        torch.compile(function, backend=backend)(*args)
    ((graph, info),) = captured
    return graph, info


def emit(graph, info, saved_values):
    """The forward and the backward that are made for a plan."""
    sizes = [n for n in saved_values if partitioners.is_sym_node(n)]
    forward, backward = partitioners._extract_fwd_bwd_modules(
        graph.owning_module,
        [n for n in saved_values if n not in sizes],
        sizes,
        num_fwd_outputs=len(info.fwd_outputs),
        static_lifetime_input_nodes=info.static_lifetime_input_nodes,
    )
    backward = partitioners.reordering_to_mimic_autograd_engine(backward)
    return [partitioners.raise_getitems(m).graph for m in (forward, backward)]


def storages(nodes):
    return {key for node in nodes for key in get_storage_sizes(node)}


def get_live_bytes(graph, free, held):
    """What lives during each call if each value is dropped after its last reader."""
    nodes = list(graph.nodes)
    readers = {node: {*node.users} for node in nodes}
    references, sizes, found = {}, {}, [0]

    def change(node, by):
        for key, size in get_storage_sizes(node).items():
            if key not in free:
                sizes[key] = size
                references[key] = references.get(key, 0) + by

    def measure():
        found.append(sum(sizes[key] for key, count in references.items() if count))

    for node in nodes:
        if node.op == "placeholder":
            change(node, 1)
    measure()
    for node in nodes:
        if node.op == "call_function":
            change(node, 1)
            measure()
            if not readers[node]:
                change(node, -1)
        for source in node.all_input_nodes:
            readers[source].discard(node)
            if not readers[source] and node.op != "output" and source not in held:
                change(source, -1)
    measure()
    return found


def walk(graph, info, saved_values):
    """The most live bytes of the forward and of the backward that are emitted."""
    static = storages(info.static_lifetime_input_nodes)
    static |= storages(n for n in graph.nodes if n.op == "get_attr")
    forward, backward = emit(graph, info, list(saved_values))
    # The caller holds the inputs while the forward runs.
    held = [n for n in forward.nodes if n.op == "placeholder"]
    return (
        max(get_live_bytes(forward, static, held)),
        max(get_live_bytes(backward, static, ())),
    )


def runtime_of(schedule):
    return [float(1 + i % 7) for i in range(len(schedule.nodes))]


def savable(schedule):
    """The bases that the forward makes and the backward could read."""
    needed = schedule.get_run(())
    return [i for i in sorted(needed) if schedule.makes[i] and i < schedule.steps[0]]


class TestLiveBytes(TestCase):
    @parametrize("seed", range(5))
    def test_changes_as_in_a_list(self, seed):
        rng = random.Random(seed)
        keys = sorted(rng.sample(range(10**4), 300))
        expected = {key: rng.randrange(100) for key in keys}
        live = LiveBytes(keys, list(expected.values()))
        for _ in range(600):
            start, end = sorted(rng.sample(range(-5, 10**4 + 5), 2))
            between = [v for k, v in expected.items() if start <= k < end]
            self.assertEqual(live.highest(start, end), max(between, default=None))
            following = min((k for k in expected if k >= start), default=None)
            if following is not None:
                self.assertEqual(
                    live.following(start), (following, expected[following])
                )
            kind = rng.random()
            if kind < 0.5:
                change = rng.randrange(-50, 50)
                live.add(start, end, change)
                for key in expected:
                    if start <= key < end:
                        expected[key] += change
            elif kind < 0.75 and start not in expected:
                expected[start] = rng.randrange(100)
                live.insert(start, expected[start])
            elif len(expected) > 1:
                key = rng.choice(list(expected))
                live.remove(key)
                del expected[key]
            # Not assertEqual, which takes its time with long lists.
            self.assertTrue(live.items() == sorted(expected.items()))
            peak = max(expected.values())
            self.assertEqual(live.peak(), peak)
            last = max(key for key, value in expected.items() if value == peak)
            self.assertEqual(live.last_peak(), last)


class TestTimeline(TestCase):
    @parametrize("name", list(PROGRAMS))
    @parametrize("decomposed", [False, True])
    def test_equals_the_emitted_graphs(self, name, decomposed):
        graph, info = capture(name, decomposed)
        schedule = JointSchedule(graph, info)
        rng = random.Random(0)
        for share in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0) * 3:
            saved = {i for i in savable(schedule) if rng.random() < share}
            timeline = Timeline(schedule, runtime_of(schedule), saved)
            values = schedule.get_saved_values(saved)
            expected = walk(graph, info, values)
            self.assertEqual(tuple(map(max, timeline.get_live_bytes())), expected)
            self.assertEqual(timeline.peak, max(expected))
            run = {n.name for n in emit(graph, info, values)[1].nodes}
            for i in schedule.get_run(saved):
                self.assertIn(schedule.nodes[i].name, run)

    @parametrize("name", list(PROGRAMS))
    def test_equals_the_emitted_graphs_of_cuts(self, name):
        graph, info = capture(name)
        schedule = JointSchedule(graph, info)
        for bans in (True, False):
            options = partitioners.MinCutOptions(bans, bans, bans, bans, bans)
            cut, _ = partitioners.solve_min_cut(graph, info, options)
            saved = schedule.get_saved(cut)
            timeline = Timeline(schedule, runtime_of(schedule), saved)
            expected = walk(graph, info, schedule.get_saved_values(saved))
            self.assertEqual(timeline.peak, max(expected))
            # Saving what views are of costs no more than saving the views.
            self.assertLessEqual(timeline.peak, max(walk(graph, info, cut)))

    @parametrize("name", list(PROGRAMS))
    @parametrize("decomposed", [False, True])
    def test_price_and_change_equal_a_new_timeline(self, name, decomposed):
        schedule = JointSchedule(*capture(name, decomposed))
        runtime, bases = runtime_of(schedule), savable(schedule)
        rng = random.Random(1)
        saved = {i for i in bases if rng.random() < 0.5}
        timeline = Timeline(schedule, runtime, saved)
        for _ in range(150):
            toggled = set(rng.sample(bases, min(rng.choice((1, 1, 2, 5)), len(bases))))
            change = timeline.price(toggled)
            saved = saved ^ toggled
            expected = Timeline(schedule, runtime, saved)
            if timeline.is_exact(change):
                self.assertEqual(change.peak, expected.peak)
            else:
                self.assertFalse(toggled <= {*schedule.forward})
            self.assertEqual(timeline.runtime + change.runtime, expected.runtime)
            before, after = schedule.get_run(saved ^ toggled), schedule.get_run(saved)
            self.assertEqual({*change.added}, after - before)
            self.assertEqual({*change.removed}, before - after)
            timeline.apply(change)
            self.assertEqual(timeline.saved, saved)
            live, expected_live = timeline.get_live_bytes(), expected.get_live_bytes()
            self.assertTrue(live == expected_live)

    @parametrize("name", list(PROGRAMS))
    def test_runtime_is_that_of_the_emitted_backward(self, name):
        graph, info = capture(name)
        schedule = JointSchedule(graph, info)
        runtime = runtime_of(schedule)
        steps = {schedule.nodes[i].name for i in schedule.steps}
        rng = random.Random(2)
        for _ in range(10):
            saved = {i for i in savable(schedule) if rng.random() < 0.5}
            _, backward = emit(graph, info, schedule.get_saved_values(saved))
            emitted = {n.name for n in backward.nodes if n.op == "call_function"}
            expected = sum(
                runtime[i]
                for i, node in enumerate(schedule.nodes)
                if schedule.is_step(i) and node.name in emitted - steps
            )
            timeline = Timeline(schedule, runtime, saved)
            of_steps = sum(runtime[i] for i in schedule.steps)
            self.assertEqual(timeline.runtime - of_steps, expected)

    @parametrize("name", list(PROGRAMS))
    def test_description_adds_up_to_the_peak(self, name):
        schedule = JointSchedule(*capture(name))
        for share in (0.0, 0.5, 1.0):
            rng = random.Random(3)
            saved = {i for i in savable(schedule) if rng.random() < share}
            timeline = Timeline(schedule, runtime_of(schedule), saved)
            self.assertEqual(sum(timeline.describe_peak().values()), timeline.peak)

    def test_static_inputs_cost_nothing_and_others_what_they_keep(self):
        graph, info = capture("inputs")
        schedule = JointSchedule(graph, info)
        held, _ = Timeline(schedule, runtime_of(schedule), ()).get_live_bytes()
        info = partitioners.replace(
            info, static_lifetime_input_nodes=partitioners.OrderedSet(info.inputs)
        )
        schedule = JointSchedule(graph, info)
        free, _ = Timeline(schedule, runtime_of(schedule), ()).get_live_bytes()
        expected = len(free) * [3 * 6 * 6 * 4]
        self.assertEqual([h - f for h, f in zip(held, free)], expected)

    def test_graph_without_tangents_is_refused(self):
        graph, info = capture("inputs")
        info = partitioners.replace(info, bwd_outputs=[None])
        with self.assertRaises(UnsupportedGraphError):
            JointSchedule(graph, info)


def allocated(function, *args):
    """The most bytes that the allocator had given out at once above the start."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        function(*args)
    events = profiler.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    most = now = 0
    for _, change in sorted(changes, key=lambda c: c[0]):
        now += change
        most = max(most, now)
    return most


def materialize(node):
    value = node.meta["val"]
    size = value.untyped_storage().nbytes() // value.element_size()
    whole = torch.zeros(size, dtype=value.dtype)
    return whole.as_strided(value.size(), value.stride(), value.storage_offset())


class TestAllocator(TestCase):
    @parametrize("name", ["layers", "pieces"])
    @parametrize("share", [0.5, 1.0])
    def test_equals_what_an_eager_backward_allocates(self, name, share):
        graph, info = capture(name)
        schedule = JointSchedule(graph, info)
        rng = random.Random(4)
        saved = {i for i in savable(schedule) if rng.random() < share}
        timeline = Timeline(schedule, runtime_of(schedule), saved)
        _, backward = emit(graph, info, schedule.get_saved_values(saved))
        module = torch.fx.GraphModule(graph.owning_module, backward)
        names = {node.name for node in info.static_lifetime_input_nodes}
        places = [node for node in backward.nodes if node.op == "placeholder"]
        static = {n: materialize(n) for n in places if n.name in names}

        def run():
            # As the runtime calls it: what is read for the last time is released.
            arguments = [static[n] if n in static else materialize(n) for n in places]
            torch.fx.Interpreter(module).boxed_run(arguments)

        run()
        expected = max(timeline.get_live_bytes()[1])
        # Some kernels have a few bytes of their own.
        self.assertLessEqual(expected, allocated(run))
        self.assertLessEqual(allocated(run), expected + 64)


instantiate_parametrized_tests(TestLiveBytes)
instantiate_parametrized_tests(TestTimeline)
instantiate_parametrized_tests(TestAllocator)

if __name__ == "__main__":
    run_tests()
