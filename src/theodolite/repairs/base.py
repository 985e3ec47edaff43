"""What every repair shares: a scikit-learn transformer that also learns from, and applies to, data larger than memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from theodolite.core.blocks import map_blocks
from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats, Source, Vectors, array, source

if TYPE_CHECKING:
    from typing import Self

Affine = tuple[Doubles, Doubles]
"""(matrix (d, d_out), bias (d_out,)): the repaired row is x @ matrix + bias."""


class Repair(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A change of space learned from one set of vectors and applied to any other of the same width.

    `fit` and `transform` take whatever `theodolite.core.vectors.source` opens: arrays, memory maps, frames, folders of
    shards, functions that return chunks. float32 rows stay float32; what is learned is float64. Subclasses fill in `_learn`,
    which reads a source and sets attributes that end in `_`, and `_apply`, which repairs one block.
    """

    is_affine: ClassVar[bool] = True
    """Whether `affine` has an answer."""

    n_features_in_: int

    def fit(self, X: Vectors, y: Any = None) -> Self:  # noqa: ARG002  # the contract of scikit-learn
        """Learn the repair from the rows of X; y is ignored."""
        self._learn(self._open(X, reset=True))
        self._settle()
        return self

    def transform(self, X: Vectors) -> Floats:
        """The repaired rows, as one array in memory."""
        check_is_fitted(self)
        return gather(lambda _, block: self._apply(block), self._open(X, reset=False))

    def transform_blocks(self, X: Vectors) -> Iterator[Floats]:
        """The repaired rows block by block, in order: for what does not fit in memory."""
        check_is_fitted(self)
        return map_blocks(lambda _, block: self._apply(block), self._open(X, reset=False))

    def affine(self) -> Affine:
        """(matrix, bias) in float64 with x @ matrix + bias equal to the repaired x; an error where there is no such pair."""
        check_is_fitted(self)
        if not self.is_affine:
            raise TypeError(
                f"{type(self).__name__} moves each cluster its own way, so it is no single matrix and bias; "
                "keep the fitted repair, or choose one that is affine, such as RemoveDirections"
            )
        return self._affine()

    @abstractmethod
    def _learn(self, data: Source) -> None: ...

    @abstractmethod
    def _apply(self, block: Floats) -> Floats: ...

    def _affine(self) -> Affine:
        raise NotImplementedError

    def _open(self, X: Vectors, *, reset: bool) -> Source:
        """A source of X, held to the width (and column names) of the fit."""
        if not _is_table(X):
            data = source(X)
            self._check_width(data.d, reset=reset)
            return data
        X = array(X) if _needs_unpacking(X) else X
        # The gate checks that entries are finite, block by block: here it would cost a pass over a memory map.
        return source(validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False))

    def _check_width(self, d: int, *, reset: bool) -> None:
        if reset:
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = d
        elif d != self.n_features_in_:
            raise ValueError(
                f"X has {d} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input"
            )

    def _settle(self) -> None:
        """Lay learned arrays out in C order: a repair that was saved and loaded then takes the same BLAS path."""
        for name, value in learned(self).items():
            if isinstance(value, np.ndarray) and value.dtype != object:
                setattr(self, name, np.ascontiguousarray(value) if value.ndim else value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def learned(repair: Repair) -> dict[str, Any]:
    """What `fit` set, by name."""
    return {name: value for name, value in vars(repair).items() if name.endswith("_") and not name.startswith("_")}


def gather(function: Callable[[int, Floats], Floats], data: Source) -> Floats:
    """The results of all blocks as one array, filled in place where the number of rows is known."""
    if data.n is None:
        return np.concatenate(list(map_blocks(function, data)))
    whole: Floats | None = None
    start = 0
    for part in map_blocks(function, data):
        if whole is None:
            whole = np.empty((data.n, part.shape[1]), part.dtype)
        whole[start : start + len(part)] = part
        start += len(part)
    assert whole is not None
    return whole


def directions_to_remove(asked: int | None, paper: int, d: int, *, name: str = "n_directions") -> int:
    """The asked number, which must leave a direction; or the paper's, as far as d - 1 allows."""
    if asked is None:
        return min(paper, d - 1)
    if not 0 <= asked < d:
        raise ValueError(
            f"{name}={asked} must be at least 0 and at most d - 1 = {d - 1}, or nothing is left; "
            f"scaled_count({asked}, {d}) is the same share of {d} dimensions as {asked} are of 768"
        )
    return int(asked)


def _is_table(X: Any) -> bool:
    """Whether scikit-learn's own checks apply to X: an array, a frame, nested lists; not a path, a source or chunks."""
    if isinstance(X, (Source, str, os.PathLike)):
        return False
    if hasattr(X, "__array__") or hasattr(X, "toarray"):
        return True
    if isinstance(X, (list, tuple)):
        return not (X and np.ndim(X[0]) == 2)
    return not (callable(X) or isinstance(X, Iterable))


def _needs_unpacking(X: Any) -> bool:
    """Tensors, and frames with one column, which may hold lists."""
    return type(X).__module__.partition(".")[0] == "torch" or len(getattr(X, "columns", ())) == 1
