# Owner(s): ["module: functorch"]
"""What the final cut leaves of the memory budget keeps more of the candidates."""

import itertools
from unittest import mock

import torch
import torch._functorch.config as config
import torch.nn.functional as F
from torch._functorch import partitioners
from torch._functorch._activation_checkpointing.saved_storages import SavedStorages
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


def narrow(x, y, a, b, c):
    """Of the first product, 2048 bytes, the backward needs a cast of 1024."""
    products = ((x @ a).bfloat16(), y @ b, y @ c)
    return sum(p.sin().sum().float() for p in products)


def chain(x, y, a, _b, c):
    """The sums are enough to go on from, so that no wide product is needed."""
    x = ((x @ a).sum(-1, keepdim=True).sigmoid() * x @ a).sin() @ a.t()
    return ((x.tanh() @ a).sin() @ a.t()).sum() + (y @ c).sin().sum()


def branches(x, y, a, b, c):
    left, right = (y @ c).chunk(2, -1)
    return ((left * right.sigmoid()).sum(-1, keepdim=True) * (y @ b)).exp().sum() + (
        (x @ a).bfloat16().sin().sum().float()
    )


FUNCTIONS = {f.__name__: f for f in (narrow, chain, branches)}
BUDGETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
SHAPES = ((16, 64), (16, 8), (64, 32), (8, 16), (8, 64))


def normalized(x, y, a, weight):
    return (
        (x.cos() + F.batch_norm(y, None, None, weight, training=True) @ a).sin().sum()
    )


def capture(function, args=None):
    """The joint graph of a function and the partitioner's notes on its nodes."""
    captured = []
    choose = partitioners.choose_saved_values_set

    def record(joint_graph, node_info, **_):
        captured.append((joint_graph, node_info))
        return choose(joint_graph, node_info, memory_budget=1)

    torch._dynamo.reset()
    args = args or [torch.rand(shape, requires_grad=True) for shape in SHAPES]
    with mock.patch.object(partitioners, "choose_saved_values_set", record):
        torch.compile(function, backend="aot_eager_decomp_partition")(*args)
    (result,) = captured
    return result


def storages(nodes):
    """The storages of some nodes, with their bytes."""
    values = [node.meta["val"] for node in nodes]
    return {v.untyped_storage()._cdata: v.untyped_storage().nbytes() for v in values}


def recomputed(info, saved, items):
    """The candidates that the backward computes again."""
    seen = set(saved)
    stack = [n for n in info.required_bw_nodes if n.op != "output"]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(node.all_input_nodes)
    return [n for n in items if n in seen and n not in saved]


class Run:
    """One run of the partitioner, with its calls of the solver and of the cut."""

    def __init__(self, graph, info, budget, solver="greedy", solve=None):
        self.info, self.solves, self.cuts = info, [], []
        solve = solve or partitioners._optimize_runtime_with_given_memory
        cut = partitioners.solve_min_cut

        def record_solve(*args):
            self.solves.append((args, solve(*args)))
            return self.solves[-1][1]

        def record_cut(graph, info, options, dont_ban=None):
            result = cut(graph, info, options, dont_ban)
            if self.solves:
                self.cuts.append(result[0])
            elif not hasattr(self, "default"):
                self.default = result[0]
            return result

        with (
            config.patch(
                activation_memory_budget_solver=solver,
                activation_memory_budget_count_storages=True,
            ),
            mock.patch.object(
                partitioners, "_optimize_runtime_with_given_memory", record_solve
            ),
            mock.patch.object(partitioners, "solve_min_cut", record_cut),
        ):
            self.saved = partitioners.choose_saved_values_set(graph, info, budget)
        self.keys = {key for n in info.inputs for key in storages([n])}
        self.inputs = self.size(self.default, True)
        self.range = self.size(self.default) - self.inputs
        if self.solves:
            _, self.memory, self.runtimes, _, _, self.items = self.solves[0][0]

    def size(self, nodes, inputs=False):
        """Bytes of the storages of nodes, or of the inputs among them."""
        found = storages(nodes)
        return sum(found[key] for key in found if not inputs or key in self.keys)

    def used(self, saved):
        return (self.size(saved) - self.inputs) / self.range

    def cost(self, saved):
        runtimes = dict(zip(self.items, self.runtimes))
        return sum(runtimes[n] for n in recomputed(self.info, saved, self.items))


def keep_second(_graph, memory, *_args):
    """A solver that keeps the second of three items, and both of two."""
    kept = [1] if len(memory) == 3 else [0, 1]
    return 1.0, kept, [i for i in range(len(memory)) if i not in kept]


class TestBudgetFill(TestCase):
    @parametrize("solver", ("greedy", "exact", "dp"))
    def test_spends_what_is_left(self, solver):
        # The knapsack keeps the first product, the cut saves its cast, so that the
        # second product (1024 of the 2457 bytes) fits. The third doesn't.
        run = Run(*capture(narrow), 0.4, solver)
        self.assertEqual(len(run.cuts), 2)
        self.assertEqual([run.used(saved) * 6144 for saved in run.cuts], [1024, 2048])
        self.assertEqual([run.cost(saved) for saved in run.cuts], [20480, 16384])

    @parametrize("budget", BUDGETS)
    @parametrize("function", list(FUNCTIONS))
    def test_monotone_and_within_budget(self, function, budget):
        run = Run(*capture(FUNCTIONS[function]), budget)
        if not run.solves:
            return
        self.assertLessEqual(len(run.cuts), 2)
        self.assertLessEqual(run.used(run.saved), budget * (1 + 1e-9))
        first = recomputed(run.info, run.cuts[0], run.items)
        last = recomputed(run.info, run.cuts[-1], run.items)
        self.assertLessEqual(set(last), set(first))
        # A second cut exactly where an item fits, and then it keeps at least one.
        memory = dict(zip(run.items, run.memory))
        left = budget - run.used(run.cuts[0])
        fits = any(memory[node] <= left for node in first)
        self.assertEqual(len(run.cuts), 2 if fits else 1)
        self.assertEqual(len(last) < len(first), fits)

    @parametrize("budget", BUDGETS)
    @parametrize("function", list(FUNCTIONS))
    def test_brute_force(self, function, budget):
        """As good as every plan that keeps the budget before the cut.

        A plan that keeps it only because the cut saves less than its candidates can
        be better, because the knapsack can't see it.
        """
        graph, info = capture(FUNCTIONS[function])
        run = Run(graph, info, budget, "exact")
        if not run.solves:
            return
        price = SavedStorages(info).price
        options = partitioners.MinCutOptions(False, False, False, False, True, price)
        before, after = [], []
        for n in range(len(run.items) + 1):
            for kept in itertools.combinations(run.items, n):
                dont_ban = [node for node in run.items if node not in kept]
                saved, _ = partitioners.solve_min_cut(
                    graph, info, options, type(info.required_bw_nodes)(dont_ban)
                )
                if run.size(kept) <= budget * run.range:
                    before.append(run.cost(saved))
                if run.used(saved) <= budget:
                    after.append(run.cost(saved))
        self.assertLessEqual(run.cost(run.saved), min(before))
        self.assertGreaterEqual(run.cost(run.saved), min(after))

    @parametrize("solver", ("dynamic_memory_budget_dp", "custom"))
    def test_solvers_with_a_will_of_their_own_are_asked_once(self, solver):
        if solver == "custom":
            solver = keep_second
        run = Run(*capture(narrow), 0.4, solver, keep_second)
        self.assertEqual(len(run.solves), 1)
        self.assertEqual(len(run.cuts), 1)

    def test_a_solver_that_is_over_what_is_left(self):
        """It keeps both items, of which one fits."""
        run = Run(*capture(narrow), 0.4, "dp", keep_second)
        self.assertEqual(len(run.solves), 2)
        self.assertEqual(run.used(run.saved) * 6144, 2048)

    def test_inputs_of_one_storage(self):
        """A cut pays for both, and can be over the budget where one cost is real."""
        base = torch.rand(24, 16, requires_grad=True)
        others = [torch.rand(s, requires_grad=True) for s in ((16, 16), (16,))]
        run = Run(*capture(normalized, (base[8:], base[4:20], *others)), 0.5)
        self.assertEqual([run.used(cut) > 0.5 for cut in run.cuts], [False, True])
        self.assertEqual(run.saved, run.cuts[0])

    def test_gradients(self):
        args = [torch.rand(shape, requires_grad=True) for shape in SHAPES]
        expected = torch.autograd.grad(narrow(*args), args)
        torch._dynamo.reset()
        with config.patch(
            activation_memory_budget=0.4,
            activation_memory_budget_solver="greedy",
            activation_memory_budget_count_storages=True,
        ):
            compiled = torch.compile(narrow, backend="aot_eager_decomp_partition")
            loss = compiled(*args)
        self.assertEqual(torch.autograd.grad(loss, args), expected)


instantiate_parametrized_tests(TestBudgetFill)

if __name__ == "__main__":
    run_tests()
