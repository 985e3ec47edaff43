"""Which tokens make a vector, for tokens, words and pairs of words, and what happens to words that are cut off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

from theodolite.core.spelling import ON_COMMAND_LINE
from theodolite.models.alignment import DroppedWordsWarning, plan_rows
from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.models.tokens import text_inputs
from theodolite.tasks.declarations import TASKS
from theodolite.tasks.examples import Examples

Tiny = Callable[[str], Path]
SENTENCES = (("unbelievable", "cats", "sat", "."), ("the", "naïve", "café-dogs", "猫犬", "banking"))


def tagging(places: Any = None, labels: Any = None, sentences: Any = SENTENCES) -> Examples:
    all_places = [(s, w) for s, words in enumerate(sentences) for w in range(len(words))] if places is None else places
    return Examples(
        task=TASKS["pos"],
        split="test",
        texts=tuple(" ".join(words) for words in sentences),
        words=sentences,
        places=np.array(all_places),
        labels=tuple(labels) if labels is not None else tuple(f"L{s}{w}" for s, w in all_places),
    )


def test_special_tokens_are_left_out_by_default(tiny: Tiny, vector_texts: list[str]) -> None:
    encoder = Encoder.load(tiny("bert"))
    plain = extract_space(encoder, vector_texts, unit="tokens")
    full = extract_space(encoder, vector_texts, unit="tokens", specials=True)
    assert full.n == plain.n + 2 * len(vector_texts)
    inner = np.array([token not in ("[CLS]", "[SEP]") for token in full.rows["token"]])
    assert np.array_equal(full[2][inner], plain[2])
    first = [token for token, text in zip(plain.rows["token"], plain.rows["text"], strict=True) if text == 2]
    assert first == ["un", "##b", "##e", "##l", "##i", "##e", "##v", "##able"] + first[8:]
    assert list(plain.rows["position"])[:3] == [1, 2, 3]


def test_a_special_token_that_the_text_spells_out_is_a_token_of_the_text(tiny: Tiny) -> None:
    space = extract_space(Encoder.load(tiny("bert")), ["the [MASK] sat"], unit="tokens")
    assert list(space.rows["token"]) == ["the", "[MASK]", "sat"]


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "distilbert"])
def test_a_word_is_the_mean_of_its_pieces(family: str, tiny: Tiny) -> None:
    encoder = Encoder.load(tiny(family))
    examples = tagging()
    words = extract_space(encoder, examples, unit="words")
    assert words.n == 9 and list(words.rows["word"]) == [word for sentence in SENTENCES for word in sentence]
    assert list(words.rows["label"])[4] == "L10" and words.origin.task == "pos"
    pieces = extract_space(encoder, list(examples.texts), unit="tokens")
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
    every = extract_space(encoder, tagging(), unit="words")
    some = extract_space(encoder, tagging(places=[(1, 4), (0, 0), (1, 0)], labels="XYZ"), unit="words")
    assert some[-1] == pytest.approx(every[-1][[8, 0, 4]], abs=1e-5)
    assert list(some.rows["word"]) == ["banking", "unbelievable", "the"] and list(some.rows["label"]) == list("XYZ")


def test_a_pair_is_head_and_dependent_concatenated(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"))
    places = np.array([(0, 1, 0), (1, 2, 1), (1, 0, 4)])
    examples = Examples(
        task=TASKS["dep"], split="test", texts=tagging().texts, words=SENTENCES, places=places, labels=("a", "b", "c")
    )
    pairs, words = extract_space(encoder, examples, unit="pairs"), extract_space(encoder, tagging(), unit="words")
    assert pairs.d == 32 and list(pairs.rows["head"]) == ["cats", "café-dogs", "the"]
    row = {(s, w): i for i, (s, w) in enumerate(tagging().places)}
    for layer in pairs.layers:
        want = [np.concatenate([words[layer][row[s, h]], words[layer][row[s, d]]]) for s, h, d in places]
        assert pairs[layer] == pytest.approx(np.stack(want), abs=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_words_beyond_the_length_are_dropped_and_counted(family: str, tiny: Tiny) -> None:
    encoder = Encoder.load(tiny(family), max_length=16)
    examples = tagging(sentences=(("a", "dog", "xxxxxxxxxxxxxxxxxxxx", "sat"), ("the", "cat")))
    with pytest.warns(DroppedWordsWarning, match=r"2 of 6 words, in 1 of 2 texts, have no vector .* cut off by max_length=16"):
        space = extract_space(encoder, examples, unit="words")
    assert list(space.rows["word"]) == ["a", "dog", "the", "cat"]
    assert list(space.rows["example"]) == [0, 1, 4, 5]
    assert list(space.rows["label"]) == ["L00", "L01", "L10", "L11"]


def test_a_word_that_is_cut_in_its_middle_is_dropped(tiny: Tiny) -> None:
    examples = tagging(sentences=(("a", "unbelievable", "dog"),))  # 1 + 8 + 1 pieces
    for length, kept in ((13, 3), (12, 3), (11, 2), (10, 1), (4, 1)):
        encoder = Encoder.load(tiny("bert"), max_length=length)
        if kept == 3:
            assert extract_space(encoder, examples, unit="words").n == 3
        else:
            with pytest.warns(DroppedWordsWarning):
                assert extract_space(encoder, examples, unit="words").n == kept


def test_a_word_without_tokens_has_no_vector(tiny: Tiny) -> None:
    with pytest.warns(DroppedWordsWarning, match="1 of 3"):
        space = extract_space(Encoder.load(tiny("bert")), ["the \u200d dog"], unit="words")
    assert list(space.rows["word"]) == ["the", "dog"]


def test_an_encoder_without_cls_names_the_way_out(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="unit='mean' or unit='last'"):
        extract_space(Encoder.load(tiny("gpt2")), ["the cat"], unit="cls")


def test_the_warning_names_the_option_as_it_is_typed(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"), max_length=4)
    token = ON_COMMAND_LINE.set(True)
    try:
        with pytest.warns(DroppedWordsWarning, match="cut off by --max-length 4"):
            extract_space(encoder, ["the cat sat", "a dog"], unit="words")
    finally:
        ON_COMMAND_LINE.reset(token)


def test_if_no_word_is_left_the_limit_is_named(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"), max_length=2)
    with pytest.raises(ValueError, match="no tokens of their own within max_length=2"):
        plan_rows(encoder, text_inputs(["the cat"], "words"), "words")
