"""Models in a foreign torch: made, traced, parted, and what stays alive."""
