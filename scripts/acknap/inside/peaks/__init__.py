"""Peaks of plans in a foreign torch: on emitted graphs, and for an allocator."""
