"""The Space: one state of one model, as vectors (n, d) for one or more layers, with what is known of each row."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.spelling import option
from theodolite.core.vectors import Floats, working_dtype
from theodolite.spaces.folder import ABOUT, StoredSpaceError, open_folder, write_folder
from theodolite.spaces.row_table import Rows, checked_rows

# What the vectors of a unit are called; those of any other unit stand for texts.
_NOUNS = {"text": "texts", "tokens": "tokens", "words": "words", "pairs": "word pairs", "": "vectors"}
# Names in a picture, and the columns of a space they come from; of two columns for one name the last counts.
_PICTURE_COLUMNS = (("token", "word"), ("token", "token"), ("text", "sentence"), ("label", "label"))


@dataclass(frozen=True)
class Origin:
    """Where a space comes from. What is not known is empty.

    Parameters
    ----------
    model
        Name or folder of the model.
    revision
        Its revision on the Hub.
    state
        The state it was measured in, such as `pre-trained` or `fine-tuned`; see `theodolite.core.states`.
    step
        The training step, for a model during fine-tuning.
    task, split
        The task whose texts were encoded, and which split of it.
    pooling
        What one vector stands for: a unit such as `tokens`, `mean` or `words`; see `theodolite.tasks.task.UNITS`.
    versions
        Versions of the packages that made the vectors.
    description
        What the vectors are, if the unit alone does not say it.
    counts
        What the tokenizer made of the texts: numbers of tokens, unknown ones, cut texts and so on, by name.
    precision
        What the encoder computed in, such as `bfloat16`, whatever the vectors are stored as.
    max_length
        The tokens after which a text was cut; None if nothing limits it, or it is not known.
    prompt
        What was put before every text.
    """

    model: str = ""
    revision: str = ""
    state: str = ""
    step: int | None = None
    task: str = ""
    split: str = ""
    pooling: str = ""
    versions: str = ""
    description: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    precision: str = ""
    max_length: int | None = None
    prompt: str = ""


# The origin of vectors of which nothing is known.
UNKNOWN = Origin()


class Space:
    """Vectors of one state of one model: `space[layer]` is an (n, d) view, `space.rows[name]` a column of what is known.

    `Space.of` makes a space from arrays, `Space.open` opens one from a folder, and `SpaceWriter` writes one part by part. A space
    is never changed: its arrays are read-only views.

    Attributes
    ----------
    layers
        Numbers of the layers, ascending; 0 is the embeddings.
    n, d
        Number of rows and of dimensions.
    dtype
        Type of the numbers.
    rows
        Columns of length n by name, such as `text`, `token`, `label` and `frequency`.
    origin
        Where the vectors come from.

    Examples
    --------
    >>> space = Space.of({0: np.zeros((3, 2)), 12: np.ones((3, 2))}, rows={"text": ["a", "b", "c"]})
    >>> space
    Space: 3 vectors × 2, layers 0, 12
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
        """A space of arrays in memory. Float arrays are not copied.

        Parameters
        ----------
        layers
            One (n, d) array per layer number, all of one shape. Whether entries are finite is checked when they are used.
        rows
            Columns of length n: text, ints or floats, None for what is not known.
        origin
            Where the vectors come from.
        """
        arrays = {number: _matrix(number, layers[number]) for number in sorted(checked_layers(layers))}
        first = min(arrays)
        shape = arrays[first].shape
        for number, array in arrays.items():
            if array.shape != shape:
                raise ValueError(f"layer {number} has shape {array.shape}, layer {first} has {shape}; a space has one shape")
        # One type for all layers: they share one entry in space.json, and one block size when written.
        dtype = np.result_type(*arrays.values())
        vectors = {number: _read_only(array.astype(dtype, copy=False)) for number, array in arrays.items()}
        columns = checked_rows(rows, shape[0])
        return cls(vectors, rows=MappingProxyType(columns) if isinstance(columns, dict) else columns, origin=origin)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, verify: bool = True) -> Space:
        """The space in a folder, memory-mapped, after checking that it is whole.

        Parameters
        ----------
        folder
            A folder that `save`, `SpaceWriter` or `theodolite extract` wrote.
        verify
            Whether to check the SHA-256 of all files, which reads all their bytes. Lengths and shapes are always checked.

        Raises
        ------
        StoredSpaceError
            The folder is not as it was written.
        """
        folder = Path(folder).expanduser()
        stored, vectors, rows = open_folder(folder, verify=verify)
        try:
            origin = Origin(**stored.origin)
        except TypeError as error:
            raise StoredSpaceError(f"{folder / ABOUT} is damaged or was changed ({error}); extract it again") from None
        return cls(vectors, rows=rows, origin=origin)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the space to a folder, whole or not at all.

        Parameters
        ----------
        folder
            The folder to write; folders above it are made.
        overwrite
            Whether a space that is there may be replaced; anything else never is.
        """
        # The real path, so that a link to a folder stays a link and two names of one folder share one lock.
        target = Path(os.path.realpath(Path(folder).expanduser()))
        write_folder(target, self._vectors, self.rows, asdict(self.origin), overwrite=overwrite)

    def __getitem__(self, layer: int) -> Floats:
        return self._vectors[self.number(layer)]

    def opener(self, layer: int) -> Callable[[], Floats]:
        """A function that can be sent to a worker and gives the layer there: a stored one is opened where the work runs.

        Parameters
        ----------
        layer
            The layer; a negative number counts from the last one.
        """
        vectors = self[layer]
        stored = vectors.base
        if isinstance(stored, np.memmap) and stored.filename is not None and stored.shape == vectors.shape:
            return partial(_mapped, Path(stored.filename).absolute(), stored.dtype, stored.offset, stored.shape)
        return partial(np.asarray, vectors)

    def __contains__(self, layer: object) -> bool:
        return layer in self._vectors

    __iter__ = None  # otherwise Python would count layers up from 0, and stop at the first that is missing

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The vectors of the only layer, so that a space of one layer can be surveyed as it is."""
        if len(self.layers) > 1:
            layers = _layer_list(self.layers)
            raise TypeError(f"this space has {len(self.layers)} layers ({layers}); choose one: space[{self.layers[-1]}]")
        return np.array(self[-1], dtype=dtype) if copy else np.asarray(self[-1], dtype=dtype)

    def __repr__(self) -> str:
        origin = self.origin
        state = ", ".join(filter(None, [origin.state, "" if origin.step is None else f"step {origin.step}"]))
        model = f" of {origin.model}" if origin.model else ""
        texts = f"{',' if model else ' of'} {f'{origin.task} {origin.split}'.strip()}" if origin.task else ""
        unit = f"texts ({self.unit})" if self.unit not in _NOUNS else _NOUNS[self.unit]
        layers = f"layer{'s' if len(self.layers) > 1 else ''} {_layer_list(self.layers)}"
        computed = f"computed in {origin.precision}" if origin.precision not in ("", "float32") else ""
        words = ", ".join(filter(None, [origin.description, computed]))
        what = f" ({words})" if words else ""
        return f"Space{model}{f' ({state})' if state else ''}{texts}: {self.n:,} {unit} × {self.d}, {layers}{what}"

    @property
    def unit(self) -> str:
        """What one vector stands for, such as `tokens` or `mean`; empty if it is not known."""
        return self.origin.pooling

    def number(self, layer: int) -> int:
        """The number of a layer of this space.

        Parameters
        ----------
        layer
            The number, or a negative one that counts from the last layer.
        """
        return choose_layers(layer, self.layers)[0]

    def about(self, layer: int) -> dict[str, Any]:
        """The fields of a `Row` that say where a number measured on a layer comes from.

        Parameters
        ----------
        layer
            The layer; a negative number counts from the last one.
        """
        names = ("model", "revision", "state", "step", "task", "split")
        fields = {name: getattr(self.origin, name) for name in names}
        return {**fields, "layer": self.number(layer), "setting": self.unit}

    def labels(self, column: str = "label") -> list[str]:
        """The labels of all rows as text.

        Parameters
        ----------
        column
            The column of `rows` that holds them.

        Raises
        ------
        ValueError
            There is no such column, or a row has no label.
        """
        if column not in self.rows:
            there = ", ".join(self.rows) or "none"
            ways = f"name one with {option('labels', 'COLUMN')}, or give a file of labels"
            raise ValueError(f"the space has no column {column!r} of labels; it has {there}: {ways}")
        labels = list(self.rows[column])
        # nan is the gap of a column of numbers, and the only value that differs from itself.
        missing = next((row for row, label in enumerate(labels) if label is None or label != label), None)
        if missing is not None:
            raise ValueError(f"row {missing} of the space has no {column!r}, but every row needs a label: leave such rows out")
        return [str(label) for label in labels]


def _mapped(path: Path, dtype: np.dtype[Any], offset: int, shape: tuple[int, int]) -> Floats:
    return np.asarray(np.memmap(path, dtype, "r", offset, shape))


def choose_layers(choice: str | int | Iterable[int], layers: Sequence[int]) -> tuple[int, ...]:
    """The layers that a user chooses, ascending, each once.

    Examples
    --------
    >>> choose_layers("0, -1", range(13)), choose_layers("last", [0, 6]), choose_layers(range(2), [0, 1, 2])
    ((0, 12), (6,), (0, 1))
    """
    rule = f"the layers are {_layer_list(layers)}: give all, last, or numbers such as 0,6,12 (-1 is the last)"
    try:
        if isinstance(choice, str):
            if choice in ("all", "last"):
                return tuple(layers) if choice == "all" else (layers[-1],)
            numbers = [int(number) for number in choice.split(",")]
        else:
            # index, not int: 1.5 is not a layer.
            numbers = [operator.index(number) for number in (choice if isinstance(choice, Iterable) else [choice])]
    except (ValueError, TypeError):
        raise ValueError(f"layers={choice!r} is not a choice of layers; {rule}") from None
    for number in numbers:
        if number not in layers and not -len(layers) <= number < 0:
            raise ValueError(f"there is no layer {number}; {rule}")
    if not numbers:
        raise ValueError(f"no layer is chosen; {rule}")
    return tuple(sorted({number if number in layers else layers[number] for number in numbers}))


def picture_columns(space: Space, texts: Any = None) -> dict[str, Sequence[Any]]:
    """What a picture keeps of each row: `token`, `text`, `label` and `frequency`, as far as they are known."""
    rows = space.rows
    columns = {name: rows[column] for name, column in _PICTURE_COLUMNS if column in rows}
    if "text" not in columns and "text" in rows and texts is not None:
        sides = rows["side"] if "side" in rows else [0] * space.n
        first = getattr(texts, "texts", texts)
        second = getattr(texts, "second", None) or first
        columns["text"] = [(second if side else first)[number] for number, side in zip(rows["text"], sides, strict=True)]
    if "frequency" in rows:
        # A frequency of 0 is what wordfreq gives for a word it does not have.
        columns["frequency"] = [float(value) if value and value == value else None for value in rows["frequency"]]
    return columns


def checked_layers(layers: Iterable[Any]) -> tuple[int, ...]:
    """Layer numbers as plain ints: at least one, from 0 up, each once."""
    numbers = tuple(layers)
    bad = next((number for number in numbers if not isinstance(number, (int, np.integer)) or number < 0), None)
    if bad is not None:
        raise ValueError(f"layer {bad!r} is not a layer number; layers are counted from 0, the embeddings")
    if not numbers:
        raise ValueError("a space needs at least one layer; give one")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"layers {_layer_list(numbers)} name a layer twice; name each layer once")
    return tuple(int(number) for number in numbers)


def _matrix(number: int, vectors: ArrayLike) -> Floats:
    array = np.asarray(vectors)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"layer {number} has shape {array.shape}; vectors are an (n, d) array with at least one row and column")
    return array if array.dtype.kind == "f" and array.dtype.itemsize <= 8 else array.astype(working_dtype(array.dtype))


def _read_only(array: Floats) -> Floats:
    # A view, so that the caller's own array stays writeable.
    view = array.view()
    view.flags.writeable = False
    return view


def _layer_list(layers: Sequence[int]) -> str:
    """Layer numbers for a message, as a range if they are one."""
    if len(layers) > 2 and list(layers) == list(range(layers[0], layers[-1] + 1)):
        return f"{layers[0]}–{layers[-1]}"
    return ", ".join(map(str, layers))
