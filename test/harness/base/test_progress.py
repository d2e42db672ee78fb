"""Progress without a terminal: plain lines on stderr."""

import sys
import time

import pytest

from acknap.base import progress
from acknap.base.progress import working


def test_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", 0.05)
    with working("Cooking"), working("Stirring"):
        time.sleep(0.3)
    captured = capsys.readouterr()
    assert captured.out == ""
    first, *others = captured.err.splitlines()
    assert first == "Cooking"
    assert set(others) == {"Cooking: 0 s"}


def test_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with working("Cooking"), working("Stirring"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Stirring" not in captured.err


def test_error_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), working("Cooking"):
        raise KeyError
    with working("Baking"):
        pass
    assert capsys.readouterr().err == "Cooking\nBaking\n"
