"""Progress of slow work, on stderr: a spinner on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_INTERVAL = 30.0
_showing = threading.Lock()


def say(message: str) -> None:
    """Print one line about what happens, apart from the results on stdout."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def working(message: str) -> Iterator[None]:
    """Show that work goes on while the block runs; a block within it shows nothing."""
    if not _showing.acquire(blocking=False):
        yield
        return
    try:
        with _spinner(message) if sys.stderr.isatty() else _lines(message):
            yield
    finally:
        _showing.release()


@contextmanager
def _spinner(message: str) -> Iterator[None]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(message, total=None)
        yield


@contextmanager
def _lines(message: str) -> Iterator[None]:
    done = threading.Event()
    start = time.monotonic()

    def report() -> None:
        while not done.wait(_INTERVAL):
            say(f"{message}: {time.monotonic() - start:.0f} s")

    say(message)
    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
