"""Steps are done once, in order, whatever kills them; a changed setting repeats only what depends on it."""

import json
import os
import signal
import subprocess
import sys

import pytest

from theodolite.core.rows import Row
from theodolite.studies.runner import run_steps
from theodolite.studies.steps import Action, Sources, Step, in_order
from theodolite.studies.store import Store

DONE: list[str] = []


def count(work):
    DONE.append(work.settings["name"])
    (work.folder / "made").write_text(work.settings["name"])
    below = [(place / "made").read_text() for place in work.inputs.values()]
    return [Row(metric="below", value=float(len(below)), setting=" ".join([work.settings["name"], *below]))]


def fail(work):
    raise ValueError("no such thing")


COUNT, FAIL = Action("count", count), Action("fail", fail)


@pytest.fixture(autouse=True)
def nothing_done():
    DONE.clear()


def chain(first="a", last="c"):
    a = Step(COUNT, {"name": first})
    b = Step(COUNT, {"name": "b"}, {"under": a})
    other = Step(COUNT, {"name": "other"})
    return [a, b, Step(COUNT, {"name": last}, {"one": b, "two": other})]


def run(plan, folder, **how):
    return run_steps(plan, Store(folder), Sources(), **how)


def test_needs_come_first_and_each_step_once(tmp_path):
    plan = chain()
    outcome = run([*plan, *chain()], tmp_path)
    assert DONE == ["a", "b", "other", "c"]
    assert [step.settings["name"] for step in outcome.done] == DONE
    assert Store(tmp_path).rows(plan[-1])[0].setting == "c b other"


def test_what_is_done_is_not_done_again(tmp_path):
    run(chain(), tmp_path)
    DONE.clear()
    again = run(chain(), tmp_path)
    assert (DONE, len(again.reused), again.done) == ([], 4, [])


def test_a_changed_setting_repeats_only_what_depends_on_it(tmp_path):
    run(chain(), tmp_path)
    DONE.clear()
    run(chain(last="d"), tmp_path)
    assert DONE == ["d"]
    DONE.clear()
    run(chain(first="A"), tmp_path)
    assert DONE == ["A", "b", "c"]  # not "other"


def test_a_raised_version_of_an_action_is_another_key():
    before, after = (Step(Action("count", count, version=version), {"name": "a"}) for version in (1, 2))
    assert before.key != after.key
    assert Step(COUNT, {}, {"under": before}).key != Step(COUNT, {}, {"under": after}).key


def test_titles_and_order_of_settings_decide_nothing():
    one = Step(COUNT, {"name": "a", "x": 1}, title="one")
    assert one.key == Step(COUNT, {"x": 1, "name": "a"}, title="two").key
    assert one.key != Step(COUNT, {"name": "a", "x": 2}).key


def test_a_failed_step_stops_only_what_needs_it(tmp_path):
    bad = Step(FAIL, {"name": "bad"})
    behind = Step(COUNT, {"name": "behind"}, {"under": bad})
    outcome = run([bad, behind, *chain()], tmp_path)
    assert str(outcome.failed[bad]) == "no such thing"
    assert outcome.blocked == [behind]
    assert DONE == ["a", "b", "other", "c"]
    assert not Store(tmp_path).has(bad)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_failed_step_stops_what_needs_it_through_others(tmp_path, jobs):
    bad = Step(FAIL, {"name": "bad"})
    child = Step(COUNT, {"name": "child"}, {"under": bad})
    grandchild = Step(COUNT, {"name": "grandchild"}, {"under": child})
    outcome = run([grandchild], tmp_path, jobs=jobs)
    assert [step.settings["name"] for step in outcome.failed] == ["bad"]
    assert outcome.blocked == [child, grandchild]
    assert outcome.done == [] and DONE == []
    assert not any(map(Store(tmp_path).has, (bad, child, grandchild)))


def test_half_a_step_is_thrown_away(tmp_path):
    step = Step(COUNT, {"name": "a"})
    left = Store(tmp_path).partial_path(step)
    left.mkdir(parents=True)
    (left / "rubbish").write_text("half")
    run([step], tmp_path)
    assert not (Store(tmp_path).path(step) / "rubbish").exists()


def test_resumable_work_finds_what_it_left(tmp_path):
    def go_on(work):
        kept = work.folder / "kept"
        return [Row(metric="found", value=float(kept.exists()))]

    step = Step(Action("count", go_on, resumable=True), {"name": "a"})
    left = Store(tmp_path).partial_path(step)
    left.mkdir(parents=True)
    (left / "kept").touch()
    run([step], tmp_path)
    assert Store(tmp_path).rows(step)[0].value == 1.0


def test_jobs_must_be_at_least_one(tmp_path):
    with pytest.raises(ValueError, match="jobs=0"):
        run(chain(), tmp_path, jobs=0)


def test_in_order_lists_each_need_once_before_its_user():
    steps = in_order([chain()[-1]])
    assert [step.settings["name"] for step in steps] == ["a", "b", "other", "c"]


PROGRAM = """
import sys, time
from theodolite.core.rows import Row
from theodolite.studies.runner import run_steps
from theodolite.studies.steps import Action, Sources, Step
from theodolite.studies.store import Store

def slow(work):
    print("begins", work.settings["name"], flush=True)
    (work.folder / "half").write_text("x")
    time.sleep(work.settings["pauses"] * float(sys.argv[2]))  # not a setting: both runs ask for the same step
    return [Row(metric="m", value=1.0)]

SLOW = Action("slow", slow)
first = Step(SLOW, {"name": "first", "pauses": 0})
plan = [first, Step(SLOW, {"name": "second", "pauses": 1}, {"under": first})]
outcome = run_steps(plan, Store(sys.argv[1]), Sources())
print("done", len(outcome.done), "reused", len(outcome.reused), flush=True)
"""


def test_a_killed_run_continues_where_it_was(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "store")]
    killed = subprocess.Popen([*command, "600"], stdout=subprocess.PIPE, text=True)
    assert [killed.stdout.readline().strip() for _ in range(2)] == ["begins first", "begins second"]
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    again = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    assert again.stdout.split("\n")[:2] == ["begins second", "done 1 reused 1"]
    assert not list((tmp_path / "store").glob("*.partial"))
    assert all((path / "half").exists() for path in (tmp_path / "store").glob("slow-*"))


def test_two_runs_at_once_do_not_write_over_each_other(tmp_path):
    from theodolite.core.files import BusyError, Lock

    step, store = Step(COUNT, {"name": "a"}), Store(tmp_path)
    tmp_path.mkdir(exist_ok=True)
    lock = Lock(store.path(step))
    try:
        outcome = run([step], tmp_path)
    finally:
        lock.release()
    assert isinstance(outcome.failed[step], BusyError)


def test_what_a_step_was_is_written_next_to_its_rows(tmp_path):
    step = Step(COUNT, {"name": "a"}, title="count a")
    run([step], tmp_path)
    about = json.loads((Store(tmp_path).path(step) / "step.json").read_text())
    assert (about["title"], about["settings"], about["key"]) == ("count a", {"name": "a"}, step.key)
    assert about["seconds"] >= 0


def test_a_step_keeps_a_picture_and_records(tmp_path):
    import numpy as np

    from theodolite.core.pictures import draw_picture
    from theodolite.core.result import table_of

    def draw(work):
        work.write_picture(draw_picture(np.eye(4), columns={"token": list("abcd")}, about={"layer": 3}))
        work.write_records("paths", table_of([{"label": "a", "x": 1.0}]))
        work.report(1, 1)
        return []

    with_all, without, store = Step(Action("draw", draw), {}), Step(COUNT, {"name": "a"}), Store(tmp_path)
    run([with_all, without], tmp_path)
    picture = store.picture(with_all)
    assert picture is not None and picture.about == {"layer": 3} and list(picture.columns["token"]) == list("abcd")
    assert store.records(with_all)["paths"].to_pylist() == [{"label": "a", "x": 1.0}]
    assert store.picture(without) is None and store.records(without) == {}


class Watcher:
    def __init__(self):
        self.events = []

    def begins(self, step, remaining):
        self.events.append(("begins", step.settings["name"], remaining))
        return lambda done, total: self.events.append(("progress", done, total))

    def ends(self, step, remaining, seconds):
        self.events.append(("ends", step.settings["name"], remaining))

    def fails(self, step, remaining, error):
        self.events.append(("fails", step.settings["name"], remaining, str(error)))


def test_a_watcher_hears_how_a_run_goes_on(tmp_path):
    def work_slowly(work):
        work.report(1, 2)
        return []

    watcher = Watcher()
    steps = [Step(Action("slow", work_slowly), {"name": "slow"}), Step(FAIL, {"name": "bad"})]
    run(steps, tmp_path, watcher=watcher)
    assert watcher.events == [
        ("begins", "slow", 2),
        ("progress", 1, 2),
        ("ends", "slow", 1),
        ("begins", "bad", 1),
        ("fails", "bad", 0, "no such thing"),
    ]


@pytest.mark.slow
def test_steps_in_processes_are_watched_too(tmp_path):
    watcher = Watcher()
    plan = chain()
    outcome = run(plan, tmp_path, jobs=2, watcher=watcher)
    assert {step.settings["name"] for step in outcome.done} == {"a", "b", "other", "c"}
    assert [event[0] for event in watcher.events] == ["ends"] * 4 and watcher.events[-1][2] == 0
    assert Store(tmp_path).rows(plan[-1])[0].setting == "c b other"
