"""What an encoder is before a study tunes it, rows of a fine-tuning as a study has them, and the examples that a step reads."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, ISOBN, ISOLAYER, PRE_TRAINED
from theodolite.studies.claims.evidence import ModelOrigin
from theodolite.studies.requests import identify_models
from theodolite.studies.shared_steps import _belongs, _renamed, read_examples
from theodolite.studies.spec import KnownEncoder, load_spec
from theodolite.studies.steps import Sources, Work


def row(**fields):
    return Row(**{"metric": "accuracy", "value": 0.5, "state": FINE_TUNED, "split": "dev", "model": "/a/folder", **fields})


@pytest.mark.parametrize(
    ("fields", "methods"),
    [
        ({}, {"plain", ISOBN}),  # the plain run that an Isotropy Layer is put into has its score already
        ({"state": ISOLAYER}, {"plain", ISOBN, ISOLAYER}),
        ({"split": "train"}, set()),
        ({"split": "train", "metric": "train_seconds"}, {"plain", ISOBN, ISOLAYER}),
        ({"layer": 2}, {"plain"}),
    ],
)
def test_a_row_belongs_to_the_step_that_measured_it_first(fields, methods):
    assert {method for method in ("plain", ISOBN, ISOLAYER) if _belongs(row(**fields), method)} == methods


def test_rows_have_the_name_of_the_model_and_the_method_as_their_state():
    assert _renamed(row(setting="x"), "plain", "m") == row(setting="x", model="m")
    assert _renamed(row(setting="x"), ISOBN, "m") == row(model="m", state=ISOBN)
    assert _renamed(row(state=PRE_TRAINED), ISOBN, "m") == row(model="m", state=PRE_TRAINED)


@pytest.mark.parametrize(("most", "count"), [(None, 24), (5, 5), (100, 24)])
def test_the_first_examples_are_read_if_the_settings_cap_their_number(releases, most, count):
    settings = {"task": "trec-50", "split": "test", "examples": most}
    examples = read_examples(Work(settings, {}, Path(), Sources(data=str(releases))))
    assert len(examples) == count
    assert examples.texts == Sources(data=str(releases)).examples("trec-50", "test").texts[:count]


def test_the_origin_is_that_of_the_list_of_the_pipeline_or_the_declared_one(study_bert, tmp_path):
    spec = load_spec("rp21")
    (model,) = identify_models(study_bert, spec)
    assert model.origin == ModelOrigin("undeclared") and "bert is an encoder of undeclared origin: its" in model.caveat
    (declared,) = identify_models(study_bert, spec, origin="pre-trained")
    assert declared.origin == ModelOrigin("pre-trained", "", "declared") and declared.caveat == ""
    with pytest.raises(ValueError, match="origin='new' must be pre-trained or tuned"):
        identify_models(study_bert, spec, origin="new")
    known = KnownEncoder(name="bert", about="a toy", origin="tuned", sha256=(model.weights,))
    listed = replace(spec, encoders=(*spec.encoders, known))
    assert identify_models(study_bert, listed)[0].origin == ModelOrigin("tuned", "a toy", "list")
    with pytest.raises(ValueError, match=r"bert is tuned \(a toy\), not pre-trained; leave out origin='pre-trained'"):
        identify_models(study_bert, listed, origin="pre-trained")
    # A folder may be called like any model, and only its files count.
    shutil.copytree(study_bert, tmp_path / "bert-base-uncased")
    assert identify_models(tmp_path / "bert-base-uncased", spec)[0].origin.kind == "undeclared"
    pipeline = tmp_path / "pipeline"
    shutil.copytree(study_bert, pipeline)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    (pipeline / "modules.json").write_text(json.dumps(modules))
    assert identify_models(pipeline, spec)[0].origin == ModelOrigin("tuned", "a sentence-transformers model", "pipeline")
    assert "as it was before this fine-tuning" in identify_models(pipeline, spec)[0].caveat


def test_the_papers_models_and_the_encoders_of_the_list_are_known():
    spec = load_spec("zs22")
    assert spec.known_origin("google/bert_uncased_L-2_H-128_A-2") == ModelOrigin("pre-trained", "the paper's BERT-tiny", "list")
    kinds = {encoder.name: spec.known_origin(*encoder.sha256).kind for encoder in spec.encoders}
    pre_trained = dict.fromkeys(("mobilebert", "minilm-mlm", "tiny-mlm"), "pre-trained")
    assert kinds == {**pre_trained, **dict.fromkeys(("all-MiniLM-L6-v2", "granite-30m", "bert-tiny-splade"), "tuned")}
    assert spec.known_origin("unheard-of") is None
    assert all(load_spec(name).encoders == spec.encoders for name in ("rp21", "il23", "do-no-harm"))


def test_the_hashes_of_the_list_are_those_of_the_encoders(models):
    spec = load_spec("rp21")
    for name in ("tiny-mlm", "bert-tiny-splade"):  # the others are large, and hashed the same way
        (model,) = identify_models(models / name, spec)
        assert model.origin.known_by == "list" and model.origin == spec.known_origin(model.weights)
