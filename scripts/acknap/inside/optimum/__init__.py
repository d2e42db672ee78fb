"""The least that plans of small graphs can recompute, and what ours do."""
