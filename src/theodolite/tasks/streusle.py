"""STREUSLE's `.conllulex`: prepositions and possessives with their scene role and function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from theodolite.tasks.assemble import Sentence, from_sentences
from theodolite.tasks.conllu import COLUMNS, Word, word_sentences
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import Task

LEX_COLUMNS = (*COLUMNS, "smwe", "lexcat", "lexlemma", "ss", "ss2", "wmwe", "wcat", "wlemma", "lextag")


def read_streusle(task: Task, split: str, files: Sequence[Path]) -> Examples:
    """Single-word targets whose supersense begins with `p.`, labelled with role (SS) or function (SS2)."""
    sentences = (sentence for file in files for sentence in _sentences(task, file))
    return from_sentences(task, split, sentences, files)


def _sentences(task: Task, file: Path) -> Iterator[Sentence]:
    for words in word_sentences(file, task.layout.encoding, LEX_COLUMNS):
        kept = [word for word in words if task.layout.empty_nodes or not word.empty]
        marks = [((i,), word.cells[task.layout.columns["label"]], word.line) for i, word in enumerate(kept) if is_target(word)]
        yield Sentence(file, tuple(word.cells["form"] for word in kept), tuple(marks))


def is_target(word: Word) -> bool:
    """Whether a word is a preposition or possessive of its own, outside strong multiword expressions."""
    return word.cells["smwe"] == "_" and word.cells["ss"].startswith("p.")
