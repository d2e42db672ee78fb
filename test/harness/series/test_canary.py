"""`canary`: applies the newest series to a pre-release, and names what does not fit."""

import pytest

from acknap.upstream import wheel_reader
from toy_upstream import RELEASES, SOLVER, Repository, wheel

NEXT = "1.2.0.dev20260102"


@pytest.fixture
def exported(repository: Repository) -> Repository:
    repository.add_series()
    return repository


def publish(repository: Repository, release: str, **replaced: str) -> None:
    """Put a wheel with the files of the last release, or others, onto the index."""
    content = wheel("1.1.0", **replaced)
    repository.index.wheels[f"torch-{release}-py3-none-any.whl"] = content
    wheel_reader._wheels.cache_clear()


def test_series_that_applies(exported: Repository) -> None:
    publish(exported, f"{NEXT}+cpu")
    publish(exported, "1.2.0.dev20260101", **{SOLVER: "gone = True\n"})
    assert exported.ok("canary") == f"all 3 patches of patches/v1 apply to v{NEXT}\n"


def test_patch_that_stopped_applying(exported: Repository) -> None:
    text = RELEASES["1.1.0"][SOLVER].replace("len(items)", "len([*items])")
    publish(exported, NEXT, **{SOLVER: text})
    result = exported.run("canary")
    assert result.status == 1
    assert result.out == (
        f"0002-Take-iterators.patch does not apply to v{NEXT}: {SOLVER}:6\n"
    )


@pytest.mark.parametrize("release", ["1.1.0rc1", "1.2.0"])
def test_index_without_a_newer_pre_release(exported: Repository, release: str) -> None:
    publish(exported, release)
    line = "pip's index has no pre-release of torch after 1.1.0\n"
    assert exported.ok("canary") == line


def test_index_that_does_not_answer(exported: Repository) -> None:
    exported.index.close()
    assert "gives no answer that can be used" in exported.run("canary").error
