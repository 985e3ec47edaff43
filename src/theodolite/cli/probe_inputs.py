"""What `probe` reads: a space, vectors with a file of labels, DirectProbe's own text, or a task's texts through an encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from theodolite.cli.texts import chosen_layers, scored_split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from theodolite.core.vectors import Floats
    from theodolite.spaces.space import Space
    from theodolite.tasks.examples import Examples
    from theodolite.tasks.task import Task

TABLES = (".csv", ".tsv", ".parquet", ".jsonl")
HELD_OUT = 0.2
"""Share of a task's examples that is held out where the task has no second split."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """Labelled rows in one or more layers; `layer` is None where nothing is known of layers."""

    layers: tuple[int | None, ...]
    take: Callable[[int | None], Floats]
    y: NDArray[Any]
    about: Mapping[str, Any] = field(default_factory=dict)

    def at(self, rows: NDArray[Any]) -> Vectors:
        """The same of some rows."""
        return replace(self, take=lambda layer: self.take(layer)[rows], y=self.y[rows])


@dataclass(frozen=True, eq=False)
class Given:
    """What to fit on and what to score on."""

    title: str
    train: Vectors
    test: Vectors | None = None


@dataclass(frozen=True)
class Places:
    """The files that the options name, and how to read them."""

    vectors: str
    labels: str | None = None
    entities: str | None = None
    label_set: str | None = None
    layers: str = "all"
    key: str | None = None
    columns: Sequence[str] | None = None


def read_vectors(places: Places) -> Vectors:
    """Vectors with their labels, from whatever is named."""
    from theodolite.spaces import Space, is_space

    if places.entities is not None:
        if places.labels is not None:
            raise ValueError("--labels and --entities both name labels; give one of them")
        return _directprobe(places)
    if places.label_set is not None:
        raise ValueError("--label-set goes with --entities; leave it out")
    if is_space(places.vectors):
        return space_vectors(Space.open(places.vectors), places.labels or "label", places.layers, places.vectors)
    return _file(places)


def read_test(train: Places, test: str | None, labels: str | None, entities: str | None) -> Vectors | None:
    """The held-out rows, read as the others are, where they are named."""
    from theodolite.spaces import is_space

    if test is None:
        for option, value in (("--test-labels", labels), ("--test-entities", entities)):
            if value is not None:
                raise ValueError(f"{option} {value} belongs to held-out rows; name them with --test PATH")
        return None
    column = train.labels if is_space(test) or test.endswith(TABLES) else None
    return read_vectors(replace(train, vectors=test, labels=labels or column, entities=entities, label_set=None))


def space_vectors(space: Space, column: str, layers: str, name: str) -> Vectors:
    """The asked layers of a space, with the labels of one of its columns."""
    import numpy as np

    if column not in space.rows:
        there = ", ".join(space.rows) or "none"
        raise ValueError(f"{name} has no column {column!r} of labels; it has {there}: name one with --labels COLUMN")
    labels = list(space.rows[column])
    missing = next((row for row, label in enumerate(labels) if label is None or label != label), None)
    if missing is not None:
        raise ValueError(f"{name}: row {missing} has no {column!r}; every row needs a label: leave such rows out")
    asked = chosen_layers(layers)
    numbers = space.layers if asked == "all" else (space.layers[-1],) if asked == "last" else tuple(map(space.number, asked))
    about = {key: value for key, value in space.about(-1).items() if key != "layer"}
    return Vectors(numbers, lambda layer: space[layer if layer is not None else -1], np.array([str(x) for x in labels]), about)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What an encoder reads, and how: a task's training split to fit on, and what is held out of it to score on."""

    task: str | Task
    data: str | None
    split: str | None
    unit: str | None
    layers: str
    hold_out: float | None
    seed: int
    encoding: str | None
    batch_size: int | None
    encoder: Mapping[str, Any]
    """Options for loading the encoder."""

    def given(self, model: str, seen: Any) -> Given:
        """All asked layers of an encoder."""
        from theodolite.cli.extract import load_encoder
        from theodolite.models.extract import extract
        from theodolite.tasks.load import find_task
        from theodolite.tasks.task import UNIT_OF

        declared = find_task(self.task)
        unit: Any = self.unit or UNIT_OF[declared.kind]
        parts = self.parts(declared)
        encoder = load_encoder(model, **self.encoder)
        found = []
        for name, examples in parts.items():
            space = extract(
                encoder,
                examples,
                unit=unit,
                layers=chosen_layers(self.layers),
                batch_size=self.batch_size or "auto",
                progress=seen.steps(f"encoding {declared.name} {name}"),
            )
            vectors = space_vectors(space, "label", "all", f"{declared.name} with --unit {unit}")
            found.append(replace(vectors, about={**vectors.about, "split": name}))
        return Given(f"{model}, {declared.name} {next(iter(parts))}", found[0], found[1] if len(found) > 1 else None)

    def parts(self, task: Task) -> dict[str, Examples]:
        """The examples to fit on, and those held out: another split of the task, or a share of the one there is."""
        from theodolite.tasks.load import load_task

        if task.kind == "similarity":
            raise ValueError(f"task {task.name!r} has scores, not labels; probe needs a task with labels, such as pos or trec-6")
        first = self.split or ("train" if "train" in task.splits else next(iter(task.splits)))
        train = load_task(task, first, self.data, encoding=self.encoding)
        second = scored_split(task)
        if self.hold_out == 0:
            return {first: train}
        if self.hold_out is None and second != first:
            return {first: train, second: load_task(task, second, self.data, encoding=self.encoding)}
        kept, held = train.divide(1 - (self.hold_out or HELD_OUT), seed=self.seed)
        return {first: kept, f"{first}, held out": held}


def _directprobe(places: Places) -> Vectors:
    import numpy as np

    from theodolite.spaces.directprobe_text import read_directprobe

    assert places.entities is not None
    found = read_directprobe(places.vectors, places.entities, places.label_set)
    return Vectors((None,), lambda _: found.X, np.array(found.labels), {"model": places.vectors})


def _file(places: Places) -> Vectors:
    import numpy as np

    from theodolite.core.vectors import array
    from theodolite.spaces import read
    from theodolite.spaces.labels import read_labels

    if places.labels is None:
        raise ValueError(f"{places.vectors} has vectors but no labels; give --labels FILE[:COLUMN], or --entities FILE")
    X = array(read(places.vectors, key=places.key, columns=places.columns))
    labels = read_labels(_label_place(places))
    if len(labels) != len(X):
        raise ValueError(
            f"{places.labels} has {len(labels):,} labels for the {len(X):,} rows of {places.vectors}; row i needs label i"
        )
    return Vectors((None,), lambda _: X, np.array(labels), {"model": places.vectors})


def _label_place(places: Places) -> str:
    """The file of labels; a name that is no file is a column of the table that holds the vectors."""
    from pathlib import Path

    assert places.labels is not None
    path = places.labels.rpartition(":")[0] or places.labels
    same_table = places.vectors.endswith(TABLES) and not Path(places.labels).exists() and not Path(path).exists()
    return f"{places.vectors}:{places.labels}" if same_table else places.labels
