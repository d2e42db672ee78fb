"""Instances on disk: knapsacks that a partitioner stated, see benchmarks/SCHEMA.md."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from acknap.base.errors import HarnessError

VERSION = 2

_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Instance(BaseModel, strict=True, frozen=True, protected_namespaces=()):
    """One knapsack; the lists have an entry per item.

    Attributes:
        version: Of the schema; files of version 1 do not say it.
        name: The file's name, as a rule.
        model: What `capture` was told to capture; "" in version 1.
        torch: The release whose partitioner stated the knapsack.
        estimator: How the runtimes were had: "flops", ...
        memory: What saving an item takes, as a share of all that can be saved.
        runtimes: What computing an item again costs, in the estimator's unit.
        sizes: The items' bytes.
        ops: The operators that make them.
    """

    version: int = Field(default=1, alias="schema", ge=1, le=VERSION)
    name: str
    model: str = ""
    torch: str
    estimator: str
    memory: list[_Number] = Field(min_length=1)
    runtimes: list[_Number]
    sizes: list[_Number] = Field(alias="bytes")
    ops: list[str]

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        n = len(self.memory)
        others: dict[str, Sequence[object]] = {"runtimes": self.runtimes}
        others |= {"bytes": self.sizes, "ops": self.ops}
        for name, values in others.items():
            if len(values) != n:
                raise ValueError(f"memory has {n} items, {name} has {len(values)}")
        return self


def load(path: Path) -> Instance:
    """Read and check an instance.

    Raises:
        HarnessError: It is none, with the file and the first fault in one line.
    """
    try:
        return Instance.model_validate_json(path.read_bytes())
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        raise HarnessError(f"{path}: {_fault(error)}") from None


def dumps(content: dict[str, Any]) -> bytes:
    """Return an instance as it is kept on disk, checked.

    Raises:
        HarnessError: It does not keep the schema.
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n"
    try:
        Instance.model_validate_json(text)
    except ValidationError as error:
        raise HarnessError(f"{content.get('name')}: {_fault(error)}") from None
    return text.encode()


def _fault(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    places = (f"[{p}]" if isinstance(p, int) else p for p in first["loc"])
    where = "".join(places) or "the content"
    said = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if first["type"] == "json_invalid":
        return f"is not JSON: {first['ctx']['error']}"
    if first["type"] == "missing":
        return f"the key {where!r} is missing"
    if first["type"] == "less_than_equal" and where == "schema":
        return (
            f"schema {first['input']} is newer than this harness, which reads {VERSION}"
        )
    if first["type"] == "value_error":
        return said
    if first["type"] == "too_short":
        return f"{where} is empty"
    return f"{where} is {repr(first['input'])[:40]}, must be {said}"
