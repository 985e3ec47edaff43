"""Steps are done once, in order, whatever kills them; a changed setting does anew only what depends on it."""

import json
import os
import signal
import subprocess
import sys

import pytest

from theodolite.core.rows import Row
from theodolite.studies import actions
from theodolite.studies.runner import run_plan
from theodolite.studies.step import Action, Step, in_order
from theodolite.studies.store import Store

DONE: list[str] = []


def count(work):
    DONE.append(work.settings["name"])
    (work.folder / "made").write_text(work.settings["name"])
    below = [(place / "made").read_text() for place in work.inputs.values()]
    return [Row(metric="below", value=float(len(below)), setting=" ".join([work.settings["name"], *below]))]


def fail(work):
    raise ValueError("no such thing")


@pytest.fixture(autouse=True)
def kinds(monkeypatch):
    DONE.clear()
    monkeypatch.setitem(actions.ACTIONS, "count", Action(count))
    monkeypatch.setitem(actions.ACTIONS, "fail", Action(fail))


def chain(first="a", last="c"):
    a = Step("count", {"name": first})
    b = Step("count", {"name": "b"}, {"under": a})
    other = Step("count", {"name": "other"})
    return [a, b, Step("count", {"name": last}, {"one": b, "two": other})]


def run(plan, folder, **how):
    return run_plan(plan, Store(folder), models={}, **how)


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
    assert (DONE, len(again.known), again.done) == ([], 4, [])


def test_a_changed_setting_does_anew_only_what_depends_on_it(tmp_path):
    run(chain(), tmp_path)
    DONE.clear()
    run(chain(last="d"), tmp_path)
    assert DONE == ["d"]
    DONE.clear()
    run(chain(first="A"), tmp_path)
    assert DONE == ["A", "b", "c"]  # not "other"


def test_a_raised_version_of_an_action_is_another_key(monkeypatch):
    before = chain()[-1].key
    monkeypatch.setitem(actions.ACTIONS, "count", Action(count, version=2))
    assert chain()[-1].key != before


def test_titles_and_order_of_settings_decide_nothing():
    one = Step("count", {"name": "a", "x": 1}, title="one")
    assert one.key == Step("count", {"x": 1, "name": "a"}, title="two").key
    assert one.key != Step("count", {"name": "a", "x": 2}).key


def test_a_failed_step_stops_only_what_needs_it(tmp_path):
    bad = Step("fail", {"name": "bad"})
    behind = Step("count", {"name": "behind"}, {"under": bad})
    outcome = run([bad, behind, *chain()], tmp_path)
    assert str(outcome.failed[bad]) == "no such thing"
    assert outcome.blocked == [behind]
    assert DONE == ["a", "b", "other", "c"]
    assert not Store(tmp_path).has(bad)


def test_half_a_step_is_thrown_away(tmp_path):
    step = Step("count", {"name": "a"})
    left = Store(tmp_path).partial(step)
    left.mkdir(parents=True)
    (left / "rubbish").write_text("half")
    run([step], tmp_path)
    assert not (Store(tmp_path).place(step) / "rubbish").exists()


def test_resumable_work_finds_what_it_left(tmp_path, monkeypatch):
    def go_on(work):
        kept = work.folder / "kept"
        return [Row(metric="found", value=float(kept.exists()))]

    monkeypatch.setitem(actions.ACTIONS, "count", Action(go_on, resumable=True))
    step = Step("count", {"name": "a"})
    left = Store(tmp_path).partial(step)
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
from theodolite.studies import actions
from theodolite.studies.runner import run_plan
from theodolite.studies.step import Action, Step
from theodolite.studies.store import Store

def slow(work):
    print("begins", work.settings["name"], flush=True)
    (work.folder / "half").write_text("x")
    time.sleep(work.settings["pauses"] * float(sys.argv[2]))  # how long is no setting: both runs ask for the same step
    return [Row(metric="m", value=1.0)]

actions.ACTIONS["slow"] = Action(slow)
first = Step("slow", {"name": "first", "pauses": 0})
plan = [first, Step("slow", {"name": "second", "pauses": 1}, {"under": first})]
outcome = run_plan(plan, Store(sys.argv[1]), models={})
print("done", len(outcome.done), "known", len(outcome.known), flush=True)
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "store")]
    killed = subprocess.Popen([*command, "600"], stdout=subprocess.PIPE, text=True)
    assert [killed.stdout.readline().strip() for _ in range(2)] == ["begins first", "begins second"]
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    again = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    assert again.stdout.split("\n")[:2] == ["begins second", "done 1 known 1"]
    assert not list((tmp_path / "store").glob("*.partial"))
    assert all((path / "half").exists() for path in (tmp_path / "store").glob("slow-*"))


def test_two_runs_at_once_do_not_write_over_each_other(tmp_path):
    from theodolite.core.files import BusyError, Lock

    step, store = Step("count", {"name": "a"}), Store(tmp_path)
    tmp_path.mkdir(exist_ok=True)
    lock = Lock(store.place(step))
    try:
        outcome = run([step], tmp_path)
    finally:
        lock.release()
    assert isinstance(outcome.failed[step], BusyError)


def test_what_a_step_was_is_told_beside_its_rows(tmp_path):
    step = Step("count", {"name": "a"}, title="count a")
    run([step], tmp_path)
    told = json.loads((Store(tmp_path).place(step) / "step.json").read_text())
    assert (told["title"], told["settings"], told["key"]) == ("count a", {"name": "a"}, step.key)
    assert told["seconds"] >= 0
