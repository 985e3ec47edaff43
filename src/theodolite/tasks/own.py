"""A user's own files are a task too."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, get_args

from theodolite.tasks.errors import DataError, close_to, listed
from theodolite.tasks.scores import SCORES
from theodolite.tasks.task import Format, Kind, Layout, Task

PathLike: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = PathLike | Sequence[PathLike]

FORMATS: dict[str, Format] = {
    ".csv": "table",
    ".tsv": "table",
    ".tab": "table",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conllu": "conllu",
    ".conllup": "conllu",
    ".conll": "conll",
    ".iob": "conll",
    ".bio": "conll",
    ".txt": "conll",
}
"""Formats by the ending of the file."""

_OF_TEXTS: tuple[Format, ...] = ("table", "jsonl")
_OF_WORDS: dict[str, tuple[Format, ...]] = {"tagging": ("conllu", "conll"), "word_pairs": ("conllu",)}
_ROLES: dict[str, tuple[str, ...]] = {
    "similarity": ("text", "text_b", "score"),
    "classification": ("text", "label"),
    "pair_classification": ("text", "text_b", "label"),
    "tagging": ("label",),
    "word_pairs": ("label",),
}
_LABELS = {"tagging": "upos", "word_pairs": "deprel"}


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
    encoding: str = "utf-8",
) -> Task:
    """A task from files of one's own: `paths` by split (`{"train": ..., "test": ...}`; one path alone is the train split).

    Texts come as `.csv`, `.tsv` or `.jsonl` with columns text, text_b (pairs), label or score, or what `columns` names instead.
    Words come as `.conllu` (`columns={"label": "xpos"}`, `"misc:Entity"` and the like choose the label; word pairs are heads and
    dependents with their deprel) or as a two-column `.conll`. Quotes are read as quotes in `.csv`, as text in `.tsv`.
    """
    files = _by_split(paths)
    kinds = get_args(Kind)
    if kind not in kinds:
        raise DataError(f"kind {kind!r} is none of {listed(kinds)}{close_to(kind, kinds)}")
    chosen = format or _format(files)
    fitting = _OF_WORDS.get(kind, _OF_TEXTS)
    if chosen not in fitting:
        raise DataError(f"a {kind} task is read from {' or '.join(_endings(fitting))}, not from {_first(files)} ({chosen})")
    ending = Path(_first(files)).suffix.lower()
    mark = delimiter if delimiter is not None else _delimiter(chosen, ending)
    return Task(
        name=name,
        kind=kind,
        score=_score(score, kind),
        splits=files,
        labels=None if labels is None else tuple(labels),
        score_range=_scale(kind, score_range),
        layout=Layout(
            format=chosen,
            columns=_columns(columns or {}, kind, chosen),
            encoding=encoding,
            delimiter=mark,
            quoting=quoting if quoting is not None else chosen == "table" and mark != "\t",
        ),
    )


def _by_split(paths: Paths | Mapping[str, Paths]) -> dict[str, tuple[str, ...]]:
    by_split = paths if isinstance(paths, Mapping) else {"train": paths}
    files = {split: _strings(given) for split, given in by_split.items()}
    empty = next((split for split, given in files.items() if not given), None)
    if not files or empty is not None:
        raise DataError(f"split {empty!r} has no file; give at least one" if files else "there is no file; give at least one")
    return files


def _strings(given: Paths) -> tuple[str, ...]:
    return (os.fspath(given),) if isinstance(given, (str, os.PathLike)) else tuple(os.fspath(path) for path in given)


def _first(files: Mapping[str, tuple[str, ...]]) -> str:
    return next(iter(files.values()))[0]


def _format(files: Mapping[str, tuple[str, ...]]) -> Format:
    endings = {Path(file).suffix.lower(): file for given in files.values() for file in given}
    for ending, file in endings.items():
        if ending not in FORMATS:
            raise DataError(f"the ending {ending!r} is not known; use {listed(list(FORMATS))}, or give format=", file=file)
    if len(endings) > 1 and len({(FORMATS[ending], ending == ".csv") for ending in endings}) > 1:
        raise DataError(f"the files have different formats ({listed(list(endings))}); write all splits in one")
    return FORMATS[next(iter(endings))]


def _endings(formats: Sequence[Format]) -> list[str]:
    return [ending for ending, format in FORMATS.items() if format in formats]


def _delimiter(format: Format, ending: str) -> str:
    return "," if format == "table" and ending not in (".tsv", ".tab") else "\t"


def _score(score: str | None, kind: Kind) -> str:
    fitting = ("spearman", "pearson") if kind == "similarity" else ("accuracy", "matthews", "macro_f1")
    assert set(fitting) <= set(SCORES)
    if score is not None and score not in fitting:
        raise DataError(f"score {score!r} does not fit a {kind} task; use {' or '.join(fitting)}")
    return score or fitting[0]


def _scale(kind: Kind, score_range: tuple[float, float] | None) -> tuple[float, float] | None:
    if kind != "similarity":
        if score_range is not None:
            raise DataError(f"a {kind} task has labels, no scores; leave score_range= (--score-range) out")
        return None
    # Never guessed: training divides by the scale, and a wrong one would pass unseen.
    if score_range is None or not score_range[0] < score_range[1]:
        raise DataError(
            f"score_range={score_range} must be the two ends of the scale of the scores, lowest first, "
            "such as (0, 5) (--score-range 0 5)"
        )
    return (float(score_range[0]), float(score_range[1]))


def _columns(columns: Mapping[str, str], kind: Kind, format: Format) -> dict[str, str]:
    known = _ROLES[kind]
    wrong = next((role for role in columns if role not in known), None)
    if wrong is not None:
        raise DataError(f"columns= names {wrong!r}; a {kind} task has {listed(known)}{close_to(wrong, known)}")
    if format == "conll" and columns:
        raise DataError("a two-column file has no named columns; leave columns= (--columns) out")
    return {"label": _LABELS[kind], **columns} if kind in _OF_WORDS and format != "conll" else dict(columns)
