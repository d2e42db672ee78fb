"""Say where one interpreter finds torch, as JSON. Runs inside the user's Python.

Standard library only. torch is not imported: a torch that does not load is found too.
"""

import importlib.util
import json
import sys

del sys.path[0]  # this script's own folder
spec = importlib.util.find_spec("torch")
print(json.dumps({"torch": spec.origin if spec else None}))
