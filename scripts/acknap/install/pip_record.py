"""RECORD, the list of an installed distribution's or a wheel's files."""

import base64
import csv
import hashlib
import io
from collections.abc import Iterable, Mapping

from acknap.base.errors import HarnessError


def rewrite(
    record: bytes, contents: Mapping[str, bytes], unhashed: Iterable[str] = ()
) -> bytes:
    """Put files into a RECORD; all other rows stay as they are, byte for byte.

    Args:
        record: The RECORD.
        contents: Files with the content to list, by their path in it.
        unhashed: More files, listed without hash and size.
    """
    rows = {path: _row(path, content) for path, content in contents.items()}
    rows |= {path: _row(path, None) for path in unhashed}
    lines = record.splitlines()
    end = b"\r\n" if b"\r\n" in record else b"\n"
    kept = [
        rows.pop(path, line) for path, line in zip(paths(record), lines, strict=True)
    ]
    return b"".join(line + end for line in (*kept, *rows.values()))


def paths(record: bytes) -> list[str]:
    """The path in each line.

    Raises:
        HarnessError: it is damaged.
    """
    try:
        lines = [line.decode() for line in record.splitlines()]
        return [next(csv.reader([line]), [""])[0] for line in lines]
    except (UnicodeDecodeError, csv.Error):
        raise HarnessError("RECORD is not a list of files in UTF-8") from None


def _row(path: str, content: bytes | None) -> bytes:
    fields = [path, "", ""]
    if content is not None:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
        fields = [path, f"sha256={digest.decode().rstrip('=')}", str(len(content))]
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue().encode()
