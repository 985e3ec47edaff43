"""Writing a space part by part: whole or absent, by one writer at a time, resumed where it was killed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.files import Lock, replace_folder, sha256_of, sync, undo_half_replacement, whole_file
from theodolite.spaces import journal
from theodolite.spaces.layer_file import LayerFile, Runs, runs_of
from theodolite.spaces.row_table import checked_rows, write_row_table
from theodolite.spaces.space import UNKNOWN, Origin, Space, checked_layers
from theodolite.spaces.space_folder import ABOUT, FORMAT, ROWS, is_space, layer_name, open_space, write_about

JOURNAL = ".journal"


class SpaceWriter:
    """A space being written, in parts of any rows and in any order: whole or absent, and resumable after `kill -9`.

    The work happens in a hidden folder beside the target. A part is entered in a journal once its vectors are on disk; a writer
    of the same target with the same `fingerprint`, shape, rows and origin continues with the parts that are not in `done`, any
    other starts afresh. Parts must be cut the same way in every run. A second writer of one target at the same time is refused.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as home, SpaceWriter(f"{home}/s", layers=[0], n=4, d=2, fingerprint="model, texts") as writer:
    ...     for part, at in enumerate([np.array([3, 0]), np.array([1, 2])]):
    ...         if part not in writer.done:
    ...             writer.write(part, at, {0: np.ones((2, 2))})
    ...     writer.finish()
    Space(n=4, d=2, layers=[0])
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
        self.folder = Path(os.path.realpath(Path(folder).expanduser()))
        self.layers = tuple(sorted(checked_layers(layers)))
        self.n, self.d, self.dtype = _checked_shape(n, d, dtype)
        self.origin = origin
        self.partial = self.folder.with_name(f".{self.folder.name}.partial")
        known = checked_rows(rows, n)
        _require_free(self.folder, overwrite=overwrite)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(self.folder)
        self._close = weakref.finalize(self, lock.release)  # a writer that is dropped lets others write
        self._files = {layer: LayerFile(self.partial / layer_name(layer), self.n, self.d, self.dtype) for layer in self.layers}
        self._written = np.zeros(self.n, bool)
        self._done: set[int] = set()
        try:
            undo_half_replacement(self.folder)
            _require_free(self.folder, overwrite=overwrite)  # again: its last writer may just have finished
            self.partial.mkdir(exist_ok=True)
            self._begin(fingerprint, self._write_rows(known))
        except BaseException:
            self.close()
            raise

    @property
    def done(self) -> frozenset[int]:
        """Numbers of the parts that are on disk, of this run and of those it continues."""
        return frozenset(self._done)

    def write(self, part: int, at: NDArray[np.intp], blocks: Mapping[int, NDArray[Any]]) -> None:
        """Write rows `at` of every layer; when this returns, the part is on disk and in the journal.

        `blocks[layer][i]` is the vector of row `at[i]`. Every part costs a sync of every layer: make parts of a thousand
        rows or more, and writing is cheap beside encoding.
        """
        self._require_open()
        at = np.asarray(at, np.intp)
        self._check_part(part, at)
        self._check_blocks(part, len(at), blocks)
        order = np.argsort(at)
        runs = runs_of(at[order])
        for layer, file in self._files.items():
            file.fill(runs, np.ascontiguousarray(blocks[layer][order], self.dtype))
        for file in self._files.values():  # after all are written: the first sync then carries most of the others
            sync(file.path)
        journal.append(self.partial / JOURNAL, {"part": int(part), "runs": runs})
        self._enter(int(part), runs)

    def finish(self) -> Space:
        """Put the space in its place, and open it. Every row must have been written."""
        self._require_open()
        missing = np.flatnonzero(~self._written)
        if len(missing):
            raise ValueError(
                f"{len(missing)} of n={self.n} rows were never written, the first is row {missing[0]}; write all parts first"
            )
        self._tidy(keep={ROWS, JOURNAL, *(file.path.name for file in self._files.values())})
        write_about(self.partial, layers=self.layers, n=self.n, d=self.d, dtype=self.dtype, origin=self.origin)
        sync(self.partial)
        # The journal goes last: a crash up to here finds it, and finishes again.
        replace_folder(self.partial, self.folder)
        (self.folder / JOURNAL).unlink(missing_ok=True)
        self.close()
        return open_space(self.folder, verify=False)

    def close(self) -> None:
        """Let others write. What was written so far stays, to be continued by a writer with the same fingerprint."""
        self._close()

    def discard(self) -> None:
        """Delete what was written so far, and close."""
        if self._close.alive:
            shutil.rmtree(self.partial, ignore_errors=True)
        self.close()

    def __enter__(self) -> SpaceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, fingerprint: str, rows: str) -> None:
        """Continue what lies in the partial folder where it is the same space, else empty it and start."""
        shape = [list(self.layers), self.n, self.d, self.dtype.name]
        text = json.dumps([FORMAT, fingerprint, shape, asdict(self.origin), rows])
        head = {"space": hashlib.sha256(text.encode()).hexdigest()}
        if not self._resume(head):
            self._start(head)

    def _resume(self, head: dict[str, Any]) -> bool:
        found = journal.recover(self.partial / JOURNAL)
        if not found or found[0] != head:
            return False
        if not all(file.is_whole() for file in self._files.values()):
            return False
        for record in found[1:]:
            self._enter(record["part"], record["runs"])
        return True

    def _start(self, head: dict[str, Any]) -> None:
        (self.partial / JOURNAL).unlink(missing_ok=True)  # first, so that it never vouches for files that are not there
        sync(self.partial)
        self._tidy(keep={ROWS})
        need = len(self.layers) * self.n * self.d * self.dtype.itemsize
        free = shutil.disk_usage(self.partial).free
        if need > free:
            raise OSError(
                f"{self.folder} needs {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free there; choose fewer layers or rows"
            )
        for file in self._files.values():
            file.create()
            sync(file.path)
        journal.append(self.partial / JOURNAL, head)
        sync(self.partial)
        sync(self.partial.parent)

    def _write_rows(self, known: Mapping[str, Sequence[Any]]) -> str:
        """Write the table, anew in every run, and return its hash: it is part of what makes a space the same."""
        path = self.partial / ROWS
        if not known:
            path.unlink(missing_ok=True)
            return ""
        with whole_file(path, overwrite=True) as partial:
            write_row_table(known, self.n, partial)
        return sha256_of(path)

    def _tidy(self, *, keep: set[str]) -> None:
        for path in self.partial.iterdir():
            if path.name not in keep:
                path.unlink()

    def _enter(self, part: int, runs: Runs) -> None:
        for start, stop in runs:
            self._written[start:stop] = True
        self._done.add(part)

    def _check_part(self, part: int, at: NDArray[np.intp]) -> None:
        if part in self._done:
            raise ValueError(f"part {part} was written already; skip the parts in `done`")
        if at.ndim != 1:
            raise ValueError(f"part {part}: rows `at` have shape {at.shape}; they are a list of row numbers")
        outside = at[(at < 0) | (at >= self.n)]
        if len(outside):
            raise ValueError(f"part {part}: row {outside[0]} is out of range; there are n={self.n} rows")
        if len(np.unique(at)) < len(at):
            raise ValueError(f"part {part} has a row twice; every row is written once")
        again = at[self._written[at]]
        if len(again):
            raise ValueError(f"part {part}: row {again[0]} was written by another part; cut the parts alike in every run")

    def _check_blocks(self, part: int, rows: int, blocks: Mapping[int, NDArray[Any]]) -> None:
        if set(blocks) != set(self.layers):
            raise ValueError(f"part {part} has layers {sorted(blocks)}; a part has all layers of the space, {list(self.layers)}")
        for layer in self.layers:
            if blocks[layer].shape != (rows, self.d):
                raise ValueError(
                    f"part {part}, layer {layer} has shape {blocks[layer].shape}; expected are {rows} rows of d={self.d}"
                )

    def _require_open(self) -> None:
        if not self._close.alive:
            raise ValueError(f"the writer of {self.folder} is closed; make another to continue")


def _checked_shape(n: int, d: int, dtype: Any) -> tuple[int, int, np.dtype[Any]]:
    if n < 1 or d < 1:
        raise ValueError(f"n={n}, d={d}: a space has at least one row and one column")
    kind = np.dtype(dtype).newbyteorder("=")
    if kind.kind != "f" or kind.itemsize > 8:
        raise ValueError(f"dtype={kind} cannot be stored; use float16, float32 or float64")
    return int(n), int(d), kind


def _require_free(target: Path, *, overwrite: bool) -> None:
    if not target.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{target} exists already; choose another name, or say overwrite=True (--overwrite)")
    if not is_space(target):
        raise FileExistsError(f"{target} exists and is no space (no {ABOUT}), so it is not replaced; choose another name")
