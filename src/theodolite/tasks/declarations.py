"""The declared tasks: those of the papers, and two small ones for the demo whose files are inside the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from theodolite.core.spelling import name_list
from theodolite.spaces.readers.data_files import DataError
from theodolite.tasks.task import FileLayout, Hub, Kind, Task

_SENTENCES = {"text": "sentence1", "text_b": "sentence2"}
_GLUE_SPLITS = {"train": "train", "dev": "validation"}
_GLUE_NOTE = "The release does not publish the labels of its test split, so scores are on dev."

# The universal part-of-speech tags.
UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM",
    "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X",
)  # fmt: skip


def _glue(name: str, labels: tuple[str, str], columns: Mapping[str, str], citation: str) -> Task:
    """A pair task of GLUE: the same files for each, with columns of their own."""
    return Task(
        name=name,
        kind="pair_classification",
        labels=labels,
        splits={"train": ("train.tsv",), "dev": ("dev.tsv",)},
        layout=FileLayout(format="glue", folders=(name, name.upper()), columns=columns),
        hub=Hub(id="nyu-mll/glue", config=name, columns={**_SENTENCES, "label": "label"}, splits=_GLUE_SPLITS),
        citation=f"{citation}; Wang et al. (2019), GLUE",
        note=_GLUE_NOTE,
    )


def _pud(name: str, kind: Kind, column: str, note: str, labels: tuple[str, ...] | None = None) -> Task:
    """A task on UD English-PUD, labelled with one of its columns."""
    file = ("en_pud-ud-test.conllu",)
    return Task(
        name=name,
        kind=kind,
        labels=labels,
        splits={"train": file, "test": file},
        layout=FileLayout(
            format="conllu",
            folders=("ud-english-pud", "UD_English-PUD"),
            columns={"label": column},
            sentences={"train": slice(None, 800), "test": slice(800, None)},
        ),
        hub=Hub(
            id="commul/universal_dependencies",
            config="en_pud",
            columns={"words": "tokens", "head": "head", "label": column},
            splits={"train": "test[:800]", "test": "test[800:]"},
        ),
        citation="Zeman et al. (2017), CoNLL 2017 Shared Task (UD English-PUD); split of Zhou & Srikumar (2022)",
        note="The treebank has one file: its first 800 sentences train, the last 200 test, which gives the counts of Zhou & "
        f"Srikumar (2022) on UD release 2.5. The Hub has a newer release, whose counts may differ. {note}",
    )


def _streusle(name: str, column: str, label: str) -> Task:
    """A task on the prepositions and possessives of STREUSLE, labelled with one of its columns."""
    splits = ("train", "dev", "test")
    return Task(
        name=name,
        kind="tagging",
        splits={split: (f"streusle.ud_{split}.conllulex",) for split in splits},
        layout=FileLayout(
            format="streusle",
            # The release keeps each split in a folder of its own.
            folders=("streusle", *(f"streusle/{split}" for split in splits), *splits),
            columns={"label": column},
        ),
        citation="Schneider et al. (2018), Comprehensive Supersense Disambiguation of English Prepositions and Possessives",
        note="STREUSLE 4.2, its own train, dev and test files. Targets are single words (SMWE is `_`: no strong multiword "
        f"expression) whose supersense begins with `p.`: the label is the {label}. Zhou & Srikumar (2022) use train and test; "
        "their 47 roles count dev too. Not on the Hub: the release is at github.com/nert-nlp/streusle.",
    )


def _trec(name: str, column: str, hub_column: str, note: str, labels: tuple[str, ...] | None = None) -> Task:
    """A task on the questions of TREC, with its coarse or its fine labels."""
    return Task(
        name=name,
        kind="classification",
        labels=labels,
        splits={"train": ("train_5500.label",), "test": ("TREC_10.label",)},
        layout=FileLayout(format="trec", folders=("trec",), columns={"label": column}, encoding="latin-1"),
        hub=Hub(id="SetFit/TREC-QC", columns={"text": "text", "label": hub_column}, splits={"train": "train", "test": "test"}),
        citation="Li & Roth (2002), Learning Question Classifiers",
        note=f"Latin-1 text. 70 lines of train are duplicates and are kept, as in the release. {note}",
    )


def _demo(name: str, file: str, note: str, **fields: Any) -> Task:
    """A task of the demo, whose file is inside the package, with further fields of `Task`."""
    return Task(
        name=name,
        splits={"train": (file,), "dev": (file,)},
        layout=FileLayout(format="embedded", folders=("embedded",)),
        citation="Written for Theodolite; Apache-2.0, as the project",
        note=f"Not on the Hub: the files are inside the package. Small and made for a demonstration, not a benchmark. {note}",
        **fields,
    )


_STSB = Task(
    name="stsb",
    kind="similarity",
    score="spearman",
    score_range=(0.0, 5.0),
    splits={split: (f"sts-{split}.csv",) for split in ("train", "dev", "test")},
    layout=FileLayout(format="sts", folders=("stsb", "stsbenchmark", "STS-B")),
    hub=Hub(id="mteb/stsbenchmark-sts", columns={**_SENTENCES, "score": "score"}, splits={**_GLUE_SPLITS, "test": "test"}),
    citation="Cer et al. (2017), SemEval-2017 Task 1",
    note="The Hub copy has the scores of test, on the scale 0 to 5. GLUE's copy hides them, others rescale to 0 to 1.",
)
_RTE_COLUMNS = {**_SENTENCES, "label": "label"}
_RTE = _glue("rte", ("entailment", "not_entailment"), _RTE_COLUMNS, "Dagan et al. (2005) to Bentivogli et al. (2009)")
_COLA_FILES = ("in_domain_dev.tsv", "out_of_domain_dev.tsv")
_COLA = Task(
    name="cola",
    kind="classification",
    score="matthews",
    labels=("unacceptable", "acceptable"),
    splits={
        "train": ("in_domain_train.tsv",),
        "dev": _COLA_FILES,
        "in_domain_dev": _COLA_FILES[:1],
        "out_of_domain_dev": _COLA_FILES[1:],
    },
    layout=FileLayout(format="cola", folders=("cola", "CoLA", "cola_public/raw", "raw")),
    hub=Hub(id="nyu-mll/glue", config="cola", columns={"text": "sentence", "label": "label"}, splits=_GLUE_SPLITS),
    citation="Warstadt, Singh & Bowman (2019), Neural Network Acceptability Judgments",
    note=f"dev is both development files, as in GLUE. {_GLUE_NOTE}",
)
_MRPC_COLUMNS = {"text": "#1 String", "text_b": "#2 String", "label": "Quality"}
_MRPC = _glue("mrpc", ("not_equivalent", "equivalent"), _MRPC_COLUMNS, "Dolan & Brockett (2005)")
_POS_NOTE = "The 7 empty nodes are not words of the text and are left out; empty_nodes=True counts them, as the paper does."
_DEP_NOTE = "A pair is (head, dependent) with its full relation and subtype; roots have no head and are left out."
_TREC_6 = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_PAIRS_NOTE = "220 and 100 pairs, graded as they were written from 0 (unrelated) to 5 (same meaning)."
_TOPICS_NOTE = "Six topics with 40 and 20 sentences each, labelled by their main subject."
_TOPICS = ("cooking", "health", "money", "sport", "technology", "travel")

_DECLARED = (
    _STSB,
    _RTE,
    _COLA,
    _MRPC,
    _pud("pos", "tagging", "upos", _POS_NOTE, UPOS),
    _pud("dep", "word_pairs", "deprel", _DEP_NOTE),
    _streusle("ps-role", "ss", "scene role, SS"),
    _streusle("ps-fxn", "ss2", "function, SS2"),
    _trec("trec-50", "fine", "label_original", "50 fine labels such as `NUM:dist`, 42 of them in test."),
    _trec("trec-6", "coarse", "label_coarse_original", "The six coarse labels.", _TREC_6),
    _demo("demo-pairs", "pairs.tsv", _PAIRS_NOTE, kind="similarity", score="spearman", score_range=(0.0, 5.0)),
    _demo("demo-topics", "topics.tsv", _TOPICS_NOTE, kind="classification", labels=_TOPICS),
)

# All declared tasks by name.
TASKS: dict[str, Task] = {task.name: task for task in _DECLARED}


def find_task(task: str | Task) -> Task:
    """The declared task of a name, or the task itself.

    Parameters
    ----------
    task
        A name such as `stsb`, or a task such as `own_task` makes.
    """
    if isinstance(task, Task):
        return task
    if task not in TASKS:
        raise DataError(f"there is no task {task!r}; there are {name_list(list(TASKS), near=task)}")
    return TASKS[task]
