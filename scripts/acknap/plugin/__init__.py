"""The package for an unpatched torch: its modules are the files of the series."""
