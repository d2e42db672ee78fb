# Owner(s): ["module: functorch"]

import os
import random
import subprocess
import sys
import unittest.mock

import torch
from torch._functorch._activation_checkpointing import knapsack_hirschberg
from torch._functorch._activation_checkpointing.knapsack import dp_knapsack
from torch._functorch._activation_checkpointing.knapsack_hirschberg import (
    hirschberg_saved_items,
)
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    TestCase,
)


S = 10000  # dp_knapsack's units per budget

# Name -> (bytes of decisions stored at once, cells in a block). With no bytes the
# recursion goes down to single items; tiny blocks make updates of one row overlap.
MODES = {
    "default": (4 << 20, 1 << 15),
    "recursive": (0, 1 << 15),
    "recursive_blocks": (0, 3),
    "table_blocks": (4 << 20, 2),
    "mixed": (60, 5),
}

SHAPES = ("random", "ties", "interleaved", "runs", "strongly_correlated", "subset_sum")


# Prints how many threads a solve starts whose row has more than 32768 units.
THREADS = """
import os, random, torch
from torch._functorch._activation_checkpointing import knapsack_hirschberg
torch.set_num_threads(4)
rng = random.Random(0)
weights = [rng.randint(1, 40_000) for _ in range(60)]
before = len(os.listdir("/proc/self/task"))
knapsack_hirschberg.hirschberg_saved_items(
    weights, [w + 1.0 for w in weights], sum(weights) // 2
)
print(len(os.listdir("/proc/self/task")) - before)
"""


def decide_nothing(weights, _values, items, capacity):
    """Stands in for _decide: leaves every item that matters to the recursion."""
    items = [i for i in items if weights[i] <= capacity]
    if sum(weights[i] for i in items) <= capacity:
        return items, [], 0, 0.0
    return [], items, capacity, float("inf")


def make(rng, shape, n, max_weight, max_value):
    if shape in ("interleaved", "runs"):
        kinds = [
            (rng.randint(0, max_weight), rng.randint(0, max_value))
            for _ in range(rng.randint(1, 4))
        ]
        items = [rng.choice(kinds) for _ in range(n)]
        if shape == "runs":
            items.sort(key=lambda item: -item[0])
        return [w for w, _ in items], [v for _, v in items]
    weights = [rng.randint(0, max_weight) for _ in range(n)]
    if shape == "strongly_correlated":
        return weights, [w + max_weight // 10 + 1 for w in weights]
    if shape == "subset_sum":
        return weights, list(weights)
    if shape == "ties":
        return weights, [rng.randint(0, 2) for _ in range(n)]
    return weights, [rng.randint(0, max_value) for _ in range(n)]


def brute_force(weights, values, capacity):
    """The first optimal set in the order of its bit mask, the last item leading."""
    sums = [(0, 0)]
    for w, v in zip(weights, values, strict=True):
        sums += [(a + w, b + v) for a, b in sums]
    best = max(value for weight, value in sums if weight <= capacity)
    mask = next(m for m, (w, v) in enumerate(sums) if w <= capacity and v == best)
    return [i for i in range(len(weights)) if mask >> i & 1]


def saved_by_dp(weights, values, capacity):
    _, saved, _ = dp_knapsack([w / S for w in weights], values, capacity / S)
    return saved


def best_value(weights, values, capacity):
    row = torch.zeros(capacity + 1, dtype=torch.float64)
    for w, v in zip(weights, values, strict=True):
        if 0 < w <= capacity:
            row[w:] = torch.maximum(row[w:], row[:-w] + v)
    return row[-1].item()


class TestKnapsackHirschberg(TestCase):
    def patch(self, mode, bounds=True):
        table_bytes, block = MODES[mode]
        changes = {"_TABLE_BYTES": table_bytes, "_BLOCK": block}
        if not bounds:
            changes["_decide"] = decide_nothing
        patcher = unittest.mock.patch.multiple(knapsack_hirschberg, **changes)
        patcher.start()
        self.addCleanup(patcher.stop)

    @parametrize("bounds", (True, False))
    @parametrize("mode", list(MODES))
    @parametrize("shape", SHAPES)
    def test_brute_force_with_tie_rule(self, shape, mode, bounds):
        self.patch(mode, bounds)
        rng = random.Random(f"brute {shape}")
        for _ in range(150):
            n = rng.choice((1, 2, 3, 5, 7, 9))
            weights, values = make(
                rng, shape, n, rng.choice((1, 3, 10, 40)), rng.choice((1, 5, 10**13))
            )
            total = sum(weights)
            capacity = rng.choice((0, 1, total // 3, total // 2, rng.randint(0, total)))
            self.assertEqual(
                hirschberg_saved_items(weights, values, capacity),
                brute_force(weights, values, capacity),
                msg=f"{weights} {values} {capacity}",
            )

    @parametrize("n", (12, 13))
    def test_brute_force_more_items(self, n):
        rng = random.Random(n)
        for shape in SHAPES:
            weights, values = make(rng, shape, n, 9, 9)
            for capacity in (1, 7, sum(weights) // 2, sum(weights) - 1):
                self.assertEqual(
                    hirschberg_saved_items(weights, values, max(0, capacity)),
                    brute_force(weights, values, max(0, capacity)),
                )

    @parametrize("budget", (0.02, 0.1, 0.25, 0.5, 0.9))
    @parametrize("mode", ("default", "recursive", "mixed"))
    @parametrize("shape", SHAPES)
    def test_same_set_as_dp(self, shape, mode, budget):
        self.patch(mode)
        # Sums stay below 2^20, where float32 counts exactly too.
        rng = random.Random(f"dp {shape} {budget}")
        n = 36 if mode == "mixed" else 150
        weights, values = make(rng, shape, n, 100, 2000)
        capacity = round(sum(weights) * budget)
        self.assertEqual(
            hirschberg_saved_items(weights, values, capacity),
            saved_by_dp(weights, values, capacity),
        )

    @parametrize("shape", SHAPES)
    def test_same_set_as_dp_without_bounds(self, shape):
        self.patch("default", bounds=False)
        rng = random.Random(f"plain {shape}")
        weights, values = make(rng, shape, 200, 100, 2000)
        capacity = sum(weights) // 3
        self.assertEqual(
            hirschberg_saved_items(weights, values, capacity),
            saved_by_dp(weights, values, capacity),
        )

    @parametrize("count", (1, 2, 3, 7, 8, 100))
    @parametrize("bounds", (True, False))
    def test_identical_items_keep_the_first(self, count, bounds):
        self.patch("default", bounds)
        for fitting in range(count + 1):
            self.assertEqual(
                hirschberg_saved_items([5] * count, [2.0] * count, 5 * fitting + 4),
                list(range(fitting)),
            )

    def test_ties_across_interleaved_weights(self):
        # {0, 1} and {2} have the same value and weight: the last item stays out.
        self.assertEqual(hirschberg_saved_items([1, 2, 3], [1, 2, 3], 3), [0, 1])
        self.assertEqual(hirschberg_saved_items([3, 1, 2], [3, 1, 2], 3), [0])
        self.assertEqual(hirschberg_saved_items([2, 1, 2, 1], [1, 1, 1, 1], 2), [1, 3])
        # Equal weights, unequal values, not sorted by value.
        self.assertEqual(hirschberg_saved_items([2, 2, 2], [1, 3, 3], 2), [1])

    @parametrize("capacity", (0, 1, 10**6, 10**30))
    def test_no_items(self, capacity):
        self.assertEqual(hirschberg_saved_items([], [], capacity), [])

    @parametrize(
        "weight,value,capacity,fits",
        [
            (3, 1.0, 2, False),
            (3, 1.0, 3, True),
            (3, 0.0, 3, False),
            (0, 1.0, 0, True),
            (0, 0.0, 0, False),
            (10**40, 1.0, 10**12, False),
        ],
    )
    def test_one_item(self, weight, value, capacity, fits):
        expected = [0] if fits else []
        self.assertEqual(hirschberg_saved_items([weight], [value], capacity), expected)

    def test_zero_weight_and_zero_value(self):
        weights = [0, 4, 0, 4, 4, 0]
        values = [1.0, 0.0, 0.0, 2.0, 3.0, 5.0]
        self.assertEqual(hirschberg_saved_items(weights, values, 4), [0, 4, 5])
        self.assertEqual(hirschberg_saved_items(weights, values, 0), [0, 5])
        self.assertEqual(hirschberg_saved_items(weights, values, 100), [0, 3, 4, 5])

    @parametrize("mode", list(MODES))
    def test_overweight_items(self, mode):
        self.patch(mode)
        weights = [100, 3, 70, 2, 2, 50]
        values = [1e9, 3.0, 1e9, 2.0, 2.0, 1e9]
        self.assertEqual(hirschberg_saved_items(weights, values, 4), [3, 4])
        self.assertEqual(hirschberg_saved_items(weights, values, 5), [1, 3])

    def test_huge_capacity(self):
        # The weights' greatest common divisor brings the row down to a few cells.
        unit = 10**15
        weights = [7 * unit, 5 * unit, 4 * unit, 3 * unit]
        saved = hirschberg_saved_items(weights, [10, 6, 5, 5], 12 * unit + 1)
        self.assertEqual(saved, [0, 1])

    def test_huge_capacity_fits_everything(self):
        saved = hirschberg_saved_items([10**9 + 1] * 3, [1.0] * 3, 10**40)
        self.assertEqual(saved, [0, 1, 2])

    def test_small_values_beside_large_ones(self):
        values = [2.0**50, 1.0, 1.0, 2.0**50]
        self.assertEqual(hirschberg_saved_items([2, 1, 1, 2], values, 4), [0, 3])
        self.assertEqual(hirschberg_saved_items([2, 1, 1, 9], values, 4), [0, 1, 2])

    @parametrize("mode", ("default", "recursive"))
    def test_overflowing_values_stay_within_the_capacity(self, mode):
        self.patch(mode)
        weights = [3, 2, 4, 1]
        saved = hirschberg_saved_items(weights, [1e308, 1.5e308, 1e308, 1e308], 7)
        self.assertLessEqual(sum(weights[i] for i in saved), 7)

    def test_subnormal_values(self):
        rng = random.Random(11)
        tiny = 5e-324
        for _ in range(300):
            weights = [rng.randint(1, 1000) for _ in range(7)]
            counts = [rng.randint(0, 1000) for _ in range(7)]
            capacity = rng.randint(0, sum(weights))
            self.assertEqual(
                hirschberg_saved_items(weights, [c * tiny for c in counts], capacity),
                brute_force(weights, counts, capacity),
            )

    def test_integers_beyond_float64(self):
        big = 2**70
        self.assertEqual(hirschberg_saved_items([2, 2, 3], [big, big, 3], 5), [0, 1])

    @parametrize("shape", ("random", "runs", "strongly_correlated", "subset_sum"))
    def test_large_capacity(self, shape):
        rng = random.Random(f"large {shape}")
        weights, values = make(rng, shape, 24, 160_000, 10**9)
        capacity = min(10**6, sum(weights) // 2)
        saved = hirschberg_saved_items(weights, values, capacity)
        self.assertLessEqual(sum(weights[i] for i in saved), capacity)
        positive = [(w, v) for w, v in zip(weights, values, strict=True) if w > 0]
        best = best_value(*zip(*positive, strict=True), capacity)
        self.assertEqual(sum(values[i] for i in saved if weights[i] > 0), best)

    @parametrize("mode", ("default", "recursive"))
    def test_fractional_values(self, mode):
        self.patch(mode)
        rng = random.Random(5)
        weights = [rng.randint(1, 300) for _ in range(80)]
        values = [10 ** rng.uniform(-3, 3) for _ in weights]
        for capacity in (50, 1000, 6000):
            saved = hirschberg_saved_items(weights, values, capacity)
            self.assertLessEqual(sum(weights[i] for i in saved), capacity)
            self.assertEqual(
                sum(values[i] for i in saved),
                best_value(weights, values, capacity),
                rtol=1e-12,
                atol=0,
            )

    @parametrize("mode", ("default", "recursive"))
    def test_same_set_with_any_number_of_threads(self, mode):
        self.patch(mode)
        rng = random.Random(9)
        weights, values = make(rng, "strongly_correlated", 24, 40_000, 1)
        capacity = 200_000
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        torch.set_num_threads(1)
        one = hirschberg_saved_items(weights, values, capacity)
        torch.set_num_threads(4)
        self.assertEqual(hirschberg_saved_items(weights, values, capacity), one)

    @unittest.skipUnless(os.path.isdir("/proc/self/task"), "counts threads in /proc")
    def test_no_thread_is_started(self):
        output = subprocess.run(
            [sys.executable, "-c", THREADS],
            env={**os.environ, "OMP_NUM_THREADS": "4"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        self.assertEqual(output.split(), ["0"])

    @parametrize("mode", ("default", "recursive"))
    def test_same_set_under_another_default_device(self, mode):
        self.patch(mode, bounds=False)
        with torch.device("meta"):
            saved = hirschberg_saved_items([3, 2, 2, 1], [4, 3, 3, 1], 4)
        self.assertEqual(saved, [1, 2])

    def test_arguments_are_not_changed(self):
        weights, values = [3, 0, 2, 2], [1, 2, 3, 4]
        hirschberg_saved_items(weights, values, 4)
        self.assertEqual((weights, values), ([3, 0, 2, 2], [1, 2, 3, 4]))


instantiate_parametrized_tests(TestKnapsackHirschberg)

if __name__ == "__main__":
    run_tests()
