"""A problem, the right answer, and the names of those who try."""
