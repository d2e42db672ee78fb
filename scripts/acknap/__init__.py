"""The harness: applies the patch series to PyTorch and proves what it changes."""
