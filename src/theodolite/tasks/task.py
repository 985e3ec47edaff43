"""A task is a declaration: what its examples are, where its release keeps them, how it is scored, whom to cite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from theodolite.core.spelling import ON_COMMAND_LINE, option

Kind: TypeAlias = Literal["similarity", "classification", "pair_classification", "tagging", "word_pairs"]
Format: TypeAlias = Literal["sts", "glue", "cola", "trec", "conllu", "streusle", "table", "jsonl", "conll", "embedded"]
# What one vector stands for: a text as a sentence model encodes it, a token, the [CLS] token, a text (mean, max or last of its
# tokens), a word, or two words.
Unit: TypeAlias = Literal["text", "tokens", "cls", "mean", "max", "last", "words", "pairs"]

# All units.
UNITS: tuple[Unit, ...] = get_args(Unit)
# The unit of plain texts, which belong to no task.
TEXT_UNIT: Unit = "mean"

# The columns that an example is made of, by the kind of task; the words of treebanks come from their sentences.
ROLES: Mapping[Kind, tuple[str, ...]] = {
    "similarity": ("text", "text_b", "score"),
    "classification": ("text", "label"),
    "pair_classification": ("text", "text_b", "label"),
    "tagging": ("label",),
    "word_pairs": ("label",),
}
_DEFAULT_UNITS: Mapping[Kind, Unit] = {
    "similarity": "mean",
    "classification": "cls",
    "pair_classification": "cls",
    "tagging": "words",
    "word_pairs": "pairs",
}


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A copy of a task on the Hugging Face Hub."""

    id: str
    config: str | None = None
    columns: Mapping[str, str]
    splits: Mapping[str, str]
    revision: str | None = None


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """How the files of a task are written."""

    format: Format
    folders: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"
    delimiter: str | None = "\t"
    quoting: bool = False
    header: bool = True
    sentences: Mapping[str, slice] = field(default_factory=dict)
    empty_nodes: bool = False


@dataclass(frozen=True, kw_only=True)
class Task:
    """Examples of one kind with one main score.

    Parameters
    ----------
    name
        Name of the task.
    kind
        What its examples are: pairs of texts with a score, texts or pairs with a label, words or pairs of words with a label.
    score
        Its main score, one of `theodolite.tasks.SCORES`.
    splits
        The files of each split.
    layout
        How the files are written.
    labels
        All labels, in order; None if they are those of the training split.
    score_range
        Lowest and highest score of a similarity task.
    hub
        Its copy on the Hub.
    citation, note
        Whom to cite, and choices that papers leave open.
    """

    name: str
    kind: Kind
    score: str = "accuracy"
    splits: Mapping[str, tuple[str, ...]]
    layout: FileLayout
    labels: tuple[str, ...] | None = None
    score_range: tuple[float, float] | None = None
    hub: Hub | None = None
    citation: str = ""
    note: str = ""

    @property
    def on_words(self) -> bool:
        """Whether the examples are words or pairs of words inside sentences."""
        return self.kind in ("tagging", "word_pairs")

    @property
    def paired(self) -> bool:
        """Whether an example is two texts."""
        return self.kind in ("similarity", "pair_classification")

    @property
    def roles(self) -> tuple[str, ...]:
        """The columns that an example is made of."""
        return ROLES[self.kind]

    @property
    def unit(self) -> Unit:
        """What gets a vector by default."""
        return _DEFAULT_UNITS[self.kind]

    @property
    def train_split(self) -> str:
        """The split to learn from: `train`, or the first one if there is none of that name."""
        return "train" if "train" in self.splits else next(iter(self.splits))

    @property
    def scored_split(self) -> str:
        """The split that scores are taken on: the first of `dev`, `validation` and `test`, or else the first split."""
        return next((name for name in ("dev", "validation", "test") if name in self.splits), next(iter(self.splits)))


def column_option(role: str, name: str) -> str:
    """The choice of a column, as the caller would type it: `--column text=NAME`, or `column={'text': NAME}`."""
    return option("column", f"{role}={name}" if ON_COMMAND_LINE.get() else f"{{{role!r}: {name}}}")
