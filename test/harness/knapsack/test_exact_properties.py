"""Property tests of the exact solver, on the patched release.

hypothesis belongs to the harness, torch to the release: the one is linked into a folder
that the other's interpreter gets.
"""

import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

from acknap.base.layout import Layout
from acknap.torches import environments
from acknap.torches.worker import clean_variables
from acknap.upstream.targets import Targets

PROPERTIES = Path(__file__).with_name("exact_properties.py")


def test_properties_of_the_exact_solver(tmp_path: Path) -> None:
    layout = Layout.default()
    patched = environments.patched(layout, Targets.load(layout).get("v2.10.0"))
    packages, work = tmp_path / "packages", tmp_path / "work"
    packages.mkdir()
    for name in ("hypothesis", "sortedcontainers"):
        files = distribution(name).files or []
        for entry in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / entry).symlink_to(distribution(name).locate_file(entry))
    variables = clean_variables(work) | {"PYTHONPATH": str(packages)}
    shutil.copy(PROPERTIES, work)  # away from this folder's conftest
    done = subprocess.run(
        [patched.python, "-m", "pytest", "-q", PROPERTIES.name],
        cwd=work,
        env=variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
