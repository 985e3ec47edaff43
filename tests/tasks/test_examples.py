"""Examples: taking and dividing keep every example whole, the labels' shares and the sentences together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.tasks import TASKS, DataError, Examples
from theodolite.tasks.examples import check_labels, drop_unseen_labels, labels_of

TREC = replace(TASKS["trec-50"], name="questions")


def texts(labels: list[str], split: str = "train") -> Examples:
    return Examples(task=TREC, split=split, texts=tuple(f"text {i}" for i in range(len(labels))), labels=tuple(labels))


def tagged(sizes: list[int]) -> Examples:
    words = tuple(tuple(f"w{s}.{w}" for w in range(size)) for s, size in enumerate(sizes))
    places = np.array([(s, w) for s, size in enumerate(sizes) for w in range(size)], dtype=np.intp).reshape(-1, 2)
    labels = tuple(words[s][w] for s, w in places)
    return Examples(
        task=TASKS["dep"], split="train", texts=tuple(map(" ".join, words)), words=words, places=places, labels=labels
    )


def looked_up(examples: Examples) -> list[str]:
    assert examples.words is not None and examples.places is not None
    return [examples.words[s][w] for s, w in examples.places]


LABELS = st.lists(st.sampled_from("abcde"), min_size=4, max_size=80)


@given(labels=LABELS, share=st.sampled_from([0.3, 0.5, 0.7]), seed=st.integers(0, 2**32 - 1))
def test_dividing_loses_nothing_and_keeps_the_shares(labels: list[str], share: float, seed: int) -> None:
    examples = texts(labels)
    first, second = examples.divide(share, seed=seed)
    assert len(first) == round(share * len(labels))
    assert sorted(first.texts + second.texts) == sorted(examples.texts)
    inside, whole = Counter(first.labels), Counter(labels)
    assert all(abs(inside[label] - share * count) <= 1 for label, count in whole.items())


def test_the_division_depends_on_the_seed_alone() -> None:
    examples = texts(list("aabbbbcccccc") * 5)
    assert examples.divide(seed=3)[0].texts == examples.divide(seed=3)[0].texts
    assert examples.divide(seed=3)[0].texts != examples.divide(seed=4)[0].texts


def test_every_example_is_equally_likely_to_be_in_the_first_part() -> None:
    examples = texts(list("aaabbbbbbb"))
    counts = Counter(text for seed in range(2000) for text in examples.divide(0.5, seed=seed)[0].texts)
    assert min(counts.values()) > 850 and max(counts.values()) < 1150


@given(sizes=st.lists(st.integers(1, 6), min_size=4, max_size=20), seed=st.integers(0, 1000))
def test_no_sentence_is_in_both_parts(sizes: list[int], seed: int) -> None:
    examples = tagged(sizes)
    first, second = examples.divide(seed=seed)
    assert not set(first.texts) & set(second.texts)
    assert sorted(looked_up(first) + looked_up(second)) == sorted(looked_up(examples))
    assert len(first.texts) == round(0.7 * len(sizes))


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8), choose=st.data())
def test_taken_examples_are_the_same_words_and_other_sentences_are_dropped(sizes: list[int], choose: st.DataObject) -> None:
    examples = tagged(sizes)
    rows = choose.draw(st.lists(st.integers(0, len(examples) - 1), min_size=1))
    part = examples.take(rows)
    assert part.labels == tuple(looked_up(part)) == tuple(looked_up(examples)[i] for i in rows)
    assert part.places is not None and set(part.places[:, 0]) == set(range(len(part.texts)))


def test_taking_everything_by_mask_changes_nothing() -> None:
    examples = tagged([2, 3, 1])
    same = examples.take(np.ones(6, dtype=bool))
    assert (same.texts, same.labels) == (examples.texts, examples.labels)
    np.testing.assert_array_equal(same.places, examples.places)
    assert examples.places is not None and examples.places[-1].tolist() == [2, 0]


def test_taking_leaves_the_original_as_it_was() -> None:
    examples = tagged([2, 3, 1])
    before = examples.places.copy() if examples.places is not None else None
    examples.take([5, 4])
    np.testing.assert_array_equal(examples.places, before)


@pytest.mark.parametrize("indices", [[9], [-9], [0.5], [[0]], np.array([True])])
def test_wrong_indices_are_refused(indices: object) -> None:
    with pytest.raises((IndexError, ValueError), match=r"outside the 3 examples|whole numbers|mask"):
        texts(list("abc")).take(indices)  # type: ignore[arg-type]


def test_negative_indices_count_from_the_end() -> None:
    assert texts(list("abc")).take([-1]).labels == ("c",)


@given(words=st.lists(st.text(min_size=1), min_size=1))
def test_spans_are_the_characters_of_the_words_whatever_they_hold(words: list[str]) -> None:
    examples = Examples(
        task=TASKS["pos"],
        split="train",
        texts=(" ".join(words),),
        words=(tuple(words),),
        places=np.array([[0, 0]], dtype=np.intp),
        labels=("X",),
    )
    assert [examples.texts[0][start:end] for start, end in examples.spans()[0]] == words


def test_whole_texts_have_no_spans() -> None:
    with pytest.raises(ValueError, match="spans are for tasks on words"):
        texts(["a"]).spans()


def test_label_ids_are_positions() -> None:
    examples = texts(list("bca"))
    assert examples.label_ids(("a", "b", "c")).tolist() == [1, 2, 0]
    assert examples.label_ids(labels_of(examples)).tolist() == [1, 2, 0]
    with pytest.raises(DataError, match=r"questions, example 1: label 'c' is not one of a, b"):
        examples.label_ids(("a", "b"))


def test_an_unseen_label_is_named_with_its_count_and_a_way_out() -> None:
    train, test = texts(list("aab")), texts(list("abcca"), split="test")
    with pytest.raises(
        DataError, match=r"example 2: label 'c' is not in split 'train'; all unseen labels: 'c' \(2 of 5\).*drop_unseen=True"
    ):
        check_labels(train, test)
    rest = drop_unseen_labels(train, test)
    assert rest.labels == ("a", "b", "a")
    check_labels(train, rest)
    check_labels(test, train)  # fewer labels than in training are fine


def test_declared_labels_come_in_their_declared_order() -> None:
    rte = Examples(task=TASKS["rte"], split="dev", texts=("a",), second=("b",), labels=("not_entailment",))
    assert labels_of(rte) == ("entailment", "not_entailment")


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        texts(list("abc")).divide(share)


def test_a_single_example_cannot_be_divided() -> None:
    with pytest.raises(ValueError, match="leaves one part empty"):
        texts(["a"]).divide()


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="labels has 1 entries for 2 examples"):
        Examples(task=TREC, split="train", texts=("a", "b"), labels=("x",))
    with pytest.raises(ValueError, match="second has 1 entries for 2 texts"):
        Examples(task=TASKS["rte"], split="train", texts=("a", "b"), second=("x",), labels=("l", "m"))


def test_unit_scores_need_a_scale() -> None:
    with pytest.raises(ValueError, match="no scores on a stated scale"):
        texts(["a"]).unit_scores()
    task = replace(TASKS["stsb"], score_range=(1.0, 5.0))
    pair = Examples(task=task, split="dev", texts=("a", "b"), second=("c", "d"), scores=np.array([1.0, 3.0]))
    assert pair.unit_scores().tolist() == [0.0, 0.5]


def test_examples_say_what_they_are_in_one_line() -> None:
    assert repr(texts(list("abc"))) == "Examples of questions train: 3"
