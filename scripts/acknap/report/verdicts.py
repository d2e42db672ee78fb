"""What a record says of each claim."""

import math
from typing import NamedTuple

from acknap.base.errors import HarnessError
from acknap.bench.claims import FILE, Claim
from acknap.bench.record import Record
from acknap.report import delivered, memory, speed


class Verdict(NamedTuple):
    """What a record says of a claim."""

    claim: Claim
    measured: str
    holds: bool | None

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        if self.holds is None:
            return "not measured"
        if self.claim.at_least == -math.inf and self.claim.at_most == math.inf:
            return "reported"
        return "holds" if self.holds else "does not hold"


def judge(claim: Claim, record: Record) -> Verdict:
    """Hold a claim against a record."""
    if not claim.number:
        return Verdict(claim, claim.note, None)
    arguments = dict(claim.number)
    name = arguments.pop("of")
    modules = (speed, memory, delivered)
    function = next((f for m in modules if (f := getattr(m, name, None))), None)
    if function is None:
        raise HarnessError(f"{FILE}: claim {claim.name}: there is no number {name!r}")
    number: memory.Number | None = function(record, **arguments)
    if number is None:
        return Verdict(claim, "not in this record", None)
    holds = claim.at_least <= number.value <= claim.at_most
    return Verdict(claim, number.text, holds)
