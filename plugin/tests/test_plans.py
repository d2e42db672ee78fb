"""Plans are those that were asked for, in every way into a compile."""

import copy
import logging
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from programs import blocks, eager_parts, overwriting, train
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import acknap

BUDGETS = [0.0, 0.3, "40KB"]


def plan(budget, program=blocks, **options):
    """The report of a program's graph within a budget."""
    model, x = program()
    backend = eager_parts(acknap.Partitioner(budget, **options))
    torch.compile(model, backend=backend)(x)
    return acknap.last_report()


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("program", [blocks, overwriting])
def test_gradients_and_buffers_are_those_of_eager(program, budget):
    model, x = program()
    expected = train(model, model, x)
    backend = eager_parts(acknap.Partitioner(budget))
    found = train(model, torch.compile(model, backend=backend), x)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("budget", BUDGETS)
def test_dropout_draws_the_numbers_of_the_default_plan(budget):
    model, x = blocks(dropout=0.4)
    default = eager_parts(acknap.Partitioner(1))
    expected = train(model, torch.compile(model, backend=default), x)
    backend = eager_parts(acknap.Partitioner(budget))
    found = train(model, torch.compile(model, backend=backend), x)
    torch.testing.assert_close(found, expected)


def test_less_is_saved_with_less():
    saved = [plan(budget).saved for budget in (0.05, 0.3, 0.6, 1)]
    assert saved == sorted(saved)
    assert saved[0] < saved[-1]


def test_bytes_bound_the_peak():
    default, lowest = plan(1).peak, plan(0, objective="peak").peak
    limit = (default + lowest) // 2
    report = plan(limit)
    assert lowest < report.peak <= report.limit == limit
    assert report.kept
    assert sum(report.filled_by.values()) == report.peak


def test_a_limit_that_cannot_be_kept_is_said(caplog):
    report = plan(2)
    assert report.kept is False
    warning = [r for r in caplog.records if r.name == "acknap"][-1]
    assert warning.levelno == logging.WARNING
    assert "over the limit" in warning.getMessage()


def test_one_line_says_it(caplog):
    caplog.set_level(logging.INFO, "acknap")
    report = plan(0.3)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "acknap"]
    assert line == str(report)
    assert "asked 0.3; knapsack; planned peak" in line
    assert line.endswith("cache miss")


def test_a_copy_plans_the_same():
    partitioner = acknap.Partitioner("40KB")
    for other in (copy.deepcopy(partitioner), pickle.loads(pickle.dumps(partitioner))):
        assert other.request == partitioner.request
        assert other.uuid() == partitioner.uuid()


def test_default_plan_is_said():
    assert plan(1).way == "default plan: the budget is 1"


def marked(policy, _context, op, *_args, **_kwargs):
    is_product = op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return policy if is_product else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize(
    "policy", [CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE]
)
def test_marks_of_checkpointed_regions_are_obeyed(policy):
    contexts = partial(create_selective_checkpoint_contexts, partial(marked, policy))
    model, x = blocks()

    def function(x):
        for block in model:
            x = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
        return x

    parted = []

    class Keeping(acknap.Partitioner):
        def __call__(self, *args, **keywords):
            parted.append(super().__call__(*args, **keywords))
            return parted[-1]

    expected = train(model, function, x)
    backend = eager_parts(Keeping(0.3))
    found = train(model, torch.compile(function, backend=backend), x)
    torch.testing.assert_close(found, expected)
    addmm = torch.ops.aten.addmm.default
    again = parted[0][1].graph.find_nodes(op="call_function", target=addmm)
    assert bool(again) == (policy is CheckpointPolicy.MUST_RECOMPUTE)


@pytest.mark.skipif(
    not hasattr(torch.autograd.graph, "region_activation_memory_budget"),
    reason="this torch has no budgets of regions",
)
def test_budget_of_a_region_comes_first():
    model, x = blocks()

    def function(x):
        with torch.autograd.graph.region_activation_memory_budget(0.1):
            return model(x)

    backend = eager_parts(acknap.Partitioner(0.9))
    expected = train(model, model, x)
    found = train(model, torch.compile(function, backend=backend), x)
    torch.testing.assert_close(found, expected)
    assert acknap.last_report().asked == "0.9, by the model 0.1"
    assert acknap.last_report().saved == plan(0.1).saved


def joint_graph():
    """A program's joint graph, with fake tensors that no other thread uses."""
    joints = []

    def keep(gm, joint_inputs, **keywords):
        joints.append(copy.deepcopy(gm))
        return acknap.Partitioner(1)(gm, joint_inputs, **keywords)

    model, x = blocks()
    torch.compile(model, backend=eager_parts(keep))(x)
    return joints[0]


def saved_names(partitioner, joint):
    """What the forward returns beside its result."""
    forward, _ = partitioner(joint, [], num_fwd_outputs=1)
    output = forward.graph.find_nodes(op="output")[0]
    return [node.name for node in output.args[0][1:]]


def test_threads_have_budgets_of_their_own():
    makers = [partial(acknap.Partitioner, budget) for budget in (0.05, 0.3, "40KB", 1)]
    makers.append(partial(acknap.Partitioner, 0.3, objective="peak"))
    expected = [saved_names(make(), joint_graph()) for make in makers]
    assert len(set(map(tuple, expected))) > 2
    joints = [joint_graph() for _ in makers]
    with ThreadPoolExecutor(len(makers)) as pool:
        found = pool.map(lambda make, joint: saved_names(make(), joint), makers, joints)
        assert list(found) == expected


class TestScopes:
    def test_with_leaves_nothing(self):
        options = "custom_partitioner_fn"
        before = functorch_config.get_config_copy(), getattr(inductor_config, options)
        with acknap.budget(0.3):
            outer = getattr(inductor_config, options)
            with acknap.budget("8GB"):
                assert getattr(inductor_config, options) is not outer
            assert getattr(inductor_config, options) is outer
        after = functorch_config.get_config_copy(), getattr(inductor_config, options)
        assert before == after

    def test_with_ends_after_an_error(self):
        with pytest.raises(ZeroDivisionError), acknap.budget(0.3):
            raise ZeroDivisionError
        assert inductor_config.custom_partitioner_fn is None

    def test_enable_and_disable(self):
        acknap.disable()
        acknap.enable(0.3, objective="peak")
        first = inductor_config.custom_partitioner_fn
        acknap.enable("8GB")
        assert inductor_config.custom_partitioner_fn is not first
        acknap.disable()
        assert inductor_config.custom_partitioner_fn is None

    def test_enable_of_another_thread_leaves_this_one_as_it_is(self):
        acknap.enable(0.3)
        before = inductor_config.custom_partitioner_fn
        with ThreadPoolExecutor(1) as pool:
            pool.submit(acknap.enable, "8GB").result()
            pool.submit(acknap.disable).result()
            pool.submit(acknap.disable).result()
        assert inductor_config.custom_partitioner_fn is before
        acknap.disable()
        assert inductor_config.custom_partitioner_fn is None

    def test_bad_budget_changes_nothing(self):
        acknap.enable(0.3)
        before = inductor_config.custom_partitioner_fn
        with pytest.raises(ValueError, match="budget"):
            acknap.enable("much")
        assert inductor_config.custom_partitioner_fn is before
        acknap.disable()

    def test_a_block_without_a_plan_is_said(self, caplog):
        with acknap.budget(0.3):
            pass
        assert "nothing was planned" in caplog.text

    def test_partitioner_of_somebody_else_is_refused(self):
        class Mine(CustomPartitionerFn):
            def __call__(self, gm, joint_inputs, **kwargs):
                raise NotImplementedError

            def uuid(self):
                return "mine"

        with (
            inductor_config.patch(custom_partitioner_fn=Mine()),
            pytest.raises(RuntimeError, match="Mine already"),
            acknap.budget(0.3),
        ):
            pass


class TestInductor:
    """One compile each: they are slow."""

    def test_backend_by_its_name(self):
        model, x = blocks(2)
        expected = train(model, model, x)
        options = {"budget": "1GB", "force_disable_caches": True}
        compiled = torch.compile(model, backend="acknap", options=options)
        torch.testing.assert_close(train(model, compiled, x), expected)
        report = acknap.last_report()
        assert report.asked == "1GB, a tenth for Inductor"
        assert (report.limit, report.way, report.cache) == (900_000_000, "peak", "miss")
        assert report.kept
        assert inductor_config.custom_partitioner_fn is None

    def test_with_block(self):
        model, x = blocks(2)
        expected = train(model, model, x)
        with acknap.budget(0.1), inductor_config.patch(force_disable_caches=True):
            found = train(model, torch.compile(model), x)
        torch.testing.assert_close(found, expected)
        assert acknap.last_report().way == "knapsack"

    def test_what_a_partitioner_is_handed(self):
        handed = []

        class Keeping(acknap.Partitioner):
            def __call__(self, *args, **keywords):
                handed.append(keywords)
                return super().__call__(*args, **keywords)

        model, x = blocks(1)
        with inductor_config.patch(
            custom_partitioner_fn=Keeping(0), force_disable_caches=True
        ):
            torch.compile(model)(x)
        (keywords,) = handed
        assert (keywords["compiler"], keywords["num_fwd_outputs"]) == ("inductor", 1)

    def test_backend_needs_a_budget(self):
        with pytest.raises(Exception, match="budget"):
            torch.compile(lambda x: x.sin(), backend="acknap")(torch.rand(3))
