"""Queries with judged documents: BEIR's folders of texts, and tables of judgements for vectors."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.spelling import option
from theodolite.spaces.readers.data_files import AnyPath, DataError, File, excerpt, locate, name_list, suggestion
from theodolite.spaces.readers.delimited import DelimitedTable, JsonTable
from theodolite.spaces.readers.table_vectors import open_parquet

CORPUS, QUERIES, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels"
_TABLES = (".tsv", ".csv", ".jsonl", ".parquet")
NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Judgements:
    """Which documents are relevant to which queries: three arrays of one length.

    Parameters
    ----------
    query, document
        Row numbers from 0; a document that is relevant but has no vector is `NOWHERE`.
    grade
        How relevant, above 0.
    """

    query: NDArray[np.intp]
    document: NDArray[np.intp]
    grade: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Collection:
    """Texts to search in, queries, and which documents answer them.

    Parameters
    ----------
    name
        Name of the collection and of its split.
    documents, queries
        The texts: documents that are not empty, and queries with a relevant document.
    judgements
        Which of the documents are relevant to which of the queries.
    notes
        Sentences on what was left out.
    """

    name: str
    documents: tuple[str, ...]
    queries: tuple[str, ...]
    judgements: Judgements
    notes: tuple[str, ...] = ()


def read_beir(folder: AnyPath, split: str | None = None) -> Collection:
    """A collection in BEIR's layout: `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`.

    A document is its title and its text. Documents without text, and queries that the split does not judge, are left out; a
    relevant document without text still counts as one that should have been retrieved.

    Parameters
    ----------
    folder
        The folder.
    split
        Which file of `qrels`, without its ending; `test` by default, or the only one.

    Raises
    ------
    DataError
        A file is missing, or a judgement names an id that is not there; the message names file and line.
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise DataError(f"{place} is not a folder; {option('retrieval', 'FOLDER')} holds {CORPUS}, {QUERIES} and {JUDGEMENTS}/")
    for name in (CORPUS, QUERIES):
        if not (place / name).is_file():
            raise DataError(f"there is no {name} in it; a BEIR folder has {CORPUS}, {QUERIES} and {JUDGEMENTS}/*.tsv", place)
    file = _judgement_file(place, split)
    documents, queries = (dict(_texts(locate(place / name))) for name in (CORPUS, QUERIES))
    grades = _grades(file, queries, documents)
    if not grades:
        raise DataError("no query has a relevant document (a score above 0); there is nothing to measure by", file)
    with_text = [name for name, text in documents.items() if text.strip()]
    relevant = {query for query, _ in grades}
    judged = [name for name in queries if name in relevant]
    rows, columns = ({name: i for i, name in enumerate(names)} for names in (judged, with_text))
    notes = [
        f"{count:,} {what}"
        for count, what in (
            (len(documents) - len(with_text), "documents without text were left out"),
            (len(queries) - len(judged), f"queries without a relevant document in {file.name} were left out"),
        )
        if count
    ]
    return Collection(
        name=f"{place.name} {Path(file.name).stem}",
        documents=tuple(documents[name] for name in with_text),
        queries=tuple(queries[name] for name in judged),
        judgements=Judgements(
            np.array([rows[query] for query, _ in grades], dtype=np.intp),
            np.array([columns.get(document, NOWHERE) for _, document in grades], dtype=np.intp),
            np.array(list(grades.values()), dtype=np.float64),
        ),
        notes=tuple(notes),
    )


def read_corpus(folder: AnyPath) -> list[str]:
    """The documents of a collection in BEIR's layout, as `read_beir` has them: title and text, those without text left out."""
    return [text for _, text in _texts(locate(Path(folder).expanduser() / CORPUS)) if text]


def judgements_of(table: Any, *, queries: int, documents: int) -> Judgements:
    """Judgements from a table whose rows are query, document and, if there is a third column, grade."""
    grades: dict[tuple[int, int], float] = {}
    for where, cells in _table_rows(table):
        if len(cells) not in (2, 3):
            raise DataError(f"the row has {len(cells)} columns; a judgement is query, document and grade", where)
        query = _row_number(cells[0], queries, "query", "queries", where)
        document = _row_number(cells[1], documents, "document", "documents", where)
        grade = _grade(cells[2] if len(cells) == 3 else 1.0, where)
        if grade > 0:
            grades[query, document] = max(grade, grades.get((query, document), 0.0))
    missing = sorted(set(range(queries)) - {query for query, _ in grades})
    if missing:
        fault = f"query {missing[0]} has no judged document with a grade above 0 ({len(missing)} of {queries} have none)"
        raise ValueError(f"{fault}; judge it, or leave its vector out of the queries")
    pairs = np.array(list(grades), dtype=np.intp).reshape(-1, 2)
    return Judgements(pairs[:, 0], pairs[:, 1], np.array(list(grades.values()), dtype=np.float64))


def _judgement_file(folder: Path, split: str | None) -> File:
    places = sorted((folder / JUDGEMENTS).glob("*.tsv"))
    names = [path.stem for path in places]
    if not names:
        raise DataError(f"there is no {JUDGEMENTS}/*.tsv in it; without judgements there is nothing to measure by", folder)
    wanted = split or ("test" if "test" in names else names[0] if len(names) == 1 else None)
    if wanted is None or wanted not in names:
        fault = f"there is no split {wanted!r}" if wanted else "there are several splits"
        choice = option("split", names[0])
        raise DataError(f"{fault}; name one of {name_list(names)}{suggestion(wanted or '', names)}: {choice}", folder)
    return locate(folder / JUDGEMENTS / f"{wanted}.tsv")


def _texts(file: File) -> Iterator[tuple[str, str]]:
    """Ids and texts; the title comes first, as in BEIR."""
    seen: set[str] = set()
    for line, record in JsonTable(file).rows():
        if not isinstance(record, dict) or "_id" not in record or not isinstance(record.get("text"), str):
            raise DataError("the line is not an object with `_id` and `text`", file, line)
        name = str(record["_id"])
        if name in seen:
            raise DataError(f"the id {name!r} is there twice; every id must be given once", file, line)
        seen.add(name)
        yield name, f"{record.get('title') or ''} {record['text']}".strip()


def _grades(file: File, queries: Iterable[str], documents: Iterable[str]) -> dict[tuple[str, str], float]:
    """Grades above 0 by query and document; of two for the same pair the higher one."""
    grades: dict[tuple[str, str], float] = {}
    known = {"query": (set(queries), QUERIES), "document": (set(documents), CORPUS)}
    for line, cells in DelimitedTable(file, delimiter="\t", quoting=False, has_header=True).rows():
        if len(cells) != 3:
            raise DataError(f"the line has {len(cells)} columns; it must be query-id, corpus-id and score", file, line)
        for (what, (names, source)), name in zip(known.items(), cells, strict=False):
            if name not in names:
                raise DataError(f"the {what} id {excerpt(name)} is not in {source}; correct the id, or drop the line", file, line)
        grade = _grade(cells[2], f"{file}, line {line}")
        if grade > 0:
            grades[cells[0], cells[1]] = max(grade, grades.get((cells[0], cells[1]), 0.0))
    return grades


def _table_rows(table: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """Where a row is, for messages, and its cells."""
    if not isinstance(table, (str, os.PathLike)):
        rows = table.to_numpy() if hasattr(table, "to_numpy") else table
        yield from ((f"judgement {number}", row) for number, row in enumerate(np.asarray(rows, dtype=object).tolist()))
        return
    file = locate(table)
    if file.ending not in _TABLES:
        raise DataError(f"judgements are a table ({', '.join(_TABLES)}), not {file.ending or 'a file without ending'}", file)
    if file.ending == ".parquet":
        with open_parquet(file) as parquet:
            records = parquet.read().to_pylist()
        yield from ((f"{file}, row {number}", list(record.values())) for number, record in enumerate(records))
        return
    lines = JsonTable(file).rows() if file.ending == ".jsonl" else DelimitedTable(file).rows()
    for line, record in lines:
        values = list(record.values()) if isinstance(record, dict) else record
        yield f"{file}, line {line}", values if isinstance(values, list) else [values]


def _row_number(value: Any, count: int, what: str, plural: str, where: str) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not number.is_integer() or not 0 <= number < count:
        raise DataError(f"{what} {value!r} is not one of the {count} {plural}, which are numbered from 0 to {count - 1}", where)
    return int(number)


def _grade(value: Any, where: str) -> float:
    try:
        grade = float(value)
    except (TypeError, ValueError, OverflowError):
        grade = math.nan
    if not math.isfinite(grade):
        raise DataError(f"the grade {value!r} is not a number; correct it, or drop the judgement", where)
    return grade
