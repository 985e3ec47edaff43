"""A journal: lines of JSON that are only ever added, each on disk before the next is begun."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def append(path: Path, record: dict[str, Any]) -> None:
    """Add a record; when this returns it is on disk."""
    with path.open("ab") as file:
        file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def recover(path: Path) -> list[dict[str, Any]]:
    """The whole records of a journal, none where there is no file.

    What a crash left of a further record is cut off, so that the next one does not continue it. A broken line in the middle ends
    the journal there: what was done after it is done again.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    records: list[dict[str, Any]] = []
    end = 0
    for line in content.splitlines(keepends=True):
        record = _parsed(line)
        if record is None:
            break
        records.append(record)
        end += len(line)
    if end < len(content):
        with path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())
    return records


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
