"""`report`: tables, plots and a page from a raw record alone."""

from collections.abc import Sequence
from pathlib import Path

from acknap.base.errors import HarnessError
from acknap.base.files import write_atomic
from acknap.base.layout import Layout
from acknap.bench import claims as bench_claims
from acknap.bench import record as bench_record
from acknap.bench.claims import Verdict
from acknap.bench.record import Record
from acknap.bench.run import FULL, QUICK
from acknap.report import charts, delivered_tables
from acknap.report import delivered as bench_delivered
from acknap.report import html as bench_page
from acknap.report import tables as bench_tables

START, END = "<!-- claims -->", "<!-- /claims -->"
README_PLOTS = ("memory.svg", "budget.svg", "delivered.svg")

# What a plot says, for those who do not see it.
TEXTS = {
    "memory.svg": "Peak memory against the number of items: the table of dp grows with "
    "it and passes 64 GB at the published capacity, Hirschberg's row does not grow",
    "time.svg": "Time of one solve against the number of items, for all solvers",
    "budget.svg": "Memory of the saved set against the budget on one model; sets above "
    "the line exceed the budget",
    "recompute.svg": "Extra recomputation against the optimum, by model and solver; "
    "no marker: over the budget at every budget",
    "frontier.svg": "Recomputed work against the budget on one model: the optimum and "
    "the solvers' sets",
    "training.svg": "Loss by step, and activations saved, of a decoder trained at "
    "budgets of 0.3 and 1: the losses lie on one another",
    "delivered.svg": "Bytes that a partition saves against the budget asked for, on "
    "every captured model, by solver; marks above the line are over the budget",
}


def run_report(layout: Layout, name: str | None) -> int:
    """Draw the report of a record, and put a full one's claims into the README.

    Args:
        layout: The repository.
        name: Folder under results/; the one with the newest record if None.

    Returns:
        0: claims that do not hold are the report's content, not its failure.

    Raises:
        HarnessError: There is no record.
    """
    folder, record = _find(layout, name)
    verdicts = [bench_claims.verdict(c, record) for c in bench_claims.load(layout)]
    plots = charts.draw(record)
    page = as_markdown(record, verdicts, tuple(plots))
    for plot, svg in plots.items():
        write_atomic(folder / plot, svg.encode())
    write_atomic(folder / "REPORT.md", page.encode())
    html = bench_page.render(page, plots)
    write_atomic(folder / "report.html", html.encode())
    for file in ("REPORT.md", "report.html", *plots):
        print(layout.relative(folder / file))
    if folder.name == FULL:
        readme = layout.root / "README.md"
        text = readme.read_text(encoding="utf-8")
        section = as_section(record, verdicts, folder.name, tuple(plots))
        write_atomic(readme, splice(text, section).encode())
        print("README.md: claims rewritten")
    _print_summary(verdicts)
    return 0


def as_markdown(
    record: Record, verdicts: Sequence[Verdict], plots: Sequence[str]
) -> str:
    """Return the whole report."""
    command = record.header["command"]

    def image(name: str) -> str:
        return f"![{TEXTS[name]}]({name})" if name in plots else ""

    parts = [
        "# Benchmark of the knapsack solvers",
        f"Measured by `{command}`, drawn by `./scripts/harness report` from "
        f"`{record.path.name}` alone. Every point checked its answers; times are "
        "medians of interleaved rounds, with one thread unless threads are compared; "
        "each memory figure is the growth of a fresh process.",
        _conclusion(verdicts),
        "## Claims",
        bench_tables.claims(verdicts, commands=True),
        "One claim is measured by `./scripts/harness bench NAME`.",
        *_notes(verdicts),
        "## Answers on real models",
        "Runs over the budget do not count as extra recomputation: more memory is no "
        "merit. Where everything fits, nothing should be recomputed.",
        bench_tables.quality(record),
        image("budget.svg"),
        image("recompute.svg"),
        image("frontier.svg"),
        "## Captured models",
        "By `./scripts/harness capture`, in `benchmarks/instances/captured/`: the most "
        "that a solver recomputes above the optimum at any budget it keeps, and by how "
        "much it is over where it does not.",
        delivered_tables.captured(record),
        "## From the plan to the partition",
        "A partition carries out the solver's plan by one more min-cut, which may save "
        "other tensors. Asked for and delivered, where the knapsack decides; stock "
        "torch with exact is handed the solver and keeps its own cut. Ratio is the "
        "partitioner's own measure, bytes are those of saved tensors that are no "
        "inputs, storages count views once (`benchmarks/SCHEMA.md`).",
        delivered_tables.variants(record),
        image("delivered.svg"),
        "Plan and the partitioner's ratio. **over**: the ratio is above the budget "
        "although the plan is not.",
        delivered_tables.delivered(record),
        "## Answers on small random problems",
        "At most 12 items, against every subset; greedy does not claim the optimum.",
        bench_tables.small(record),
        "## Speed",
        "How many times faster than the first solver: median of the per-round ratios "
        "and the 95 % interval of that median. [wrong]: the answer was not the optimum "
        "that the solver promises, or over its budget.",
        "### Real models",
        bench_tables.speed(record, "real-speed"),
        "### By size, W = 10,000",
        bench_tables.speed(record, "size-speed"),
        image("time.svg"),
        "### Repeated as in the publication",
        bench_tables.speed(record, "repeated"),
        "### By capacity",
        bench_tables.speed(record, "width-speed"),
        "### Large and hard",
        bench_tables.speed(record, "large-speed"),
        bench_tables.speed(record, "large-ilp"),
        bench_tables.speed(record, "wide-speed"),
        bench_tables.speed(record, "huge"),
        "### 100 budgets of one model",
        bench_tables.speed(record, "budgets"),
        "### Threads and load",
        "As many threads as torch takes by itself against one, under the same load, "
        "measured in turns; two busy loops are two processes that never wait.",
        bench_tables.threads(record),
        "### Other people's solvers",
        bench_tables.speed(record, "peers"),
        "## Training" if "training.svg" in plots else "",
        image("training.svg"),
        "## Memory",
        image("memory.svg"),
        bench_tables.memory(record),
        "## Where and with what",
        bench_tables.setting(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_section(
    record: Record, verdicts: Sequence[Verdict], folder: str, plots: Sequence[str]
) -> str:
    """Return what the README shows of a report."""
    images = [
        f"![{TEXTS[name]}](results/{folder}/{name})"
        for name in README_PLOTS
        if name in plots
    ]
    parts = [
        f"Made by `{record.header['command']} && ./scripts/harness report`; all "
        f"tables and plots: [results/{folder}/REPORT.md](results/{folder}/REPORT.md).",
        _conclusion(verdicts),
        *images,
        "Every solver on all real models in `benchmarks/instances/`:",
        bench_tables.quality(record),
        *_delivered(record),
        "Every claim:",
        bench_tables.claims(verdicts),
    ]
    return "\n\n".join(parts)


def _delivered(record: Record) -> list[str]:
    if not bench_delivered.points(record):
        return []
    text = "Asked for, and delivered by the partitions of the captured models:"
    return [text, delivered_tables.variants(record)]


def splice(text: str, section: str) -> str:
    """Replace what stands between the markers; without markers, append both."""
    if text.count(START) != 1 or text.count(END) != 1:
        if START in text or END in text:
            raise HarnessError(f"README.md must hold {START} and {END} once each")
        text = f"{text.rstrip()}\n\n{START}\n{END}\n"
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{section}\n{END}{after}"


def _find(layout: Layout, name: str | None) -> tuple[Path, Record]:
    if name is not None:
        folder = layout.results / name
        return folder, bench_record.newest(folder)
    folders = [layout.results / one for one in (FULL, QUICK)]
    found = [
        (folder, bench_record.newest(folder))
        for folder in folders
        if any(folder.glob(f"{bench_record.PREFIX}*"))
    ]
    if not found:
        raise HarnessError("there is no record yet: run `./scripts/harness bench`")
    return max(found, key=lambda pair: pair[1].last_change)


def _conclusion(verdicts: Sequence[Verdict]) -> str:
    words = [verdict.word for verdict in verdicts]
    failed = [v.claim.name for v in verdicts if v.word == "does not hold"]
    text = (
        f"**Of {len(words)} claims {words.count('holds')} hold, {len(failed)} do not, "
        f"{words.count('not measured')} were not measured.**"
    )
    return text + (f" Not held: {', '.join(failed)}." if failed else "")


def _notes(verdicts: Sequence[Verdict]) -> list[str]:
    notes = [
        f"- `{v.claim.name}`: {v.claim.note}"
        for v in verdicts
        if v.claim.note and v.measured != v.claim.note
    ]
    return ["Notes:", "\n".join(notes)] if notes else []


def _print_summary(verdicts: Sequence[Verdict]) -> None:
    width = max(len(verdict.claim.name) for verdict in verdicts)
    for verdict in verdicts:
        print(f"{verdict.claim.name:{width}}  {verdict.word:13}  {verdict.measured}")
