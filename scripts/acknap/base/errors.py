"""The errors that the command line turns into one line."""


def last_line(text: str, silent: str = "it gives no reason") -> str:
    """What a program said last, which is mostly why it failed; else `silent`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else silent


class HarnessError(Exception):
    """Bad input, or a state that needs the user: exit status 2."""


class SeriesError(HarnessError):
    """The patches, their sources and targets.toml do not fit together.

    `check` reports these as findings; every other command stops on them.
    """
