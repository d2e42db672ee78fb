"""Every margin of the exact solver, and what gives its proof the power, has a test."""

import subprocess
from pathlib import Path

from acknap.base.layout import Layout
from acknap.torches import environments
from acknap.torches.worker import clean_variables
from acknap.upstream.targets import Targets

SCRIPT = Path(__file__).with_name("planted_faults.py")
SOLVER = "torch/_functorch/_activation_checkpointing"


def test_each_planted_fault_is_caught(tmp_path: Path) -> None:
    layout = Layout.default()
    patched = environments.patched(layout, Targets.load(layout).get("v2.10.0"))
    done = subprocess.run(
        [patched.python, SCRIPT, layout.overlay / SOLVER, layout.suite],
        cwd=tmp_path,
        env=clean_variables(tmp_path / "work"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
