"""The report: numbers, tables, page, README, from a record made by hand."""

import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from acknap.base.errors import HarnessError
from acknap.base.layout import Layout
from acknap.bench import claims as bench_claims
from acknap.bench import record as bench_record
from acknap.bench.finished import Threads
from acknap.report import memory as bench_memory
from acknap.report import page, summary
from acknap.report import speed as bench_numbers
from acknap.report.page import END, START, run_report, splice
from acknap.report.verdicts import judge
from acknap.series.patches import load
from toy_record import add, make, speed

REAL = Layout.default()


@pytest.fixture(scope="module")
def browser() -> str:
    """A browser's command; CI installs one."""
    on_ci = os.environ.get("CI") == "true" and os.geteuid() == 0
    if not _browser() and on_ci and shutil.which("apt-get"):
        variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in ("update", "install -y --no-install-recommends chromium"):
            command = ["apt-get", "-qq", *words.split()]
            subprocess.run(command, check=True, capture_output=True, env=variables)
    return _browser() or pytest.skip("needs chromium")


def _browser() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A repository with the real claims, a README and a full record."""
    monkeypatch.delenv("ACKNAP_BUILD", raising=False)
    made = Layout(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(REAL.root / bench_claims.FILE, tmp_path / bench_claims.FILE)
    (tmp_path / "README.md").write_text("# Title\n\nText.\n")
    make(made.results / "bench")
    return made


@pytest.fixture
def report(layout: Layout) -> Path:
    run_report(layout, None, record=True)
    return layout.results / "bench"


# --- numbers


def test_memory_numbers(tmp_path: Path) -> None:
    record = make(tmp_path)
    table = bench_memory.table_gb(record)
    assert table is not None
    assert table.value == pytest.approx(304, abs=0.1)
    assert "4.000 bytes a cell, fitted on 5 points" in table.text
    assert "310 GB with the temporary rows" in table.text
    rows = bench_memory.rows_gb(record)
    assert rows is not None
    assert rows.value == pytest.approx(58.4, abs=0.1)
    dies = bench_memory.table_asks(record)
    assert dies is not None
    assert dies.value == pytest.approx(4.75, abs=0.001)
    by_n = bench_memory.rows_by_n(record)
    assert by_n is not None
    assert by_n.value == 1
    larger = bench_memory.times_larger(record)
    assert larger is not None
    assert larger.value == 20
    peak = bench_memory.peak(record, "patched.exact", ["random"])
    assert peak is not None
    assert peak.value == pytest.approx(0.42)


def test_speed_numbers(tmp_path: Path) -> None:
    record = make(tmp_path)
    worst = bench_numbers.speed(
        record, ["size-speed", "real-speed"], "stock.dp", "patched.exact", "worst"
    )
    assert worst is not None
    assert worst.value == pytest.approx(1.25)
    assert (
        "of 3 points, worst 1.25x (0.5 to 2), not significant (toy_model at 0.5)"
        in (worst.text)
    )
    slower = bench_numbers.slower_share(
        record, ["size-speed"], "patched.exact", "stock.dp"
    )
    assert slower is not None
    assert slower.value == 1
    assert slower.text == "2 of 2 points, at most 10.5 ms (random:n=500,units=10000)"
    peers = bench_numbers.peers(record, "patched.exact")
    assert peers is not None
    assert (peers.value, peers.text) == (0, "milp 10 times its time, 10 to 10")


def test_counting_numbers(tmp_path: Path) -> None:
    record = make(tmp_path)
    stock = bench_numbers.count_small(record, ["stock.hirschberg"])
    assert stock == (46, "stock.hirschberg: 46 over budget of 1000")
    real = bench_numbers.count_real(record, ["stock.hirschberg", "stock.ilp"])
    assert real == (3, "1 failed, 1 over, 1 below the optimum of 2 runs")
    add(record, "huge", "speed", "layers:n=9", speed({"patched.exact": [1.0] * 3}))
    assert bench_numbers.wrong_in_timings(record, "patched.exact") == (
        0,
        "0 of 7 timed points",
    )
    assert bench_numbers.seconds(record, "huge", "patched.exact") == (1, "1000 ms")


def test_thread_numbers(tmp_path: Path) -> None:
    record = make(tmp_path)
    idle = bench_numbers.threads(record, "patched.exact", "idle")
    assert idle is not None
    assert idle.value == pytest.approx(1.1)
    loaded = bench_numbers.threads(record, "patched.exact", "loaded")
    assert loaded == (2, "p99 2x (groups:n=8), median 1.6x of 2 points")
    assert bench_numbers.threads(record, "patched.dp", "idle") is None
    for point in record.of("threads", Threads):
        point.threads["default"] = 1
    assert bench_numbers.threads(record, "patched.exact", "idle") is None


def test_training_numbers(tmp_path: Path) -> None:
    record = make(tmp_path)
    losses = bench_numbers.training_losses(record)
    assert losses is not None
    assert losses.value == pytest.approx(1e-5)
    assert losses.text == "largest difference 1e-05 in 4 runs of 3 steps, loss 4 to 1"
    memory = bench_numbers.training_memory(record, "patched.exact", 0.25)
    assert memory is not None
    assert memory.value == 0.25
    assert "patched.exact at 1 40 MB, patched.exact at 0.25 10 MB" in memory.text
    time = bench_numbers.training_time(record, "patched.exact", 0.25)
    assert time is not None
    assert time.value == pytest.approx(4)
    assert bench_numbers.training_time(record, "patched.exact", 0.3) is None
    assert bench_numbers.training_memory(record, "patched.dp", 0.25) is None


def test_verdicts(layout: Layout) -> None:
    record = bench_record.newest(layout.results / "bench")
    words = {
        claim.name: judge(claim, record).word for claim in bench_claims.load(layout)
    }
    assert words["table-size"] == "holds"
    assert words["paper-exact"] == "does not hold"
    assert words["threads-exact-idle"] == "holds"
    assert words["threads-exact-loaded"] == "does not hold"
    assert words["threads-dp-idle"] == "not measured"
    assert words["peers"] == "reported"
    assert words["budgets"] == "not measured"
    assert words["gpu-time"] == "not measured"


# --- pages


def test_report_files(report: Path) -> None:
    page = (report / "REPORT.md").read_text()
    for part in (
        "# Benchmark of the knapsack solvers\n",
        "Measured by `./scripts/harness bench`",
        "- **0 of 2 \N{RIGHTWARDS ARROW} 0 of 2** partitions keep more alive than",
        "\n**What it costs.** Where released `dp` keeps the budget, ",
        "\n</details>\n\n## Claims\n",
        "| The dp table for n = 100 does not fit into 64 GB | holds | 304 GB",
        "| dp, released | 1 | 0 | 0 | 0 | 20 % | 20 % | 0 |",
        "| Hirschberg, released | 1 | 1 | 25 % | 1 | 0 | 0 | 0 |",
        "| ilp, released | 1 (1 failed) |",
        "| Hirschberg, released | 1000 | 46 |",
        "not significant |",
        "| not proven |",
        "died, asking for 304.0",
        "| exact, this series | nothing | 2 | 1 | 1.1 | 1.1 | 0 |",
        "| exact, this series | two busy loops | 2 | 2 | 1.6 | 2 | 0 |",
        "![Peak memory against the number of items: ",
        "](memory.svg)",
        "SHA-256 of the patches 0123456789abcdef",
    ):
        assert part in page, part
    names = {
        *("memory", "delivered", "time", "budget", "recompute", "frontier", "training")
    }
    assert {path.stem for path in report.glob("*.svg")} == names


def test_report_is_the_same_every_time(report: Path, layout: Layout) -> None:
    before = {path: path.read_bytes() for path in report.iterdir()}
    readme = (layout.root / "README.md").read_text()
    run_report(layout, "bench", record=True)
    assert {path: path.read_bytes() for path in report.iterdir()} == before
    assert (layout.root / "README.md").read_text() == readme


@pytest.mark.usefixtures("report")
def test_readme(layout: Layout) -> None:
    text = (layout.root / "README.md").read_text()
    assert text.startswith("# Title\n\nText.\n\n<!-- claims -->\n")
    assert text.endswith("<!-- /claims -->\n")
    assert text.count("![") == 1
    assert "![What stays alive for the backward" in text
    table = re.search(r"^\| claim .*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)
    assert table
    assert table.group().count("\n") == 9  # its head, and eight claims
    for plot in re.findall(r"\]\((results/\S+)\)", text):
        assert (layout.root / plot).is_file()


def test_quick_record_leaves_the_readme_alone(layout: Layout) -> None:
    for home in (layout.results, layout.build):
        make(home / "bench-quick", "./scripts/harness bench --quick")
        run_report(layout, "bench-quick", record=home == layout.results)
        assert (layout.root / "README.md").read_text() == "# Title\n\nText.\n"
        assert (home / "bench-quick" / "report.html").is_file()


def test_report_leaves_what_is_committed_alone(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    """Drawn into build/: what bench measured there, or else what is committed."""
    run_report(layout, None, record=False)
    drawn = layout.build / "bench" / "REPORT.md"
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Record: results/bench/raw-")
    assert said[1] == "build/bench/REPORT.md"
    assert (layout.root / "README.md").read_text() == "# Title\n\nText.\n"
    assert not (layout.results / "bench" / "REPORT.md").exists()
    make(layout.build / "bench-quick", "./scripts/harness bench --quick")
    run_report(layout, None, record=False)
    assert (layout.build / "bench-quick" / "REPORT.md").is_file()
    assert "bench --quick" not in drawn.read_text()


def test_splice() -> None:
    text = f"a\n{START}\nold\n{END}\nb\n"
    assert splice(text, "new") == f"a\n{START}\nnew\n{END}\nb\n"
    for broken in (f"{START}\n", f"{END}\n", text + text):
        with pytest.raises(HarnessError, match="once each"):
            splice(broken, "new")


def test_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACKNAP_BUILD", raising=False)
    none = "there is no record yet: run `./scripts/harness"
    for name, record, command in (
        (None, False, "bench`"),
        ("bench-quick", False, "bench --quick`"),
        (None, True, "bench --record`"),
    ):
        with pytest.raises(HarnessError, match=f"{none} {command}"):
            run_report(Layout(tmp_path), name, record=record)
    with pytest.raises(HarnessError, match="^x is no record of bench: name bench or"):
        run_report(Layout(tmp_path), "x", record=False)


class Reader(HTMLParser):
    """Checks that tags are balanced, and collects what the page holds."""

    VOID = ("meta", "br", "hr", "img", "path", "use", "link")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href"):
                self.links.append(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_page_links_the_plots_beside_it(report: Path) -> None:
    reader = Reader()
    reader.feed((report / "report.html").read_text())
    assert reader.open == []
    assert reader.seen.count("img") == 7
    assert reader.seen.count("table") > 6
    plots = {path.name for path in report.glob("*.svg")}
    assert {link for link in reader.links if link[0] != "#"} == plots


def test_claims_come_last_and_folded(report: Path) -> None:
    text = (report / "report.html").read_text()
    assert text.index("</table>") < text.index("<details>")
    claims = text.partition('<h2 id="claims">')[2]
    assert "<h2" not in claims
    assert claims.count("<details>") == claims.count("</details>") == 3
    assert "<details open" not in text
    assert "&lt;" not in text.partition("<body>")[2].replace("&lt;=", "")


def test_page_of_text_that_looks_like_markup() -> None:
    text = page.as_html("# <script>x</script>\n\na < b\n")
    assert "<h1>&lt;script&gt;x&lt;/script&gt;</h1>" in text
    assert "<title>&lt;script&gt;" in text


@pytest.mark.parametrize("width", [390, 1280])
def test_page_in_a_browser(
    report: Path, tmp_path: Path, browser: str, width: int
) -> None:
    """No error, all plots and tables, and nothing wider than the screen."""
    seen = look(browser, report / "report.html", tmp_path, width)
    assert (seen["width"], seen["fits"]) == (width, True)
    assert (seen["plots"], seen["drawn"]) == (7, True)
    assert seen["tables"] > 6


def test_no_column_is_cut_on_a_desk(tmp_path: Path, browser: str) -> None:
    """The committed page has the widest tables."""
    seen = look(browser, REAL.results / "bench" / "report.html", tmp_path, 1280)
    assert (seen["drawn"], seen["scroll"], seen["said"]) == (True, 0, 0)


def test_wide_tables_scroll_by_themselves_on_a_telephone(
    tmp_path: Path, browser: str
) -> None:
    seen = look(browser, REAL.results / "bench" / "report.html", tmp_path, 390)
    assert seen["fits"]
    assert seen["scroll"] == seen["said"] > 6


LOOK = """
f.onload = () => setTimeout(() => {
  const page = f.contentDocument, all = (what) => [...page.querySelectorAll(what)];
  all("details").forEach((part) => part.open = true);
  const boxes = all(".wide");
  setTimeout(() => document.title = JSON.stringify({
    width: f.contentWindow.innerWidth,
    fits: page.documentElement.scrollWidth <= f.contentWindow.innerWidth,
    plots: page.images.length,
    drawn: all("img").every((i) => i.naturalWidth && i.clientHeight > 50),
    tables: boxes.length,
    scroll: boxes.filter((box) => box.scrollWidth > box.clientWidth).length,
    said: boxes.filter((box) =>
      getComputedStyle(box, "::before").content.includes("scroll")).length,
  }), 500);
}, 500);
"""


def look(browser: str, page: Path, folder: Path, width: int) -> dict[str, Any]:
    """What a browser makes of a page, with all that is folded open."""
    frame = folder / "frame.html"  # a headless window is never narrower than 500
    frame.write_text(
        f"<iframe id=f src={page.as_uri()} width={width} height=900></iframe>"
        f"<script>{LOOK}</script>"
    )
    done = subprocess.run(
        [
            browser,
            *("--headless=new", "--no-sandbox", "--disable-gpu"),
            *("--allow-file-access-from-files", "--enable-logging=stderr"),
            *("--virtual-time-budget=5000", f"--user-data-dir={folder / 'profile'}"),
            *("--window-size=1400,1000", "--dump-dom", frame.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr
    found: dict[str, Any] = json.loads(title[1])
    return found


# --- what is committed


def test_committed_numbers_agree() -> None:
    """README and REPORT.md are what the committed record gives."""
    folder = REAL.results / "bench"
    if not any(folder.glob("raw-*.jsonl")):
        pytest.skip("no full record is committed")
    record = bench_record.newest(folder)
    assert record.path.stat().st_size < 5e6
    verdicts = [judge(c, record) for c in bench_claims.load(REAL)]
    plots = [name for name in page.TEXTS if (folder / name).is_file()]
    peaks = summary.peaks(REAL, record, folder)
    assert peaks is not None
    text = page.as_markdown(record, verdicts, plots, peaks)
    assert (folder / "REPORT.md").read_text() == text, (
        "run ./scripts/harness report --record"
    )
    section = page.as_section(record, verdicts, folder.name, plots)
    readme = (REAL.root / "README.md").read_text()
    assert section in readme, "run ./scripts/harness report --record"


def test_patches_say_what_is_claimed() -> None:
    said = {
        patch.title: " ".join(patch.path.read_text(encoding="utf-8").split())
        for patch in load(REAL, "v2.10").mandatory
    }
    for claim in bench_claims.load(REAL):
        if claim.patch:
            assert claim.quote in said[claim.patch].partition(" diff --git ")[0]
