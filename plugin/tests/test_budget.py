"""What a budget may look like, and what the user is told of another one."""

import pytest
import torch
from acknap._budget import understand


@pytest.mark.parametrize(
    ("budget", "share", "limit"),
    [
        (0, 0.0, None),
        (0.3, 0.3, None),
        (1, 1.0, None),
        (2, None, 2),
        (8_000_000_000, None, 8_000_000_000),
        ("8GB", None, 8_000_000_000),
        ("2GiB", None, 2 * 2**30),
        ("1.5 mb", None, 1_500_000),
        ("700 B", None, 700),
    ],
)
def test_is_understood(budget, share, limit):
    request = understand(budget)
    assert (request.share, request.limit) == (share, limit)


@pytest.mark.parametrize(
    "budget",
    [-1, -0.1, 1.5, 2.0, float("nan"), True, None, "", "8", "GB", "8 XB", "-1GB"],
)
def test_is_refused_in_one_line(budget):
    with pytest.raises(ValueError, match="budget") as error:
        understand(budget)
    assert "\n" not in str(error.value)


def test_objective_is_refused_in_one_line():
    with pytest.raises(ValueError, match="objective"):
        understand(0.5, "least")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_device_needs_a_device():
    with pytest.raises(RuntimeError, match="CUDA"):
        understand("device")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_device_is_less_than_what_is_free():
    free, _ = torch.cuda.mem_get_info()
    limit = understand("device").at_compile().limit
    assert 0.5 * free < limit < free
