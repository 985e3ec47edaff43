"""Steps are known by what decides their result; the store keeps what they made, whole or not at all."""

import json

import numpy as np

from theodolite.core.pictures import draw_picture
from theodolite.core.result import table_of
from theodolite.core.rows import Row
from theodolite.studies.steps import Action, Sources, Step, Store, in_order


def write_name(work):
    (work.folder / "name").write_text(work.settings["name"])
    return [Row(metric="inputs", value=float(len(work.inputs)))]


NAME = Action("name", write_name)


def partial_folder(store, step):
    """What a killed process left of a step."""
    folder = store.path(step).with_name(f"{step.folder}.partial")
    folder.mkdir(parents=True)
    return folder


def test_a_raised_version_of_an_action_is_another_key():
    before, after = (Step(Action("name", write_name, version=version), {"name": "a"}) for version in (1, 2))
    assert before.key != after.key
    assert Step(NAME, {}, {"under": before}).key != Step(NAME, {}, {"under": after}).key


def test_titles_and_order_of_settings_decide_nothing():
    step = Step(NAME, {"name": "a", "x": 1}, title="first")
    assert step.key == Step(NAME, {"x": 1, "name": "a"}, title="second").key
    assert step.key != Step(NAME, {"name": "a", "x": 2}).key


def test_in_order_lists_each_need_once_before_its_user():
    a, other = Step(NAME, {"name": "a"}), Step(NAME, {"name": "other"})
    b = Step(NAME, {"name": "b"}, {"under": a})
    c = Step(NAME, {"name": "c"}, {"first": b, "second": other, "third": Step(NAME, {"name": "a"})})
    assert [step.settings["name"] for step in in_order([c, a])] == ["a", "b", "other", "c"]


def test_half_a_step_is_thrown_away(tmp_path):
    step, store = Step(NAME, {"name": "a"}), Store(tmp_path)
    (partial_folder(store, step) / "rubbish").write_text("half")
    store.do(step, Sources())
    assert not (store.path(step) / "rubbish").exists() and not list(tmp_path.glob("*.partial"))


def test_resumable_work_finds_what_it_left(tmp_path):
    def look(work):
        return [Row(metric="exists", value=float((work.folder / "checkpoint").exists()))]

    step, store = Step(Action("look", look, resumable=True), {"name": "a"}), Store(tmp_path)
    (partial_folder(store, step) / "checkpoint").touch()
    store.do(step, Sources())
    assert store.rows(step)[0].value == 1.0


def test_a_finished_step_is_not_done_again(tmp_path):
    step, store = Step(NAME, {"name": "a"}), Store(tmp_path / "steps")
    assert not store.has(step)
    assert store.do(step, Sources()) > 0 and store.has(step)
    assert store.do(step, Sources()) == 0.0


def test_what_a_step_was_is_written_next_to_its_rows(tmp_path):
    need, store = Step(NAME, {"name": "need"}), Store(tmp_path)
    step = Step(NAME, {"name": "a"}, {"under": need}, title="name a")
    seconds = [store.do(each, Sources()) for each in (need, step)]
    about = json.loads((store.path(step) / "step.json").read_text())
    assert (about["kind"], about["version"], about["title"], about["settings"]) == ("name", 1, "name a", {"name": "a"})
    assert (about["key"], about["needs"], about["seconds"]) == (step.key, {"under": need.key}, seconds[1])
    assert store.rows(step)[0].value == 1.0


def test_a_step_keeps_a_picture_and_records(tmp_path):
    def draw(work):
        work.write_picture(draw_picture(np.eye(4), columns={"token": list("abcd")}, about={"layer": 3}))
        work.write_records("paths", table_of([{"label": "a", "x": 1.0}]))
        return []

    with_all, without, store = Step(Action("draw", draw), {}), Step(NAME, {"name": "a"}), Store(tmp_path)
    for step in (with_all, without):
        store.do(step, Sources())
    picture = store.picture(with_all)
    assert picture is not None and picture.about == {"layer": 3} and list(picture.columns["token"]) == list("abcd")
    assert store.records(with_all)["paths"].to_pylist() == [{"label": "a", "x": 1.0}]
    assert store.picture(without) is None and store.records(without) == {}


def test_workers_find_models_and_data_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "encoder").mkdir()
    monkeypatch.chdir(tmp_path)
    found = Sources({"mine": "encoder", "theirs": "bert-base-uncased"}, "data").from_anywhere()
    assert found.models == {"mine": str(tmp_path / "encoder"), "theirs": "bert-base-uncased"}
    assert found.data == str(tmp_path / "data") and Sources().from_anywhere().data is None
