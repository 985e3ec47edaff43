"""A task is a declaration: what its examples are, where its release keeps them, how it is scored, whom to cite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["similarity", "classification", "pair_classification", "tagging", "word_pairs"]
Format: TypeAlias = Literal["sts", "glue", "cola", "trec", "conllu", "streusle", "table", "jsonl", "conll", "embedded"]


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A copy on the Hugging Face hub. `columns` and `splits` give its names for ours; `revision` is set only where verified."""

    id: str
    config: str | None = None
    columns: Mapping[str, str]
    splits: Mapping[str, str]
    revision: str | None = None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How the files are written.

    `folders` are the names under which a release's folder is looked for (none: the files are paths of their own); `columns` names
    what holds text, text_b, label and score; `sentences` cuts a split out of a treebank that has only one file.
    """

    format: Format
    folders: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"
    delimiter: str = "\t"
    quoting: bool = False
    sentences: Mapping[str, slice] = field(default_factory=dict)
    empty_nodes: bool = False


@dataclass(frozen=True, kw_only=True)
class Task:
    """Examples of one kind with one main score.

    `splits` maps a split to the files that make it; `labels` is None where they are read from the training split; `score_range`
    is the scale of a similarity task; `note` records choices that the papers leave open.
    """

    name: str
    kind: Kind
    score: str
    splits: Mapping[str, tuple[str, ...]]
    layout: Layout
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
    def scored_split(self) -> str | None:
        """The split that scores are usually taken on: dev, or test; None where it has neither."""
        return next((name for name in ("dev", "validation", "test") if name in self.splits), None)


_PAIR = {"text": "sentence1", "text_b": "sentence2", "label": "label"}
_GLUE = {"train": "train", "dev": "validation"}
_GLUE_FILES = {"train": ("train.tsv",), "dev": ("dev.tsv",)}
_GLUE_NOTE = "The release keeps the labels of its test split to itself, so scores are on dev."

_PUD_FILE = ("en_pud-ud-test.conllu",)
_PUD_FOLDERS = ("ud-english-pud", "UD_English-PUD")
_PUD_CUT = {"train": slice(None, 800), "test": slice(800, None)}
_PUD_HUB = {"train": "test[:800]", "test": "test[800:]"}
_PUD_NOTE = (
    "The treebank has one file: its first 800 sentences train, the last 200 test, which gives the counts of Zhou & Srikumar "
    "(2022) on UD release 2.5. The hub carries a newer release, whose counts may differ. "
)
_PUD_CITATION = "Zeman et al. (2017), CoNLL 2017 Shared Task (UD English-PUD); split of Zhou & Srikumar (2022)"

_STREUSLE_FILES = {name: (f"streusle.ud_{name}.conllulex",) for name in ("train", "dev", "test")}
_STREUSLE_FOLDERS = ("streusle", *(f"streusle/{name}" for name in ("train", "dev", "test")), "train", "dev", "test")
_STREUSLE_NOTE = (
    "STREUSLE 4.2, its own train, dev and test files. Targets are single words (SMWE is `_`: no strong multiword expression) "
    "whose supersense begins with `p.`: {label}. Zhou & Srikumar (2022) use train and test; their 47 roles count dev too. "
    "Not on the hub: the release is at github.com/nert-nlp/streusle."
)
_STREUSLE_CITATION = "Schneider et al. (2018), Comprehensive Supersense Disambiguation of English Prepositions and Possessives"

_TREC_FILES = {"train": ("train_5500.label",), "test": ("TREC_10.label",)}
_TREC_NOTE = "Latin-1 text. 70 lines of train are duplicates and are kept, as in the release. "
_TREC_CITATION = "Li & Roth (2002), Learning Question Classifiers"

# fmt: off
UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM",
    "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X",
)
# fmt: on
"""The universal part-of-speech tags."""

_DECLARED = (
    Task(
        name="stsb",
        kind="similarity",
        score="spearman",
        score_range=(0.0, 5.0),
        splits={name: (f"sts-{name}.csv",) for name in ("train", "dev", "test")},
        layout=Layout(format="sts", folders=("stsb", "stsbenchmark", "STS-B")),
        hub=Hub(
            id="mteb/stsbenchmark-sts",
            columns={"text": "sentence1", "text_b": "sentence2", "score": "score"},
            splits={"train": "train", "dev": "validation", "test": "test"},
        ),
        citation="Cer et al. (2017), SemEval-2017 Task 1",
        note="The hub copy keeps the scores of test and the scale 0 to 5; GLUE's copy hides the one, others rescale to 0 to 1.",
    ),
    Task(
        name="rte",
        kind="pair_classification",
        score="accuracy",
        labels=("entailment", "not_entailment"),
        splits=_GLUE_FILES,
        layout=Layout(format="glue", folders=("rte", "RTE"), columns=_PAIR),
        hub=Hub(id="nyu-mll/glue", config="rte", columns=_PAIR, splits=_GLUE),
        citation="Dagan et al. (2005) to Bentivogli et al. (2009); Wang et al. (2019), GLUE",
        note=_GLUE_NOTE,
    ),
    Task(
        name="cola",
        kind="classification",
        score="matthews",
        labels=("unacceptable", "acceptable"),
        splits={
            "train": ("in_domain_train.tsv",),
            "dev": ("in_domain_dev.tsv", "out_of_domain_dev.tsv"),
            "in_domain_dev": ("in_domain_dev.tsv",),
            "out_of_domain_dev": ("out_of_domain_dev.tsv",),
        },
        layout=Layout(format="cola", folders=("cola", "CoLA", "cola_public/raw", "raw")),
        hub=Hub(id="nyu-mll/glue", config="cola", columns={"text": "sentence", "label": "label"}, splits=_GLUE),
        citation="Warstadt, Singh & Bowman (2019), Neural Network Acceptability Judgments",
        note=f"dev is both development files, as in GLUE. {_GLUE_NOTE}",
    ),
    Task(
        name="mrpc",
        kind="pair_classification",
        score="accuracy",
        labels=("not_equivalent", "equivalent"),
        splits=_GLUE_FILES,
        layout=Layout(
            format="glue",
            folders=("mrpc", "MRPC"),
            columns={"text": "#1 String", "text_b": "#2 String", "label": "Quality"},
        ),
        hub=Hub(id="nyu-mll/glue", config="mrpc", columns=_PAIR, splits=_GLUE),
        citation="Dolan & Brockett (2005); Wang et al. (2019), GLUE",
        note=_GLUE_NOTE,
    ),
    Task(
        name="pos",
        kind="tagging",
        score="accuracy",
        labels=UPOS,
        splits={"train": _PUD_FILE, "test": _PUD_FILE},
        layout=Layout(format="conllu", folders=_PUD_FOLDERS, columns={"label": "upos"}, sentences=_PUD_CUT),
        hub=Hub(
            id="commul/universal_dependencies",
            config="en_pud",
            columns={"words": "tokens", "head": "head", "label": "upos"},
            splits=_PUD_HUB,
        ),
        citation=_PUD_CITATION,
        note=_PUD_NOTE
        + "The 7 empty nodes are no words of the text and left out; empty_nodes=True counts them, as the paper does.",
    ),
    Task(
        name="dep",
        kind="word_pairs",
        score="accuracy",
        splits={"train": _PUD_FILE, "test": _PUD_FILE},
        layout=Layout(format="conllu", folders=_PUD_FOLDERS, columns={"label": "deprel"}, sentences=_PUD_CUT),
        hub=Hub(
            id="commul/universal_dependencies",
            config="en_pud",
            columns={"words": "tokens", "head": "head", "label": "deprel"},
            splits=_PUD_HUB,
        ),
        citation=_PUD_CITATION,
        note=_PUD_NOTE + "A pair is (head, dependent) with its full relation, subtypes included; roots have no head: left out.",
    ),
    Task(
        name="ps-role",
        kind="tagging",
        score="accuracy",
        splits=_STREUSLE_FILES,
        layout=Layout(format="streusle", folders=_STREUSLE_FOLDERS, columns={"label": "ss"}),
        citation=_STREUSLE_CITATION,
        note=_STREUSLE_NOTE.format(label="the label is the scene role, SS"),
    ),
    Task(
        name="ps-fxn",
        kind="tagging",
        score="accuracy",
        splits=_STREUSLE_FILES,
        layout=Layout(format="streusle", folders=_STREUSLE_FOLDERS, columns={"label": "ss2"}),
        citation=_STREUSLE_CITATION,
        note=_STREUSLE_NOTE.format(label="the label is the function, SS2"),
    ),
    Task(
        name="trec-50",
        kind="classification",
        score="accuracy",
        splits=_TREC_FILES,
        layout=Layout(format="trec", folders=("trec",), columns={"label": "fine"}, encoding="latin-1"),
        hub=Hub(
            id="SetFit/TREC-QC",
            columns={"text": "text", "label": "label_original"},
            splits={"train": "train", "test": "test"},
        ),
        citation=_TREC_CITATION,
        note=_TREC_NOTE + "50 fine labels such as `NUM:dist`, 42 of them in test.",
    ),
    Task(
        name="trec-6",
        kind="classification",
        score="accuracy",
        labels=("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
        splits=_TREC_FILES,
        layout=Layout(format="trec", folders=("trec",), columns={"label": "coarse"}, encoding="latin-1"),
        hub=Hub(
            id="SetFit/TREC-QC",
            columns={"text": "text", "label": "label_coarse_original"},
            splits={"train": "train", "test": "test"},
        ),
        citation=_TREC_CITATION,
        note=_TREC_NOTE + "The six coarse labels.",
    ),
)

UNIT_OF = {
    "similarity": "mean",
    "classification": "cls",
    "pair_classification": "cls",
    "tagging": "words",
    "word_pairs": "pairs",
}
"""What gets a vector by default, by the kind of task."""

TASKS: dict[str, Task] = {task.name: task for task in _DECLARED}
"""All declared tasks by name."""
