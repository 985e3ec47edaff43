"""CoNLL-U treebanks: tags of words, or the relations between words and their heads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from theodolite.tasks.assemble import Sentence, from_sentences
from theodolite.tasks.errors import DataError, clipped, close_to, listed
from theodolite.tasks.examples import Examples
from theodolite.tasks.lines import numbered_lines
from theodolite.tasks.task import Task

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_ID = re.compile(r"(\d+)(?:([-.])(\d+))?")
_KEYED = ("feats:", "misc:")


@dataclass(frozen=True)
class Word:
    """One line of a sentence. `empty` marks a node that stands for a word left out of the text."""

    line: int
    id: str
    empty: bool
    cells: Mapping[str, str]


def read_conllu(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """Words labelled with a column (tagging) or (head, dependent) pairs labelled with their relation (word pairs)."""
    layout = task.layout
    found: list[Sentence] = []
    for file in files:
        for words in word_sentences(file, layout.encoding):
            kept = [word for word in words if layout.empty_nodes or not word.empty]
            marks = _tags(task, file, kept) if task.kind == "tagging" else _relations(task, file, kept)
            found.append(Sentence(file, tuple(word.cells["form"] for word in kept), tuple(marks)))
    chosen = found[layout.sentences[split]] if split in layout.sentences else found
    if not chosen:
        cut = layout.sentences[split]
        raise DataError(
            f"the file has {len(found)} sentences, so split {split!r} (sentences {cut.start or 0} and on) is empty; "
            "read it as a task of your own",
            file=files[0],
        )
    return from_sentences(task, split, chosen, files)


def word_sentences(file: Path, encoding: str = "utf-8", columns: Sequence[str] = COLUMNS) -> Iterator[list[Word]]:
    """The words of each sentence, empty nodes included; lines of multiword tokens (`3-4`) are skipped."""
    words: list[Word] = []
    count = 0
    for line, text in numbered_lines(file, encoding):
        if text.startswith("#"):
            if text.startswith("# global.columns ="):
                columns = _declared(file, line, text)
            continue
        if not text.strip():
            if words:
                yield words
            words, count = [], 0
            continue
        word = _word(file, line, text, columns)
        if word is None:
            continue
        count += not word.empty
        if not word.empty and word.id != str(count):
            raise DataError(f"word id {word.id} should be {count}; ids count the words of a sentence", file=file, line=line)
        words.append(word)
    if words:
        yield words


def _declared(file: Path, line: int, text: str) -> list[str]:
    columns = [name.lower() for name in text.partition("=")[2].split()]
    if not {"id", "form"} <= set(columns):
        raise DataError(f"the columns are {listed(columns)}; there must be ID and FORM among them", file=file, line=line)
    return columns


def _word(file: Path, line: int, text: str, columns: Sequence[str]) -> Word | None:
    cells = text.split("\t")
    if len(cells) != len(columns):
        raise DataError(
            f"the line has {len(cells)} tab-separated columns, this format has {len(columns)}; "
            "a blank line must stand between sentences and tabs between columns",
            file=file,
            line=line,
        )
    named = dict(zip(columns, cells, strict=True))
    match = _ID.fullmatch(named["id"])
    if match is None:
        raise DataError(f"{clipped(named['id'])} is no word id such as 3, 3-4 or 3.1", file=file, line=line)
    return None if match[2] == "-" else Word(line, named["id"], match[2] == ".", named)


def _tags(task: Task, file: Path, words: Sequence[Word]) -> Iterator[tuple[tuple[int, ...], str, int]]:
    column = task.layout.columns["label"]
    for position, word in enumerate(words):
        label = cell(file, word, column)
        if label != "_":  # not annotated, so no example
            yield (position,), label, word.line


def cell(file: Path, word: Word, column: str) -> str:
    """What a word has in a column, or under a key of one (`misc:Entity`); `_` where it has nothing."""
    if column.startswith(_KEYED):
        column, _, key = column.partition(":")
        pairs = (pair.partition("=") for pair in word.cells.get(column, "_").split("|"))
        return next((value for name, _, value in pairs if name == key), "_")
    if column.lower() not in word.cells:
        known = list(word.cells)
        raise DataError(
            f"there is no column {column!r}; the columns are {listed(known)}, and feats:KEY or misc:KEY{close_to(column, known)}",
            file=file,
            line=word.line,
        )
    return word.cells[column.lower()]


def _relations(task: Task, file: Path, words: Sequence[Word]) -> Iterator[tuple[tuple[int, ...], str, int]]:
    column = task.layout.columns["label"]
    position = {word.id: i for i, word in enumerate(words)}
    for dependent, word in enumerate(words):
        if word.empty:  # its relations are in the enhanced graph, not in the tree
            continue
        head, relation = cell(file, word, "head"), cell(file, word, column)
        if head != "0" and head not in position:
            raise DataError(
                f"head {clipped(head)} of {clipped(word.cells['form'])} points nowhere; "
                f"it must be 0 (root) or one of the words 1 to {len(words)}",
                file=file,
                line=word.line,
            )
        if head != "0" and relation not in ("root", "_"):
            yield (position[head], dependent), relation, word.line
