"""What an image is made from: its stage, its name, its labels, pip's settings."""

import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from acknap.base import git, pip
from acknap.base.errors import HarnessError
from acknap.base.files import scratch
from acknap.base.layout import Layout
from acknap.series.patches import load
from acknap.upstream.targets import Target

# What of pip's configuration holds in a container too; the rest is of this machine.
_PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy")
_CREDENTIALS = re.compile(r"//[^/@\s]*@")


class Stage(StrEnum):
    """The stages of docker/Dockerfile that are images of their own."""

    stock = "stock"
    patched = "patched"
    test = "test"
    compare = "compare"
    source = "source"


@dataclass(frozen=True)
class Image:
    """One stage for one target, with the series as it is now."""

    target: Target
    stage: Stage
    series_revision: str
    revision: str

    @classmethod
    def of(cls, layout: Layout, target: Target, stage: Stage) -> "Image":
        """The image for the repository as it is now, and as its commit is named."""
        series_revision = load(layout, target.series).revision[:12]
        return cls(target, stage, series_revision, git.describe(layout.root))

    @property
    def tag(self) -> str:
        """`acknap:v2.10.0-0123456789ab-compare`."""
        return f"acknap:{self.target.name}-{self.series_revision}-{self.stage}"

    @property
    def labels(self) -> dict[str, str]:
        """Where it comes from."""
        return {
            "org.opencontainers.image.revision": self.revision,
            "org.opencontainers.image.version": self.target.release,
            "acknap.series": f"{self.target.series}-{self.series_revision}",
            "acknap.stage": self.stage,
            "acknap.torch-commit": self.target.commit,
        }


@dataclass(frozen=True)
class Secrets:
    """pip's settings for the length of a build, in files that reach no layer.

    Attributes:
        options: Options of `docker build`.
        index_hash: Changes with the package index, so that no layer made from another
            one is taken from the cache.
    """

    options: tuple[str, ...]
    index_hash: str


@contextmanager
def secrets() -> Iterator[Secrets]:
    """Write pip's index and certificates where only this user reads them.

    Raises:
        HarnessError: pip's certificates cannot be read.
    """
    lines = ["[global]"]
    for name in _PIP_SETTINGS:
        # A folder of this machine is not there in a container.
        words = [
            word
            for word in (pip.setting(name) or "").split()
            if not word.startswith(("file:", "/", "."))
        ]
        if words:
            lines.append(f"{name} = " + "\n    ".join(words))
    index = _CREDENTIALS.sub("//", "\n".join(lines))
    with scratch() as folder:
        options = [f"--secret=id=pip,src={folder / 'pip'}"]
        if certificates := pip.setting("cert"):
            try:
                shutil.copyfile(certificates, folder / "ca")
            except OSError as error:
                raise HarnessError(
                    f"pip's setting `cert` names {certificates}: {error.strerror}"
                ) from None
            lines.append("cert = /run/secrets/ca")
            options.append(f"--secret=id=ca,src={folder / 'ca'}")
        (folder / "pip").write_text("\n".join(lines) + "\n")
        yield Secrets(tuple(options), hashlib.sha256(index.encode()).hexdigest()[:12])
