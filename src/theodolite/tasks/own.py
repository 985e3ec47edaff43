"""A user's own files as a task."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, get_args

from theodolite.core.spelling import name_list, option, switched_off
from theodolite.spaces.readers.data_files import AnyPath, DataError
from theodolite.spaces.readers.delimited import checked_delimiter
from theodolite.tasks.task import ROLES, FileLayout, Format, Kind, Task, column_option

Paths: TypeAlias = AnyPath | Sequence[AnyPath]

_ENDINGS: dict[Format, tuple[str, ...]] = {
    "table": (".csv", ".tsv", ".tab"),
    "jsonl": (".jsonl", ".ndjson"),
    "conllu": (".conllu", ".conllup"),
    "conll": (".conll", ".iob", ".bio", ".txt"),
}
# Formats by the ending of the file.
FORMATS: dict[str, Format] = {ending: format for format, endings in _ENDINGS.items() for ending in endings}

_TEXT_FORMATS: tuple[Format, ...] = ("table", "jsonl")
_WORD_FORMATS: dict[str, tuple[Format, ...]] = {"tagging": ("conllu", "conll"), "word_pairs": ("conllu",)}
_WORD_LABELS = {"tagging": "upos", "word_pairs": "deprel"}


def own_task(
    paths: Paths | Mapping[str, Paths],
    kind: Kind,
    *,
    columns: Mapping[str, str] | None = None,
    name: str = "own",
    score: str | None = None,
    labels: Sequence[str] | None = None,
    score_range: tuple[float, float] | None = None,
    format: Format | None = None,
    delimiter: str | None = None,
    quoting: bool | None = None,
    header: bool = True,
    encoding: str = "utf-8",
) -> Task:
    """A task from your own files.

    Texts come as `.csv`, `.tsv` or `.jsonl` with columns text, text_b (pairs), and label or score. Words come as `.conllu`, or as
    a two-column `.conll`; word pairs are heads and dependents with their relation.

    Parameters
    ----------
    paths
        The files of each split, `{"train": ..., "test": ...}`; one path alone is the training split.
    kind
        What the examples are: `similarity`, `classification`, `pair_classification`, `tagging` or `word_pairs`.
    columns
        Names of the columns, if they are not text, text_b, label and score; the option `column` of the verbs. In `.conllu` the
        label may be any column or a key of one: `{"label": "xpos"}`, `{"label": "misc:Entity"}`; by default upos for tagging and
        deprel for word pairs.
    name
        Name of the task, for tables and messages.
    score
        Main score: spearman (default) or pearson for similarity; accuracy (default), matthews or macro_f1 for labels.
    labels
        All labels, in order; by default those of the training split.
    score_range
        Lowest and highest score of a similarity task.
    format
        How the files are written; by default decided by their ending.
    delimiter
        What separates cells, one character; by default a tab for `.tsv` and `.conll`, otherwise found in the first lines.
    quoting
        Whether quotes around a cell are marks; by default in `.csv` but not in `.tsv`.
    header
        Whether the first line of a table names its columns; otherwise they are called 0, 1, 2, …
    encoding
        Encoding of the files.

    Raises
    ------
    DataError
        The options do not fit the kind or the files. The files themselves are read by `load_task`.
    """
    files = _files_by_split(paths)
    kinds = get_args(Kind)
    if kind not in kinds:
        raise DataError(f"kind {kind!r} is not one of {name_list(kinds, near=kind)}")
    format = format or _format_of(files)
    first = next(iter(files.values()))[0]
    formats = _WORD_FORMATS.get(kind, _TEXT_FORMATS)
    if format not in formats:
        endings = " or ".join(ending for other in formats for ending in _ENDINGS[other])
        raise DataError(f"a {kind} task is read from {endings}, not from {first} ({format})")
    if format != "table" and not header:
        raise DataError(f"only tables have a header; leave out {switched_off('header')} for {first} ({format})")
    if delimiter is not None:
        delimiter = checked_delimiter(delimiter)
    elif format != "table" or Path(first).suffix.lower() in (".tsv", ".tab"):
        delimiter = "\t"
    return Task(
        name=name,
        kind=kind,
        score=_score_for(score, kind),
        splits=files,
        labels=None if labels is None else tuple(labels),
        score_range=_checked_range(kind, score_range),
        layout=FileLayout(
            format=format,
            columns=_checked_columns(columns or {}, kind, format),
            encoding=encoding,
            delimiter=delimiter,
            quoting=quoting if quoting is not None else format == "table" and delimiter != "\t",
            header=header,
        ),
    )


def _files_by_split(paths: Paths | Mapping[str, Paths]) -> dict[str, tuple[str, ...]]:
    by_split = paths if isinstance(paths, Mapping) else {"train": paths}
    if not by_split:
        raise DataError("there is no file; give at least one")
    files = {}
    for split, value in by_split.items():
        several = [value] if isinstance(value, (str, os.PathLike)) else value
        files[split] = tuple(os.fspath(path) for path in several)
        if not files[split]:
            raise DataError(f"split {split!r} has no file; give at least one")
    return files


def _format_of(files: Mapping[str, tuple[str, ...]]) -> Format:
    endings = {Path(file).suffix.lower(): file for names in files.values() for file in names}
    for ending, file in endings.items():
        if ending not in FORMATS:
            hint = f"use {name_list(list(FORMATS))}, or in Python own_task(..., format=NAME)"
            raise DataError(f"the ending {ending!r} is not known; {hint}", file)
    # .csv and .tsv are both tables, but with different delimiters and quotes.
    if len({(FORMATS[ending], ending == ".csv") for ending in endings}) > 1:
        raise DataError(f"the files have different formats ({name_list(list(endings))}); write all splits in one")
    return FORMATS[next(iter(endings))]


def _score_for(score: str | None, kind: Kind) -> str:
    scores = ("spearman", "pearson") if kind == "similarity" else ("accuracy", "matthews", "macro_f1")
    if score is not None and score not in scores:
        raise DataError(f"score {score!r} does not fit a {kind} task; use {' or '.join(scores)}")
    return score or scores[0]


def _checked_range(kind: Kind, score_range: tuple[float, float] | None) -> tuple[float, float] | None:
    if kind != "similarity":
        if score_range is not None:
            raise DataError(f"a {kind} task has labels, not scores; leave out {option('score_range', 'LOW,HIGH')}")
        return None
    # Never guessed: training divides by the scale, and a wrong one would not be noticed.
    if score_range is None or not score_range[0] < score_range[1]:
        rule = f"the two ends of its scale, lowest first, not {score_range}"
        raise DataError(f"a similarity task needs {rule}: {option('score_range', 'LOW,HIGH')}")
    return (float(score_range[0]), float(score_range[1]))


def _checked_columns(columns: Mapping[str, str], kind: Kind, format: Format) -> dict[str, str]:
    roles = ROLES[kind]
    wrong = next((role for role in columns if role not in roles), None)
    if wrong is not None:
        choice = column_option(wrong, columns[wrong])
        raise DataError(f"{choice} names {wrong!r}; a {kind} task has {name_list(roles, near=wrong)}")
    if format == "conll" and columns:
        raise DataError("a two-column file has no named columns; leave out the names of columns")
    return {"label": _WORD_LABELS[kind], **columns} if kind in _WORD_LABELS and format != "conll" else dict(columns)
