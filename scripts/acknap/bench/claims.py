"""benchmarks/claims.toml: what is claimed, and what is needed to hold it to that."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout

FILE = "benchmarks/claims.toml"


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes:
        text: What is claimed.
        source: Who claims it: "paper", "README" or "patch".
        expected: The claimed value in words.
        number: What gives the measured value: the name of a function of the package
            report under "of", and its arguments. Empty: not measured here.
        at_least: Bounds within which the measured value bears the claim out.
        note: What a reader has to know about how it was measured, or why it was not.
        topics: The points that are needed.
        headline: Whether README shows it.
        needs: Time, memory and disk of a full measurement.
        patch: Title of the patch whose message says so, in the words of `quote`.
    """

    name: str
    text: str
    source: str
    expected: str
    number: Mapping[str, Any] = field(default_factory=dict)
    at_least: float = -math.inf
    at_most: float = math.inf
    note: str = ""
    topics: tuple[str, ...] = ()
    needs: str = ""
    patch: str = ""
    quote: str = ""
    headline: bool = False


def load(layout: Layout) -> list[Claim]:
    """Read the claims."""
    path = layout.root / FILE
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))["claims"]
        return [
            Claim(name, **entry | {"topics": tuple(entry.get("topics", ()))})
            for name, entry in table.items()
        ]
    except FileNotFoundError:
        raise HarnessError(f"there is no {FILE}") from None
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise HarnessError(f"{FILE}: {error}") from None


def names(layout: Layout) -> str:
    """Return a line for each claim: its name, and what is claimed."""
    claims = load(layout)
    width = max(len(claim.name) for claim in claims)
    return "\n".join(f"{claim.name:{width}}  {claim.text}" for claim in claims)


def topics(layout: Layout, names: Sequence[str]) -> set[str]:
    """Return the topics that some claims need."""
    claims = {claim.name: claim for claim in load(layout)}
    for name in names:
        if name not in claims:
            raise HarnessError(f"unknown claim {name!r}; known: {', '.join(claims)}")
    found = {topic for name in names for topic in claims[name].topics}
    if not found:
        raise HarnessError(f"{', '.join(names)}: cannot be measured here, see {FILE}")
    return found
