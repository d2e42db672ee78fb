"""The errors that the command line turns into one line."""


def last_line(text: str) -> str:
    """What a program said last, which is mostly why it failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it gives no reason"


class HarnessError(Exception):
    """Bad input, or a state that needs the user: exit status 2."""


class SeriesError(HarnessError):
    """The patches, their sources and targets.toml do not fit together.

    `check` reports these as findings; every other command stops on them.
    """
