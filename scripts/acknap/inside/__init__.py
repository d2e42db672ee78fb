"""Runs in a foreign Python: standard library, torch and this folder only."""
