"""The pages say what the code and the committed results say."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from acknap.base.layout import Layout
from acknap.cli import app
from acknap.series.patches import Patch, load
from acknap.upstream.targets import Targets

LAYOUT = Layout.default()
ROOT = LAYOUT.root
README = (ROOT / "README.md").read_text()
PATCHES = (LAYOUT.patches / "README.md").read_text()
MADE = ("build", "captured")  # what commands write; large
MOST_LINES = 140


def pages_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in MADE and path.name[0] != ".":
            yield from pages_below(path)
        elif path.name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
            yield path


PAGES = {str(path.relative_to(ROOT)): path for path in pages_below(ROOT)}


def links(page: Path) -> list[str]:
    """The addresses of links and images, but those of other sites."""
    return re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text())


def prose(page: Path) -> str:
    """A page without its blocks of code, whose comments look like headings."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        other = page.parent / path if path else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            found.append(link)
    return found


def unknown(command: str) -> list[str]:
    """The words of a command line that the harness does not know."""
    words = re.sub(r"\s#.*", "", command).replace("'", " ").split()
    known: Any = typer.main.get_command(app)
    while hasattr(known, "commands") and words and words[0][0] != "-":
        name = words.pop(0)
        if name == "COMMAND":
            return []  # any
        if name not in known.commands:
            return [name]
        known = known.commands[name]
    options = {"--help", *(name for one in known.params for name in one.opts)}
    named = [word.partition("=")[0] for word in words if word.startswith("-")]
    return [name for name in named if name not in options]


def commands(text: str) -> list[str]:
    """The command lines of the harness that a page shows, in spans and in blocks."""
    shell = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [" ".join(span.split()) for span in spans]
    lines += "".join(shell.findall(text)).splitlines()
    parts = [part for line in lines for part in line.split("&&")]
    found = [part.partition("./scripts/harness ") for part in parts]
    return [rest for _, name, rest in found if name]


def test_first_page_is_short_and_begins_with_the_package_and_two_commands() -> None:
    assert README.count("\n") <= MOST_LINES
    first, block, *_ = re.finditer(
        r"^```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL
    )
    assert 'backend="acknap"' in first[1]
    words = [line.partition("#")[0].split() for line in block[1].splitlines()]
    assert words == [["./scripts/harness", "compare"], ["./scripts/harness", "test"]]


@pytest.mark.parametrize(
    "name", ["compare-v2.10.0-against-v2.10.0", "compare-v2.9.1-against-v2.10.0"]
)
def test_comparison_table_is_that_of_the_committed_report(name: str) -> None:
    report = (LAYOUT.results / name / "compare.md").read_text()
    table = re.search(r"^\| result \|.*?(?=\n\n)", report, re.MULTILINE | re.DOTALL)
    assert table
    assert table.group() in (LAYOUT.results / "README.md").read_text()
    counts = dict(re.findall(r"^\| (\w+) \|.* (\d+) \|$", table.group(), re.MULTILINE))
    said = r"suite (\d+) tests fail on stock.*? (\d+) pass on both, none\s+regressed"
    found = re.search(said, README, re.DOTALL)
    assert found
    assert found.groups() == (counts["fixed"], counts["kept"])
    assert counts["regressed"] == "0"


def changes_torch(patch: Patch) -> bool:
    paths = (*patch.added, *patch.modified)
    return any(path.startswith("torch/") for path in paths)


def test_status_table_has_every_patch_as_it_is() -> None:
    series: dict[str, dict[str, Patch]] = {
        name: {patch.title: patch for patch in load(LAYOUT, name).all}
        for name in ("v2.9", "v2.10", "v2.11")
    }
    assert series.keys() == Targets.load(LAYOUT).series.keys()
    row = r"^\| ([^|]+?) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| (\w+) \|$"
    rows = re.findall(row, PATCHES, re.MULTILINE)
    assert {title for title, *_ in rows} == set().union(*series.values())
    assert len({title for title, *_ in rows}) == len(rows)
    for title, *cells, status in rows:
        for patches, cell in zip(series.values(), cells, strict=True):
            if title not in patches:
                assert cell in ("in the release", "in the backport"), title
                continue
            patch = patches[title]
            others = [each[title] for each in series.values() if title in each]
            is_test = not changes_torch(patch) and any(map(changes_torch, others))
            expected = "optional" if patch.optional else "yes"
            assert cell == ("the test" if is_test else expected), title
            trailer = f"\nUpstream-Status: {status}"
            assert trailer in patch.path.read_text(encoding="utf-8"), title


def test_table_of_dropped_patches_names_patches_with_their_tests() -> None:
    section = PATCHES.partition("## When a patch is dropped")[2].partition("\n## ")[0]
    row = r"^\| ([^|]+?) \| ([^|]+) \| `(test_\w+\.py)` \|$"
    rows = re.findall(row, section, re.MULTILINE)
    assert len(rows) == section.count("\n| ") - 2  # its head, and the line below it
    patches = {patch.title: patch for patch in load(LAYOUT, "v2.11").mandatory}
    for title, when, test in rows:
        assert f"test/functorch/{test}" in patches[title].added, title
        assert re.search(r"\]\(https://github\.com/pytorch/pytorch/\w+/\d+\)", when)


def test_every_release_is_named_with_its_series() -> None:
    targets = Targets.load(LAYOUT)
    supported = README.partition("## Supported releases")[2].partition("\n## ")[0]
    named: dict[str, list[str]] = {}
    for text in supported.split(";"):
        found = re.search(r"`patches/([\w.]+)`", text)
        assert found
        named[found[1]] = re.findall(r"\b\d+\.\d+\.\d+\b", text)
    releases = {
        name: [one.release for one in targets.all if one.series == name]
        for name in targets.series
    }
    assert named == releases
    for name, several in releases.items():
        assert f"| `patches/{name}` | {', '.join(several)} |" in PATCHES


def test_variant_differs_in_the_patches_that_are_named() -> None:
    variant = Targets.load(LAYOUT).series["v2.11"]
    words = r"equals `patches/v2\.10` but\s+for(.*?), which"
    said = re.search(words, PATCHES, re.DOTALL)
    assert said
    named = {" ".join(one.split()) for one in re.findall(r"\*([^*]+)\*", said[1])}
    patches = load(LAYOUT, "v2.11").all
    assert named == {one.title for one in patches if one.name in variant.differs}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    assert broken(PAGES[name]) == []


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"README.md"}))
def test_first_page_links_every_page(name: str) -> None:
    assert name in {link.partition("#")[0] for link in links(ROOT / "README.md")}


@pytest.mark.parametrize("name", PAGES)
def test_commands_are_the_harness_s(name: str) -> None:
    text = PAGES[name].read_text()
    assert {one: unknown(one) for one in commands(text) if unknown(one)} == {}


@pytest.mark.parametrize("name", PAGES)
def test_named_files_are_there(name: str) -> None:
    """Paths in code, from the root or the page's folder, and the names beside links."""
    page = PAGES[name]
    tops = [path.name for path in ROOT.iterdir() if path.name not in MADE]
    for path in re.findall(r"`([\w.-]+/[\w./-]*\.\w+)`", prose(page)):
        if path.partition("/")[0] in tops and "X.Y.Z" not in path:
            assert (ROOT / path).exists(), path
    pairs = re.findall(r"\]\(([^)\s]+\.py)\): `(\w+)`", prose(page))
    for path, word in pairs:
        text = (page.parent / path).read_text()
        assert re.search(rf"^(def |class )?{word}\b", text, re.MULTILINE), (path, word)


def test_faults_of_pages_are_found(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("# A b: c\n[1](gone.md) [2](#a-b-c) [3](#b) [4](https://x.y)\n")
    assert broken(page) == ["gone.md", "#b"]
    block = "```sh\nx sh -c './scripts/harness d --e f'\n```\n"
    assert commands(f"`./scripts/harness a\nb` `c`\n{block}") == ["a b", "d --e f'"]
    assert unknown("compare --target v2.9.1 # --planted") == []
    assert unknown("docker compare --planted") == ["--planted"]
    assert unknown("planted") == ["planted"]
