"""A user's own model: its knapsacks, every solver on them, its blocks."""
