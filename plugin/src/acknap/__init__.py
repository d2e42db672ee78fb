"""Activation memory budgets for `torch.compile` that are kept, in an unpatched PyTorch.

with acknap.budget("8GB"):
    trainer.train()
"""

from importlib.metadata import version

from acknap._partitioner import Partitioner
from acknap._report import Report, last_report
from acknap._scope import budget, disable, enable

__all__ = ["Partitioner", "Report", "budget", "disable", "enable", "last_report"]
__version__ = version("acknap")
