"""What is known of each vector: its text, token or word, label, score and frequency, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from theodolite.models.encoder import Encoder
from theodolite.models.frequency import zipf_frequencies
from theodolite.models.inputs import Given, Unit
from theodolite.models.plan import Plan

Columns = dict[str, Sequence[Any]]


def describe(encoder: Encoder, given: Given, plan: Plan, unit: Unit, *, frequencies: bool = False) -> Columns:
    """Columns of length n.

    `text` is the number of the row's text in what was given, `side` 0 or 1 where two texts are read apart, `example` the number
    of the word's example; `sentence` the text itself (left out for tokens, of which there are many a text), `second` the other
    one where two are read together; `token` and `position`, `word`, or `head` and `word`; `label`, `score`; `frequency`.
    """
    number = given.number[plan.text]
    columns: Columns = {"text": number.tolist()}
    if given.side is not None:
        columns["side"] = given.side[plan.text].tolist()
    if unit == "tokens":
        position = plan.runs[:, 0, 0]
        columns["position"] = position.tolist()
        columns["token"] = _token_texts(encoder, plan)
    else:
        columns["sentence"] = [given.texts[text] for text in plan.text]
        if given.second is not None:
            columns["second"] = [given.second[text] for text in plan.text]
    if plan.place is not None:
        columns |= _words(given, plan)
    # An example is a word where rows are words, and a text everywhere else.
    example = number if plan.place is None else plan.place
    if given.labels is not None:
        columns["label"] = [given.labels[index] for index in example]
    if given.scores is not None:
        columns["score"] = [float(given.scores[index]) for index in example]
    if frequencies:
        columns["frequency"] = _frequencies(encoder, columns, unit)
    return columns


def _words(given: Given, plan: Plan) -> Columns:
    assert given.words is not None
    assert given.places is not None
    assert plan.place is not None
    places = given.places[plan.place]
    columns: Columns = {"example": plan.place.tolist()}
    for name, column in (("head", 1), ("word", 2)) if places.shape[1] == 3 else (("word", 1),):
        columns[name] = [given.words[text][word] for text, word in places[:, (0, column)]]
    return columns


def _token_texts(encoder: Encoder, plan: Plan) -> list[str]:
    ids = plan.tokens.ids[plan.tokens.starts[plan.text] + plan.runs[:, 0, 0]]
    different, where = np.unique(ids, return_inverse=True)
    names = encoder.tokenizer.convert_ids_to_tokens(different.tolist())
    return [str(names[index]) for index in where]


def _frequencies(encoder: Encoder, columns: Columns, unit: Unit) -> list[float]:
    if unit not in ("tokens", "words"):
        raise ValueError(f'frequencies are of single tokens or words; unit="{unit}" has none: use unit="tokens" or "words"')
    if unit == "words":
        return list(map(float, zipf_frequencies(columns["word"])))
    # A token's own characters, without the marks that say where a word begins or goes on.
    plain = {token: _plain(encoder, token) for token in set(columns["token"])}
    return list(map(float, zipf_frequencies(plain[token] for token in columns["token"])))


def _plain(encoder: Encoder, token: str) -> str:
    if token in encoder.tokenizer.all_special_tokens:
        return ""
    text: str = encoder.tokenizer.convert_tokens_to_string([token])
    return text.strip().removeprefix("##").strip()
