"""What a repair remembers of the vectors it was fitted on, so that it can be put at the same place of a model's pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.declared import as_declared
from theodolite.core.engines import map_shards
from theodolite.core.moments import Doubles
from theodolite.core.vectors import Source

# Vectors count as normalised if every length is 1 up to this: half floats miss it by 5e-4.
UNIT_TOLERANCE = 1e-3
# Rows of the fit that a repair remembers, to compare them with what a model gives for the same texts.
EXAMPLES = 4


@dataclass(frozen=True, kw_only=True)
class FittingPath:
    """How the vectors of a fit were made. What is not known is empty; `max_length` is in tokens."""

    normalized: bool = False
    model: str = ""
    revision: str = ""
    unit: str = ""
    description: str = ""
    layer: int | None = None
    prompt: str = ""
    max_length: int | None = None
    texts: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FittingPath:
        """The path that `dataclasses.asdict` came from."""
        path: FittingPath = as_declared(cls, {name: values[name] for name in values if name in cls.__dataclass_fields__})
        return path


class Observer:
    """Watches the first pass over some rows: whether all have length 1, and what the first ones are."""

    def __init__(self, data: Source) -> None:
        self._data = data
        self._seen = 0
        self._is_unit = True
        self.examples: Doubles = np.empty((0, data.d))
        if data.moments is not None:  # a repair then need not read the rows, and the moments know their lengths
            self.examples = data.take(np.arange(min(EXAMPLES, data.moments.n))).astype(np.float64)
            self._seen = data.moments.n
            lengths = np.array([data.moments.norm_min, data.moments.norm_max])
            self._is_unit = bool((np.abs(np.square(lengths) - 1) <= 2 * UNIT_TOLERANCE).all())
        elif data.parts:  # shards are read where the work runs, so nothing can be watched here
            self.examples = data.take(np.arange(min(EXAMPLES, data.n or 0))).astype(np.float64)
            self._seen = data.n or 0
            self._is_unit = _all_unit(self.examples) and all(map_shards(_is_unit_piece, data))

    @property
    def normalized(self) -> bool:
        """Whether every row that was seen has length 1."""
        return self._is_unit and self._seen > 0

    def source(self) -> Source:
        """The same rows, watched as they are read."""
        data = self._data
        if data.parts:
            return data

        def chunks() -> Iterator[NDArray[Any]]:
            for start, block in data.raw_blocks():
                if start >= self._seen:  # not again on a second pass
                    self._see(block)
                yield block

        about: dict[str, Any] = {"replayable": data.replayable, "take": data.take, "moments": data.moments}
        return Source(chunks, n=data.n, d=data.d, dtype=data.dtype, **about)

    def _see(self, block: NDArray[Any]) -> None:
        if not self._seen:
            self.examples = np.array(block[:EXAMPLES], dtype=np.float64)
        self._seen += len(block)
        # One row settles the usual case; only vectors that may be normalised cost a pass over their lengths.
        self._is_unit = self._is_unit and _all_unit(block[:1]) and _all_unit(block)


def _is_unit_piece(rows: Source) -> bool:
    return all(_all_unit(block) for _, block in rows.raw_blocks())


def _all_unit(block: NDArray[Any]) -> bool:
    rows = block if block.dtype.kind == "f" and block.dtype.itemsize >= 4 else block.astype(np.float32)
    return bool((np.abs(np.einsum("ij,ij->i", rows, rows) - 1) <= 2 * UNIT_TOLERANCE).all())
