"""Tokens, words and pairs: which pieces make a vector, what is known of it, and what is cut off."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

from theodolite.models.encoder import Encoder
from theodolite.models.extract import extract
from theodolite.models.reading import DroppedWordsWarning
from theodolite.tasks.examples import Examples
from theodolite.tasks.task import TASKS

Tiny = Callable[[str], Path]

SENTENCES = (("unbelievable", "cats", "sat", "."), ("the", "naïve", "café-dogs", "猫犬", "banking"))


def tagging(places: Any = None, labels: Any = None, sentences: Any = SENTENCES) -> Examples:
    found = [(s, w) for s, words in enumerate(sentences) for w in range(len(words))] if places is None else places
    return Examples(
        task=TASKS["pos"],
        split="test",
        texts=tuple(" ".join(words) for words in sentences),
        words=sentences,
        places=np.array(found),
        labels=tuple(labels) if labels is not None else tuple(f"L{s}{w}" for s, w in found),
    )


def test_specials_are_left_out_or_kept(tiny: Tiny, vector_texts: list[str]) -> None:
    encoder = Encoder.load(tiny("bert"))
    plain = extract(encoder, vector_texts, unit="tokens")
    full = extract(encoder, vector_texts, unit="tokens", specials=True)
    assert full.n == plain.n + 2 * len(vector_texts)
    inner = np.array([token not in ("[CLS]", "[SEP]") for token in full.rows["token"]])
    assert np.array_equal(full[2][inner], plain[2])
    first = [token for token, text in zip(plain.rows["token"], plain.rows["text"], strict=True) if text == 2]
    assert first == ["un", "##b", "##e", "##l", "##i", "##e", "##v", "##able"] + first[8:]
    assert list(plain.rows["position"])[:3] == [1, 2, 3]


def test_a_special_token_that_the_text_spells_out_is_a_token_of_the_text(tiny: Tiny) -> None:
    space = extract(Encoder.load(tiny("bert")), ["the [MASK] sat"], unit="tokens")
    assert list(space.rows["token"]) == ["the", "[MASK]", "sat"]


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "distilbert"])
def test_a_word_is_the_mean_of_its_pieces(family: str, tiny: Tiny) -> None:
    encoder = Encoder.load(tiny(family))
    examples = tagging()
    words = extract(encoder, examples, unit="words")
    assert words.n == 9 and list(words.rows["word"]) == [word for sentence in SENTENCES for word in sentence]
    assert list(words.rows["label"])[4] == "L10" and words.origin.task == "pos"
    pieces = extract(encoder, list(examples.texts), unit="tokens")
    counted = 0
    for row, (sentence, word) in enumerate(examples.places):
        # The pieces of a word alone, with the space before it where it has one.
        start, stop = examples.spans()[sentence][word]
        offsets = encoder.tokenizer(examples.texts[sentence], return_offsets_mapping=True)["offset_mapping"]
        mine = [i for i, (a, b) in enumerate(offsets) if max(a, start) < min(b, stop)]
        at = [i for i in range(pieces.n) if pieces.rows["text"][i] == sentence and pieces.rows["position"][i] in mine]
        assert len(at) == len(mine) > 0
        counted += len(mine) > 1
        for layer in words.layers:
            assert words[layer][row] == pytest.approx(pieces[layer][at].mean(0), abs=1e-5)
    assert counted >= 5


def test_rows_follow_the_examples_not_the_sentences(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"))
    every = extract(encoder, tagging(), unit="words")
    some = extract(encoder, tagging(places=[(1, 4), (0, 0), (1, 0)], labels="XYZ"), unit="words")
    assert some[-1] == pytest.approx(every[-1][[8, 0, 4]], abs=1e-5)
    assert list(some.rows["word"]) == ["banking", "unbelievable", "the"] and list(some.rows["label"]) == list("XYZ")


def test_plain_texts_split_at_white_space(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("roberta"))
    texts = ["  the cat\tsat ", "naïve 猫"]
    space = extract(encoder, texts, unit="words")
    assert list(space.rows["word"]) == ["the", "cat", "sat", "naïve", "猫"] and list(space.rows["text"]) == [0, 0, 0, 1, 1]


def test_a_pair_is_head_and_dependent_side_by_side(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"))
    places = np.array([(0, 1, 0), (1, 2, 1), (1, 0, 4)])
    examples = Examples(
        task=TASKS["dep"], split="test", texts=tagging().texts, words=SENTENCES, places=places, labels=("a", "b", "c")
    )
    pairs, words = extract(encoder, examples, unit="pairs"), extract(encoder, tagging(), unit="words")
    assert pairs.d == 32 and list(pairs.rows["head"]) == ["cats", "café-dogs", "the"]
    row = {(s, w): i for i, (s, w) in enumerate(tagging().places)}
    for layer in pairs.layers:
        want = [np.concatenate([words[layer][row[s, h]], words[layer][row[s, d]]]) for s, h, d in places]
        assert pairs[layer] == pytest.approx(np.stack(want), abs=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_words_beyond_the_length_are_dropped_and_counted(family: str, tiny: Tiny) -> None:
    encoder = Encoder.load(tiny(family), max_length=16)
    examples = tagging(sentences=(("a", "dog", "xxxxxxxxxxxxxxxxxxxx", "sat"), ("the", "cat")))
    with pytest.warns(DroppedWordsWarning, match="2 of 6 words"):
        space = extract(encoder, examples, unit="words")
    assert list(space.rows["word"]) == ["a", "dog", "the", "cat"]
    assert list(space.rows["example"]) == [0, 1, 4, 5]
    assert list(space.rows["label"]) == ["L00", "L01", "L10", "L11"]


def test_a_word_that_is_cut_in_its_middle_is_dropped(tiny: Tiny) -> None:
    examples = tagging(sentences=(("a", "unbelievable", "dog"),))  # 1 + 8 + 1 pieces
    for length, kept in ((13, 3), (12, 3), (11, 2), (10, 1), (4, 1)):
        encoder = Encoder.load(tiny("bert"), max_length=length)
        if kept == 3:
            assert extract(encoder, examples, unit="words").n == 3
        else:
            with pytest.warns(DroppedWordsWarning):
                assert extract(encoder, examples, unit="words").n == kept


def test_a_word_of_nothing_the_tokenizer_knows_has_no_vector(tiny: Tiny) -> None:
    with pytest.warns(DroppedWordsWarning, match="1 of 3"):
        space = extract(Encoder.load(tiny("bert")), ["the \u200d dog"], unit="words")
    assert list(space.rows["word"]) == ["the", "dog"]


def test_long_texts_are_cut_as_the_tokenizer_cuts_them(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"))
    assert encoder.max_length == 64
    assert extract(encoder, ["the " * 500], unit="tokens", specials=True).n == 64
    assert Encoder.load(tiny("roberta")).max_length == 64  # of 66 positions, two are for padding
    with pytest.raises(ValueError, match="max_length=65 must be from 1 to the 64 positions"):
        Encoder.load(tiny("roberta"), max_length=65)


def test_similar_texts_are_read_apart_and_paired_ones_together(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"))
    texts, second = ("the cat", "a dog sat"), ("the mat", "a river")
    apart = Examples(task=TASKS["stsb"], split="dev", texts=texts, second=second, scores=np.array([1.0, 4.5]))
    space = extract(encoder, apart)
    assert list(space.rows["side"]) == [0, 0, 1, 1] and list(space.rows["text"]) == [0, 1, 0, 1]
    assert list(space.rows["score"]) == [1.0, 4.5, 1.0, 4.5] and list(space.rows["sentence"]) == [*texts, *second]
    together = Examples(task=TASKS["rte"], split="dev", texts=texts, second=second, labels=("entailment", "not_entailment"))
    joint = extract(encoder, together, unit="cls")
    import torch

    ids = encoder.tokenizer(texts[1], second[1], return_tensors="pt")
    assert ids["token_type_ids"].any()
    with torch.no_grad():
        want = encoder.module(**ids).last_hidden_state[0, 0].numpy()
    assert joint.n == 2 and joint[-1][1] == pytest.approx(want, abs=1e-5)


def test_words_need_a_task_on_words(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"))
    texts = Examples(task=TASKS["cola"], split="dev", texts=("the cat",), labels=("acceptable",))
    with pytest.raises(ValueError, match="on texts"):
        extract(encoder, texts, unit="words")
    with pytest.raises(ValueError, match='use unit="words"'):
        extract(encoder, tagging(), unit="pairs")


def test_frequencies_are_those_of_the_words(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def zipf(word: str, language: str) -> float:
        asked.append((word, language))
        return {"the": 7.7, "cat": 4.8, "s": 5.0}.get(word, 0.0)

    monkeypatch.setitem(sys.modules, "wordfreq", SimpleNamespace(zipf_frequency=zipf))
    encoder = Encoder.load(tiny("bert"))
    tokens = extract(encoder, ["the cats the"], unit="tokens", specials=True, frequencies=True)
    assert list(tokens.rows["frequency"]) == [0.0, 7.7, 4.8, 5.0, 7.7, 0.0]
    assert len(asked) == len(set(asked))
    words = extract(encoder, ["the cats the"], unit="words", frequencies=True)
    assert list(words.rows["frequency"]) == [7.7, 0.0, 7.7]
    with pytest.raises(ValueError, match='use unit="tokens" or "words"'):
        extract(encoder, ["the"], frequencies=True)


def test_real_frequencies() -> None:
    pytest.importorskip("wordfreq", reason="wordfreq is not installed")
    from theodolite.models.frequency import zipf_frequencies

    common, rare, unknown = zipf_frequencies(["the", "theodolite", "qqxyzzq"])
    assert common > 7 > 4 > rare > 0 == unknown
