"""Rules for the message of a patch: DEP-3's idea, a closed list of trailers."""

import re
from collections.abc import Collection, Iterator

from acknap.base.errors import SeriesError

_STATUS = re.compile(r"Pending|Submitted \[.+\]|Backport \[.+\]|Inappropriate \[.+\]")
_TRAILERS = ("Upstream-Status", "Fixes", "Tested-on", "Signed-off-by")
_TRAILER = re.compile(r"([A-Za-z][A-Za-z-]*): +(\S.*)")
# "0/1 knapsack" is no counter.
_COUNTER = re.compile(r"\b[1-9]\d*/[1-9]\d*\b")
# Where `git am` believes that the patch begins, and cuts the message.
_CUT = re.compile(r"---(\s|$)|diff -|Index: |-- >8")


def lint(message: str, targets: Collection[str]) -> None:
    """Check a whole commit message.

    Args:
        targets: The target names that `Tested-on` may use.

    Raises:
        SeriesError: with all that is wrong, in one line.
    """
    subject, _, rest = message.partition("\n")
    problems = list(_problems(subject, rest.strip("\n"), targets))
    if problems:
        raise SeriesError(f"message of {subject!r}: {'; '.join(problems)}")


def _problems(subject: str, rest: str, targets: Collection[str]) -> Iterator[str]:
    if len(subject) > 72:
        yield f"the subject has {len(subject)} characters, at most 72 are allowed"
    if subject.endswith("."):
        yield "the subject ends with a dot"
    if _COUNTER.search(subject):
        yield "the subject has a counter"
    if subject.startswith("["):
        yield "the subject starts with a bracket, which git am removes"
    if any(_CUT.match(line) for line in rest.splitlines()):
        yield "a line of the body reads like the start of a patch"
    body, _, last = rest.rpartition("\n\n")
    trailers = [_TRAILER.fullmatch(line) for line in last.splitlines()]
    if not last or None in trailers:
        yield "the last paragraph has to be the trailers, one `Name: value` a line"
        return
    if not body.strip():
        yield "there is no body"
    if re.search(rf"^({'|'.join(_TRAILERS)}): ", body, re.MULTILINE):
        yield "a trailer stands before the last paragraph"
    pairs = [match.groups() for match in trailers if match]
    yield from _trailer_problems(pairs, targets)


def _trailer_problems(
    pairs: list[tuple[str, ...]], targets: Collection[str]
) -> Iterator[str]:
    names = [name for name, _ in pairs]
    if names.count("Upstream-Status") != 1:
        yield "exactly one Upstream-Status is needed"
    if "Signed-off-by" not in names:
        yield "Signed-off-by is missing"
    for name, value in pairs:
        if name not in _TRAILERS:
            yield f"unknown trailer {name}"
        elif name == "Upstream-Status" and not _STATUS.fullmatch(value):
            yield f"Upstream-Status {value!r} is not in the vocabulary"
        elif name == "Fixes" and not re.fullmatch(r"https?://\S+", value):
            yield f"Fixes {value!r} is not a URL"
        elif name == "Tested-on":
            for target in re.split(r",\s*|\s+", value):
                if target not in targets:
                    yield f"Tested-on names the unknown target {target!r}"
