"""Interpreters that have a torch: stock and patched, inspected, asked over a pipe."""
