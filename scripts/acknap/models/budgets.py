"""Budgets on the command line."""

import math

from acknap.base.errors import HarnessError


def parse(text: str) -> list[float]:
    """Return the budgets of a list such as ``0.1,0.25,0.5``.

    Raises:
        HarnessError: One of them is no number above 0 and up to 1.
    """
    budgets = []
    for part in text.split(","):
        try:
            budget = float(part)
        except ValueError:
            budget = math.nan
        if not 0 < budget <= 1:
            raise HarnessError(
                f"budget {part.strip()!r}: give numbers above 0 and up to 1, such as "
                "0.1,0.25,0.5"
            )
        budgets.append(budget)
    return list(dict.fromkeys(budgets))
