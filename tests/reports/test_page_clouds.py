"""Clouds in the page: few bytes, exact enough for any screen, and without text where none is wanted."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
from report_samples import pictures_of

from theodolite.core.pictures import Picture
from theodolite.reports import clouds
from theodolite.reports.clouds import Shown, clouds_document


def shown(*pictures: Picture, run: str = "r") -> list[Shown]:
    return [Shown(run, one) for one in pictures]


def unpacked(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def test_points_come_back_to_within_a_pixel_of_a_large_screen() -> None:
    before, after = pictures_of(500)
    document = clouds_document(shown(before, after))
    for given, told in zip((before, after), document["pictures"], strict=True):
        points = unpacked(told["points"], "<i2").reshape(-1, 3) / 32767 * told["reach"]
        assert np.abs(points - given.points).max() < told["reach"] / 20_000


def test_tokens_and_sentences_come_back_and_are_kept_once() -> None:
    before, after = pictures_of(500)
    document = clouds_document(shown(before, after))
    assert len(document["sentences"]) == len(set(before.columns["text"]))
    for told in document["pictures"]:
        assert [document["tokens"][i] for i in unpacked(told["token"], "<u4")] == list(before.columns["token"])
        assert [document["sentences"][i] for i in unpacked(told["text"], "<u4")] == list(before.columns["text"])


def test_colours_come_back() -> None:
    before, _ = pictures_of(500)
    (told,) = clouds_document(shown(before))["pictures"]
    by = {one["name"]: one for one in told["colours"]}
    assert list(by) == ["frequency", "label", "pos", "cluster"]
    for name in ("label", "pos", "cluster"):
        names = [by[name]["names"][i] for i in unpacked(by[name]["codes"], "<u2")]
        assert names == list(map(str, before.columns[name]))
    codes = unpacked(by["frequency"]["codes"], "u1")
    frequency = by["frequency"]["low"] + codes / 254 * (by["frequency"]["high"] - by["frequency"]["low"])
    assert np.allclose(frequency, before.columns["frequency"], atol=0.02)


def test_what_is_not_known_is_told_apart() -> None:
    before, _ = pictures_of(4)
    before = replace(
        before, columns={"frequency": [None, -3.0, float("nan"), -2.0], "label": ["a", None, "a", "b"], "pos": [None] * 4}
    )
    (told,) = clouds_document(shown(before))["pictures"]
    by = {one["name"]: one for one in told["colours"]}
    assert set(by) == {"frequency", "label"}
    assert unpacked(by["frequency"]["codes"], "u1").tolist() == [255, 0, 255, 254]
    assert unpacked(by["label"]["codes"], "<u2").tolist() == [0, 65535, 0, 1]


def test_states_of_one_model_stand_side_by_side_the_pre_trained_one_first() -> None:
    before, after = pictures_of(20)
    other = pictures_of(20, model="other")
    document = clouds_document(shown(after, before, *other))
    states = [[document["pictures"][i]["state"] for i in pair["at"]] for pair in document["pairs"]]
    assert states == [["pre-trained", "fine-tuned"]] * 2
    assert [pair["title"] for pair in document["pairs"]] == ["minilm · stsb · layer 6", "other · stsb · layer 6"]
    assert {one["same"] for one in document["pictures"]} == {document["pictures"][0]["same"]}


def test_pictures_without_a_partner_are_paired_as_they_come() -> None:
    alone = [pictures_of(20, model=name)[0] for name in "abc"]
    document = clouds_document(shown(*alone))
    assert [pair["at"] for pair in document["pairs"]] == [[0, 1], [2]]
    assert not any(pair["states"] for pair in document["pairs"])


def test_without_text_no_text_is_there() -> None:
    before, after = pictures_of(300, text=" unheard-of")
    before = replace(before, columns={**before.columns, "second": before.columns["text"]})
    # A column with a value of its own for every row is no label, whatever it is called.
    after = replace(after, columns={**after.columns, "label": [f"unheard-of {i}" for i in range(300)]})
    whole = json.dumps(clouds_document(shown(before, after), text=False))
    assert "unheard-of" not in whole
    assert '"tokens": []' in whole and '"sentences": []' in whole
    assert '"token":' not in whole and '"text":' not in whole


def test_sentences_are_cut_to_fit_the_budget(monkeypatch) -> None:
    monkeypatch.setattr(clouds, "TEXT_BUDGET", 5000)
    before, _ = pictures_of(300, text=" and so on" * 30)
    document = clouds_document(shown(before))
    lengths = [len(text) for text in document["sentences"]]
    assert sum(lengths) <= 5000
    assert max(lengths) > 40


def test_points_that_are_not_finite_do_not_spoil_the_rest() -> None:
    before, _ = pictures_of(10)
    points = before.points.copy()
    points[3] = np.nan
    (told,) = clouds_document(shown(replace(before, points=points)))["pictures"]
    assert np.isfinite(told["reach"])
    assert unpacked(told["points"], "<i2").reshape(-1, 3)[3].tolist() == [0, 0, 0]
