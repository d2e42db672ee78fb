"""`wheel --plugin`: wheel and sdist of the package for an unpatched torch."""

import shutil
import subprocess
import sys
from pathlib import Path

import tomlkit

from acknap.base.errors import HarnessError, last_line
from acknap.base.files import require_folder, scratch, write_atomic
from acknap.base.layout import Layout
from acknap.base.parallel import for_each
from acknap.base.progress import working
from acknap.plugin.private import Release, lay_out, read_release
from acknap.series import tree
from acknap.series.patches import Series, load
from acknap.upstream import pristine
from acknap.upstream.targets import PACKAGED, Target, Targets

_PRIVATE = Path("src", "acknap", "_torch")


def write_plugin(
    layout: Layout, targets: Targets, out: Path | None
) -> tuple[Path, Path]:
    """Write the package's wheel and sdist.

    Args:
        layout: The repository.
        targets: The table of releases.
        out: The folder for both, instead of build/dist.

    Returns:
        The wheel and the sdist.

    Raises:
        HarnessError: The files of a release cannot be had, or the backend fails.
    """
    folder = (out or layout.build / "dist").absolute()
    require_folder(folder)
    written: list[Path] = []
    with scratch() as place:
        source = place / "acknap"
        stage(layout, targets, source)
        with working("Building the package"):
            _run_backend(source, place / "dist")
        for file in (place / "dist").iterdir():
            write_atomic(folder / file.name, file.read_bytes())
            written.append(folder / file.name)
    wheel, sdist = sorted(written, key=lambda path: path.suffix != ".whl")
    return wheel, sdist


def stage(layout: Layout, targets: Targets, folder: Path) -> None:
    """Make the package's source tree, complete, in an absent folder.

    Raises:
        HarnessError: The files of a release cannot be had.
    """
    series = load(layout, PACKAGED)
    chosen = targets.of_series(PACKAGED)
    with working(f"Taking the planner of {', '.join(one.name for one in chosen)}"):
        releases = for_each(lambda one: _read(layout, one, series), chosen)
    shutil.copytree(
        layout.plugin, folder, ignore=shutil.ignore_patterns("__pycache__", "_torch")
    )
    shutil.copy(layout.root / "LICENSE", folder / "LICENSE")
    for path, text in lay_out(list(releases), series.revision).items():
        write_atomic(folder / _PRIVATE / path, text.encode())
    _name_revision(folder / "pyproject.toml", series.revision)


def _read(layout: Layout, target: Target, series: Series) -> Release:
    released = pristine.read(layout, target)
    return read_release(target, released, tree.patched_files(target, released, series))


def _name_revision(project: Path, revision: str) -> None:
    """Put the revision of the series into the metadata.

    Not into the version: an index takes no local label.
    """
    document = tomlkit.parse(project.read_text())
    document["project"]["keywords"].append(f"series-{revision[:12]}")
    project.write_text(tomlkit.dumps(document))


def _run_backend(source: Path, out: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    if done.returncode:
        reason = last_line(done.stderr or done.stdout, "no output")
        raise HarnessError(f"hatchling failed: {reason}")
