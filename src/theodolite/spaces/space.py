"""The Space: one state of one model, as vectors (n, d) for one or more layers, with what is known of each row."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.vectors import BLOCK_BYTES, Floats, working_dtype
from theodolite.spaces.row_table import Rows, checked_rows

PART_BYTES = 8 * BLOCK_BYTES  # saved between two syncs


@dataclass(frozen=True)
class Origin:
    """Where a space comes from: the model and its state, the task's texts, and how vectors were made of them."""

    model: str = ""
    revision: str = ""
    state: str = ""
    step: int | None = None
    task: str = ""
    split: str = ""
    pooling: str = ""
    versions: str = ""


UNKNOWN = Origin()
"""The origin of vectors of which nothing is said."""


class Space:
    """Vectors of one state of one model: `space[layer]` is an (n, d) view, `space.rows[name]` a column of what is known.

    A space is made by `Space.of` from arrays, by `Space.open` from a folder, and by `SpaceWriter` part by part. It is never
    changed: arrays are read-only views.

    >>> space = Space.of({0: np.zeros((3, 2)), 12: np.ones((3, 2))}, rows={"text": ["a", "b", "c"]})
    >>> space
    Space(n=3, d=2, layers=[0, 12])
    >>> space[-1].sum(), space.rows["text"][1], space.about(-1)["layer"]
    (np.float64(6.0), 'b', 12)
    """

    def __init__(self, vectors: Mapping[int, Floats], *, rows: Rows, origin: Origin) -> None:
        self._vectors = dict(vectors)
        self.layers: tuple[int, ...] = tuple(self._vectors)
        first = self._vectors[self.layers[0]]
        self.n, self.d = (int(size) for size in first.shape)
        self.dtype: np.dtype[Any] = first.dtype
        self.rows: Rows = rows
        self.origin = origin

    @classmethod
    def of(
        cls, layers: Mapping[int, ArrayLike], *, rows: Mapping[str, Sequence[Any]] | None = None, origin: Origin = UNKNOWN
    ) -> Space:
        """A space of arrays in memory, one (n, d) array a layer, all of one shape; float arrays are not copied.

        `rows` holds columns of length n: strings, ints or floats, None where nothing is known. Whether entries are finite is
        checked where they are used.
        """
        arrays = {number: _matrix(number, layers[number]) for number in sorted(checked_layers(layers))}
        shapes = {number: array.shape for number, array in arrays.items()}
        first = min(shapes)
        other = next((number for number, shape in shapes.items() if shape != shapes[first]), None)
        if other is not None:
            raise ValueError(f"layer {other} has shape {shapes[other]}, layer {first} has {shapes[first]}; a space has one shape")
        dtype = np.result_type(*arrays.values())
        vectors = {number: _read_only(array.astype(dtype, copy=False)) for number, array in arrays.items()}
        known = checked_rows(rows, shapes[first][0])
        return cls(vectors, rows=MappingProxyType(known) if isinstance(known, dict) else known, origin=origin)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, verify: bool = True) -> Space:
        """The space in a folder, memory-mapped, after checking that it is whole.

        `verify=False` skips the SHA-256 of the files, which reads all their bytes; lengths and shapes are always checked.
        """
        from theodolite.spaces.space_folder import open_space

        return open_space(folder, verify=verify)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the space to a folder, whole or not at all. A space that is there already is replaced only if asked."""
        from uuid import uuid4

        from theodolite.spaces.store import SpaceWriter

        with SpaceWriter(
            folder,
            layers=self.layers,
            n=self.n,
            d=self.d,
            dtype=self.dtype,
            rows=self.rows,
            origin=self.origin,
            fingerprint=f"saved {uuid4()}",  # nothing to continue: all is at hand
            overwrite=overwrite,
        ) as writer:
            step = max(1, PART_BYTES // (self.d * self.dtype.itemsize * len(self.layers)))
            try:
                for part, start in enumerate(range(0, self.n, step)):
                    at = np.arange(start, min(self.n, start + step))
                    writer.write(part, at, {layer: self[layer][start : start + step] for layer in self.layers})
                writer.finish()
            except BaseException:
                writer.discard()
                raise

    def __getitem__(self, layer: int) -> Floats:
        return self._vectors[self.number(layer)]

    def __contains__(self, layer: object) -> bool:
        return layer in self._vectors

    __iter__ = None  # else Python would count layers up from 0, and stop at the first that is not there

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The vectors of the only layer, so that a space of one layer can be surveyed as it is."""
        if len(self.layers) > 1:
            raise TypeError(
                f"this space has {len(self.layers)} layers ({_listed(self.layers)}); say which: space[{self.layers[-1]}]"
            )
        return np.array(self[-1], dtype=dtype) if copy else np.asarray(self[-1], dtype=dtype)

    def __repr__(self) -> str:
        model = f", model={self.origin.model!r}" if self.origin.model else ""
        return f"Space(n={self.n}, d={self.d}, layers=[{_listed(self.layers)}]{model})"

    def number(self, layer: int) -> int:
        """The number of a layer of this space: itself, or counted from the last where negative."""
        if layer in self._vectors:
            return layer
        if -len(self.layers) <= layer < 0:
            return self.layers[layer]
        raise ValueError(f"there is no layer {layer}; this space has {_listed(self.layers)}, and -1 is the last of them")

    def about(self, layer: int) -> dict[str, Any]:
        """The fields of a `Row` that say where a number measured on this layer comes from."""
        origin = self.origin
        return {
            "model": origin.model,
            "revision": origin.revision,
            "state": origin.state,
            "step": origin.step,
            "layer": self.number(layer),
            "task": origin.task,
            "split": origin.split,
            "setting": origin.pooling,
        }


def checked_layers(layers: Iterable[Any]) -> tuple[int, ...]:
    """Layer numbers as plain ints: at least one, from 0 up, none twice."""
    numbers = tuple(layers)
    wrong = next((number for number in numbers if not isinstance(number, (int, np.integer)) or number < 0), None)
    if wrong is not None:
        raise ValueError(f"layer {wrong!r} is not a layer number; layers are counted from 0, the embeddings")
    if not numbers:
        raise ValueError("a space needs at least one layer; none was given")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"layers {_listed(numbers)} name a layer twice; name every layer once")
    return tuple(int(number) for number in numbers)


def _matrix(number: int, vectors: ArrayLike) -> Floats:
    array = np.asarray(vectors)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"layer {number} has shape {array.shape}; vectors are an (n, d) array with at least one row and column")
    return array if array.dtype.kind == "f" and array.dtype.itemsize <= 8 else array.astype(working_dtype(array.dtype))


def _read_only(array: Floats) -> Floats:
    view = array.view()
    view.flags.writeable = False
    return view


def _listed(layers: Sequence[int]) -> str:
    """Layer numbers for a message: a range where they are one."""
    if len(layers) > 2 and list(layers) == list(range(layers[0], layers[-1] + 1)):
        return f"{layers[0]}…{layers[-1]}"
    return ", ".join(map(str, layers))
