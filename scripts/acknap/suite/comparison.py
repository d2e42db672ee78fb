"""The comparison as JSON, as Markdown and on the terminal."""

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from acknap.base.files import write_atomic
from acknap.base.text import Cells, code, print_table, table
from acknap.suite import categories
from acknap.suite.categories import Category, Row
from acknap.suite.run import SuiteRun

LONGEST_MESSAGE = 200  # characters, in the Markdown; the JSON has all of it


@dataclass
class Comparison:
    """A comparison, finished when every suite was added to it.

    Attributes:
        command: What a user types to make it again.
        runs: Every run of a suite, as (suite, run); stock before patched.
        new_files: Test files that stock cannot have, with what stock lacks.
        rows: One row per test.
        problems: Why the comparison failed, empty if it did not.
    """

    target: str
    against: str
    command: str
    runs: list[tuple[str, SuiteRun]] = field(default_factory=list)
    new_files: dict[str, list[str]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What was compared."""
        return f"patched {self.target} against stock {self.against}"


def to_json(comparison: Comparison) -> str:
    """Return what the comparison saw, but for times: a second run is a diff of nothing.

    Each run's junit.xml has the times.
    """
    record = {
        "target": comparison.target,
        "against": comparison.against,
        "command": comparison.command,
        "passed": not comparison.problems,
        "problems": comparison.problems,
        "counts": categories.counts(comparison.rows),
        "not_in_stock": comparison.new_files,
        "tests": [dataclasses.asdict(row) for row in comparison.rows],
        "runs": [_run_record(suite, run) for suite, run in comparison.runs],
    }
    return json.dumps(record, indent=1) + "\n"


def write(comparison: Comparison, folder: Path) -> None:
    """Write compare.json and compare.md, each replaced at once."""
    write_atomic(folder / "compare.json", to_json(comparison).encode())
    write_atomic(folder / "compare.md", as_markdown(comparison).encode())


def print_summary(comparison: Comparison, console: Console) -> None:
    """Print the counts and what is wrong."""
    print_table(
        console, *_count_table(comparison.rows), title=comparison.title, numbers=True
    )
    for text in (*comparison.problems, _conclusion(comparison)):
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def as_markdown(comparison: Comparison) -> str:
    """Return the comparison as a page."""
    kept = [row for row in comparison.rows if row.category is Category.KEPT]
    others = [row for row in comparison.rows if row.category is not Category.KEPT]
    parts = [
        f"# Suite: {comparison.title}",
        f"Made by `{comparison.command}`.",
        f"**{_conclusion(comparison)}**",
        "\n".join(f"- {code(problem)}" for problem in comparison.problems),
        "## Tests by result and solver",
        table(*_count_table(comparison.rows)),
        "## Tests that differ",
        table(
            ("test", "solver", "stock", "patched", "result"),
            map(_cells, others),
        ),
        f"<details><summary>{len(kept)} tests kept: they pass on both</summary>",
        table(("test", "solver"), [(code(row.test), row.solver) for row in kept]),
        "</details>",
        "## What tests say that do not pass",
        table(("test", "on", "message"), _messages(comparison.rows)),
        "## What ran",
        table(*_run_table(comparison.runs)),
        *(
            f"Not in stock: {code(file)} needs {', '.join(map(code, lacking))}."
            for file, lacking in comparison.new_files.items()
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _conclusion(comparison: Comparison) -> str:
    if comparison.problems:
        count = len(comparison.problems)
        return f"Failed: {count} problem{'s' if count > 1 else ''}."
    # Only upstream's own tests may fail on both sides in a comparison that passed.
    both = sum(map(categories.fails_on_both, comparison.rows))
    return (
        "Passed: nothing regressed or is missing, the suite passes on patched, and "
        "each test that claims to be fixed failed on stock."
        + (f" {both} of upstream's own tests fail on both sides." if both else "")
    )


def _count_table(rows: Iterable[Row]) -> tuple[Cells, list[Cells]]:
    """Return counts: a column per solver and one for all, a line per category."""
    counts = categories.counts(rows)
    lines: list[Cells] = []
    for category in Category:
        found = [per_category[category] for per_category in counts.values()]
        lines.append((category, *map(str, found), str(sum(found))))
    return ("result", *counts, "all"), lines


def _cells(row: Row) -> Cells:
    sides = (side.status if side else "-" for side in (row.stock, row.patched))
    return code(row.test), row.solver, *sides, row.category


def _messages(rows: Iterable[Row]) -> list[Cells]:
    return [
        (code(row.test), where, code(outcome.message[:LONGEST_MESSAGE]))
        for row in rows
        for where, outcome in (("stock", row.stock), ("patched", row.patched))
        if outcome and outcome.message
    ]


def _run_table(runs: Iterable[tuple[str, SuiteRun]]) -> tuple[Cells, list[Cells]]:
    """Return a column per run, a line per fact."""
    columns = [
        {
            "suite": suite,
            "tests": str(len(run.outcomes)),
            "torch": run.interpreter.torch_version,
            "torch commit": code(run.interpreter.git_version),
            "knapsack.py": code(run.interpreter.knapsack_blob),
            "Python": run.interpreter.python,
            "packages": ", ".join(
                f"{name} {version}"
                for name, version in run.interpreter.packages.items()
                if version
            ),
            "platform": run.interpreter.platform,
        }
        for suite, run in runs
    ]
    lines: list[Cells] = [
        (fact, *(column[fact] for column in columns)) for fact in columns[0]
    ]
    return ("", *(run.environment for _, run in runs)), lines


def _run_record(suite: str, run: SuiteRun) -> dict[str, Any]:
    """Return a run without its outcomes, which stand in the rows."""
    record = dataclasses.asdict(run)
    del record["outcomes"], record["interpreter"]["faults"]
    return {"suite": suite, **record, "hash_seed": "random"}
