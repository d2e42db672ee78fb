"""The same job for several targets at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def for_each(job: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """Results of `job` in the order of `items`; the first error is raised."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(job, items))
