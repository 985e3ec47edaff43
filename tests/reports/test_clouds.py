"""Clouds: which pictures are side by side, what their points are coloured by, and few bytes for the page."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest
from report_samples import pictures_of

from theodolite.core.pictures import Picture
from theodolite.reports import clouds
from theodolite.reports.clouds import Colouring, clouds_document, group_clouds


def of_run(*pictures: Picture, run: str = "r") -> list[tuple[str, Picture]]:
    return [(run, picture) for picture in pictures]


def unpacked(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def test_points_come_back_to_within_a_pixel_of_a_large_screen() -> None:
    before, after = pictures_of(500)
    document = clouds_document(of_run(before, after))
    for picture, packed in zip((before, after), document["pictures"], strict=True):
        points = unpacked(packed["points"], "<i2").reshape(-1, 3) / 32767 * packed["reach"]
        assert np.abs(points - picture.points).max() < packed["reach"] / 20_000


def test_tokens_and_sentences_come_back_and_are_kept_once() -> None:
    before, after = pictures_of(500)
    document = clouds_document(of_run(before, after))
    assert len(document["sentences"]) == len(set(before.columns["text"]))
    for packed in document["pictures"]:
        assert [document["tokens"][i] for i in unpacked(packed["token"], "<u4")] == list(before.columns["token"])
        assert [document["sentences"][i] for i in unpacked(packed["text"], "<u4")] == list(before.columns["text"])


def test_colours_come_back() -> None:
    before, _ = pictures_of(500)
    document = clouds_document(of_run(before))
    (packed,) = document["pictures"]
    by = {colouring["name"]: colouring for colouring in document["groups"][0]}
    assert list(by) == ["frequency", "label", "pos", "cluster"]
    for name in ("label", "pos", "cluster"):
        names = [by[name]["names"][i] for i in unpacked(packed["codes"][name], "<u2")]
        assert names == list(map(str, before.columns[name]))
    codes = unpacked(packed["codes"]["frequency"], "u1")
    frequency = by["frequency"]["low"] + codes / 254 * (by["frequency"]["high"] - by["frequency"]["low"])
    assert np.allclose(frequency, before.columns["frequency"], atol=0.02)
    assert by["frequency"]["title"] == "word frequency (Zipf scale)"


def test_classes_are_the_most_frequent_first_and_whole_numbers_in_their_order() -> None:
    before, _ = pictures_of(4)
    columns = {"label": ["b", "c", "b", "a"], "cluster": [10, 2, 2, 2]}
    picture = replace(before, columns=columns)
    assert Colouring.of([picture], "label").names == ("b", "a", "c")
    assert Colouring.of([picture], "cluster").names == ("2", "10")


def test_both_pictures_of_a_pair_have_the_same_colours() -> None:
    before, after = pictures_of(4)
    before = replace(before, columns={"label": ["a", "a", "a", "b"], "frequency": [0.0, 1.0, 2.0, 3.0]})
    after = replace(after, columns={"label": ["c", "b", "b", "b"], "frequency": [0.0, 1.0, 2.0, 6.0]})
    document = clouds_document(of_run(before, after))
    frequency, label = document["groups"][0]
    assert label["names"] == ["b", "a", "c"] and (frequency["low"], frequency["high"]) == (0.0, 6.0)
    codes = [unpacked(packed["codes"]["label"], "<u2").tolist() for packed in document["pictures"]]
    assert codes == [[1, 1, 1, 0], [2, 0, 0, 0]]


def test_what_is_not_known_has_a_code_of_its_own() -> None:
    before, _ = pictures_of(4)
    before = replace(
        before, columns={"frequency": [None, 2.0, float("nan"), 3.0], "label": ["a", None, "a", ""], "pos": [None] * 4}
    )
    document = clouds_document(of_run(before))
    (packed,) = document["pictures"]
    assert [colouring["name"] for colouring in document["groups"][0]] == ["frequency", "label"]
    assert unpacked(packed["codes"]["frequency"], "u1").tolist() == [255, 0, 255, 254]
    assert unpacked(packed["codes"]["label"], "<u2").tolist() == [0, 65535, 0, 65535]


def test_states_of_one_model_are_side_by_side_the_earliest_first() -> None:
    before, after = pictures_of(20)
    other = pictures_of(20, model="other")
    document = clouds_document(of_run(after, before, *other))
    states = [[document["pictures"][i]["state"] for i in pair["at"]] for pair in document["pairs"]]
    assert states == [["pre-trained", "fine-tuned"]] * 2
    assert [pair["title"] for pair in document["pairs"]] == ["minilm · stsb · layer 6", "other · stsb · layer 6"]
    assert {packed["same"] for packed in document["pictures"]} == {document["pictures"][0]["same"]}


def test_the_first_of_several_states_is_next_to_each_of_the_others() -> None:
    before, after = pictures_of(20)
    layer = replace(after, about={**after.about, "state": "isolayer"})
    (group,) = group_clouds(of_run(layer, after, before))
    assert [picture.about["state"] for picture in group.pictures] == ["pre-trained", "fine-tuned", "isolayer"]
    assert group.pairs == [(0, 1), (0, 2)]
    document = clouds_document(of_run(layer, after, before))
    assert document["pictures"][2]["state"] == "isotropy layer"


def test_runs_are_not_mixed_and_are_named() -> None:
    before, after = pictures_of(20)
    document = clouds_document([("one", before), ("two", after)])
    assert [pair["states"] for pair in document["pairs"]] == [False]
    assert document["pairs"][0]["title"].startswith("one · minilm · pre-trained · layer 6  and  two · minilm")


def test_pictures_without_another_state_are_paired_as_they_come() -> None:
    alone = [pictures_of(20, model=name)[0] for name in "abc"]
    document = clouds_document(of_run(*alone))
    assert [pair["at"] for pair in document["pairs"]] == [[0, 1], [2]]
    assert not any(pair["states"] for pair in document["pairs"])


def test_without_text_no_text_is_there() -> None:
    before, after = pictures_of(300, text=" unheard-of")
    before = replace(before, columns={**before.columns, "second": before.columns["text"]})
    # A column with a value of its own for every row is not a label, whatever it is called.
    after = replace(after, columns={**after.columns, "label": [f"unheard-of {i}" for i in range(300)]})
    whole = json.dumps(clouds_document(of_run(before, after), text=False))
    assert "unheard-of" not in whole
    assert '"tokens": []' in whole and '"sentences": []' in whole
    assert '"token":' not in whole and '"text":' not in whole


def test_sentences_are_cut_to_fit_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clouds, "TEXT_BUDGET", 5000)
    before, _ = pictures_of(300, text=" and so on" * 30)
    lengths = [len(text) for text in clouds_document(of_run(before))["sentences"]]
    assert sum(lengths) <= 5000
    assert max(lengths) > 40


def test_points_that_are_not_finite_do_not_spoil_the_rest() -> None:
    before, _ = pictures_of(10)
    points = before.points.copy()
    points[3] = np.nan
    (packed,) = clouds_document(of_run(replace(before, points=points)))["pictures"]
    assert np.isfinite(packed["reach"])
    assert unpacked(packed["points"], "<i2").reshape(-1, 3)[3].tolist() == [0, 0, 0]
