"""The real files of every release give the counts that papers and releases state."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from theodolite.tasks import TASKS, Examples, load_task
from theodolite.tasks.examples import check_labels, labels_of

COUNTS = {
    "stsb": {"train": 5749, "dev": 1500, "test": 1379},
    "rte": {"train": 2490, "dev": 277},
    "cola": {"train": 8551, "dev": 1043, "in_domain_dev": 527, "out_of_domain_dev": 516},
    "mrpc": {"train": 3668, "dev": 408},
    "pos": {"train": 16854, "test": 4322},
    "dep": {"train": 16054, "test": 4122},
    "ps-role": {"train": 4282, "dev": 433, "test": 457},
    "ps-fxn": {"train": 4282, "dev": 433, "test": 457},
    "trec-50": {"train": 5452, "test": 500},
    "trec-6": {"train": 5452, "test": 500},
}
LABELS = {"rte": 2, "cola": 2, "mrpc": 2, "pos": 17, "dep": 46, "ps-role": 47, "ps-fxn": 40, "trec-50": 50, "trec-6": 6}


def whole(name: str, data: Path) -> dict[str, Examples]:
    return {split: load_task(name, split, data) for split in TASKS[name].splits}


@pytest.mark.parametrize("name", COUNTS)
def test_every_split_has_its_stated_number_of_examples(data: Path, name: str) -> None:
    assert {split: len(examples) for split, examples in whole(name, data).items()} == COUNTS[name]


@pytest.mark.parametrize("name", LABELS)
def test_every_task_has_its_stated_number_of_labels(data: Path, name: str) -> None:
    splits = whole(name, data)
    assert len({label for examples in splits.values() for label in examples.labels or ()}) == LABELS[name]
    check_labels(splits["train"], splits.get("test", splits.get("dev", splits["train"])))


def test_train_and_test_alone_have_one_role_less(data: Path) -> None:
    train, test = load_task("ps-role", "train", data), load_task("ps-role", "test", data)
    assert len({*(train.labels or ()), *(test.labels or ())}) == 46
    assert len(labels_of(train)) == 46


def test_default_quoting_would_lose_lines_of_stsb(data: Path) -> None:
    for split, lost in {"train": 5711, "dev": 1470, "test": 1119}.items():
        with open(data / "stsb" / f"sts-{split}.csv", encoding="utf-8", newline="") as file:
            assert len(list(csv.reader(file, delimiter="\t"))) == lost
        assert len(load_task("stsb", split, data)) > lost


def test_stsb_scores_use_the_whole_scale(data: Path) -> None:
    train = load_task("stsb", "train", data)
    assert train.scores is not None and train.second is not None
    assert (train.scores.min(), train.scores.max()) == (0.0, 5.0)
    assert (train.texts[0], train.second[0], train.scores[0]) == ("A plane is taking off.", "An air plane is taking off.", 5.0)
    np.testing.assert_allclose(train.unit_scores() * 5, train.scores)


def test_mrpc_survives_its_mark_and_lone_quotes(data: Path) -> None:
    dev = load_task("mrpc", "dev", data)
    assert dev.second is not None and dev.labels is not None
    assert dev.second[0].startswith('"The foodservice pie') and dev.second[0].count('"') == 1
    assert dev.labels[0] == "equivalent"
    assert dev.where(0).endswith("dev.tsv, line 2")


def test_cola_dev_is_both_files_in_order(data: Path) -> None:
    splits = whole("cola", data)
    assert splits["dev"].texts == splits["in_domain_dev"].texts + splits["out_of_domain_dev"].texts
    assert splits["dev"].where(527).endswith("out_of_domain_dev.tsv, line 1")
    # The share of acceptable sentences that the release's paper states, about 70 %.
    assert np.mean([label == "acceptable" for label in splits["train"].labels or ()]) == pytest.approx(0.704, abs=0.001)


def test_trec_keeps_its_one_byte_above_ascii_and_its_duplicates(data: Path) -> None:
    fine, coarse = load_task("trec-50", "train", data), load_task("trec-6", "train", data)
    assert sum("\xf0" in text for text in fine.texts) == 1
    assert len(fine) - len(set(zip(fine.texts, fine.labels or (), strict=True))) == 70
    assert coarse.labels == tuple(label.partition(":")[0] for label in fine.labels or ())
    assert len(set(load_task("trec-50", "test", data).labels or ())) == 42


def test_empty_nodes_give_the_papers_counts_on_request(data: Path) -> None:
    assert [len(load_task("pos", split, data, empty_nodes=True)) for split in ("train", "test")] == [16860, 4323]
    # They stand in no tree, so the pairs are the same and point at the same words.
    with_nodes, without = load_task("dep", "train", data, empty_nodes=True), load_task("dep", "train", data)
    assert pairs(with_nodes) == pairs(without)


def pairs(examples: Examples) -> list[tuple[str, str, str]]:
    assert examples.words is not None and examples.places is not None and examples.labels is not None
    return [
        (examples.words[sentence][head], examples.words[sentence][dependent], label)
        for (sentence, head, dependent), label in zip(examples.places, examples.labels, strict=True)
    ]


def test_pud_has_a_thousand_sentences_and_every_word_has_one_relation(data: Path) -> None:
    for split, sentences in {"train": 800, "test": 200}.items():
        tags, relations = load_task("pos", split, data), load_task("dep", split, data)
        assert len(tags.texts) == sentences
        assert len(relations) == len(tags) - sentences  # all but the roots
        assert relations.places is not None
        dependents = relations.places[:, [0, 2]]
        assert len(np.unique(dependents, axis=0)) == len(relations)


def test_a_known_pair_of_words_and_its_relation(data: Path) -> None:
    assert pairs(load_task("dep", "train", data))[:3] == [
        ("is", "“", "punct"),
        ("unprecedented", "While", "mark"),
        ("unprecedented", "much", "nsubj"),
    ]


def test_streusle_sentences_and_targets(data: Path) -> None:
    counts = {"train": 2723, "dev": 554, "test": 535}
    assert {split: len(load_task("ps-fxn", split, data).texts) for split in counts} == counts
    role, function = load_task("ps-role", "test", data), load_task("ps-fxn", "test", data)
    assert role.places is not None and function.places is not None
    np.testing.assert_array_equal(role.places, function.places)
    assert role.labels is not None and function.labels is not None
    assert (role.labels[0], function.labels[0]) == ("p.SocialRel", "p.Gestalt")
    # The rule by hand, over the raw lines.
    file = data / "streusle" / "streusle.ud_test.conllulex"
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if line and line[0].isdigit()]
    assert sum(row[10] == "_" and row[13].startswith("p.") for row in rows) == 457
    assert len(role) == 457


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.on_words])
def test_spans_cut_the_words_out_of_the_texts(data: Path, name: str) -> None:
    examples = load_task(name, "test", data)
    assert examples.words is not None
    for text, words, spans in zip(examples.texts, examples.words, examples.spans(), strict=True):
        assert tuple(text[start:end] for start, end in spans) == words


@pytest.mark.parametrize("name", COUNTS)
def test_the_folder_may_be_the_tasks_own(data: Path, name: str) -> None:
    own = data / TASKS[name].layout.folders[0]
    assert load_task(name, "train", own).texts == load_task(name, "train", data).texts
