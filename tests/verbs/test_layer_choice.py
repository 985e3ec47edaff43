"""`advise` with several layers or poolings: spaces, encoders, decoders and collections, what to run next, and errors."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import theodolite as th
from theodolite.cli.app import app
from theodolite.core.result import Result
from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space, extract_units
from theodolite.reports.figures import displays_of
from theodolite.spaces import Space

random = np.random.default_rng(0)
N = 240
LABELS = random.permutation(["a", "b", "c"] * (N // 3)).tolist()
CENTRES = np.eye(8)[["abc".index(label) for label in LABELS]]
WORDS = ("the", "cat", "sat", "on", "mat", "dog", "bank", "river")


def layered(best: int) -> Space:
    """Four layers of which one carries the labels."""
    layers = {i: CENTRES * (2.0 if i == best else 0.4) + 0.5 * random.standard_normal((N, 8)) for i in range(4)}
    return Space.of(layers, rows={"label": LABELS, "sentence": [f"s{i}" for i in range(N)]})


def sentences(count: int) -> list[str]:
    return [" ".join(random.choice(WORDS, random.integers(3, 9))) + f" {i}" for i in range(count)]


def pairs_file(folder: Path, count: int = 60) -> Path:
    path = folder / "pairs.tsv"
    left, right = sentences(count), sentences(count)
    lines = [f"{a}\t{b}\t{score:.2f}" for a, b, score in zip(left, right, random.uniform(0, 5, count), strict=True)]
    path.write_text("\n".join(["text\ttext_b\tscore", *lines]) + "\n")
    return path


@pytest.mark.slow
def test_the_layer_of_a_space_that_carries_the_labels_is_named(tmp_path: Path) -> None:
    layered(2).save(tmp_path / "space")
    result = th.advise(tmp_path / "space", layers="all", folds=3)
    assert result.answer is not None and result.answer.verdict == "apply"
    assert result.answer.sentence.startswith("layer 2 raises k-NN accuracy") or "layer 2" in result.answer.sentence
    assert result.provenance["advice"]["recommended"]["layer"] == 2 and result.provenance["advice"]["in_use"]["layer"] == 3
    assert any("No model folder can be written that returns layer 2" in reason for reason in result.answer.reasons)
    words = shlex.split(result.answer.next[0].words)
    assert words[1:3] == ["repair", "advise"] and CliRunner().invoke(app, words[1:]).exit_code == 0
    scores = {row.layer: row.value for row in result.rows if row.state == "layer" and not row.metric.endswith("_gain")}
    assert set(scores) == {0, 1, 2, 3} and max(scores, key=scores.__getitem__) == 2
    again = Result.load(result.save(tmp_path / "saved"))
    assert repr(again) == repr(result) and "layer 3, in use" in repr(result)
    display = next(display for display in displays_of(result) if display.kind == "layer-scores")
    assert len(display.frame()) == 4 and display.plot().data[0].type == "heatmap"


def test_the_last_layer_is_fine_where_it_is() -> None:
    result = th.advise(layered(3), layers=[0, 1, 2, 3], folds=3)
    assert result.answer is not None and result.answer.verdict == "leave it alone"
    assert result.answer.sentence.startswith("Keep layer 3: none of 3 other layers and poolings can be expected to raise")
    assert result.provenance["advice"]["recommended"] is None and not result.answer.next


def test_queries_of_a_space_are_taken_from_the_same_layer(tmp_path: Path) -> None:
    documents = random.standard_normal((80, 6))
    answers = random.integers(0, 80, 70)
    noise = {0: 3.0, 1: 0.3, 2: 3.0}
    spaces = [
        Space.of({layer: rows + level * random.standard_normal(rows.shape) for layer, level in noise.items()})
        for rows in (documents, documents[answers])
    ]
    table = [[query, int(document), 1] for query, document in enumerate(answers)]
    result = th.advise(spaces[0], queries=spaces[1], judgements=table, layers="all", folds=3)
    assert result.answer is not None and result.answer.verdict == "apply"
    assert result.provenance["advice"]["recommended"]["layer"] == 1 and result.rows[0].metric == "ndcg@10"


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_several_units_of_one_pass_are_those_of_one_pass_each(tiny: Any, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, texts = Encoder.load(tiny(family)), sentences(12)
    passes = []
    forward = Encoder.hidden_states
    monkeypatch.setattr(Encoder, "hidden_states", lambda self, *inputs: passes.append(1) or forward(self, *inputs))
    spaces = extract_units(encoder, texts, units=["mean", "cls", "max", "last"], batch_size=4)
    assert len(passes) == 3  # of four texts each, whatever the number of units and layers
    for unit, space in spaces.items():
        alone = extract_space(encoder, texts, unit=unit, batch_size=4)
        assert space.layers == alone.layers and space.origin == alone.origin
        assert {name: list(values) for name, values in space.rows.items()} == {
            name: list(values) for name, values in alone.rows.items()
        }
        for layer in space.layers:
            np.testing.assert_array_equal(space[layer], alone[layer])


@pytest.mark.slow
def test_an_encoder_is_read_once_for_all_layers_and_units(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    path = pairs_file(tmp_path)
    options = {"own": {"dev": str(path)}, "kind": "similarity", "score_range": (0, 5), "split": "dev"}
    result = th.advise(str(tiny("bert")), layers="all", units="last,mean,cls", folds=3, **options)
    rows = [row for row in result.rows if row.state == "layer" and row.metric == "spearman"]
    assert {(row.layer, row.setting) for row in rows} == {(layer, unit) for layer in range(4) for unit in ("mean", "cls", "last")}
    assert result.provenance["advice"]["in_use"] == {"layer": 3, "unit": "mean"}
    # Each score is that of the layer and unit by itself.
    for layer, unit in ((3, "mean"), (1, "last"), (2, "cls")):
        alone = th.advise(str(tiny("bert")), layers=layer, unit=unit, folds=3, **options)
        score = alone.value("spearman", setting="leave it alone", state="repair")
        assert next(row.value for row in rows if (row.layer, row.setting) == (layer, unit)) == pytest.approx(score, abs=1e-6)


def test_a_decoder_is_pooled_by_its_last_token_and_has_no_cls(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    path = pairs_file(tmp_path)
    options = {"own": {"dev": str(path)}, "kind": "similarity", "score_range": (0, 5), "split": "dev", "folds": 3}
    result = th.advise(str(tiny("gpt2")), layers="1,-1", units=["mean", "last"], **options)
    places = {(row.layer, row.setting) for row in result.rows if row.state == "layer"}
    assert places == {(1, "mean"), (1, "last"), (3, "mean"), (3, "last")}
    with pytest.raises(ValueError, match=r"adds no \[CLS\] token; use unit='mean' or unit='last'"):
        th.advise(str(tiny("gpt2")), layers="all", units="mean,cls", **options)


def test_judged_queries_choose_a_layer_too(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    documents = sentences(40)
    corpus = [json.dumps({"_id": f"d{i}", "title": "", "text": text}) for i, text in enumerate(documents)]
    (folder / "corpus.jsonl").write_text("\n".join(corpus) + "\n")
    asked = [json.dumps({"_id": f"q{i}", "text": documents[i][:-3]}) for i in range(30)]
    (folder / "queries.jsonl").write_text("\n".join(asked) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\td{i}\t1\n" for i in range(30)))
    result = th.advise(str(tiny("bert")), retrieval=folder, layers="all", units="mean,cls", folds=3)
    rows = [row for row in result.rows if row.state == "layer" and row.metric == "ndcg@10"]
    assert len(rows) == 8 and all(row.n == 30 for row in rows)
    alone = th.advise(str(tiny("bert")), retrieval=folder, unit="cls", folds=3)
    score = alone.value("ndcg@10", setting="leave it alone", state="repair")
    assert next(row.value for row in rows if (row.layer, row.setting) == (3, "cls")) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize(
    ("source", "options", "fault"),
    [
        (
            CENTRES,
            {"labels": LABELS, "units": "mean"},
            r"units='mean' is for an encoder, but these are vectors, which have no tokens",
        ),
        (
            layered(1),
            {"units": "mean,cls"},
            r"units='mean,cls' is for an encoder, but a space has been pooled already; leave it out",
        ),
        ("demo", {"texts": ["a"], "units": "mean,first"}, r"units='first' must be one or several of mean, cls, max, last"),
        ("demo", {"texts": ["a"], "units": []}, r"units='?X'? must be one or several of mean, cls, max, last"),
        (
            "demo",
            {"texts": ["a"], "units": "cls", "unit": "mean"},
            r"unit='mean' and units='cls' both choose how texts are pooled",
        ),
        (layered(1), {"layers": "all", "labels": "topic"}, r"topic"),
        (layered(1), {"layers": "0,9"}, r"there is no layer 9; the layers are"),
        (Space.of({0: CENTRES, 1: CENTRES}), {"layers": "all"}, r"choosing a layer needs labels, scored pairs or judged queries"),
    ],
)
def test_what_does_not_go_together_is_said_in_one_sentence(source: Any, options: dict[str, Any], fault: str) -> None:
    with pytest.raises((ValueError, KeyError), match=fault) as error:
        th.advise(source, **options)
    assert "\n" not in str(error.value)


def test_one_layer_of_a_space_leaves_repairs_to_choose() -> None:
    result = th.advise(
        Space.of({4: CENTRES + 0.5 * random.standard_normal((N, 8))}, rows={"label": LABELS}), layers="all", folds=3
    )
    assert any(row.state == "repair" for row in result.rows)


@pytest.mark.slow
def test_a_sentence_model_is_compared_with_its_own_pooling() -> None:
    encoder = Encoder.load("demo")
    texts = ["A surveyor measures angles.", "Rain fell on the harbour all night.", "No."]
    own, mean = extract_space(encoder, texts, unit="text"), extract_units(encoder, texts, units=["mean"])["mean"]
    vectors = mean[mean.layers[-1]]
    np.testing.assert_allclose(own[own.layers[-1]], vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=1e-6)
    result = th.advise("demo", task="demo-pairs", layers="last", units="cls", folds=3)
    assert result.provenance["advice"]["in_use"] == {"layer": 6, "unit": "mean"}
    assert {row.setting for row in result.rows if row.state == "layer"} == {"mean", "cls"}
