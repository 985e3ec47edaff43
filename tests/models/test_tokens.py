"""Plain texts and examples become one form of input, and texts are cut as the tokenizer cuts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.models.tokens import text_inputs
from theodolite.tasks.declarations import TASKS
from theodolite.tasks.examples import Examples

Tiny = Callable[[str], Path]


def test_plain_texts_split_at_white_space(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("roberta"))
    texts = ["  the cat\tsat ", "naïve 猫"]
    space = extract_space(encoder, texts, unit="words")
    assert list(space.rows["word"]) == ["the", "cat", "sat", "naïve", "猫"] and list(space.rows["text"]) == [0, 0, 0, 1, 1]


def test_long_texts_are_cut_as_the_tokenizer_cuts_them(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"))
    assert encoder.max_length == 64
    assert extract_space(encoder, ["the " * 500], unit="tokens", specials=True).n == 64
    assert Encoder.load(tiny("roberta")).max_length == 64  # of 66 positions, two are for padding
    with pytest.raises(ValueError, match="max_length=65 must be from 1 to 64, the encoder's positions"):
        Encoder.load(tiny("roberta"), max_length=65)


def test_similar_texts_are_read_apart_and_paired_ones_together(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("bert"))
    texts, second = ("the cat", "a dog sat"), ("the mat", "a river")
    apart = Examples(task=TASKS["stsb"], split="dev", texts=texts, second=second, scores=np.array([1.0, 4.5]))
    space = extract_space(encoder, apart)
    assert list(space.rows["side"]) == [0, 0, 1, 1] and list(space.rows["text"]) == [0, 1, 0, 1]
    assert list(space.rows["score"]) == [1.0, 4.5, 1.0, 4.5] and list(space.rows["sentence"]) == [*texts, *second]
    together = Examples(task=TASKS["rte"], split="dev", texts=texts, second=second, labels=("entailment", "not_entailment"))
    joint = extract_space(encoder, together, unit="cls")
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
        extract_space(encoder, texts, unit="words")
    words = {"texts": ("the cat",), "words": (("the", "cat"),), "places": np.array([(0, 1)]), "labels": ("NOUN",)}
    with pytest.raises(ValueError, match="use unit='words'"):
        extract_space(encoder, Examples(task=TASKS["pos"], split="test", **words), unit="pairs")


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ("one text", {}, "one string"),
        (["a", 3], {}, "text 1 is int"),
        ([], {}, "no texts"),
        (["a"], {"unit": "sentence"}, "must be one of"),
        (["a"], {"unit": "mean", "specials": True}, "for unit='tokens'"),
        (["a"], {"layers": 4}, "no layer 4"),
        (["a"], {"layers": "first"}, "layers.*first"),
        (["a"], {"batch_size": 0}, "at least 1"),
        (["a"], {"unit": "pairs"}, "needs examples of two words"),
        ([""], {"unit": "tokens"}, "no tokens of their own"),
    ],
)
def test_wrong_use_is_an_error_that_names_it(texts: Any, options: dict[str, Any], message: str, tiny: Tiny) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        extract_space(Encoder.load(tiny("bert")), texts, **options)


def test_both_texts_of_a_similarity_task_can_be_read_together() -> None:
    texts, second = ("the cat", "a dog sat"), ("the mat", "a river")
    examples = Examples(task=TASKS["stsb"], split="dev", texts=texts, second=second, scores=np.array([1.0, 4.5]))
    inputs = text_inputs(examples, "cls", together=True)
    assert (inputs.texts, inputs.second, inputs.side) == (texts, second, None)
