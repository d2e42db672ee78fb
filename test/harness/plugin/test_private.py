"""Files of a patched torch become modules of the package, and nothing else changes."""

import json

import pytest

from acknap.base import git
from acknap.base.errors import SeriesError
from acknap.plugin.private import CHECKPOINTING, ROOT, lay_out, read_release
from acknap.upstream.targets import Target

PARTITIONERS, CONFIG = f"{ROOT}/partitioners.py", f"{ROOT}/config.py"
RELEASED = {
    CONFIG: b"budget = 1.0\n",
    PARTITIONERS: b"import torch\n",
    f"{CHECKPOINTING}/knapsack.py": b"import torch\n",
}
NEW = f"{CHECKPOINTING}/exact.py"


def target(release: str) -> Target:
    return Target(f"v{release}", release, "", "v2.11", "", "", {}, {})


def release_of(text: str, release: str = "2.11.0", path: str = PARTITIONERS):
    patched = {
        CONFIG: b"budget = 1.0\nlimit: int | None = None\n",
        NEW: b"",
        path: text.encode(),
    }
    return read_release(target(release), RELEASED, patched)


def rewritten(text: str, path: str = PARTITIONERS) -> str:
    modules = release_of(text, path=path).modules
    return modules[path.removeprefix(f"{ROOT}/")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from . import config", "from . import config"),
        (
            "from ._activation_checkpointing.exact import (",
            "from ._activation_checkpointing.exact import (",
        ),
        (
            "from ._activation_checkpointing.min_cut import (",
            "from torch._functorch._activation_checkpointing.min_cut import (",
        ),
        (
            "from torch._functorch._activation_checkpointing.exact import (",
            "from ._activation_checkpointing.exact import (",
        ),
        (
            "from .compile_utils import (",
            "from torch._functorch.compile_utils import (",
        ),
        ("from torch.utils import (", "from torch.utils import ("),
    ],
)
def test_imports_of_the_partitioner(line: str, expected: str) -> None:
    rest = "    a,\n)\n" if line.endswith("(") else ""
    text = f"def f():\n    {line}\n{rest}    return '{line}'\n"
    assert rewritten(text) == f"def f():\n    {expected}\n{rest}    return '{line}'\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "from torch._functorch import config, partitioners",
            "from .. import config, partitioners",
        ),
        (
            "from torch._functorch.partitioners import NodeInfo",
            "from ..partitioners import NodeInfo",
        ),
        (
            "from torch._functorch._activation_checkpointing.knapsack import dp",
            "from .._activation_checkpointing.knapsack import dp",
        ),
    ],
)
def test_imports_of_a_module_beside_it(line: str, expected: str) -> None:
    assert rewritten(f"{line}\n", NEW) == f"{expected}\n"


def test_loggers_keep_their_names() -> None:
    text = "log = logging.getLogger(__name__)\nname = __name__\n"
    name = "torch._functorch.partitioners"
    assert rewritten(text) == f'log = logging.getLogger("{name}")\nname = __name__\n'


@pytest.mark.parametrize(
    "line",
    [
        "import torch._functorch.partitioners",
        "from torch._functorch import aot_autograd",
        "torch._functorch.partitioners.solve_min_cut()",
    ],
)
def test_what_cannot_be_carried_is_refused(line: str) -> None:
    with pytest.raises(SeriesError, match=r"partitioners\.py:1: the package cannot"):
        rewritten(f"{line}\n")


def test_known_files_and_options() -> None:
    release = release_of("import math\n")
    blobs = [git.blob_id(text) for text in (b"import torch\n", b"import math\n")]
    assert release.files[PARTITIONERS] == tuple(blobs)
    assert release.files[f"{CHECKPOINTING}/knapsack.py"] == (blobs[0],)
    assert release.options == {"limit": None}


def test_what_is_the_same_lies_there_once() -> None:
    releases = [release_of("a = 1\n"), release_of("a = 2\n", "2.12.0")]
    files = lay_out(releases, "f" * 40)
    assert files["v2_11_0/partitioners.py"] == "a = 1\n"
    assert files["v2_12_0/partitioners.py"] == "a = 2\n"
    assert [path for path in files if path.endswith("exact.py")] == ["shared/exact.py"]
    table = json.loads(files["releases.json"])
    assert (table["revision"], [*table["releases"]]) == ("f" * 40, ["2.11.0", "2.12.0"])
