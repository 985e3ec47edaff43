"""What a run asks for: settings laid over each other, tasks, seeds and layers chosen, models and data known by hashes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from theodolite.core.states import ISOBN, ISOLAYER
from theodolite.studies.requests import Request, StudyModel, examples_hash
from theodolite.studies.spec import load_spec
from theodolite.studies.steps import Sources
from theodolite.tasks import find_task, own_task
from theodolite.tasks.loading import load_task
from theodolite.verbs.inputs import Reading

MODEL = StudyModel("m", "somewhere", "hash", 6)
DEFAULTS = {"points": 100, "tuning": {"preset": "rp21"}, "quick": {"points": 5, "tuning": {"epochs": 1}}}
LABELLED = ("classification", "pair_classification", "tagging", "word_pairs")


def request(settings=None, **options):
    """A request for a study with these settings, with one model."""
    return Request(replace(load_spec("il23"), settings=settings or {"seeds": [0, 1], **DEFAULTS}), (MODEL,), **options)


@pytest.fixture
def moods(tmp_path):
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text("text,label\nfine,good\ngrim,bad\n")
    return own_task({split: tmp_path / f"{split}.csv" for split in ("train", "test")}, "classification", name="moods")


def test_quick_sizes_and_changes_are_laid_over_the_settings():
    assert request(DEFAULTS).settings == {"points": 100, "tuning": {"preset": "rp21"}}
    quick = request(DEFAULTS, quick=True, changes={"points": 7, "tuning.train_rows": 9})
    assert quick.settings == {"points": 7, "tuning": {"preset": "rp21", "epochs": 1, "train_rows": 9}}
    assert DEFAULTS["points"] == 100 and DEFAULTS["tuning"] == {"preset": "rp21"}  # the study itself stays as it is
    nested = request(DEFAULTS, changes={"tuning": {"train_rows": 9}})
    assert nested.settings["tuning"] == {"preset": "rp21", "train_rows": 9}


@pytest.mark.parametrize(("changes", "message"), [({"pionts": 3}, "pionts.*points"), ({"points.x": 3}, "not a table")])
def test_a_setting_that_does_not_exist_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        _ = request(DEFAULTS, changes=changes).settings


def test_tuning_of_an_own_task_can_be_set_and_a_misspelt_task_is_named(moods):
    defaults = {"task_tuning": {"rte": {}}}
    changed = request(defaults, tasks=[moods], changes={"task_tuning.moods.epochs": 1})
    assert changed.settings == {"task_tuning": {"rte": {}, "moods": {"epochs": 1}}}
    with pytest.raises(ValueError, match="'mods' is not a table"):
        _ = request(defaults, tasks=[moods], changes={"task_tuning.mods.epochs": 1}).settings


def test_tasks_seeds_and_layers_are_chosen_or_all():
    some = request(tasks=iter(["pos"]), seeds=iter([4]), layers=iter([1, 6]))
    for _ in range(2):  # what is given as a generator can be read again
        assert some.choose_tasks(["trec-50", "pos"], kinds=LABELLED) == ["pos"]
        assert (some.choose_seeds(), some.choose_layers(MODEL)) == ([4], [1, 6])
    everything = request()
    assert everything.choose_tasks(["trec-50", "pos"], kinds=LABELLED) == ["trec-50", "pos"]
    assert (everything.choose_seeds(), everything.choose_layers(MODEL)) == ([0, 1], list(range(7)))
    with pytest.raises(ValueError, match="no task 'rte'; it has trec-50, pos"):
        request(tasks="rte").choose_tasks(["trec-50", "pos"], kinds=LABELLED)
    for layers, numbers in (("last", [6]), (3, [3]), ("0, 6", [0, 6]), ("all", list(range(7)))):
        assert request(layers=layers).choose_layers(MODEL, "last") == numbers
    assert everything.choose_layers(MODEL, "last") == [6]
    with pytest.raises(ValueError, match="no layer 7"):
        request(layers=(7,)).choose_layers(MODEL)


def test_own_tasks_come_after_the_studys_and_must_be_of_a_kind_that_it_measures(moods):
    both = request(tasks=[moods, "pos"])
    assert both.choose_tasks(["trec-50", "pos"], kinds=LABELLED) == ["pos", "moods"]
    with pytest.raises(ValueError, match="'moods' is a classification task, but this study measures similarity tasks"):
        request(tasks=moods).choose_tasks(["stsb"], kinds=["similarity"])
    assert both.choose_split("moods", "dev") == "test"
    assert both.choose_split("moods", "train") == "train"


def test_a_declared_task_that_the_study_does_not_have_is_one_more_task(tmp_path):
    given = request({"seeds": [0], "tasks": ["rte"]}, tasks=[find_task("trec-6"), find_task("rte")], data=tmp_path)
    assert given.choose_tasks(["rte"], kinds=LABELLED) == ["rte", "trec-6"]
    assert list(given.own_tasks) == ["trec-6"]
    assert [given.sources.data_for(name) for name in ("rte", "trec-6", "demo-topics")] == [str(tmp_path), str(tmp_path), None]
    with pytest.raises(ValueError, match="no task 'trec-6'"):  # by name only the study's own
        request(tasks=["trec-6"]).choose_tasks(["rte"], kinds=LABELLED)
    other = replace(find_task("trec-6"), score="matthews")
    with pytest.raises(ValueError, match="another task is called 'trec-6'"):
        _ = request(tasks=[other]).own_tasks


def test_own_files_are_one_more_task(tmp_path, moods):
    files = Reading(own={"train": tmp_path / "train.csv", "dev": tmp_path / "test.csv"}, kind="classification")
    own = request(tasks="rte", own_files=files)
    assert own.choose_tasks(["rte"], kinds=LABELLED) == ["rte", "own"]
    assert own.sources.examples("own", "dev").texts == ("fine", "grim")
    with pytest.raises(ValueError, match="needs kind=KIND"):
        request(own_files=replace(files, kind=None)).choose_tasks(["rte"], kinds=LABELLED)


def test_the_hash_of_examples_is_of_what_they_say():
    examples = load_task("demo-pairs", "dev")
    assert examples_hash(examples) == examples_hash(load_task("demo-pairs", "dev"))
    assert examples_hash(examples) != examples_hash(examples.take(range(len(examples) - 1)))


def test_a_file_that_was_changed_gives_other_steps(moods, tmp_path):
    def key():
        return request(tasks=[moods]).vectors_step(MODEL, "moods", "test").key

    before = key()
    assert key() == before
    (tmp_path / "test.csv").write_text("text,label\nfine,good\ncold,bad\n")
    assert key() != before


def test_an_own_task_is_known_by_its_examples_and_its_declaration_and_not_by_its_folder(moods, tmp_path):
    def keys(task):
        given = request(tasks=[task])
        tuned = given.tuning_step(MODEL, "moods", 0)
        return tuned.key, given.vectors_step(MODEL, "moods", "test", tuned=tuned).key

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
    step = request(tasks=[moods]).vectors_step(MODEL, "moods", "train", layers=range(3), examples=5)
    assert json.loads(json.dumps(step.settings)) == step.settings
    assert (step.settings["unit"], step.settings["layers"]) == ("cls", [0, 1, 2])


def test_an_isotropy_layer_is_put_into_the_plain_run_and_isobn_is_not(moods):
    given = request({"tuning": {"preset": "il23"}, "task_tuning": {"moods": {"epochs": 2}}}, tasks=[moods])
    plain, layer, batch_norm = (given.tuning_step(MODEL, "moods", 0, method=method) for method in ("plain", ISOLAYER, ISOBN))
    assert (plain.settings["preset"], plain.settings["changes"]) == ("il23", {"epochs": 2})
    assert layer.needs["plain"].key == plain.key and batch_norm.needs == plain.needs == {}


def test_own_tasks_are_not_looked_for_in_the_folder_of_the_releases(moods, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = own_task({"train": "train.csv"}, "classification", name="relative")
    sources = Sources(data=str(tmp_path / "releases"), tasks={"moods": moods, "relative": relative})
    assert sources.examples("moods", "test").texts == sources.examples("relative", "train").texts == ("fine", "grim")
    assert np.array_equal(sources.data_for("stsb"), str(tmp_path / "releases"))


@pytest.mark.parametrize(
    ("name", "options", "epochs"),
    [
        ("bert-base-uncased", {}, 3),  # the paper trains it for fewer epochs than the small ones
        ("prajjwal1/bert-mini", {}, None),
        ("bert-base-uncased", {"changes": {"tuning.epochs": 2}}, 2),
        ("bert-base-uncased", {"quick": True}, 1),
    ],
)
def test_what_the_paper_did_for_one_model_alone(releases, name, options, epochs):
    asked = Request(load_spec("zs22"), (StudyModel(name, "x", "hash", 6),), data=str(releases), **options)
    assert asked.tuning_step(asked.models[0], "trec-50", 0).settings["changes"].get("epochs") == epochs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tuning.epochs": "abc"}, "epochs is 'abc'; it must be a whole number"),
        ({"tuning.epochs": float("inf")}, "epochs is inf; it must be a whole number"),
        ({"tuning.epochs": 10**400}, "epochs is 1000.*; it must be a finite number"),
        ({"tuning.learning_rate": None}, "learning_rate is None; it must be a finite number"),
        ({"tuning.output": "x"}, "no hyper-parameter 'output' to set"),
        ({"tuning.epoch": 1}, "no hyper-parameter 'epoch' to set; did you mean 'epochs'"),
        (
            {"tuning.trust_remote_code": True},
            "a setting cannot allow a model's code to run; .*trust_remote_code=True",
        ),
        ({"tuning.preset": 3}, "preset is 3; it must be text"),
    ],
)
def test_a_hyper_parameter_of_another_name_or_type_is_one_sentence_before_anything_runs(changes, message, moods):
    with pytest.raises(ValueError, match=message):
        request(tasks=[moods], changes=changes).tuning_step(MODEL, "moods", 0)


def test_settings_that_a_plan_cannot_use_are_named_with_their_file():
    from theodolite.studies.running import _ordered_steps

    with pytest.raises(ValueError, match=r"il23.*: the settings do not fit its plan \(KeyError: "):
        _ordered_steps(request({"seeds": [0]}), trust_plan=False)
