"""Puts the package's planner in the place of torch's, in every Python of a test run.

With this folder on PYTHONPATH the suite of test/functorch, written for a patched torch,
imports and patches the modules of the package, and so does all of torch. The options
that the series adds are added to torch's own.
"""

import importlib.util
import inspect
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

PARTITIONERS = "torch._functorch.partitioners"
CHECKPOINTING = "torch._functorch._activation_checkpointing."


class Private(MetaPathFinder, Loader):
    """Finds the package's module for a name of torch."""

    def find_spec(self, fullname, _path=None, _target=None):
        if fullname != PARTITIONERS and not fullname.startswith(CHECKPOINTING):
            return None
        from acknap._release import installed

        name = fullname.removeprefix("torch._functorch.")
        try:
            module = installed().module(name)
        except ModuleNotFoundError as error:
            if error.name and error.name.startswith("acknap."):
                return None  # a module that the series leaves alone
            raise
        spec = ModuleSpec(fullname, self)
        spec.loader_state = (module, module.__spec__)
        return spec

    def create_module(self, spec):
        return spec.loader_state[0]

    def exec_module(self, module):
        # The import system has put the name of torch there.
        module.__spec__ = module.__spec__.loader_state[1]


def add_options():
    """Give torch's config the options of the series."""
    from acknap._release import installed
    from torch._functorch import config
    from torch.utils._config_module import Config, _ConfigEntry

    for name, default in installed().options.items():
        entry = Config(default=default, value_type=object)
        named = "name" in inspect.signature(_ConfigEntry.__init__).parameters
        config._config[name] = (
            _ConfigEntry(entry, name) if named else _ConfigEntry(entry)
        )


sys.meta_path.insert(0, Private())
if importlib.util.find_spec("torch"):
    add_options()
