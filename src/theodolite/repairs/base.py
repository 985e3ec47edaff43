"""What every repair shares: a scikit-learn transformer that also fits and transforms data larger than memory."""

from __future__ import annotations

import inspect
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from theodolite.core.engines import map_shards
from theodolite.core.frames import is_frame, is_plain_frame
from theodolite.core.moments import Doubles, centred
from theodolite.core.parallel import map_blocks
from theodolite.core.vectors import Floats, Source, Vectors, array, source

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

        options: dict[str, Any] = {"replayable": data.replayable, "take": data.take, "moments": data.moments}
        return Source(chunks, n=data.n, d=data.d, dtype=data.dtype, **options)

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


# (matrix (d, d_out), bias (d_out,)): the repaired row is x @ matrix + bias.
Affine = tuple[Doubles, Doubles]


class Repair(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A change of space that is learned from one set of vectors and applied to any other of the same width.

    `fit` and `transform` accept everything that `theodolite.core.vectors.source` opens: arrays, memory maps, frames, functions
    that return chunks, and what `theodolite.read` opens. float32 rows stay float32; what is learned is float64. Subclasses
    implement `_apply`, which repairs one block, and, if there is something to learn, `_learn`, which reads a source and sets
    attributes that end in `_`.
    """

    is_affine: ClassVar[bool] = True  # whether `affine` has an answer
    not_affine_because: ClassVar[str] = "moves each cluster in its own way"
    inverts_variances: ClassVar[bool] = False  # whether it divides by variances, which few rows estimate badly
    n_features_in_: int
    fitted_on_: FittingPath  # how the vectors of the fit were made
    examples_: Doubles  # the first few of them

    def fit(self, X: Vectors, y: Any = None) -> Self:  # noqa: ARG002  # the contract of scikit-learn
        """Learn the repair from the rows of X.

        Parameters
        ----------
        X
            The vectors.
        y
            Ignored.
        """
        observer = Observer(self._open(X, reset=True))
        self._learn(observer.source())
        self.fitted_on_, self.examples_ = FittingPath(normalized=observer.normalized), observer.examples
        # In C order: a repair that was saved and loaded then takes the same path through BLAS, to the same bits.
        for name, value in learned(self).items():
            if isinstance(value, np.ndarray) and value.dtype != object and value.ndim:
                setattr(self, name, np.ascontiguousarray(value))
        return self

    def transform(self, X: Vectors) -> Floats:
        """The repaired rows, as one array in memory.

        Parameters
        ----------
        X
            Vectors of the same width as in the fit.
        """
        check_is_fitted(self)
        return gather(lambda _, block: self._apply(block), self._open(X, reset=False))

    def transform_blocks(self, X: Vectors) -> Iterator[Floats]:
        """The repaired rows block by block, in order, for data that does not fit in memory.

        Parameters
        ----------
        X
            Vectors of the same width as in the fit.
        """
        check_is_fitted(self)
        return map_blocks(lambda _, block: self._apply(block), self._open(X, reset=False))

    def affine(self) -> Affine:
        """Matrix and bias in float64, with x @ matrix + bias equal to the repaired x.

        Raises
        ------
        TypeError
            The repair is not affine.
        """
        check_is_fitted(self)
        if not self.is_affine:
            raise TypeError(
                f"{type(self).__name__} {self.not_affine_because}, so it is not a single matrix and bias; "
                "use the fitted repair itself, or choose one that is affine, such as RemoveDirections"
            )
        return self._affine()

    def __repr__(self) -> str:
        defaults = repair_settings(type(self))
        changed = {name: value for name, value in self.get_params(deep=False).items() if value != defaults[name]}
        settings = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        fitted = f", fitted on {self.n_features_in_} dimensions" if "n_features_in_" in vars(self) else ""
        return f"{type(self).__name__}({settings}){fitted}"

    def _learn(self, data: Source) -> None:
        for _ in data.blocks():  # nothing to learn, but an entry that is not finite is named here as by every other repair
            pass

    @abstractmethod
    def _apply(self, block: Floats) -> Floats: ...

    def _affine(self) -> Affine:
        raise NotImplementedError

    def _open(self, X: Vectors, *, reset: bool) -> Source:
        """A source of X, checked against the width (and column names) of the fit."""
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
            name = type(self).__name__
            raise ValueError(f"X has {d} features, but {name} is expecting {self.n_features_in_} features as input")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class CentredProduct(Repair):
    """The base of repairs that subtract a mean and multiply: x becomes (x - mean) @ kernel."""

    mean_: Doubles
    kernel_: Doubles

    def _apply(self, block: Floats) -> Floats:
        return centred(block, self.mean_) @ self.kernel_.astype(block.dtype)

    def _affine(self) -> Affine:
        return self.kernel_.copy(), -self.mean_ @ self.kernel_

    @property
    def _n_features_out(self) -> int:
        return int(self.kernel_.shape[1])


def fold_affine(repairs: Repair | Sequence[Repair] | Pipeline) -> Affine:
    """Matrix and bias of fitted repairs applied one after the other: x @ matrix + bias equals the whole chain.

    Parameters
    ----------
    repairs
        One fitted repair, several in the order in which they are applied, or a scikit-learn pipeline of them.

    Raises
    ------
    TypeError
        One of the steps is not an affine repair.
    ValueError
        There is no step, or the widths of two steps do not match.
    """
    if isinstance(repairs, Pipeline):
        repairs = [step for _, step in repairs.steps if step is not None and step != "passthrough"]
    steps = [repairs] if isinstance(repairs, Repair) else list(repairs)
    if not steps:
        raise ValueError("there is no repair to fold; give at least one")
    for position, step in enumerate(steps):
        if not isinstance(step, Repair):
            raise TypeError(f"step {position} is a {type(step).__name__}, not a repair, so it has no known matrix and bias")
    matrix, bias = steps[0].affine()
    for before, step in pairwise(steps):
        next_matrix, next_bias = step.affine()
        if matrix.shape[1] != len(next_matrix):
            raise ValueError(
                f"{type(before).__name__} gives {matrix.shape[1]} columns but {type(step).__name__} takes {len(next_matrix)}; "
                "fit each repair on the output of the one before"
            )
        matrix, bias = matrix @ next_matrix, bias @ next_matrix + next_bias
    return matrix, bias


def learned(repair: Repair) -> dict[str, Any]:
    """The numbers and arrays that `fit` set, by name."""
    names = [name for name in vars(repair) if name.endswith("_") and not name.startswith("_") and name != "fitted_on_"]
    return {name: getattr(repair, name) for name in names}


def repair_settings(kind: type[Repair]) -> dict[str, Any]:
    """The settings that a repair's constructor takes, with their defaults.

    Parameters
    ----------
    kind
        The class of the repair.
    """
    gathering = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(kind).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.kind not in gathering}


def gather(function: Callable[[int, Floats], Floats], data: Source) -> Floats:
    """The results of all blocks as one array, filled in place if the number of rows is known."""
    if data.n is None:
        return np.concatenate(list(map_blocks(function, data)))
    n = data.n
    results: list[Floats] = []  # made by the first block that is finished, which knows the width
    lock = threading.Lock()

    def work(start: int, block: Floats) -> None:
        repaired = function(start, block)
        with lock:
            if not results:
                results.append(np.empty((n, repaired.shape[1]), repaired.dtype))
        results[0][start : start + len(repaired)] = (
            repaired  # in the worker: the first touch of new memory costs as much as the repair
        )

    for _ in map_blocks(work, data):
        pass
    return results[0]


def directions_to_remove(count: int | None, default: int, d: int, *, name: str = "n_directions") -> int:
    """How many directions or dimensions a repair removes."""
    if count is None:
        return min(default, d - 1)
    if not 0 <= count < d:
        raise ValueError(
            f"{name}={count} must be at least 0 and at most d - 1 = {d - 1}, or nothing is left; "
            f"scaled_count({count}, {d}) is the same share of {d} dimensions as {count} are of 768"
        )
    return int(count)


def dimensions_to_keep(count: int | None, d: int) -> int:
    """How many directions or dimensions a repair keeps; None is all of them."""
    if count is not None and not 1 <= count <= d:
        raise ValueError(f"n_components={count} must be at least 1 and at most the dimension d={d}")
    return d if count is None else int(count)


def _is_table(X: Any) -> bool:
    """Whether scikit-learn's own checks apply to X: an array, a frame, nested lists; not a path, a source or chunks."""
    if isinstance(X, (Source, str, os.PathLike)):
        return False
    if hasattr(X, "__array__") or hasattr(X, "toarray") or is_frame(X):
        return True
    if isinstance(X, (list, tuple)):
        return not (X and np.ndim(X[0]) == 2)
    return not (callable(X) or isinstance(X, Iterable))


def _needs_unpacking(X: Any) -> bool:
    """Tensors, masked arrays, which scikit-learn would unmask, and frames in which the vectors have to be found."""
    is_special = type(X).__module__.partition(".")[0] == "torch" or isinstance(X, np.ma.MaskedArray)
    return is_special or (is_frame(X) and not is_plain_frame(X))
