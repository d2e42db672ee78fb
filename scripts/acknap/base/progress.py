"""Progress of slow work, on stderr: a bar on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

Show = Callable[..., object]

_INTERVAL = 30.0
_showing = threading.Lock()


def say(message: str) -> None:
    """Print one line about what happens, apart from the results on stdout."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def working(message: str) -> Iterator[Show]:
    """Show that work goes on while the block runs; a block within it shows nothing.

    Yields:
        A function that takes how much is done, `completed`, and how much there is,
        `total`; the bar shows it.
    """
    if not _showing.acquire(blocking=False):
        yield _show_nothing
        return
    try:
        with _bar(message) if sys.stderr.isatty() else _lines(message) as show:
            yield show
    finally:
        _showing.release()


@contextmanager
def _bar(message: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        yield partial(display.update, display.add_task(message, total=None))


@contextmanager
def _lines(message: str) -> Iterator[Show]:
    done = threading.Event()
    start = time.monotonic()

    def report() -> None:
        while not done.wait(_INTERVAL):
            say(f"{message}: {time.monotonic() - start:.0f} s")

    say(message)
    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield _show_nothing
    finally:
        done.set()
        thread.join()


def _show_nothing(**_: int) -> None:
    """Where there is no bar."""
