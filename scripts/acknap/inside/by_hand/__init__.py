"""Models that are checkpointed by hand, and their plans."""
