"""Run a suite of test files in one environment, in a fresh process."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from acknap.base.errors import HarnessError
from acknap.base.files import recall, remember, scratch
from acknap.base.progress import say, working
from acknap.suite import outcomes
from acknap.suite.outcomes import Outcome, Status
from acknap.torches.environments import Environment
from acknap.torches.inspect import Interpreter, label
from acknap.torches.worker import clean_variables

PYTEST_OPTIONS = (
    *("-p", "no:cacheprovider"),
    # As many processes as there are cores, each with one file at a time. A process with
    # torch in it takes up to 1 GB.
    *("-p", "xdist", "--numprocesses=auto", "--maxprocesses=8", "--dist=loadfile"),
    *("-o", "junit_family=xunit2"),
    # One broken file must not hide the results of the others.
    "--continue-on-collection-errors",
)

KEPT = "kept.json"  # beside the log of a finished run

# "[ 12/345]" in a line of pytest's output.
COUNTS = re.compile(rb"\[ *(\d+)/(\d+)\]")


@dataclass(frozen=True)
class SuiteRun:
    """What one run of the suite did, and in what."""

    environment: str
    interpreter: Interpreter
    files: Mapping[str, str]
    outcomes: Mapping[str, Outcome]
    exit_status: int

    @property
    def passed(self) -> bool:
        """Whether no test failed."""
        return self.exit_status == 0


def run(
    environment: Environment,
    interpreter: Interpreter,
    suite: Path,
    out: Path,
    *,
    leave_out: Collection[str] = (),
    first: Path | None = None,
    quiet: bool = False,
) -> SuiteRun:
    """Run a suite's test files in an environment.

    Args:
        environment: Where to run.
        interpreter: What `inspect` found there: it is what targets.toml pins.
        suite: Folder with the test files and whatever lies beside them.
        out: Folder that gets junit.xml and, if quiet, pytest.log.
        leave_out: Test files that are not run.
        first: A folder whose modules come before all others.
        quiet: Show progress, and keep pytest's own output in the log. Otherwise
            pytest's output is shown as it comes.

    Raises:
        HarnessError: The run proves nothing; see ``outcomes.read``.
    """
    where = label(environment)
    if quiet:
        where += f" (log: {out / 'pytest.log'})"
    files = sorted({path.name for path in suite.glob("test_*.py")} - {*leave_out})
    if not files:
        raise HarnessError(f"{where}: no test file to run in {suite}")
    out.mkdir(parents=True, exist_ok=True)
    # Outside any checkout, so that no conftest and no torch/ folder is picked up.
    with scratch() as work:
        hidden = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(suite, work / "suite", ignore=hidden)
        # A configuration of its own: none of the harness's, none of the user's.
        (work / "suite" / "pytest.ini").write_text("[pytest]\n")
        variables = clean_variables(work)
        if first is not None:
            variables["PYTHONPATH"] = str(first)
        log = out / "pytest.log" if quiet else None
        status = _pytest(environment, work, variables, files, log)
        results = outcomes.read(work / "junit.xml", status, where)
        shutil.copyfile(work / "junit.xml", out / "junit.xml")
        prefix = environment.python.parent.parent
        results = {
            test: _without_paths(outcome, {work: "WORK", prefix: "ENV"})
            for test, outcome in results.items()
        }
    ran = {test.partition("::")[0] for test in results}
    if empty := sorted({*files} - ran):
        raise HarnessError(f"{where}: no test ran in {', '.join(empty)}")
    return SuiteRun(
        environment=label(environment),
        interpreter=interpreter,
        files=_hashes(suite, leave_out),
        outcomes=results,
        exit_status=status,
    )


def run_once(
    environment: Environment,
    interpreter: Interpreter,
    suite: Path,
    out: Path,
    leave_out: Collection[str],
) -> SuiteRun:
    """As `run`, quiet, unless that was finished with the same files in the same torch.

    Raises:
        HarnessError: As for `run`.
    """
    files = _hashes(suite, leave_out)
    torch = asdict(replace(interpreter, faults={}))
    where, key = out / KEPT, [label(environment), torch, files]
    if kept := recall(where, key):
        say(f"Suite on {label(environment)}: kept; to run it again, remove {out}")
        status, rows = kept
        found = {test: Outcome(Status(one), said) for test, one, said in rows}
        return SuiteRun(label(environment), interpreter, files, found, status)
    done = run(environment, interpreter, suite, out, leave_out=leave_out, quiet=True)
    rows = [(test, one.status, one.message) for test, one in done.outcomes.items()]
    remember(where, key, (done.exit_status, rows))
    return done


def forget(folder: Path) -> None:
    """Let the runs whose logs lie below a folder be made again."""
    for kept in folder.rglob(KEPT):
        kept.unlink()


def _pytest(
    environment: Environment,
    work: Path,
    variables: Mapping[str, str],
    files: list[str],
    log: Path | None,
) -> int:
    command: list[str | os.PathLike[str]] = [environment.python, "-m", "pytest"]
    command += [*PYTEST_OPTIONS, "--junitxml", work / "junit.xml", *files]
    folder = work / "suite"
    if log is None:
        return subprocess.run(command, cwd=folder, env=variables).returncode
    command += ["-v", "-o", "console_output_style=count"]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=folder, env=variables, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            with working(f"Suite on {label(environment)}") as show:
                # Only a bar shows the counts.
                while sys.stderr.isatty() and process.poll() is None:
                    if counts := COUNTS.findall(log.read_bytes()):
                        show(completed=int(counts[-1][0]), total=int(counts[-1][1]))
                    time.sleep(0.2)
                process.wait()
        except BaseException:
            process.kill()
            raise
    return process.returncode


def _hashes(folder: Path, leave_out: Collection[str]) -> dict[str, str]:
    """Return the SHA-256 of each file of a suite that takes part, as it is copied."""
    found = {
        path.relative_to(folder): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in {*leave_out, "pytest.ini"}
    }
    return {
        name.as_posix(): sha256(path.read_bytes()).hexdigest()
        for name, path in found.items()
        if not any(part[0] == "." or part == "__pycache__" for part in name.parts)
    }


def _without_paths(outcome: Outcome, names: Mapping[Path, str]) -> Outcome:
    """Take this machine's paths out of a message: results are committed."""
    message = outcome.message
    for path, name in names.items():
        message = message.replace(str(path), name)
    return replace(outcome, message=message)
