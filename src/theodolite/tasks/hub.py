"""Examples from the Hugging Face hub, through its `datasets` library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from theodolite.tasks.assemble import Record, Sentence, from_records, from_sentences
from theodolite.tasks.errors import DataError, close_to, listed
from theodolite.tasks.examples import Examples
from theodolite.tasks.table import needed
from theodolite.tasks.task import Hub, Task


def read_hub(task: Task, split: str) -> Examples:
    """The examples of a split, downloaded or from the hub's cache."""
    hub = task.hub
    if hub is None:
        raise DataError(f"task {task.name!r} is not on the hub; give the folder of its release with data= (--data FOLDER)")
    if split not in hub.splits:
        raise DataError(
            f"the hub copy of task {task.name!r} has no split {split!r}, only {listed(list(hub.splits))}; "
            "the release's own files may have it: data= (--data FOLDER)"
        )
    table = _load(task, hub, split)
    place = Path(" ".join(filter(None, (hub.id, hub.config, hub.splits[split]))))  # stands for a file in messages
    if task.on_words:
        return from_sentences(task, split, _sentences(task, hub, table, place), [place])
    return from_records(task, split, _records(task, hub, table, place), [place])


def _load(task: Task, hub: Hub, split: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise ImportError(
            f'task {task.name!r} comes from the hub, which needs: pip install "theodolite[models]"; '
            "or read the release's own files with data= (--data FOLDER)"
        ) from None
    # What goes wrong on the way to the hub comes as any of these, deep from several libraries.
    faults = (OSError, ValueError, RuntimeError, KeyError, datasets.exceptions.DatasetsError)
    try:
        return datasets.load_dataset(hub.id, hub.config, split=hub.splits[split], revision=hub.revision)
    except faults as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(
            f"task {task.name!r} could not be had from the hub ({hub.id}: {reason}); "
            "check the connection, or read the release's own files with data= (--data FOLDER)"
        ) from error


def _column(table: Any, hub: Hub, role: str, place: Path) -> list[Any]:
    """A column by our name for it; numbers that stand for names become the names."""
    name, known = hub.columns[role], list(table.column_names)
    if name not in known:
        raise DataError(f"there is no column {name!r} for the {role}; it has {listed(known)}{close_to(name, known)}", file=place)
    feature = table.features[name]
    names = getattr(getattr(feature, "feature", feature), "names", None)
    values = list(table[name])
    if names is None or role == "score":
        return values
    return [_names(names, value) for value in values]


def _names(names: Sequence[str], value: Any) -> Any:
    if isinstance(value, list):
        return [_names(names, each) for each in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def _records(task: Task, hub: Hub, table: Any, place: Path) -> Iterator[Record]:
    roles = needed(task)
    columns = [_column(table, hub, role, place) for role in roles]
    for row, values in enumerate(zip(*columns, strict=True), start=1):
        found = dict(zip(roles, values, strict=True))
        label = found.get("label")
        yield Record(
            place, row, found["text"] or "", found.get("text_b"), None if label is None else str(label), found.get("score")
        )


def _sentences(task: Task, hub: Hub, table: Any, place: Path) -> Iterator[Sentence]:
    columns = [_column(table, hub, role, place) for role in ("words", "head", "label")]
    for row, (words, heads, labels) in enumerate(zip(*columns, strict=True), start=1):
        # Only words of the tree have a head: multiword tokens and empty nodes have none, and are not counted by heads either.
        real = [i for i, head in enumerate(heads) if str(head).isdecimal()]
        marks: list[tuple[tuple[int, ...], str, int]] = []
        for position, i in enumerate(real):
            head, label = int(heads[i]), str(labels[i])
            if task.kind == "tagging":
                marks.append(((position,), label, row))
            elif head and label != "root":
                if head > len(real):
                    raise DataError(f"head {head} points nowhere in a sentence of {len(real)} words", file=place, line=row)
                marks.append(((head - 1, position), label, row))
        yield Sentence(place, tuple(words[i] for i in real), tuple(marks))
