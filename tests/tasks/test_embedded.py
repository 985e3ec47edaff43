"""The data sets inside the package: whole, clean, split without leaks, and not solved by counting common words."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from theodolite.tasks import TASKS, DataError, Examples, load_task
from theodolite.tasks.formats import EMBEDDED

NAMES = ("demo-pairs", "demo-topics")
SPLITS = ("train", "dev")
BOTH = pytest.mark.parametrize("name", NAMES)
EACH = pytest.mark.parametrize("split", SPLITS)


def texts_of(examples: Examples) -> list[str]:
    return [*examples.texts, *(examples.second or ())]


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def overlap(first: str, second: str) -> float:
    return len(words_of(first) & words_of(second)) / len(words_of(first) | words_of(second))


def test_the_counts_are_those_of_the_readme() -> None:
    counts = {(name, split): len(load_task(name, split)) for name in NAMES for split in SPLITS}
    assert counts == {
        ("demo-pairs", "train"): 220,
        ("demo-pairs", "dev"): 100,
        ("demo-topics", "train"): 240,
        ("demo-topics", "dev"): 120,
    }


def test_every_whole_grade_has_fifty_pairs_and_no_grade_is_missing_from_a_split() -> None:
    scores = {split: Counter(map(float, np.asarray(load_task("demo-pairs", split).scores))) for split in SPLITS}
    grades = set(np.arange(0, 5.5, 0.5).tolist())
    assert set(scores["train"]) == set(scores["dev"]) == grades
    both = scores["train"] + scores["dev"]
    assert all(both[grade] == (50 if grade % 1 == 0 else 4) for grade in grades)


@pytest.mark.parametrize(("split", "count"), [("train", 40), ("dev", 20)])
def test_the_topics_are_balanced(split: str, count: int) -> None:
    labels = TASKS["demo-topics"].labels
    assert labels is not None
    assert Counter(load_task("demo-topics", split).labels) == dict.fromkeys(labels, count)


@BOTH
def test_no_text_is_there_twice_in_or_across_the_splits(name: str) -> None:
    texts = [" ".join(sorted(words_of(text))) for split in SPLITS for text in texts_of(load_task(name, split))]
    assert [text for text, count in Counter(texts).items() if count > 1] == []


@BOTH
def test_no_text_of_dev_is_a_train_text_reworded_slightly(name: str) -> None:
    train, dev = (texts_of(load_task(name, split)) for split in SPLITS)
    assert max(overlap(one, other) for one in train for other in dev) < 0.5


@BOTH
@EACH
def test_the_texts_are_plain_sentences(name: str, split: str) -> None:
    shortest, longest = {"demo-pairs": (5, 20), "demo-topics": (6, 22)}[name]
    for text in texts_of(load_task(name, split)):
        assert text.isascii() and text.isprintable() and '"' not in text, text
        assert text == " ".join(text.split()), text
        assert shortest <= len(text.split()) <= longest, text
        assert (text[0].isupper() or text[0].isdigit()) and text[-1] in ".?!", text


@pytest.mark.parametrize(("file", "header"), [("pairs.tsv", "split score text text_b"), ("topics.tsv", "split label text")])
def test_every_line_has_the_cells_of_the_header(file: str, header: str) -> None:
    raw = (EMBEDDED / file).read_bytes()
    assert raw.endswith(b"\n") and b"\r" not in raw and b"\n\n" not in raw
    rows = [line.split("\t") for line in raw.decode("ascii").splitlines()]
    assert rows[0] == header.split()
    assert {len(row) for row in rows} == {len(rows[0])}
    assert {row[0] for row in rows[1:]} == set(SPLITS)


@EACH
def test_common_words_tell_something_of_similarity_but_far_from_all(split: str) -> None:
    pairs = load_task("demo-pairs", split)
    assert pairs.second is not None
    shared = [overlap(one, other) for one, other in zip(pairs.texts, pairs.second, strict=True)]
    assert 0.2 < spearmanr(shared, pairs.scores).statistic < 0.7


def test_there_are_paraphrases_without_common_words_and_unlike_pairs_with_many() -> None:
    pairs = load_task("demo-pairs", "train")
    assert pairs.second is not None and pairs.scores is not None
    shared = np.array([overlap(one, other) for one, other in zip(pairs.texts, pairs.second, strict=True)])
    same, unlike = shared[pairs.scores >= 4.5], shared[pairs.scores <= 2]
    assert (same < np.median(unlike)).sum() >= 5
    assert (unlike > np.median(same)).sum() >= 10


def test_the_topics_are_not_given_away_by_their_names() -> None:
    for split in SPLITS:
        topics = load_task("demo-topics", split)
        named = sum(label in text.lower() for text, label in zip(topics.texts, topics.labels or (), strict=True))
        assert named <= 0.02 * len(topics)


def test_a_line_of_an_unknown_split_is_named(tmp_path: Path) -> None:
    (tmp_path / "topics.tsv").write_text("split\tlabel\ttext\ntrain\thealth\tShe sneezed.\ntrial\tsport\tHe ran.\n")
    with pytest.raises(DataError, match=r"topics\.tsv, line 3: split 'trial' is not one of train, dev"):
        load_task("demo-topics", "train", tmp_path)


def test_a_file_without_the_split_is_explained(tmp_path: Path) -> None:
    (tmp_path / "topics.tsv").write_text("split\tlabel\ttext\ntrain\thealth\tShe sneezed.\n")
    assert load_task("demo-topics", "train", tmp_path).texts == ("She sneezed.",)
    with pytest.raises(DataError, match="there is no example"):
        load_task("demo-topics", "dev", tmp_path)
