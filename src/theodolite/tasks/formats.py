"""Readers of the files of every task: texts with labels or scores, and words with labels in treebanks.

Each takes a task and one of its files, and gives what the file holds, in file order: records of texts, or sentences of words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from theodolite.core.spelling import name_list, option
from theodolite.spaces.readers.data_files import DataError, excerpt, locate
from theodolite.spaces.readers.delimited import DelimitedTable, JsonTable
from theodolite.tasks.task import Format, Task, column_option

# The folder of the demo's files, inside the package.
EMBEDDED = Path(__file__).parent / "embedded"

# The columns of CoNLL-U, and of STREUSLE's `.conllulex`.
_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_LEX_COLUMNS = (*_COLUMNS, "smwe", "lexcat", "lexlemma", "ss", "ss2", "wmwe", "wcat", "wlemma", "lextag")

_STS_WIDTHS = (7, 9)  # two columns of licences follow the sentences in some lines
_STS_SCORE, _STS_FIRST, _STS_SECOND = 4, 5, 6
_COLA_WIDTH, _COLA_LABEL, _COLA_TEXT = 4, 1, 3
_ANOTHER_LAYOUT = "read another layout as a task of your own"
_ID = re.compile(r"(\d+)(?:([-.])(\d+))?")


@dataclass(frozen=True)
class Record:
    """One labelled or scored text, or pair of texts, as a file has it. `split` is set if the file holds several splits."""

    file: Path
    line: int
    text: str
    second: str | None = None
    label: str | None = None
    score: str | float | None = None
    split: str | None = None


class Mark(NamedTuple):
    """The label of one word of a sentence, or of a (head, dependent) pair; `words` are positions from 0."""

    words: tuple[int, ...]
    label: str
    line: int


class Sentence(NamedTuple):
    """The words of a sentence, and the labels of some of them."""

    file: Path
    words: tuple[str, ...]
    marks: tuple[Mark, ...]


class Word(NamedTuple):
    """One line of a treebank. `is_empty` marks a node that stands for a word left out of the text."""

    line: int
    id: str
    is_empty: bool
    cells: Mapping[str, str]


# Texts


def _read_sts(task: Task, file: Path) -> Iterator[Record]:
    """The pairs of an STS-Benchmark file: tab-separated whatever its ending says, no header, quotes are text."""
    # Split by hand: for the csv module a lone quote would open a cell and swallow the lines that follow.
    for line, text in _lines(task, file):
        cells = text.split("\t")
        if len(cells) not in _STS_WIDTHS:
            rule = f"an STS-Benchmark file has 7 or 9; {_ANOTHER_LAYOUT}"
            raise DataError(f"the line has {len(cells)} tab-separated columns, but {rule}", file, line)
        yield Record(file, line, cells[_STS_FIRST], cells[_STS_SECOND], score=cells[_STS_SCORE])


def _read_cola(task: Task, file: Path) -> Iterator[Record]:
    """The sentences of CoLA, without a header: source, 0 or 1, the author's mark, sentence."""
    for line, text in _lines(task, file):
        cells = text.split("\t")
        if len(cells) != _COLA_WIDTH:
            raise DataError(f"the line has {len(cells)} tab-separated columns, but CoLA has {_COLA_WIDTH}", file, line)
        yield _with_label_name(task, Record(file, line, cells[_COLA_TEXT], label=cells[_COLA_LABEL]))


def _read_trec(task: Task, file: Path) -> Iterator[Record]:
    """The questions of TREC, `COARSE:fine question` on every line, with the label that the task asks for."""
    for line, text in _lines(task, file):
        fine, _, question = text.partition(" ")
        coarse, colon, detail = fine.partition(":")  # "NUM:dist" is a fine label, "NUM" its coarse one
        if not (coarse and colon and detail):
            raise DataError(f"{excerpt(fine)} before the question is not a label such as NUM:dist", file, line)
        yield Record(file, line, question.strip(), label=coarse if task.layout.columns["label"] == "coarse" else fine)


def _read_table(task: Task, file: Path) -> Iterator[Record]:
    """The examples of a table with named columns: a `.csv`, `.tsv` or `.jsonl` file, GLUE's RTE and MRPC, or the demo's sets.

    The demo's sets have all splits in one file, whose column `split` names them.
    """
    layout, located = task.layout, locate(file)
    if layout.format == "jsonl":
        table: DelimitedTable | JsonTable = JsonTable(located, encoding=layout.encoding)
    else:
        table = DelimitedTable(
            located,
            encoding=layout.encoding,
            delimiter=layout.delimiter,
            quoting=layout.quoting,
            has_header=layout.header,
            is_own=not layout.folders,
        )
    roles = (*task.roles, "split") if layout.format == "embedded" else task.roles
    columns = {role: layout.columns.get(role, role) for role in roles}
    # The columns of a release are declared, those of one's own files can be chosen.
    hint = _ANOTHER_LAYOUT if layout.folders else f"choose it with {column_option('ROLE', 'NAME')}"
    for line, cells in table.select(columns, f"; {hint}"):
        if layout.format == "jsonl":
            cells = {role: _json_text(file, line, role, value) for role, value in cells.items()}
        record = Record(file, line, cells["text"], *(cells.get(role) for role in ("text_b", "label", "score", "split")))
        if record.split is not None and record.split not in task.splits:
            raise DataError(f"split {excerpt(record.split)} is not one of {name_list(list(task.splits))}", file, line)
        yield _with_label_name(task, record) if layout.format == "glue" else record


def _lines(task: Task, file: Path) -> Iterator[tuple[int, str]]:
    """(line number, line) of the lines that are not blank."""
    return chain.from_iterable(_runs(task, file))


def _runs(task: Task, file: Path) -> Iterator[Iterator[tuple[int, str]]]:
    """Runs of lines that are not blank, such as the sentences of a treebank, as (line number, line)."""
    # All at once: a generator that an error leaves behind would keep the file open.
    lines = list(locate(file).numbered_lines(task.layout.encoding))
    return (run for is_blank, run in groupby(lines, key=lambda numbered: not numbered[1].strip()) if not is_blank)


def _with_label_name(task: Task, record: Record) -> Record:
    """The record with its label by name: some releases write 0 and 1, RTE writes words."""
    assert task.labels is not None
    label = record.label or ""
    if label in task.labels:
        return record
    if label not in ("0", "1"):
        raise DataError(f"label {excerpt(label)} must be 0 ({task.labels[0]}) or 1 ({task.labels[1]})", record.file, record.line)
    return replace(record, label=task.labels[int(label)])


def _json_text(file: Path, line: int, role: str, value: Any) -> str:
    """A JSON value as the text of a cell: a label may be a number or true, a score only a number, a text only text."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(value, str) and role != "score":
        return value
    if (is_number and role in ("label", "score")) or (isinstance(value, bool) and role == "label"):
        return json.dumps(value)
    rule = "a number" if role == "score" else "text"
    raise DataError(f"the {role} is {excerpt(json.dumps(value))}; it must be {rule}", file, line)


# Words


def _read_conll(task: Task, file: Path) -> Iterator[Sentence]:
    """The sentences of a two-column file: `word<TAB>label` on a line, a blank line between sentences."""
    for run in _runs(task, file):
        words: list[str] = []
        marks: list[Mark] = []
        for line, text in run:
            cells = text.split(task.layout.delimiter)
            if len(cells) != 2 or not cells[0].strip():
                problem = f"the line has {len(cells)} columns; it must be a word, {task.layout.delimiter!r} and its label"
                hint = f"use CoNLL-U (.conllu) for more columns, or {option('delimiter', 'TEXT')} for another separator"
                raise DataError(f"{problem}: {hint}", file, line)
            marks.append(Mark((len(words),), cells[1], line))
            words.append(cells[0])
        yield Sentence(file, tuple(words), tuple(marks))


def _read_conllu(task: Task, file: Path) -> Iterator[Sentence]:
    """The sentences of a treebank, words labelled with a column, or (head, dependent) pairs with their relation."""
    column = task.layout.columns["label"]
    for words in _sentences(task, file, _COLUMNS):
        marks = _tags(file, words, column) if task.kind == "tagging" else _relations(file, words, column)
        yield Sentence(file, tuple(word.cells["form"] for word in words), tuple(marks))


def _read_streusle(task: Task, file: Path) -> Iterator[Sentence]:
    """The sentences of STREUSLE, prepositions and possessives labelled with scene role (SS) or function (SS2)."""
    column = task.layout.columns["label"]
    for words in _sentences(task, file, _LEX_COLUMNS):
        # Only words outside strong multiword expressions; the supersenses of prepositions and possessives begin with "p.".
        targets = [i for i, word in enumerate(words) if word.cells["smwe"] == "_" and word.cells["ss"].startswith("p.")]
        marks = tuple(Mark((i,), words[i].cells[column], words[i].line) for i in targets)
        yield Sentence(file, tuple(word.cells["form"] for word in words), marks)


def _sentences(task: Task, file: Path, columns: Sequence[str]) -> Iterator[list[Word]]:
    """The words of each sentence of a treebank, without empty nodes unless the task counts them.

    Lines of multiword tokens (`3-4`) are skipped. A line `# global.columns = …` declares other columns.
    """
    for run in _runs(task, file):
        words: list[Word] = []
        count = 0
        for line, text in run:
            if text.startswith("# global.columns ="):
                columns = [name.lower() for name in text.partition("=")[2].split()]
                if not {"id", "form"} <= set(columns):
                    problem = f"the columns are {name_list(columns)}; there must be ID and FORM among them"
                    raise DataError(problem, file, line)
            word = None if text.startswith("#") else _parse_word(file, line, text, columns)
            if word is None:
                continue
            # Heads refer to ids, so a gap in them would silently attach words to the wrong head.
            count += not word.is_empty
            if not word.is_empty and word.id != str(count):
                raise DataError(f"word id {word.id} should be {count}; ids count the words in a sentence", file, line)
            if task.layout.empty_nodes or not word.is_empty:
                words.append(word)
        if words:
            yield words


def _parse_word(file: Path, line: int, text: str, columns: Sequence[str]) -> Word | None:
    cells = text.split("\t")
    if len(cells) != len(columns):
        problem = f"the line has {len(cells)} tab-separated columns, but this format has {len(columns)}"
        raise DataError(f"{problem}; put a blank line between sentences and tabs between columns", file, line)
    by_column = dict(zip(columns, cells, strict=True))
    match = _ID.fullmatch(by_column["id"])
    if match is None:
        raise DataError(f"{excerpt(by_column['id'])} is not a word id such as 3, 3-4 or 3.1", file, line)
    # 3-4 is a token such as "don't" that is written as one and analysed as two words, which follow.
    return None if match[2] == "-" else Word(line, by_column["id"], match[2] == ".", by_column)


def _tags(file: Path, words: Sequence[Word], column: str) -> Iterator[Mark]:
    for position, word in enumerate(words):
        label = _cell(file, word, column)
        if label != "_":  # not annotated, so not an example
            yield Mark((position,), label, word.line)


def _relations(file: Path, words: Sequence[Word], column: str) -> Iterator[Mark]:
    position = {word.id: i for i, word in enumerate(words)}
    for dependent, word in enumerate(words):
        if word.is_empty:  # its relations are in the enhanced graph, not in the tree
            continue
        head, relation = _cell(file, word, "head"), _cell(file, word, column)
        if head != "0" and head not in position:
            problem = f"head {excerpt(head)} of {excerpt(word.cells['form'])} is not in the sentence"
            raise DataError(f"{problem}; it must be 0 (root) or one of the words 1 to {len(words)}", file, word.line)
        if head != "0" and relation not in ("root", "_"):
            yield Mark((position[head], dependent), relation, word.line)


def _cell(file: Path, word: Word, column: str) -> str:
    """What a word has in a column, or under a key of one (`misc:Entity`); `_` if it has nothing."""
    if column.startswith(("feats:", "misc:")):
        column, _, key = column.partition(":")
        pairs = (pair.partition("=") for pair in word.cells.get(column, "_").split("|"))
        return next((value for name, _, value in pairs if name == key), "_")
    if column.lower() not in word.cells:
        names = list(word.cells)
        others = f"{name_list(names, near=column)}, and feats:KEY or misc:KEY"
        raise DataError(f"there is no column {column!r}; the columns are {others}", file, word.line)
    return word.cells[column.lower()]


# Readers of the formats that hold texts.
TEXT_READERS: dict[Format, Callable[[Task, Path], Iterator[Record]]] = {
    "sts": _read_sts,
    "glue": _read_table,
    "cola": _read_cola,
    "trec": _read_trec,
    "table": _read_table,
    "jsonl": _read_table,
    "embedded": _read_table,
}
# Readers of the formats that hold words in sentences.
WORD_READERS: dict[Format, Callable[[Task, Path], Iterator[Sentence]]] = {
    "conllu": _read_conllu,
    "streusle": _read_streusle,
    "conll": _read_conll,
}
