"""`docker build`, `docker compare`, `docker shell`: the harness in a container."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from acknap.base.errors import HarnessError
from acknap.base.files import require_folder, write_atomic
from acknap.base.layout import Layout
from acknap.base.progress import say
from acknap.container import engine as docker_engine
from acknap.container.engine import Engine
from acknap.container.image import Image, Stage, secrets
from acknap.upstream.targets import Target

# What it writes belongs to another user, and has to be removed by this one.
_COMPARE = 'umask 0; exec ./scripts/harness compare --target "$TARGET" --out "$0"'
_CANNOT_START = (125, 126, 127)


@dataclass(frozen=True)
class Options:
    """What the user chose for a build.

    Attributes:
        base_image: Instead of the one that the Dockerfile names.
        network: Of the build and of a shell: `host` where containers reach none.
        repository: A PyTorch checkout or git URL for the stage `source`, instead of
            PyTorch's own.
        jobs: Compiler processes of the stage `source`.
    """

    base_image: str | None = None
    network: str | None = None
    repository: str | None = None
    jobs: int | None = None


def build(layout: Layout, target: Target, stage: Stage, options: Options) -> str:
    """Build one stage and return its tag."""
    return _build(layout, target, stage, options)[1]


def compare(
    layout: Layout,
    target: Target,
    options: Options,
    out: Path | None,
    as_json: bool,
) -> int:
    """Compare stock and patched inside a container; return what `compare` returns.

    Args:
        out: Folder of report and logs, one under build/docker/ if None.
        as_json: Print the JSON report instead of the summary.
    """
    name = f"docker/compare-{target.name}"
    folder = layout.output(name, out, record=False)
    require_folder(folder)
    engine, tag = _build(layout, target, Stage.compare, options)
    scratch = layout.build / "docker"
    with tempfile.TemporaryDirectory(prefix="out-", dir=scratch) as temporary:
        mounted = Path(temporary)
        mounted.chmod(0o777)  # the container's user is another one
        # Under the name that the folder has here: of the paths that are printed, each
        # leads somewhere when the container is gone.
        given = ["--network=none", f"--volume={mounted}:{folder}", *_terminal()]
        status = engine.run(
            [*given, tag, "sh", "-c", _COMPARE, folder],
            stdout=subprocess.DEVNULL if as_json else None,
        )
        if status in _CANNOT_START:
            raise HarnessError(f"{tag} cannot be run: see what the engine said")
        written = [path for path in mounted.rglob("*") if path.is_file()]
        for path in written:
            write_atomic(folder / path.relative_to(mounted), path.read_bytes())
        reported = (mounted / "compare.json").is_file()
    if reported and as_json:
        print((folder / "compare.json").read_text(), end="")
    return status


def shell(layout: Layout, target: Target, stage: Stage, options: Options) -> int:
    """Open a shell in one stage."""
    engine, tag = _build(layout, target, stage, options)
    network = [f"--network={options.network}"] if options.network else []
    return engine.run(["--interactive", *network, *_terminal(), tag, "bash"])


def _build(
    layout: Layout, target: Target, stage: Stage, options: Options
) -> tuple[Engine, str]:
    """Build one stage; return the engine that has it, and its tag."""
    engine, image = docker_engine.find(), Image.of(layout, target, stage)
    values = {
        "TARGET": target.name,
        "BASE_IMAGE": options.base_image,
        "MAX_JOBS": options.jobs,
        "TORCH_REPOSITORY": options.repository,
    }
    arguments = [f"--network={options.network}"] if options.network else []
    if options.repository and Path(options.repository).is_dir():
        _require_checkout(engine, Path(options.repository))
        arguments.append(f"--build-context=checkout={options.repository}")
        del values["TORCH_REPOSITORY"]
    arguments += [
        f"--build-arg={key}={value}" for key, value in values.items() if value
    ]
    arguments += [f"--label={key}={value}" for key, value in image.labels.items()]
    log = layout.build / "docker" / f"{image.tag.replace(':', '-')}.log"
    with secrets() as given:
        engine.build(
            [
                *arguments,
                *given.options,
                f"--build-arg=INDEX_HASH={given.index_hash}",
                f"--file={layout.root / 'docker' / 'Dockerfile'}",
                f"--target={stage}",
                f"--tag={image.tag}",
                layout.root,
            ],
            log,
            f"Building {image.tag}",
        )
    size = int(engine.text("image", "inspect", "--format={{.Size}}", image.tag))
    say(f"{image.tag}: {size / 1e9:.2f} GB")
    return engine, image.tag


def _require_checkout(engine: Engine, checkout: Path) -> None:
    if not (checkout / ".git").is_dir():
        raise HarnessError(f"{checkout} is not a git checkout with its own .git folder")
    if not engine.has_contexts:
        raise HarnessError(
            f"{engine.program} cannot take a checkout into a build: install its buildx "
            "plugin, or give --repository a URL"
        )


def _terminal() -> list[str]:
    return ["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
