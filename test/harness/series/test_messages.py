"""The rules for messages."""

import pytest

from acknap.base.errors import SeriesError
from acknap.series.messages import lint

GOOD = """\
Keep the solver of the 0/1 problem within the budget

Symptom: [1, 2] saves both.

    a code block

Upstream-Status: Submitted [https://example.org/pull/1]
Fixes: https://example.org/issues/1
Tested-on: v1.0.0, v1.1.0
Tested-on: v1.0.0
Signed-off-by: A <a@example.invalid>
Signed-off-by: B <b@example.invalid>
"""


def test_good() -> None:
    lint(GOOD, ["v1.0.0", "v1.1.0"])
    lint(GOOD.replace("Submitted [https://example.org/pull/1]", "Pending"), GOOD)
    lint(GOOD.replace("Submitted", "Backport"), GOOD)
    lint(GOOD.replace("Submitted", "Inappropriate"), GOOD)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("Keep", "Keep" * 20, "the subject has 128 characters"),
        ("the budget", "the budget.", "the subject ends with a dot"),
        ("the 0/1 problem", "problem 2/7", "the subject has a counter"),
        ("Keep", "[knapsack] Keep", "the subject starts with a bracket"),
        ("Symptom: [1, 2] saves both.\n\n    a code block\n\n", "", "there is no body"),
        ("Symptom", "---\nSymptom", "reads like the start of a patch"),
        ("Symptom", "diff --git a/x b/x\nSymptom", "reads like the start of a patch"),
        (
            "Submitted [https://example.org/pull/1]",
            "Submitted",
            "not in the vocabulary",
        ),
        ("Submitted", "submitted", "not in the vocabulary"),
        ("Upstream-Status", "Status", "exactly one Upstream-Status is needed"),
        ("Upstream-Status", "Status", "unknown trailer Status"),
        ("Fixes", "Upstream-Status", "exactly one Upstream-Status is needed"),
        ("https://example.org/issues/1", "#1", "Fixes '#1' is not a URL"),
        ("v1.0.0, v1.1.0", "v1.0.0, v9", "Tested-on names the unknown target 'v9'"),
        ("Signed-off-by", "Reviewed-by", "Signed-off-by is missing"),
        (
            "    a code block",
            "Fixes: https://x.org",
            "stands before the last paragraph",
        ),
        ("Tested-on", "\nsome text\nTested-on", "has to be the trailers"),
    ],
)
def test_bad(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    with pytest.raises(SeriesError) as caught:
        lint(GOOD.replace(old, new), ["v1.0.0", "v1.1.0"])
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_a_subject() -> None:
    with pytest.raises(SeriesError, match="has to be the trailers"):
        lint("Do something\n", [])
