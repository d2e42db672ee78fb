"""Published peaks of a GPU, and what a simulation says of the same plans."""
