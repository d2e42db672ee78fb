"""Entry point of `python -m acknap`; users call `scripts/harness`."""

from acknap.cli import main

main()
