"""Queries with judged documents: BEIR's folders of texts, and tables of judgements for vectors."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.core.files import parse_json
from theodolite.core.spelling import name_list, option
from theodolite.spaces.readers.data_files import AnyPath, DataError, EmptyFileError, File, excerpt, locate
from theodolite.spaces.readers.delimited import DelimitedTable, JsonTable
from theodolite.spaces.readers.label_files import TABLE_ENDINGS
from theodolite.spaces.readers.table_vectors import open_parquet
from theodolite.spaces.readers.text_files import read_texts
from theodolite.tasks.task import column_option

CORPUS, QUERIES, JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels"
_TABLES = (".tsv", ".csv", ".jsonl", ".parquet")
# Columns that hold the ids of rows, the first that a table has.
ID_COLUMNS = ("id", "_id")
# Files that are not read as one text per line.
NOT_TEXT = (".json", ".npy", ".npz", ".safetensors", ".arrow", ".feather", ".xlsx", ".pdf", ".html", ".xml", ".zip", ".gz")
# What the first column of a table of judgements may be called.
HEADERS = ("query", "query-id", "query_id", "queryid", "qid")
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
    document_ids, query_ids
        What the collection calls each of them; empty if it has no names for them.
    """

    name: str
    documents: tuple[str, ...]
    queries: tuple[str, ...]
    judgements: Judgements
    notes: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    query_ids: tuple[str, ...] = ()


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
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; {option('retrieval', 'FOLDER')} holds {CORPUS}, {QUERIES} and {JUDGEMENTS}/")
    for name in (CORPUS, QUERIES):
        if not (folder / name).is_file():
            raise DataError(f"there is no {name} in it; a BEIR folder has {CORPUS}, {QUERIES} and {JUDGEMENTS}/*.tsv", folder)
    file = _judgement_file(folder, split)
    documents, queries = (_texts(locate(folder / name)) for name in (CORPUS, QUERIES))
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
        name=f"{folder.name} {Path(file.name).stem}",
        documents=tuple(documents[name] for name in with_text),
        queries=tuple(queries[name] for name in judged),
        judgements=Judgements(
            np.array([rows[query] for query, _ in grades], dtype=np.intp),
            np.array([columns.get(document, NOWHERE) for _, document in grades], dtype=np.intp),
            np.array(list(grades.values()), dtype=np.float64),
        ),
        notes=tuple(notes),
        document_ids=tuple(with_text),
        query_ids=tuple(judged),
    )


@dataclass(frozen=True, eq=False)
class TextRecords:
    """Texts with the ids that their file gives them, or None if it gives none; rows without text are left out."""

    texts: tuple[str, ...]
    ids: tuple[str, ...] | None = None


def read_text_records(
    path: AnyPath,
    columns: Mapping[str, str] | None = None,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
) -> TextRecords:
    """The texts of a BEIR folder (its documents), of a table (.jsonl, .csv, .tsv, .parquet), or of a file with one text per line.

    `columns` says which columns of a table hold the `text` and the `id`; by default those of these names, `_id` for an id. The
    `title` of a BEIR document comes before its text.
    """
    columns = dict(columns or {})
    if unknown := sorted(set(columns) - {"text", "id"}):
        raise DataError(f"{column_option(unknown[0], 'NAME')} does not apply; a table of texts has a text and an id", path)
    if Path(path).expanduser().is_dir():
        path = Path(path).expanduser() / CORPUS
        if not path.is_file():
            raise DataError(f"there is no {CORPUS} in it; a folder of texts is one in BEIR's layout", path.parent)
    file = locate(path)
    if file.ending not in TABLE_ENDINGS:
        return TextRecords(tuple(_text_lines(path, file, columns, encoding)))
    names, rows = _records(file, encoding, delimiter, header)
    if not names and not columns:  # a line of JSON may be a text by itself
        pairs: list[tuple[str, Any, Any]] = [(where, None, value) for where, value in rows]
    else:
        # The first line of a table without names would be lost if it were taken for the name of the only column.
        is_only = len(names) == 1 and (file.ending in (".jsonl", ".parquet") or header is False)
        text = columns.get("text") or ("text" if "text" in names else names[0] if is_only else "")
        name = columns.get("id") or next((name for name in ID_COLUMNS if name in names and name != text), None)
        for role, wanted in (("text", text), ("id", name)):
            if wanted is not None and wanted not in names:
                problem = f"there is no column {wanted!r}" if wanted else "no column is called text"
                way = f"name the column of {role}s, one of {name_list(names)}: {column_option(role, 'NAME')}"
                raise DataError(f"{problem}; {way}", file)
        title = "title" if "title" in names and name == "_id" and not columns else None
        pairs = []
        for where, record in rows:
            cells = [record.get(column) if column else None for column in (name, text, title)]
            pairs.append((where, cells[0], f"{cells[2] or ''} {cells[1]}".strip() if isinstance(cells[1], str) else cells[1]))
    for where, _, value in pairs:
        if not isinstance(value, str):
            raise DataError(f"{excerpt(str(value))} is not text; correct it, or drop the row", where)
    kept = [(where, name, value) for where, name, value in pairs if value.strip()]
    if not kept:
        raise EmptyFileError("the file holds no text; write one text per row", file)
    ids = None if kept[0][1] is None else unique_ids([_id(where, value) for where, value, _ in kept], file)
    return TextRecords(tuple(value for _, _, value in kept), ids)


def _text_lines(path: AnyPath, file: File, columns: Mapping[str, str], encoding: str | None) -> list[str]:
    """The texts of a file with one text per line; an error if it is evidently something else."""
    way = f"give a .txt file with one text per line, or a table ({', '.join(TABLE_ENDINGS)})"
    if file.ending in NOT_TEXT:
        raise DataError(f"{file.ending} is not a file of texts; {way}", file)
    if columns:
        name = column_option("text", columns.get("text", "NAME"))
        raise DataError(f"{name} is for a table, but this file has one text per line; leave it out", file)
    texts = read_texts(path, encoding or "utf-8")
    first = texts[0].strip()
    try:
        is_json = first.startswith(("{", "[")) and parse_json(first) is not None
    except ValueError:
        is_json = False
    if is_json:
        raise DataError("the first line is JSON, not a text; rename the file to .jsonl, or write one text per line", file)
    return texts


def _records(
    file: File, encoding: str | None, delimiter: str | None, header: bool | None
) -> tuple[list[str], list[tuple[str, Any]]]:
    """The names of a table's columns, and its rows as dictionaries, each with where it is; JSON values without names too."""
    if file.ending == ".parquet":
        with open_parquet(file) as parquet:
            names = list(parquet.schema_arrow.names)
            return names, [(f"{file}, row {number}", record) for number, record in enumerate(parquet.read().to_pylist())]
    if file.ending == ".jsonl":
        lines = [(f"{file}, line {line}", value) for line, value in JsonTable(file, encoding=encoding).rows()]
        if all(isinstance(value, str) for _, value in lines):
            return [], lines
        for where, value in lines:
            if not isinstance(value, dict):
                raise DataError("the line is not an object such as {'text': ...}; write one object per line", where)
        return list(dict.fromkeys(name for _, record in lines for name in record)), lines
    table = DelimitedTable(file, encoding=encoding, delimiter=delimiter, has_header=True if header is None else header)
    return table.names, [(f"{file}, line {line}", dict(zip(table.names, cells, strict=True))) for line, cells in table.rows()]


def _id(where: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise DataError(f"the id {excerpt(str(value))} must be text or a whole number; every row needs one", where)
    return str(value)


def unique_ids(ids: Sequence[str], where: Any) -> tuple[str, ...]:
    """The ids, if each is there once."""
    repeated = next((name for name, count in Counter(ids).items() if count > 1), None)
    if repeated is not None:
        raise DataError(f"the id {repeated!r} occurs twice; every id must be unique", where)
    return tuple(ids)


def judgements_of(table: Any, *, queries: int | Sequence[str], documents: int | Sequence[str]) -> Judgements:
    """Judgements from a table whose rows are query, document and, if there is a third column, grade.

    Queries and documents that have ids are named by them. Without ids, `queries` and `documents` are how many there are, and row
    numbers from 0 name them.
    """
    sides = {"query": _numbers(queries, "queries"), "document": _numbers(documents, "documents")}
    grades: dict[tuple[int, int], float] = {}
    for where, cells in _table_rows(table):
        if len(cells) not in (2, 3):
            raise DataError(f"the row has {len(cells)} columns; a judgement has a query, a document and a grade", where)
        query, document = (number(what, cell, where) for (what, number), cell in zip(sides.items(), cells, strict=False))
        grade = _grade(cells[2] if len(cells) == 3 else 1.0, where)
        if grade > 0:
            grades[query, document] = max(grade, grades.get((query, document), 0.0))
    count = queries if isinstance(queries, int) else len(queries)
    missing = sorted(set(range(count)) - {query for query, _ in grades})
    if missing:
        name = missing[0] if isinstance(queries, int) else repr(queries[missing[0]])
        problem = f"query {name} has no judged document with a grade above 0 ({len(missing)} of {count} have none)"
        raise ValueError(f"{problem}; judge it, or leave it out of the queries")
    pairs = np.array(list(grades), dtype=np.intp).reshape(-1, 2)
    return Judgements(pairs[:, 0], pairs[:, 1], np.array(list(grades.values()), dtype=np.float64))


def _numbers(items: int | Sequence[str], plural: str) -> Callable[[str, Any, str], int]:
    """A function from how a judgement names a query or document to its row number."""
    if isinstance(items, int):
        return lambda what, value, where: _row_number(value, items, what, plural, where)
    rows = {name: row for row, name in enumerate(items)}

    def find(what: str, value: Any, where: str) -> int:
        name = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
        if name not in rows:
            some = name_list(list(islice(rows, 3)))
            rule = f"the {plural} have ids ({some}, ...), so judgements must name these, not row numbers"
            raise DataError(f"{what} {excerpt(name)} is not the id of one of the {len(rows):,} {plural}; {rule}", where)
        return rows[name]

    return find


def _judgement_file(folder: Path, split: str | None) -> File:
    names = [path.stem for path in sorted((folder / JUDGEMENTS).glob("*.tsv"))]
    if not names:
        raise DataError(f"there is no {JUDGEMENTS}/*.tsv in it; without judgements there is nothing to measure by", folder)
    wanted = split or ("test" if "test" in names else names[0] if len(names) == 1 else None)
    if wanted is None or wanted not in names:
        problem = f"there is no split {wanted!r}" if wanted else "there are several splits"
        choice = option("split", names[0])
        raise DataError(f"{problem}; name one of {name_list(names, near=wanted or '')}: {choice}", folder)
    return locate(folder / JUDGEMENTS / f"{wanted}.tsv")


def _texts(file: File) -> dict[str, str]:
    """Texts by id; the title comes first, as in BEIR."""
    texts: dict[str, str] = {}
    for line, record in JsonTable(file).rows():
        if not isinstance(record, dict) or "_id" not in record or not isinstance(record.get("text"), str):
            raise DataError("the line is not an object with `_id` and `text`", file, line)
        name = str(record["_id"])
        if name in texts:
            raise DataError(f"the id {name!r} occurs twice; every id must be unique", file, line)
        texts[name] = f"{record.get('title') or ''} {record['text']}".strip()
    return texts


def _grades(file: File, queries: Mapping[str, str], documents: Mapping[str, str]) -> dict[tuple[str, str], float]:
    """Grades above 0 by query and document; of two for the same pair the higher one."""
    grades: dict[tuple[str, str], float] = {}
    sides = (("query", queries, QUERIES), ("document", documents, CORPUS))
    for line, cells in DelimitedTable(file, delimiter="\t", quoting=False, has_header=True).rows():
        if len(cells) != 3:
            raise DataError(f"the line has {len(cells)} columns; it must have query-id, corpus-id and score", file, line)
        for (what, texts, source), name in zip(sides, cells, strict=False):
            if name not in texts:
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
    lines = JsonTable(file).rows() if file.ending == ".jsonl" else DelimitedTable(file, has_header=False).rows()
    for line, record in lines:
        if line == 1 and isinstance(record, list) and str(record[0]).strip().lower() in HEADERS:
            continue
        values = list(record.values()) if isinstance(record, dict) else record
        yield f"{file}, line {line}", values if isinstance(values, list) else [values]


def _row_number(value: Any, count: int, what: str, plural: str, where: str) -> int:
    number = _number(value)
    if not number.is_integer() or not 0 <= number < count:
        raise DataError(f"{what} {value!r} is not one of the {count} {plural}, which are numbered from 0 to {count - 1}", where)
    return int(number)


def _grade(value: Any, where: str) -> float:
    grade = _number(value)
    if not math.isfinite(grade):
        raise DataError(f"the grade {value!r} is not a number; correct it, or drop the judgement", where)
    return grade


def _number(value: Any) -> float:
    """A value as a number; nan if it is not one."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
