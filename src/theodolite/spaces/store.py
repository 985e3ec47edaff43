"""Writing a space part by part: whole or absent, by one writer at a time, continued after the process was killed."""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.core.files import (
    UNFINISHED,
    Lock,
    atomic_file,
    parse_json,
    recover_interrupted_replace,
    replace_folder,
    require_free_folder,
    require_own_folder,
    sha256_of,
    sync,
)
from theodolite.spaces.folder import FORMAT, MARKER, ROWS, layer_name, require_disk_space, write_about
from theodolite.spaces.row_table import checked_rows, write_row_table
from theodolite.spaces.space import UNKNOWN, Origin, Space, checked_layers
from theodolite.spaces.writers import npy_header, require_float_type

JOURNAL = ".journal"

# Rows as ranges [start, stop), ascending.
_Runs: TypeAlias = list[tuple[int, int]]


class SpaceWriter:
    """A space that is being written, in parts of any rows and in any order, and can be continued after `kill -9`.

    The work happens in a hidden folder next to the target. A part is entered in a journal once its vectors are on disk. A writer
    of the same target with the same `fingerprint`, shape, rows and origin continues with the parts that are not in `done`; any
    other starts again from nothing. Parts must be cut the same way in every run.

    Parameters
    ----------
    folder
        The folder of the space; folders above it are made.
    layers
        Numbers of the layers.
    n, d, dtype
        Shape of each layer, and its type: float16, float32 or float64.
    rows
        What is known of each row, as in `Space.of`.
    origin
        Where the vectors come from.
    fingerprint
        Text that differs whenever the vectors would: model, texts, batches, precision.
    overwrite
        Whether a space that is there may be replaced, once this one is complete; anything else never is.

    Raises
    ------
    BusyError
        Another process is writing to the same folder.
    FileExistsError
        The folder exists and may not be replaced.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as home, SpaceWriter(f"{home}/s", layers=[0], n=4, d=2, fingerprint="model, texts") as writer:
    ...     for part, at in enumerate([np.array([3, 0]), np.array([1, 2])]):
    ...         if part not in writer.done:
    ...             writer.write(part, at, {0: np.ones((2, 2))})
    ...     writer.finish()
    Space: 4 vectors × 2, layer 0
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        layers: Sequence[int],
        n: int,
        d: int,
        dtype: Any = np.float32,
        rows: Mapping[str, Sequence[Any]] | None = None,
        origin: Origin = UNKNOWN,
        fingerprint: str,
        overwrite: bool = False,
    ) -> None:
        # The real path: two names of one folder share one lock, and renaming works on the folder, not on a link to it.
        self.folder = Path(os.path.realpath(Path(folder).expanduser()))
        self.layers = tuple(sorted(checked_layers(layers)))
        if n < 1 or d < 1:
            raise ValueError(f"n={n} and d={d} must be at least 1: a space has at least one row and one column")
        self.n, self.d, self.dtype = int(n), int(d), require_float_type(dtype)
        self.origin = origin
        self.partial = self.folder.with_name(f".{self.folder.name}.partial")
        columns = checked_rows(rows, n)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(self.folder)
        self._close = weakref.finalize(self, lock.release)  # a writer that is dropped lets others write
        self._paths = {layer: self.partial / layer_name(layer) for layer in self.layers}
        self._header = npy_header(self.n, self.d, self.dtype)
        self._row_bytes = self.d * self.dtype.itemsize
        self._file_bytes = len(self._header) + self.n * self._row_bytes
        self._is_written = np.zeros(self.n, bool)
        self._parts: set[int] = set()
        try:
            # Under the lock: another writer may have finished since the caller looked.
            recover_interrupted_replace(self.folder)
            require_free_folder(self.folder, overwrite=overwrite, marker=MARKER)
            require_own_folder(self.partial)
            UNFINISHED.add(self.partial)
            shape = [list(self.layers), self.n, self.d, self.dtype.name]
            text = json.dumps([FORMAT, fingerprint, shape, asdict(origin), self._write_rows(columns)])
            head = {"space": hashlib.sha256(text.encode()).hexdigest()}
            if not self._continue(head):
                self._start(head)
        except BaseException:
            self.close()
            raise

    @property
    def done(self) -> frozenset[int]:
        """Numbers of the parts that are on disk, from this run and from those it continues."""
        return frozenset(self._parts)

    def write(self, part: int, at: NDArray[np.intp], blocks: Mapping[int, NDArray[Any]]) -> None:
        """Write some rows of every layer; when this returns, they are on disk and in the journal.

        Every part costs a sync of every layer: with a thousand rows or more per part, writing is cheap compared with encoding.

        Parameters
        ----------
        part
            Number of the part.
        at
            Numbers of the rows.
        blocks
            One array per layer; `blocks[layer][i]` is the vector of row `at[i]`.
        """
        self._require_open()
        at = np.asarray(at, np.intp)
        self._check_part(part, at, blocks)
        # In ascending order neighbours become one write, whatever the batches were sorted by.
        order = np.argsort(at)
        runs = _runs_of(at[order])
        for layer, path in self._paths.items():
            self._fill(path, runs, np.ascontiguousarray(blocks[layer][order], self.dtype))
        for path in self._paths.values():  # after all are written: the first sync then carries most of the others
            sync(path)
        _append_record(self.partial / JOURNAL, {"part": int(part), "runs": runs})
        self._enter(int(part), runs)

    def finish(self) -> Space:
        """Put the space in its place and open it. Every row must have been written."""
        self._require_open()
        missing = np.flatnonzero(~self._is_written)
        if len(missing):
            problem = f"{len(missing)} of n={self.n} rows were never written, the first is row {missing[0]}"
            raise ValueError(f"{problem}; write all parts first")
        # A writer of an earlier shape may have left files behind.
        self._tidy(keep={ROWS, JOURNAL, *(path.name for path in self._paths.values())})
        write_about(self.partial, layers=self.layers, n=self.n, d=self.d, dtype=self.dtype, origin=asdict(self.origin))
        sync(self.partial)
        # The journal is removed last: after a crash before that, the next writer finds it and finishes.
        replace_folder(self.partial, self.folder)
        UNFINISHED.discard(self.partial)
        (self.folder / JOURNAL).unlink(missing_ok=True)
        self.close()
        return Space.open(self.folder, verify=False)  # its hashes were computed a moment ago

    def close(self) -> None:
        """Let others write. The parts on disk stay, for a writer with the same fingerprint to continue."""
        self._close()

    def __enter__(self) -> SpaceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _continue(self, head: dict[str, Any]) -> bool:
        """Take over the parts of an earlier run; False if the partial folder does not hold the same space."""
        records = _recover_records(self.partial / JOURNAL)
        is_whole = all(path.is_file() and path.stat().st_size == self._file_bytes for path in self._paths.values())
        if not is_whole or records[:1] != [head]:
            return False
        for record in records[1:]:
            self._enter(record["part"], record["runs"])
        return True

    def _start(self, head: dict[str, Any]) -> None:
        # The old journal is removed first, so that it never lists parts of files that are gone.
        (self.partial / JOURNAL).unlink(missing_ok=True)
        sync(self.partial)
        self._tidy(keep={ROWS})
        require_disk_space(self.partial, len(self.layers) * self._file_bytes, self.folder)
        for path in self._paths.values():
            with path.open("wb") as file:
                file.write(self._header)
                file.truncate(self._file_bytes)  # on most file systems, what is not filled yet takes no room
            sync(path)
        _append_record(self.partial / JOURNAL, head)
        sync(self.partial)
        sync(self.partial.parent)

    def _write_rows(self, columns: Mapping[str, Sequence[Any]]) -> str:
        """Write the table in every run, and return its hash: it is part of what makes a space the same."""
        path = self.partial / ROWS
        if not columns:
            path.unlink(missing_ok=True)
            return ""
        with atomic_file(path) as partial:
            write_row_table(columns, self.n, partial)
        return sha256_of(path)

    def _fill(self, path: Path, runs: _Runs, block: NDArray[Any]) -> None:
        """Write the rows of a block, in order, to the rows that `runs` name."""
        first = 0
        # Not mapped: mapped pages count as memory of the process.
        with path.open("r+b") as file:
            for start, stop in runs:
                file.seek(len(self._header) + start * self._row_bytes)
                file.write(block[first : first + stop - start].data)
                first += stop - start

    def _tidy(self, *, keep: set[str]) -> None:
        for path in self.partial.iterdir():
            if path.name not in keep:
                path.unlink()

    def _enter(self, part: int, runs: _Runs) -> None:
        for start, stop in runs:
            self._is_written[start:stop] = True
        self._parts.add(part)

    def _check_part(self, part: int, at: NDArray[np.intp], blocks: Mapping[int, NDArray[Any]]) -> None:
        if part in self._parts:
            raise ValueError(f"part {part} was written already; skip the parts in `done`")
        if at.ndim != 1:
            raise ValueError(f"part {part}: rows `at` have shape {at.shape}; they are a list of row numbers")
        outside = at[(at < 0) | (at >= self.n)]
        if len(outside):
            raise ValueError(f"part {part}: row {outside[0]} is out of range; there are n={self.n} rows")
        if len(np.unique(at)) < len(at):
            raise ValueError(f"part {part} has a row twice; each row is written once")
        again = at[self._is_written[at]]
        if len(again):
            raise ValueError(f"part {part}: row {again[0]} was written by another part; cut the parts alike in every run")
        if set(blocks) != set(self.layers):
            raise ValueError(f"part {part} has layers {sorted(blocks)}; a part has all layers of the space, {list(self.layers)}")
        for layer in self.layers:
            shape = blocks[layer].shape
            if shape != (len(at), self.d):
                raise ValueError(f"part {part}, layer {layer} has shape {shape}; it must be ({len(at)}, d={self.d})")

    def _require_open(self) -> None:
        if not self._close.alive:
            raise ValueError(f"the writer of {self.folder} is closed; make another to continue")


def _runs_of(rows: NDArray[np.intp]) -> _Runs:
    """Ascending row numbers as ranges of neighbours.

    >>> _runs_of(np.array([2, 3, 4, 8]))
    [(2, 5), (8, 9)]
    """
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(rows, cuts) if len(run)]


def _append_record(path: Path, record: dict[str, Any]) -> None:
    """Append a record to a journal; when this returns, it is on disk."""
    with path.open("ab") as file:
        file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        # flush hands the line to the system, fsync waits until the disk has it.
        file.flush()
        os.fsync(file.fileno())


def _is_part(record: dict[str, Any]) -> bool:
    """Whether a record behind the first has a part's number and the runs of its rows."""
    runs = record.get("runs")
    are_pairs = isinstance(runs, list) and all(isinstance(run, list) and list(map(type, run)) == [int, int] for run in runs)
    return are_pairs and type(record.get("part")) is int  # and not true


def _recover_records(path: Path) -> list[dict[str, Any]]:
    """The complete records of a journal; none if there is no file.

    What a crash left of a further record is cut off, so that the next one does not continue it. A damaged line in the middle ends
    the journal there: the work recorded after it is repeated.
    """
    content = path.read_bytes() if path.exists() else b""
    records: list[dict[str, Any]] = []
    end = 0
    for line in content.splitlines(keepends=True):
        try:
            record = parse_json(line)
        except ValueError:
            break
        # A line without its end was being written when the process died, even if it happens to be complete JSON.
        if not isinstance(record, dict) or not line.endswith(b"\n") or (records and not _is_part(record)):
            break
        records.append(record)
        end += len(line)
    if end < len(content):
        os.truncate(path, end)
        sync(path)
    return records
