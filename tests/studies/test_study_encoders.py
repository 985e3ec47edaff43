"""Rows of a fine-tuning as a study has them, and the examples that a step reads."""

from pathlib import Path

import pytest

from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, ISOBN, ISOLAYER, PRE_TRAINED
from theodolite.studies.shared_steps import _belongs, _renamed, read_examples
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
