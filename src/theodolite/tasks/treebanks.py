"""Readers of words with labels: CoNLL-U treebanks, STREUSLE's `.conllulex`, and two-column CoNLL files.

Each takes a task and one of its files, and gives the sentences of the file, in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from theodolite.core.options import option
from theodolite.spaces.readers.errors import DataError, excerpt, name_list, suggestion
from theodolite.spaces.readers.location import locate
from theodolite.tasks.records import Mark, Sentence
from theodolite.tasks.task import Task

# The columns of CoNLL-U.
COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
# The columns of STREUSLE's `.conllulex`.
LEX_COLUMNS = (*COLUMNS, "smwe", "lexcat", "lexlemma", "ss", "ss2", "wmwe", "wcat", "wlemma", "lextag")

_ID = re.compile(r"(\d+)(?:([-.])(\d+))?")


@dataclass(frozen=True)
class Word:
    """One line of a sentence. `is_empty` marks a node that stands for a word left out of the text."""

    line: int
    id: str
    is_empty: bool
    cells: Mapping[str, str]


def read_conll(task: Task, file: Path) -> Iterator[Sentence]:
    """The sentences of a two-column file: `word<TAB>label` on a line, a blank line between sentences."""
    rows: list[tuple[str, str, int]] = []
    lines = locate(file).numbered_lines(task.layout.encoding)
    for line, text in chain(lines, [(0, "")]):  # a blank line ends the last sentence too
        if text.strip():
            cells = text.split(task.layout.delimiter)
            if len(cells) != 2 or not cells[0].strip():
                raise DataError(
                    f"the line has {len(cells)} columns; it must be a word, {task.layout.delimiter!r} and its label: "
                    f"choose another {option('delimiter', 'TEXT')}, or use CoNLL-U (.conllu) for more columns",
                    file,
                    line,
                )
            rows.append((cells[0], cells[1], line))
        elif rows:
            marks = tuple(Mark((i,), label, line) for i, (_, label, line) in enumerate(rows))
            yield Sentence(file, tuple(word for word, _, _ in rows), marks)
            rows = []


def read_conllu(task: Task, file: Path) -> Iterator[Sentence]:
    """The sentences of a treebank, words labelled with a column, or (head, dependent) pairs with their relation."""
    column = task.layout.columns["label"]
    for words in _text_words(task, file, COLUMNS):
        marks = _tags(file, words, column) if task.kind == "tagging" else _relations(file, words, column)
        yield Sentence(file, tuple(word.cells["form"] for word in words), tuple(marks))


def read_streusle(task: Task, file: Path) -> Iterator[Sentence]:
    """The sentences of STREUSLE, prepositions and possessives labelled with scene role (SS) or function (SS2)."""
    column = task.layout.columns["label"]
    for words in _text_words(task, file, LEX_COLUMNS):
        marks = tuple(Mark((i,), word.cells[column], word.line) for i, word in enumerate(words) if is_target(word))
        yield Sentence(file, tuple(word.cells["form"] for word in words), marks)


def is_target(word: Word) -> bool:
    """Whether a word of STREUSLE is a preposition or possessive outside strong multiword expressions."""
    return word.cells["smwe"] == "_" and word.cells["ss"].startswith("p.")


def word_sentences(file: Path, encoding: str = "utf-8", columns: Sequence[str] = COLUMNS) -> Iterator[list[Word]]:
    """The words of each sentence of a treebank, empty nodes included; lines of multiword tokens (`3-4`) are skipped.

    Parameters
    ----------
    file
        The treebank.
    encoding
        Its encoding.
    columns
        Names of its columns, unless the file declares its own in a line `# global.columns = …`.
    """
    words: list[Word] = []
    count = 0
    for line, text in locate(file).numbered_lines(encoding):
        if text.startswith("#"):
            if text.startswith("# global.columns ="):
                columns = _declared_columns(file, line, text)
            continue
        if not text.strip():
            if words:
                yield words
            words, count = [], 0
            continue
        word = _parse_word(file, line, text, columns)
        if word is None:
            continue
        # Heads refer to ids, so a gap in them would silently attach words to the wrong head.
        count += not word.is_empty
        if not word.is_empty and word.id != str(count):
            raise DataError(f"word id {word.id} should be {count}; ids count the words of a sentence", file, line)
        words.append(word)
    if words:
        yield words


def _text_words(task: Task, file: Path, columns: Sequence[str]) -> Iterator[list[Word]]:
    """The words of each sentence, without empty nodes unless the task counts them."""
    for words in word_sentences(file, task.layout.encoding, columns):
        yield [word for word in words if task.layout.empty_nodes or not word.is_empty]


def _declared_columns(file: Path, line: int, text: str) -> list[str]:
    columns = [name.lower() for name in text.partition("=")[2].split()]
    if not {"id", "form"} <= set(columns):
        raise DataError(f"the columns are {name_list(columns)}; there must be ID and FORM among them", file, line)
    return columns


def _parse_word(file: Path, line: int, text: str, columns: Sequence[str]) -> Word | None:
    cells = text.split("\t")
    if len(cells) != len(columns):
        raise DataError(
            f"the line has {len(cells)} tab-separated columns, this format has {len(columns)}; "
            "put a blank line between sentences and tabs between columns",
            file,
            line,
        )
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
            raise DataError(
                f"head {excerpt(head)} of {excerpt(word.cells['form'])} is not in the sentence; "
                f"it must be 0 (root) or one of the words 1 to {len(words)}",
                file,
                word.line,
            )
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
        raise DataError(
            f"there is no column {column!r}; the columns are {name_list(names)}, and feats:KEY or misc:KEY"
            f"{suggestion(column, names)}",
            file,
            word.line,
        )
    return word.cells[column.lower()]
