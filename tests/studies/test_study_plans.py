"""Plans: the steps of each study for one model, with equal steps planned once."""

from collections import Counter

import pytest

from theodolite.core.states import FINE_TUNED, ISOLAYER, PRE_TRAINED
from theodolite.studies import study
from theodolite.studies.requests import Request, StudyModel, load_plan
from theodolite.studies.spec import load_spec
from theodolite.studies.steps import in_order
from theodolite.tasks import own_task

MODEL = StudyModel("m", "somewhere", "hash", 2)


def plan(name, data, **options):
    spec = load_spec(name)
    return in_order(load_plan(spec)(Request(spec, (MODEL,), data, **options)))


def kinds(steps):
    return Counter(step.action.kind for step in steps)


def test_rp21_measures_every_layer_of_both_states(releases):
    steps = plan("rp21", releases)
    assert kinds(steps) == {
        "tune": 1, "vectors": 4, "layers": 12, "repairs": 6,
        "sweep": 2, "clusters": 2, "frequency": 2, "picture": 2, "spectrum": 2,
    }  # fmt: skip
    repairs = {step.settings["layer"]: step.settings for step in steps if step.action.kind == "repairs"}
    assert set(repairs[0]["repairs"]) < set(repairs[2]["repairs"]) and repairs[2]["metrics"] and not repairs[0]["metrics"]
    assert repairs[0]["gains"] == repairs[2]["gains"] == {"clustering_gain": ["zero-mean", "clustering+zero-mean"]}


def test_the_last_layer_is_measured_whatever_layers_are_asked_for(releases):
    steps = plan("rp21", releases, layers=[0])
    assert {step.settings["layer"] for step in steps if step.action.kind == "repairs"} == {0, 2}
    assert kinds(plan("rp21", releases, seeds=[0, 1]))["tune"] == 2


def test_il23_tunes_each_seed_by_each_method_and_puts_the_layer_into_the_plain_run(releases):
    steps = plan("il23", releases, tasks=["cola"], seeds=[0, 1])
    assert kinds(steps) == {"choose": 2, "tune-chosen": 6}
    tunings = [step for step in steps if step.action.kind == "tune-chosen"]
    plain = {step.settings["seed"]: step.key for step in tunings if step.settings["method"] == "plain"}
    layers = [step for step in tunings if step.settings["method"] == ISOLAYER]
    assert {step.settings["seed"]: step.needs["plain"].key for step in layers} == plain
    layer_alone = plan("il23", releases, tasks=["cola"], changes={"methods": [ISOLAYER]}, seeds=[0])
    assert kinds(layer_alone) == {"choose": 2, "tune-chosen": 2}


def test_il23_chooses_once_for_every_seed_and_method(releases):
    def choices(**changes):
        steps = plan("il23", releases, tasks=["cola"], seeds=[1, 2], changes=changes)
        chosen = [step for step in steps if step.action.kind == "choose"]
        tunings = [step for step in steps if step.action.kind == "tune-chosen"]
        assert {step.needs["choice"].key for step in tunings} == {chosen[0].key}
        assert {step.needs["layer_choice"].key for step in tunings if "layer_choice" in step.needs} == {chosen[1].key}
        assert {step.settings["seed"] for step in chosen} == {0} and {step.settings["seed"] for step in tunings} == {0, 1, 2}
        return chosen, {step.key for step in tunings}

    (rate, layer_rate), keys = choices()
    assert rate.settings["candidates"] == [2e-5, 5e-5, 1e-4, 3e-4] and layer_rate.settings["candidates"] == [1e-4, 1e-3]
    assert layer_rate.needs["plain"].settings["seed"] == 0 and not rate.needs
    # Other candidates are another choice, and what is trained with it is another result.
    _, others = choices(**{"choose.learning_rate": [2e-5]})
    assert not keys & others
    (named, _), _ = choices(**{"tuning.learning_rate": 7e-5})
    assert named.settings["candidates"] == [7e-5]


def test_il23_leaves_a_method_what_its_settings_name(releases):
    form = "isolayer, deeper"
    changes = {"method_tuning.isobn.preset": "isobn", f"method_tuning.{form}.layer.learning_rate": 0.01}
    steps = plan("il23", releases, tasks=["cola"], seeds=[0], changes={**changes, "methods": ["isobn", form]})
    (batch_norm,) = [step for step in steps if step.settings["method"] == "isobn"]
    (layer,) = [step for step in steps if step.settings["method"] == form]
    assert batch_norm.settings["chosen"] == [] and not batch_norm.needs
    assert set(layer.needs) == {"choice", "plain"} and layer.settings["changes"]["layer"]["learning_rate"] == 0.01


def test_il23_tries_more_methods_and_forms_of_the_layer_on_one_task(releases):
    more_methods = ["cosreg", "istar", *load_spec("il23").settings["more_methods"]["rte"]]
    steps = plan("il23", releases, tasks=["cola"], seeds=[0], changes={"more_methods.cola": more_methods})
    tunings = [step for step in steps if step.action.kind == "tune-chosen"]
    more = {step.settings["method"]: step for step in tunings[3:]}
    assert list(more) == ["cosreg", "istar", "isolayer, deeper", "isolayer, alternating", "isolayer, joint"]
    assert more["isolayer, joint"].settings["changes"]["layer"] == {"trains": "joint"}
    assert more["isolayer, joint"].needs["plain"].key == tunings[0].key
    assert list(more["cosreg"].needs) == ["choice"]


def test_zs22_probes_every_layer_of_both_states_and_classifies_in_the_last(releases):
    steps = plan("zs22", releases, tasks=["trec-50"])
    assert kinds(steps) == {"tune": 1, "vectors": 4, "probe": 6, "movement": 1, "picture": 2}
    probes = [step for step in steps if step.action.kind == "probe"]
    assert [step.title.split(", ")[-1] for step in probes] == [
        f"{state}: labels in layer {layer}" for state in (PRE_TRAINED, FINE_TUNED) for layer in range(3)
    ]
    assert [step.settings["classifier"] for step in probes] == ["none", "none", "mlp"] * 2
    last = plan("zs22", releases, tasks=["trec-50"], changes={"layers": "last"})
    assert [step.settings["layer"] for step in last if step.action.kind == "probe"] == [2, 2]
    assert [step.settings["layers"] for step in last if step.action.kind == "vectors"] == [[2]] * 4


def test_seeds_of_zs22_share_the_probe_of_the_encoder_before_it_is_fine_tuned(releases):
    steps = plan("zs22", releases, tasks=["trec-50"], seeds=[1, 2], changes={"layers": "last"})
    probes = [step.settings["seed"] for step in steps if step.action.kind == "probe"]
    assert probes == [0, 1, 2]  # the first of the untuned encoder, then one per seed


def test_a_pair_of_tasks_is_compared_with_the_encoder_as_it_came(releases):
    cross = {"cross": [{"probe": "trec-50", "tune": "trec-50"}, {"probe": "pos", "tune": "trec-50"}]}
    steps = plan("zs22", releases, tasks=["trec-50"], changes=cross)
    (compared,) = [step for step in steps if step.action.kind == "cross"]  # pos is not among the tasks of this run
    assert compared.needs["before"].settings["setting"] == "" and "tuned" not in compared.needs["before"].needs["train"].needs
    assert compared.needs["after"].settings["setting"] == "tuned on trec-50"
    (counted,) = [step for step in steps if step.action.kind == "largest-label"]
    assert (counted.settings["task"], counted.settings["split"]) == ("trec-50", "test")


def test_a_study_of_one_task_does_not_take_two(releases, pairs):
    task = own_task({"train": pairs / "train.csv"}, "similarity", name="scored", score_range=(0, 10))
    with pytest.raises(ValueError, match="one task at a time, not stsb, scored"):
        plan("rp21", releases, tasks=["stsb", task])


PLAN = """
from theodolite.core.rows import Row
from theodolite.studies.steps import Action, Step

def _count(work):
    return [Row(metric="letters", value=float(len(work.settings["word"])))]

def steps(request):
    return [Step(Action("count", _count), {"word": request.settings["word"]}, {}, "count letters")]
"""


@pytest.fixture
def own_study(tmp_path):
    (tmp_path / "counting.py").write_text(PLAN)
    lines = ["name", "title", "source", "citation", "link"]
    text = "".join(f'{name} = "counting"\n' for name in lines)
    path = tmp_path / "study.toml"
    path.write_text(f'{text}plan = "counting.py"\nnotes = []\n[settings]\nword = "theodolite"\n')
    return path


@pytest.mark.slow
def test_a_plan_outside_the_package_is_code_and_needs_trust(own_study, study_bert, tmp_path):
    with pytest.raises(ValueError, match=r"counting\.py is Python code.*trust_plan"):
        study(own_study).run(study_bert, to=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
    here = study(own_study).run(study_bert, to=tmp_path / "run", trust_plan=True, progress=False)
    there = study(own_study).run(study_bert, to=tmp_path / "other", trust_plan=True, workers=2, progress=False)
    assert here.value("letters") == there.value("letters") == 10


def test_a_plan_that_is_not_there_or_has_no_steps_is_named(own_study, study_bert):
    own_study.with_name("counting.py").write_text("")
    with pytest.raises(ValueError, match=r"has no function steps\(request\)"):
        study(own_study).plan(study_bert, trust_plan=True)
    own_study.with_name("counting.py").unlink()
    with pytest.raises(ValueError, match=r"there is no file .*counting\.py"):
        study(own_study).plan(study_bert, trust_plan=True)
