"""Knows neither torch nor patches: files, git, pip, locks, progress, text."""
