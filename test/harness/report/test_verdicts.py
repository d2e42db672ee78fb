"""Claims that are held against a record."""

from pathlib import Path

from acknap.base.layout import Layout
from acknap.bench import claims
from acknap.bench.record import open_record
from acknap.report.verdicts import judge

REAL = Layout.default()


def test_every_claim_can_be_held_against_an_empty_record(tmp_path: Path) -> None:
    record = open_record(tmp_path, {}, {})
    for claim in claims.load(REAL):
        verdict = judge(claim, record)
        assert verdict.word == "not measured", claim.name
        assert verdict.measured
