"""The errors that the command line turns into one line."""


class HarnessError(Exception):
    """Bad input, or a state that needs the user: exit status 2."""


class SeriesError(HarnessError):
    """The patches, their sources and targets.toml do not fit together.

    `check` reports these as findings; every other command stops on them.
    """
