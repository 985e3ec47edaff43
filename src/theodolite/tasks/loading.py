"""One way to the examples of any task, from the files of its release or from the Hugging Face Hub: `load_task`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.core.spelling import name_list, option
from theodolite.spaces.readers.data_files import AnyPath, DataError, excerpt, locate
from theodolite.spaces.readers.delimited import DelimitedTable
from theodolite.tasks.declarations import find_task
from theodolite.tasks.examples import Examples
from theodolite.tasks.formats import EMBEDDED, TEXT_READERS, WORD_READERS, Mark, Record, Sentence
from theodolite.tasks.hub_access import hub_answers, only_cache
from theodolite.tasks.task import Hub, Task


def load_task(
    task: str | Task, split: str, data: AnyPath | None = None, *, empty_nodes: bool = False, encoding: str | None = None
) -> Examples:
    """The examples of one split of a task.

    Parameters
    ----------
    task
        Name of a declared task, or a task that `own_task` made.
    split
        Which split, such as `train` or `dev`.
    data
        Folder with the files of the task's release, or the folder above it (`stsb/`, `rte/`, …). None downloads the task from
        the Hub; own tasks know their files, and those of the demo's tasks are inside the package.
    empty_nodes
        Whether empty nodes of a treebank count as words.
    encoding
        Encoding of the files, if it is not the one that the task declares.

    Raises
    ------
    DataError
        There is no such task, split or file, or a file is not as described; the message names file and line.
    """
    task = find_task(task)
    if split not in task.splits:
        splits = list(task.splits)
        raise DataError(f"task {task.name!r} has no split {split!r}; it has {name_list(splits, near=split)}")
    # The demo's files are inside the package, so that it runs without the Hub.
    if data is None and task.layout.format == "embedded":
        data = EMBEDDED
    is_local = data is not None or not task.layout.folders
    if empty_nodes and not (is_local and task.layout.format in ("conllu", "streusle")):
        raise DataError(f"empty_nodes=True is for treebanks read from files, but {task.name!r} is not one; leave it out")
    if not is_local:
        return _load_from_hub(task, split)
    files = _find_files(task, split, data)
    task = replace(task, layout=replace(task.layout, empty_nodes=empty_nodes, encoding=encoding or task.layout.encoding))
    if not task.on_words:
        records = chain.from_iterable(TEXT_READERS[task.layout.format](task, file) for file in files)
        return _examples_on_texts(task, split, records, files)
    sentences = list(chain.from_iterable(WORD_READERS[task.layout.format](task, file) for file in files))
    return _examples_on_words(task, split, _sentences_of_split(task, split, sentences, files[0]), files)


def _sentences_of_split(task: Task, split: str, sentences: list[Sentence], file: Path) -> list[Sentence]:
    """The sentences of a split, if one file holds all splits; otherwise all sentences."""
    cut = task.layout.sentences.get(split)
    if cut is None:
        return sentences
    if not sentences[cut]:
        problem = f"the file has {len(sentences)} sentences, so split {split!r} (from sentence {cut.start or 0} on) is empty"
        raise DataError(f"{problem}; read it as a task of your own", file)
    return sentences[cut]


def _find_files(task: Task, split: str, data: AnyPath | None) -> list[Path]:
    """The files of a split: under `data`, or in one of a release's usual folders there."""
    folder = Path(data).expanduser() if data is not None else Path()
    if not folder.is_dir():
        hint = f"{option('data', 'FOLDER')} names the folder with the files of task {task.name!r}"
        raise DataError(f"{folder} is not a folder; {hint}")
    folders = [folder / name for name in task.layout.folders if (folder / name).is_dir()] + [folder]
    return [_find_file(task, name, folders) for name in task.splits[split]]


def _find_file(task: Task, name: str, folders: Sequence[Path]) -> Path:
    # The files of a release may be in a folder of their usual name, or directly in the one that was given.
    if task.layout.folders:
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None:
            contents = "; ".join(f"{folder} has {_content(folder)}" for folder in folders)
            raise DataError(f"there is no file {name} of task {task.name!r}: {contents}")
        return path
    path = folders[-1] / Path(name).expanduser()
    if path.is_dir():
        raise DataError(f"this is a folder, not a file; it has {_content(path)}", path)
    if not path.exists():
        parent = path.parent
        hint = f"its folder has {_content(parent)}" if parent.is_dir() else f"there is no folder {parent}"
        raise DataError(f"there is no such file; {hint}", path)
    return path


def _content(folder: Path) -> str:
    return name_list(sorted(entry.name + ("/" if entry.is_dir() else "") for entry in folder.iterdir()))


def _load_from_hub(task: Task, split: str) -> Examples:
    """The examples of a split, downloaded or from the Hub's own cache."""
    hub, folder = task.hub, option("data", "FOLDER")
    if hub is None:
        raise DataError(f"task {task.name!r} is not on the Hub; give the folder of its release with {folder}")
    if split not in hub.splits:
        problem = f"the Hub copy of task {task.name!r} has no split {split!r}, only {name_list(list(hub.splits))}"
        raise DataError(f"{problem}; if the files of the release have it, read them with {folder}")
    table = _download(task, hub, split)
    name = Path(" ".join(filter(None, (hub.id, hub.config, hub.splits[split]))))  # the file, in messages
    if task.on_words:
        return _examples_on_words(task, split, list(_hub_sentences(task, hub, table, name)), [name])
    return _examples_on_texts(task, split, _hub_records(task, hub, table, name), [name])


def _download(task: Task, hub: Hub, split: str) -> Any:
    hint = f"or read the files of the release with {option('data', 'FOLDER')}"
    try:
        import datasets
    except ImportError:
        install = 'pip install "theodolite[models]"'
        raise ImportError(f"task {task.name!r} is downloaded from the Hub, which needs: {install}; {hint}") from None
    try:
        with nullcontext() if hub_answers() else only_cache():
            return datasets.load_dataset(hub.id, hub.config, split=hub.splits[split], revision=hub.revision)
    except Exception as error:  # several libraries are involved, each with errors of its own
        # Only the first line: some of these libraries append pages of advice.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        problem = f"task {task.name!r} could not be downloaded from the Hub ({hub.id}: {reason})"
        raise DataError(f"{problem}; check the connection, {hint}") from error


def _hub_column(table: Any, hub: Hub, role: str, file: Path) -> list[Any]:
    """A column by our name for it; numbers that stand for names become the names."""
    name, names = hub.columns[role], list(table.column_names)
    if name not in names:
        columns = name_list(names, near=name)
        raise DataError(f"there is no column {name!r} for the {role}; the columns are {columns}", file)
    feature = table.features[name]
    # A ClassLabel stores numbers and has their names; a list of them has it one level down.
    labels = getattr(getattr(feature, "feature", feature), "names", None)
    values = list(table[name])
    return values if labels is None or role == "score" else [_label_names(labels, value) for value in values]


def _label_names(labels: Sequence[str], value: Any) -> Any:
    if isinstance(value, list):
        return [_label_names(labels, number) for number in value]
    # Hidden labels of a test split are -1.
    return labels[value] if isinstance(value, int) and 0 <= value < len(labels) else None


def _hub_records(task: Task, hub: Hub, table: Any, file: Path) -> Iterator[Record]:
    columns = [_hub_column(table, hub, role, file) for role in task.roles]
    for row, values in enumerate(zip(*columns, strict=True), start=1):
        cells = dict(zip(task.roles, values, strict=True))
        label = None if cells.get("label") is None else str(cells["label"])
        yield Record(file, row, cells["text"] or "", cells.get("text_b"), label, cells.get("score"))


def _hub_sentences(task: Task, hub: Hub, table: Any, file: Path) -> Iterator[Sentence]:
    columns = [_hub_column(table, hub, role, file) for role in ("words", "head", "label")]
    for row, (words, heads, labels) in enumerate(zip(*columns, strict=True), start=1):
        # Only words of the tree have a head: multiword tokens and empty nodes have none, and heads do not count them.
        in_tree = [i for i, head in enumerate(heads) if str(head).isdecimal()]
        marks: list[Mark] = []
        for position, i in enumerate(in_tree):
            head, label = int(heads[i]), str(labels[i])
            if task.kind == "tagging":
                marks.append(Mark((position,), label, row))
            elif head and label != "root":
                if head > len(in_tree):
                    raise DataError(f"head {head} is not in the sentence, which has {len(in_tree)} words", file, row)
                marks.append(Mark((head - 1, position), label, row))
        yield Sentence(file, tuple(words[i] for i in in_tree), tuple(marks))


# From records and sentences to examples; the checks are the same for every format


def _examples_on_texts(task: Task, split: str, records: Iterable[Record], files: Sequence[Path]) -> Examples:
    """Examples on whole texts; an error if a text or label is empty, or a label or score is not one that the task has."""
    rows = [record for record in records if record.split in (None, split)]
    if not rows:
        raise DataError("there is no example in the file", files[0])
    for row in rows:
        for name, text in (("text" if row.second is None else "first text", row.text), ("second text", row.second)):
            if text is not None and not text.strip():
                rule = "every example needs a text: fill it in or drop the line"
                raise DataError(f"the {name} is empty; {rule}", row.file, row.line)
    position = {file: i for i, file in enumerate(files)}
    has_scores = task.kind == "similarity"
    return Examples(
        task=task,
        split=split,
        texts=tuple(record.text for record in rows),
        second=tuple(record.second or "" for record in rows) if task.paired else None,
        labels=None if has_scores else tuple(_label(task, record.label, record.file, record.line) for record in rows),
        scores=np.array([_score(task, record) for record in rows]) if has_scores else None,
        files=tuple(map(str, files)),
        lines=np.array([(position[record.file], record.line) for record in rows], dtype=np.intp),
    )


def _examples_on_words(task: Task, split: str, sentences: Sequence[Sentence], files: Sequence[Path]) -> Examples:
    """Examples on words or pairs of words. All sentences are kept, also those without an example."""
    position = {file: i for i, file in enumerate(files)}
    marks = [(number, sentence.file, mark) for number, sentence in enumerate(sentences) for mark in sentence.marks]
    if not marks:
        missing = "word with a label" if task.kind == "tagging" else "pair of words with a relation"
        raise DataError(f"there is no {missing} in the file", files[0])
    return Examples(
        task=task,
        split=split,
        texts=tuple(" ".join(sentence.words) for sentence in sentences),
        words=tuple(sentence.words for sentence in sentences),
        places=np.array([(number, *mark.words) for number, _, mark in marks], dtype=np.intp),
        labels=tuple(_label(task, mark.label, file, mark.line) for _, file, mark in marks),
        files=tuple(map(str, files)),
        lines=np.array([(position[file], mark.line) for _, file, mark in marks], dtype=np.intp),
    )


def _label(task: Task, label: str | None, file: Path, line: int) -> str:
    if label is None or not label.strip():
        raise DataError("the label is empty; every example needs one: fill it in or drop the line", file, line)
    # A misspelt label would otherwise be a class of its own.
    if task.labels is not None and label not in task.labels:
        labels = name_list(task.labels, most=20, near=label)
        raise DataError(f"label {excerpt(label)} is not one of {labels}", file, line)
    return label


def _score(task: Task, record: Record) -> float:
    try:
        score = float(record.score if record.score is not None else "")
    except ValueError:
        raise DataError(f"score {excerpt(str(record.score))} is not a number", record.file, record.line) from None
    low, high = task.score_range or (-math.inf, math.inf)
    if not (math.isfinite(score) and low <= score <= high):
        hint = f"correct it, or read the file as a task of your own with another {option('score_range', 'LOW,HIGH')}"
        raise DataError(f"score {score:g} must be between {low:g} and {high:g}; {hint}", record.file, record.line)
    return score


def canonical_sentences() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """250 English sentences, and the domain of each: 25 domains of 10.

    Returns
    -------
    tuple[tuple[str, ...], tuple[str, ...]]
        The sentences in their order, and the name of each one's domain.
    """
    table = DelimitedTable(locate(EMBEDDED / "domains.tsv"), delimiter="\t", quoting=False, has_header=True)
    rows = [cells for _, cells in table.select({"text": "text", "domain": "domain"})]
    return tuple(cells["text"] for cells in rows), tuple(cells["domain"] for cells in rows)
