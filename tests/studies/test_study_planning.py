"""What a run asks for: settings laid over each other, tasks, seeds and layers chosen, models and data known by hashes."""

import json

import numpy as np
import pytest

from theodolite.studies.planning import Request, StudyModel, examples_hash, tuning_step, vectors_step
from theodolite.studies.steps import Sources
from theodolite.tasks import own_task
from theodolite.tasks.loading import load_task

MODEL = StudyModel("m", "somewhere", "hash", 6)
DEFAULTS = {"points": 100, "tuning": {"preset": "rp21"}, "quick": {"points": 5, "tuning": {"epochs": 1}}}
LABELLED = ("classification", "pair_classification", "tagging", "word_pairs")


@pytest.fixture
def moods(tmp_path):
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text("text,label\nfine,good\ngrim,bad\n")
    return own_task({split: tmp_path / f"{split}.csv" for split in ("train", "test")}, "classification", name="moods")


def test_quick_sizes_and_changes_are_laid_over_the_settings():
    assert Request(models=(MODEL,)).settings(DEFAULTS) == {"points": 100, "tuning": {"preset": "rp21"}}
    quick = Request(models=(MODEL,), quick=True, changes={"points": 7, "tuning.train_rows": 9}).settings(DEFAULTS)
    assert quick == {"points": 7, "tuning": {"preset": "rp21", "epochs": 1, "train_rows": 9}}
    assert DEFAULTS["points"] == 100  # the study itself stays as it is
    nested = Request(models=(MODEL,), changes={"tuning": {"train_rows": 9}}).settings(DEFAULTS)
    assert nested["tuning"] == {"preset": "rp21", "train_rows": 9}


@pytest.mark.parametrize(("changes", "message"), [({"pionts": 3}, "pionts.*points"), ({"points.x": 3}, "not a table")])
def test_a_setting_that_does_not_exist_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        Request(models=(MODEL,), changes=changes).settings(DEFAULTS)


def test_tuning_of_an_own_task_can_be_set_and_a_misspelt_task_is_named(moods):
    defaults = {"task_tuning": {"rte": {}}}
    request = Request(models=(MODEL,), own_tasks={"moods": moods}, changes={"task_tuning.moods.epochs": 1})
    assert request.settings(defaults) == {"task_tuning": {"rte": {}, "moods": {"epochs": 1}}}
    with pytest.raises(ValueError, match="'mods' is not a table"):
        Request(models=(MODEL,), own_tasks={"moods": moods}, changes={"task_tuning.mods.epochs": 1}).settings(defaults)


def test_tasks_seeds_and_layers_are_chosen_or_all():
    request = Request(models=(MODEL,), tasks=("pos",), seeds=(4,), layers=(1, 6))
    assert request.choose_tasks(["trec-50", "pos"], kinds=LABELLED) == ["pos"]
    assert (request.choose_seeds([0]), request.choose_layers(MODEL)) == ([4], [1, 6])
    everything = Request(models=(MODEL,))
    assert everything.choose_tasks(["trec-50", "pos"], kinds=LABELLED) == ["trec-50", "pos"]
    assert (everything.choose_seeds([0, 1]), everything.choose_layers(MODEL)) == ([0, 1], list(range(7)))
    with pytest.raises(ValueError, match="no task 'rte'; it has trec-50, pos"):
        Request(models=(MODEL,), tasks=("rte",)).choose_tasks(["trec-50", "pos"], kinds=LABELLED)
    for layers, numbers in (("last", [6]), (3, [3]), ("0, 6", [0, 6]), ("all", list(range(7)))):
        assert Request(models=(MODEL,), layers=layers).choose_layers(MODEL, "last") == numbers
    assert everything.choose_layers(MODEL, "last") == [6]
    with pytest.raises(ValueError, match="no layer 7"):
        Request(models=(MODEL,), layers=(7,)).choose_layers(MODEL)


def test_own_tasks_come_after_the_studys_and_must_be_of_a_kind_that_it_measures(moods):
    request = Request(models=(MODEL,), tasks=("moods", "pos"), own_tasks={"moods": moods})
    assert request.choose_tasks(["trec-50", "pos"], kinds=LABELLED) == ["pos", "moods"]
    with pytest.raises(ValueError, match="'moods' is a classification task; this study measures similarity tasks"):
        Request(models=(MODEL,), tasks=("moods",), own_tasks={"moods": moods}).choose_tasks(["stsb"], kinds=["similarity"])
    assert request.choose_split("moods", "dev") == "test"
    assert request.choose_split("moods", "train") == "train"


def test_the_hash_of_examples_is_of_what_they_say():
    examples = load_task("demo-pairs", "dev")
    assert examples_hash(examples) == examples_hash(load_task("demo-pairs", "dev"))
    assert examples_hash(examples) != examples_hash(examples.take(range(len(examples) - 1)))


def test_a_file_that_was_changed_gives_other_steps(moods, tmp_path):
    def key():
        request = Request(models=(MODEL,), own_tasks={"moods": moods})
        return vectors_step(MODEL, "moods", "test", request).key

    before = key()
    assert key() == before
    (tmp_path / "test.csv").write_text("text,label\nfine,good\ncold,bad\n")
    assert key() != before


def test_an_own_task_is_known_by_its_examples_and_its_declaration_and_not_by_its_folder(moods, tmp_path):
    def keys(task):
        request = Request(models=(MODEL,), own_tasks={"moods": task})
        tuned = tuning_step(MODEL, "moods", 0, {"preset": "il23"}, request)
        return tuned.key, vectors_step(MODEL, "moods", "test", request, tuned=tuned).key

    folder = tmp_path / "elsewhere"
    folder.mkdir()
    files = {split: (tmp_path / f"{split}.csv").rename(folder / f"{split}.csv") for split in ("train", "test")}
    moved = own_task(files, "classification", name="moods")
    for split, path in files.items():
        (tmp_path / f"{split}.csv").write_text(path.read_text())
    assert keys(moods) == keys(moved)
    other = own_task(files, "classification", name="moods", score="macro_f1")
    assert not set(keys(other)) & set(keys(moved))


def test_settings_of_steps_are_plain_values(moods):
    request = Request(models=(MODEL,), own_tasks={"moods": moods})
    step = vectors_step(MODEL, "moods", "train", request, layers=range(3), examples=5)
    assert json.loads(json.dumps(step.settings)) == step.settings
    assert (step.settings["unit"], step.settings["layers"]) == ("cls", [0, 1, 2])


def test_own_tasks_are_not_looked_for_in_the_folder_of_the_releases(moods, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = own_task({"train": "train.csv"}, "classification", name="relative")
    sources = Sources(data=str(tmp_path / "releases"), tasks={"moods": moods, "relative": relative})
    assert sources.examples("moods", "test").texts == sources.examples("relative", "train").texts == ("fine", "grim")
    assert np.array_equal(sources.data_for("stsb"), str(tmp_path / "releases"))
