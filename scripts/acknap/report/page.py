"""`report`: tables, plots and a page from raw records alone."""

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
from acknap.report import charts, summary, tables
from acknap.report.verdicts import Verdict, judge

START, END = "<!-- claims -->", "<!-- /claims -->"
README_PLOTS = ("delivered.svg", "memory.svg")  # the first that there is

# What the report says, with places for what a record holds; and its style as a page.
_TEMPLATE = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
# What a plot says, for those who do not see it.
TEXTS = {name: text for text, name in re.findall(r"!\[(.+?)\]\((.+?)\)", _TEMPLATE)}
_STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
_SCRIPT = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
_TABLES = {
    "quality": tables.quality,
    "captured": tables.captured,
    "variants": tables.variants,
    "delivered": tables.delivered,
    "speeds": tables.speeds,
    "small": tables.small,
    "threads": tables.threads,
    "memory": tables.memory,
    "setting": tables.setting,
    "load": summary.load,
}
# What Markdown leaves as text, or says without what the page needs.
_MARKUP = (
    (
        r"<p>&lt;details&gt;\s*&lt;summary&gt;(.*?)&lt;/summary&gt;</p>",
        r"<details>\n<summary>\1</summary>",
    ),
    (r"<p>&lt;/details&gt;</p>", "</details>"),
    (r' style="text-align:right"', ' class="right"'),
    (r"<table>", '<div class="wide" role="region" tabindex="0"><table>'),
    (r"</table>", "</table></div>"),
    (r'(<img src="([^"]+)"[^>]*>)', r'<a href="\2">\1</a>'),
    (r"(\d) %", r"\1&nbsp;%"),
    (r"<h2>Claims", '<h2 id="claims">Claims'),
)
_VERDICTS = {"holds": "holds", "does not hold": "fails"}
_VERDICTS |= dict.fromkeys(("not measured", "reported"), "open")


def run_report(layout: Layout, name: str | None, *, record: bool) -> int:
    """Draw the report of a record.

    Args:
        layout: The repository.
        name: The record's folder; the one in build/ that grew last if None.
        record: Draw the one in results/, and put a full one's claims into the README.

    Returns:
        0: claims that do not hold are the report's content, not its failure.

    Raises:
        HarnessError: There is no record.
    """
    found = _find(layout, name, record=record)
    folder, raw = layout.output(found.name, None, record=record), newest(found)
    print(f"Record: {layout.relative(raw.path)}")
    verdicts = [judge(c, raw) for c in claims.load(layout)]
    plots = charts.draw(raw)
    peaks = summary.peaks(layout, raw, folder)
    page = as_markdown(raw, verdicts, tuple(plots), peaks)
    files = {"REPORT.md": page, "report.html": as_html(page), **plots}
    for file, content in files.items():
        write_atomic(folder / file, content.encode())
        print(layout.relative(folder / file))
    if record and folder.name == FULL:
        readme = layout.root / "README.md"
        text = readme.read_text(encoding="utf-8")
        section = as_section(raw, verdicts, folder.name, tuple(plots))
        write_atomic(readme, splice(text, section).encode())
        print("README.md: claims rewritten")
    width = max(len(verdict.claim.name) for verdict in verdicts)
    for verdict in verdicts:
        print(f"{verdict.claim.name:{width}}  {verdict.word:13}  {verdict.measured}")
    return 0


def as_markdown(
    record: Record,
    verdicts: Sequence[Verdict],
    plots: Sequence[str],
    peaks: summary.Peaks | None,
) -> str:
    """Return the whole report."""
    topics = dict.fromkeys(re.findall(r"\{speed\[(.+?)\]\}", _TEMPLATE))
    published, ours = summary.split(verdicts)
    page = _TEMPLATE.format(
        command=record.header["command"],
        record=record.path.name,
        numbers=summary.numbers(record, peaks),
        sentences=summary.sentences(record, peaks),
        peak=peaks.picture if peaks else "",
        conclusion=summary.conclusion(verdicts),
        claims={
            "published": tables.claims(published, commands=True),
            "ours": tables.claims(ours, commands=True),
        },
        notes=_notes(verdicts),
        speed={topic: tables.speed(record, topic) for topic in topics},
        **{part: make(record) for part, make in _TABLES.items()},
    )
    for name in TEXTS.keys() - set(plots):
        page = page.replace(f"![{TEXTS[name]}]({name})", "")
    # Where the record holds nothing of a part, there is no gap, and no heading alone.
    return re.sub(r"## [\w ]+\n\n(?=## )", "", re.sub(r"\n{3,}", "\n\n", page))


def as_html(markdown: str) -> str:
    """Return the report's Markdown as a page; its plots are linked."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    body = parser.render(markdown)
    for found, wanted in _MARKUP:
        body = re.sub(found, wanted, body)
    for word, style in _VERDICTS.items():
        body = body.replace(f"<td>{word}</td>", f'<td class="{style}">{word}</td>')
    title = re.search(r"<h1>(.*?)</h1>", body)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title[1] if title else 'Report'}</title>\n"
        f"<style>\n{_STYLE}</style>\n<script>\n{_SCRIPT}</script>\n"
        f"</head>\n<body>\n{body}</body>\n</html>\n"
    )


def as_section(
    record: Record, verdicts: Sequence[Verdict], folder: str, plots: Sequence[str]
) -> str:
    """Return what the README shows of a report: one plot, and the headline claims."""
    shown = [name for name in README_PLOTS if name in plots][:1]
    parts = [
        *(f"![{TEXTS[name]}](results/{folder}/{name})" for name in shown),
        tables.claims([one for one in verdicts if one.claim.headline]),
        f"By `{record.header['command']} && ./scripts/harness report`. "
        f"{summary.conclusion(verdicts)} All of them, tables and plots: "
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


def _find(layout: Layout, name: str | None, *, record: bool) -> Path:
    """The folder of the record to draw; one in results/ if there is none in build/."""
    if name not in (None, FULL, QUICK):
        raise HarnessError(f"{name} is no record of bench: name {FULL} or {QUICK}")
    names = [name] if name else [FULL] if record else [FULL, QUICK]
    homes = [layout.results] if record else [layout.build, layout.results]
    for home in homes:
        found = [home / one for one in names if any((home / one).glob(f"{PREFIX}*"))]
        if found:
            return max(found, key=lambda folder: newest(folder).last_change)
    command = "bench --quick" if name == QUICK else "bench"
    raise HarnessError(
        f"there is no record yet: run `./scripts/harness {command}"
        f"{' --record' if record else ''}`"
    )


def _notes(verdicts: Sequence[Verdict]) -> str:
    notes = [
        f"- `{v.claim.name}`: {v.claim.note}"
        for v in verdicts
        if v.claim.note and v.measured != v.claim.note
    ]
    return "\n".join(notes)
