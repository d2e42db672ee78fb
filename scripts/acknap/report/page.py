"""`report`: tables, plots and a page from a raw record alone."""

import re
from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from acknap.base.errors import HarnessError
from acknap.base.files import write_atomic
from acknap.base.layout import Layout
from acknap.bench import claims
from acknap.bench.record import PREFIX, Record, newest
from acknap.bench.run import FULL, QUICK
from acknap.report import charts, delivered_tables, tables
from acknap.report.verdicts import Verdict, judge

START, END = "<!-- claims -->", "<!-- /claims -->"
README_PLOTS = ("delivered.svg", "memory.svg")  # the first that there is

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

_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; color: #1a1a1a;
       font: 16px/1.5 system-ui, sans-serif; background: #fff; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; padding-bottom: .2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { border: 1px solid #d0d0d0; padding: .3rem .55rem; vertical-align: top; }
th { background: #f2f2f2; text-align: left; }
td.right, th.right { text-align: right; }
tbody tr:nth-child(even) { background: #fafafa; }
img { max-width: 100%; height: auto; }
code { background: #f2f2f2; padding: 0 .25em; overflow-wrap: anywhere; }
td code { white-space: nowrap; }
.holds { color: #00513b; font-weight: 600; white-space: nowrap; }
.fails { color: #9c2a00; font-weight: 600; white-space: nowrap; }
.open { color: #555; white-space: nowrap; }
"""
_VERDICTS = {
    "holds": "holds",
    "does not hold": "fails",
    "not measured": "open",
    "reported": "open",
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
    verdicts = [judge(c, record) for c in claims.load(layout)]
    plots = charts.draw(record)
    page = as_markdown(record, verdicts, tuple(plots))
    for plot, svg in plots.items():
        write_atomic(folder / plot, svg.encode())
    write_atomic(folder / "REPORT.md", page.encode())
    write_atomic(folder / "report.html", as_html(page).encode())
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
        tables.claims(verdicts, commands=True),
        "One claim is measured by `./scripts/harness bench NAME`.",
        *_notes(verdicts),
        "## Answers on real models",
        "Runs over the budget do not count as extra recomputation: more memory is no "
        "merit. Where everything fits, nothing should be recomputed.",
        tables.quality(record),
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
        tables.small(record),
        "## Speed",
        "How many times faster than the first solver: median of the per-round ratios "
        "and the 95 % interval of that median. [wrong]: the answer was not the optimum "
        "that the solver promises, or over its budget.",
        "### Real models",
        tables.speed(record, "real-speed"),
        "### By size, W = 10,000",
        tables.speed(record, "size-speed"),
        image("time.svg"),
        "### Repeated as in the publication",
        tables.speed(record, "repeated"),
        "### By capacity",
        tables.speed(record, "width-speed"),
        "### Large and hard",
        tables.speed(record, "large-speed"),
        tables.speed(record, "large-ilp"),
        tables.speed(record, "wide-speed"),
        tables.speed(record, "huge"),
        "### 100 budgets of one model",
        tables.speed(record, "budgets"),
        "### Threads and load",
        "As many threads as torch takes by itself against one, under the same load, "
        "measured in turns; two busy loops are two processes that never wait.",
        tables.threads(record),
        "### Other people's solvers",
        tables.speed(record, "peers"),
        "## Training" if "training.svg" in plots else "",
        image("training.svg"),
        "## Memory",
        image("memory.svg"),
        tables.memory(record),
        "## Where and with what",
        tables.setting(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_html(markdown: str) -> str:
    """Return the report's Markdown as a page; its plots lie beside it."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    body = parser.render(markdown)
    body = re.sub(r' style="text-align:right"', ' class="right"', body)
    body = body.replace("<table>", '<div class="wide"><table>')
    body = body.replace("</table>", "</table></div>")
    for word, style in _VERDICTS.items():
        body = body.replace(f"<td>{word}</td>", f'<td class="{style}">{word}</td>')
    title = re.search(r"<h1>(.*?)</h1>", body)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title[1] if title else 'Report'}</title>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def as_section(
    record: Record, verdicts: Sequence[Verdict], folder: str, plots: Sequence[str]
) -> str:
    """Return what the README shows of a report: one plot, and the headline claims."""
    images = [
        f"![{TEXTS[name]}](results/{folder}/{name})"
        for name in README_PLOTS
        if name in plots
    ]
    parts = [
        *images[:1],
        tables.claims([one for one in verdicts if one.claim.headline]),
        f"By `{record.header['command']} && ./scripts/harness report`. "
        f"{_conclusion(verdicts)} All of them, tables and plots: "
        f"[results/{folder}/REPORT.md](results/{folder}/REPORT.md).",
    ]
    return "\n\n".join(parts)


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
        return folder, newest(folder)
    folders = [layout.results / one for one in (FULL, QUICK)]
    found = [
        (folder, newest(folder)) for folder in folders if any(folder.glob(f"{PREFIX}*"))
    ]
    if not found:
        raise HarnessError("there is no record yet: run `./scripts/harness bench`")
    return max(found, key=lambda pair: pair[1].last_change)


def _conclusion(verdicts: Sequence[Verdict]) -> str:
    words = [verdict.word for verdict in verdicts]
    failed = [v.claim.name for v in verdicts if v.word == "does not hold"]
    text = (
        f"**Of {len(words)} claims {words.count('holds')} hold, {len(failed)} do not, "
        f"{words.count('reported')} are reported without a bound, "
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
