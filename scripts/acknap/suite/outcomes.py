"""Outcomes of one test run, read from the JUnit XML that pytest wrote."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree.ElementTree import ParseError

from junitparser import Error, Failure, JUnitXml, JUnitXmlError, Skipped, TestCase

from acknap.base.errors import HarnessError

NO_TESTS = 5  # pytest's exit status when it collected nothing
# A line of which pytest cut the end off, after what it puts before an error's line.
_CUT = re.compile(r'(failed on \w+ with ")?(.*)\.\.\.')


class Status(StrEnum):
    """How one test ended. The order is from harmless to bad."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"
    ERROR = "error"


@dataclass(frozen=True)
class Outcome:
    """Status of one test, with one line of what it said."""

    status: Status
    message: str = ""

    @property
    def bad(self) -> bool:
        """Whether the test failed, in its body or around it."""
        return self.status in (Status.FAILED, Status.ERROR)


def read(xml: Path, exit_status: int, where: str) -> dict[str, Outcome]:
    """Return the outcomes in a JUnit file by test id, ``file::Class::method``.

    A file that cannot be collected has an outcome of its own, whose id is the
    file's name alone. ``where`` names the run in error messages.

    Raises:
        HarnessError: No test ran, the process crashed, the file is missing or
            corrupt, or pytest's exit status tells another story.
    """
    if exit_status < 0:
        raise HarnessError(f"{where}: the test process died of signal {-exit_status}")
    if exit_status == NO_TESTS:
        raise HarnessError(f"{where}: no test ran")
    if exit_status not in (0, 1):
        raise HarnessError(f"{where}: pytest stopped with exit status {exit_status}")
    outcomes = _parse(xml, where)
    if not outcomes:
        raise HarnessError(f"{where}: no test ran")
    bad = sum(outcome.bad for outcome in outcomes.values())
    if (exit_status == 1) != (bad > 0):
        raise HarnessError(
            f"{where}: pytest's exit status is {exit_status}, "
            f"but its results hold {bad} failure{'s' if bad != 1 else ''}"
        )
    return outcomes


def _parse(xml: Path, where: str) -> dict[str, Outcome]:
    try:
        suites = JUnitXml.fromfile(str(xml))
    except FileNotFoundError:
        raise HarnessError(f"{where}: pytest wrote no results") from None
    except (ParseError, JUnitXmlError) as error:
        raise HarnessError(f"{where}: the results are not JUnit XML: {error}") from None
    outcomes: dict[str, Outcome] = {}
    for suite in suites:
        for case in suite:
            test, outcome = _test_id(case), _outcome(case)
            # A test that fails and then errs in its teardown is written twice.
            seen = outcomes.get(test, outcome)
            outcomes[test] = max(
                seen, outcome, key=lambda one: list(Status).index(one.status)
            )
    return outcomes


def _test_id(case: TestCase) -> str:
    if not case.classname:
        return f"{case.name}.py"
    file, _, name = case.classname.partition(".")
    return "::".join([f"{file}.py", *([name] if name else []), str(case.name)])


def _outcome(case: TestCase) -> Outcome:
    for kind, status in (
        (Error, Status.ERROR),
        (Failure, Status.FAILED),
        (Skipped, Status.SKIPPED),
    ):
        for result in case.result:
            if isinstance(result, kind):
                return Outcome(status, _message(result))
    return Outcome(Status.PASSED)


def _message(result: Error | Failure | Skipped) -> str:
    """Return what happened, in one line."""
    message = result.message or ""
    raised = [x[2:] for x in (result.text or "").splitlines() if x[:2] == "E "]
    if message == "collection failure":
        # pytest puts the cause of a file that fails to import at the end of the text.
        message = raised[-1] if raised else message
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and (cut := _CUT.fullmatch(lines[0])):
        # Where it is cut depends on the length of the paths in it, the text does not.
        start = cut[2]
        whole = (x.strip() for x in raised if x.strip().startswith(start))
        return next(whole, lines[0])
    # torch's TestCase names the values in a second line.
    told = 2 if lines[1:] and lines[1].startswith("Expected ") else 1
    return " ".join(lines[:told])
