"""The command line of `docker`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from acknap.cli.options import Json, Patched, release
from acknap.container import jobs as docker
from acknap.container.image import Stage
from acknap.container.jobs import Options
from acknap.torches import environments

app = typer.Typer(
    no_args_is_help=True, help="Build and compare in a container (docker or podman)."
)

_Stage = Annotated[Stage, Option(help="The image's contents.")]
_BaseImage = Annotated[
    str | None, Option(help="Instead of a Python image.", metavar="IMAGE")
]
_Network = Annotated[
    str | None, Option(help="The build's network, such as host.", metavar="NAME")
]
_FromSource = Annotated[
    bool, Option("--from-source", help="Compile torch: --stage source.")
]
_Repository = Annotated[
    str | None, Option(help="Compile this checkout or git URL.", metavar="DIR|URL")
]
_Jobs = Annotated[int | None, Option(min=1, help="Compiler processes.")]


@app.command()
def build(
    target: Patched = "v2.10.0",
    stage: _Stage = Stage.patched,
    base_image: _BaseImage = None,
    network: _Network = None,
    from_source: _FromSource = False,
    repository: _Repository = None,
    jobs: _Jobs = None,
) -> None:
    """Build an image and print its tag."""
    options = Options(base_image, network, repository, jobs)
    print(docker.build(*release(target), _chosen(stage, from_source, options), options))


@app.command()
def compare(
    target: Patched = "v2.10.0",
    base_image: _BaseImage = None,
    network: _Network = None,
    out: Annotated[
        Path | None, Option(help="Where the report goes, instead of build/docker/.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run `compare` in a container with both releases."""
    options = Options(base_image, network)
    sys.exit(docker.compare(*release(target), options, out, as_json))


@app.command()
def shell(
    target: Patched = "v2.10.0",
    stage: _Stage = Stage.patched,
    base_image: _BaseImage = None,
    network: _Network = None,
    from_source: _FromSource = False,
    repository: _Repository = None,
    jobs: _Jobs = None,
) -> None:
    """Build an image and open a shell in it."""
    options = Options(base_image, network, repository, jobs)
    chosen = _chosen(stage, from_source, options)
    sys.exit(docker.shell(*release(target), chosen, options))


def _chosen(stage: Stage, from_source: bool, options: Options) -> Stage:
    """What is asked for: a repository is there to be compiled."""
    return Stage.source if from_source or options.repository else stage


@app.command("environments", hidden=True)
def make_environments(target: Annotated[str, Argument()]) -> None:
    """Make both environments of a release: the one step of docker/Dockerfile."""
    environments.patched(*release(target))
