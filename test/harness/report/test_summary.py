"""What a report says first: numbers, sentences, and how many claims hold."""

from dataclasses import replace
from pathlib import Path

import pytest

from acknap.base.layout import Layout
from acknap.bench import claims
from acknap.bench.record import Record
from acknap.report import summary
from acknap.report.verdicts import Verdict, judge
from toy_record import make
from toy_rows import write


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return make(tmp_path / "results" / "bench")


def found_peaks(tmp_path: Path, record: Record) -> summary.Peaks | None:
    """The peaks of a toy: half of released dp's, of two models at three budgets."""
    folder = tmp_path / "results" / "peaks-v1.0.0"
    folder.mkdir()
    (folder / f"{summary.PICTURED}.svg").write_text("<svg/>")
    rows = [
        {"way": way, "model": model, "budget": budget, "peak": 5, "of_peak": 10}
        for way in ("peak for dp", "peak")
        for model in "ab"
        for budget in (0.05, 0.1, 0.3)
    ]
    write(folder, patched=rows)
    return summary.peaks(Layout(tmp_path), record, record.path.parent)


def test_the_peak_s_picture_is_linked_where_it_lies(
    tmp_path: Path, record: Record
) -> None:
    found = found_peaks(tmp_path, record)
    assert found is not None
    assert found.picture.endswith("](../peaks-v1.0.0/llama_32.svg)")
    assert (found.models, found.shares[0.1]) == (2, pytest.approx(0.5))
    assert "- **0.50x** the peak of a step" in summary.numbers(record, found)
    assert "is 0.50, 0.50 and 0.50 of its" in summary.sentences(record, found)


def test_without_a_record_of_peaks_the_rest_is_said(
    tmp_path: Path, record: Record
) -> None:
    assert summary.peaks(Layout(tmp_path), record, tmp_path) is None
    text = summary.sentences(record, None)
    assert text.count("**The budget.** Of 2 partitions by released `dp` 0 keep") == 1
    assert "peak" not in text + summary.numbers(record, None)


def test_load_is_told_if_it_was_high(record: Record) -> None:
    record.points |= {
        name: point.model_copy(update={"load": 2.0})
        for name, point in record.points.items()
    }
    assert summary.load(record) == ""  # as many as there are cores
    some = list(record.points)[::4]
    record.points |= {
        name: record.points[name].model_copy(update={"load": 9.5}) for name in some
    }
    text = summary.load(record)
    assert text.startswith("> **The machine was busy**: at ")
    assert "above its 2 cores, up to 9.5." in text


def test_claims_add_up_and_the_publication_s_stand_apart(record: Record) -> None:
    verdicts = [judge(claim, record) for claim in claims.load(Layout.default())]
    published, ours = summary.split(verdicts)
    assert {verdict.claim.source for verdict in published} == {"paper"}
    assert "paper" not in {verdict.claim.source for verdict in ours}
    assert len(published) + len(ours) == len(verdicts)
    assert f"**Of {len(verdicts)} claims {len(published)} are the publication's: " in (
        summary.conclusion(verdicts)
    )


def test_verdicts_are_counted_in_words() -> None:
    paper = claims.Claim("a", "", "paper", "", at_least=1)
    ours = replace(paper, name="b", source="README")
    text = summary.conclusion(
        [Verdict(paper, "", True), Verdict(ours, "", False), Verdict(ours, "", None)]
    )
    assert text == (
        "**Of 3 claims 1 are the publication's: 1 holds; 2 are this project's: "
        "1 does not and 1 was not measured.** Not held of ours: b."
    )
