"""The raw record of a benchmark: a header, then one line of JSON per finished point."""

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from acknap.base.errors import HarnessError
from acknap.bench.finished import AnyFinished, Finished
from acknap.bench.point import Point

FORMAT = 1
PREFIX = "raw-"

_Kind = TypeVar("_Kind", bound=Finished)
FINISHED: TypeAdapter[AnyFinished] = TypeAdapter(AnyFinished)


@dataclass
class Record:
    """A record on disk; each point is on disk as soon as it is added."""

    path: Path
    header: dict[str, Any]
    points: dict[str, Finished] = field(default_factory=dict)

    def add(self, point: Point, result: Finished) -> None:
        """Append one finished point."""
        names = ("id", "topic", "kind", "problem", "budgets", "contenders")
        told = {name: getattr(point, name) for name in names}
        load = round(os.getloadavg()[0], 2)
        done = result.model_copy(update=told | {"finished": _now(), "load": load})
        _append(self.path, done.model_dump(mode="json", exclude_unset=True))
        self.points[point.id] = done

    @property
    def last_change(self) -> str:
        """When the last point was finished."""
        started = str(self.header["started"])
        return max((p.finished for p in self.points.values()), default=started)

    def of(self, topic: str, kind: type[_Kind]) -> list[_Kind]:
        """Return the points of a topic in the order in which they were made."""
        found = (point for point in self.points.values() if point.topic == topic)
        return [point for point in found if isinstance(point, kind)]


def open_record(
    folder: Path, key: Mapping[str, Any], notes: Mapping[str, Any]
) -> Record:
    """Go on with the record of this machine and these versions, or start one.

    Args:
        folder: Where the records of this benchmark lie.
        key: What must be equal for points to stand in one record.
        notes: What else a reader wants to know, kept with the header.
    """
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:8]
    path = folder / f"{PREFIX}{digest}.jsonl"
    if path.exists():
        complete = path.read_bytes().rfind(b"\n") + 1
        os.truncate(path, complete)  # a killed run may have left a part of a line
        record = read(path)
        if record.header.get("key") == json.loads(json.dumps(key)):
            return record
        raise HarnessError(f"{path} is of another machine or version: move it away")
    folder.mkdir(parents=True, exist_ok=True)
    header = {"format": FORMAT, "started": _now(), **notes, "key": key}
    header = json.loads(json.dumps(header))
    _append(path, header)
    return Record(path, header)


def read(path: Path) -> Record:
    """Read a record; a last line that a killed run left incomplete does not count."""
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        header = json.loads(lines[0])
        if header["format"] != FORMAT:
            raise ValueError(f"format {header['format']}")
        points = [FINISHED.validate_json(line) for line in lines[1:]]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise HarnessError(f"{path} is no record: {where}: {first['msg']}") from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise HarnessError(f"{path} is no record of a benchmark: {error}") from None
    return Record(path, header, {point.id: point for point in points})


def newest(folder: Path) -> Record:
    """Return the record in `folder` that grew last."""
    records = [read(path) for path in sorted(folder.glob(f"{PREFIX}*.jsonl"))]
    if not records:
        raise HarnessError(f"{folder} holds no record: run `./scripts/harness bench`")
    return max(records, key=lambda record: record.last_change)


def machine() -> dict[str, Any]:
    """Describe this machine without naming it."""
    cpu = platform.processor() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if found := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            cpu = found[1]
    except OSError:
        pass
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": round(pages / 2**30),
        "system": platform.platform(),
    }


def _append(path: Path, line: Mapping[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
