"""Steps are done once, in order, whatever kills them; a changed setting repeats only what depends on it."""

import io
import os
import signal
import subprocess
import sys

import pytest

from theodolite.core.engines import chosen_engine
from theodolite.core.rows import Row
from theodolite.studies.runner import StepReport, run_steps
from theodolite.studies.steps import Action, Sources, Step, Store

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


def run(plan, folder, *, workers=None, **how):
    with chosen_engine(workers):
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


def test_a_failed_step_stops_only_what_needs_it(tmp_path):
    bad = Step(FAIL, {"name": "bad"})
    behind = Step(COUNT, {"name": "behind"}, {"under": bad})
    outcome = run([bad, behind, *chain()], tmp_path)
    assert str(outcome.failed[bad]) == "no such thing"
    assert outcome.blocked == [behind]
    assert DONE == ["a", "b", "other", "c"]
    assert not Store(tmp_path).has(bad)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_failed_step_stops_what_needs_it_through_others(tmp_path, workers):
    bad = Step(FAIL, {"name": "bad"})
    child = Step(COUNT, {"name": "child"}, {"under": bad})
    grandchild = Step(COUNT, {"name": "grandchild"}, {"under": child})
    great = Step(COUNT, {"name": "great-grandchild"}, {"under": grandchild, "other": Step(COUNT, {"name": "sound"})})
    outcome = run([great], tmp_path, workers=workers)
    assert [step.settings["name"] for step in outcome.failed] == ["bad"]
    assert outcome.blocked == [child, grandchild, great]
    assert [step.settings["name"] for step in outcome.done] == ["sound"]
    assert not any(map(Store(tmp_path).has, (bad, child, grandchild, great)))


PROGRAM = """
import sys, time
from theodolite.core.rows import Row
from theodolite.studies.runner import StepReport, run_steps
from theodolite.studies.steps import Action, Sources, Step, Store

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


@pytest.mark.slow
def test_two_runs_at_once_share_their_steps(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "store"), "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert [first.stdout.readline().strip() for _ in range(2)] == ["begins first", "begins second"]  # and sleeps in it
        second = subprocess.run(command, capture_output=True, text=True, check=True)
        assert first.stdout.read() == "done 2 reused 0\n"
    assert "begins" not in second.stdout and second.stdout.startswith("done")  # it waited for the second step


@pytest.mark.parametrize("file", ["made", "rows.parquet", "step.json"])
def test_a_step_whose_files_were_changed_is_done_again(tmp_path, file):
    plan = chain()
    run(plan, tmp_path)
    wrong = Store(tmp_path).path(plan[1]) / file
    content = bytearray(wrong.read_bytes())
    content[len(content) // 2] ^= 1  # as long as before
    wrong.write_bytes(content)
    DONE.clear()
    last = Step(COUNT, {"name": "d"}, {"one": plan[1]})
    with pytest.warns(UserWarning, match=f"{file} was changed after it was written; the step will be run again"):
        outcome = run([*plan, last], tmp_path)
    assert DONE == ["b", "d"] and len(outcome.reused) == 3
    assert Store(tmp_path).rows(last)[0].setting == "d b"


def test_changed_rows_are_not_read(tmp_path):
    (step, *_), store = chain(), Store(tmp_path)
    run([step], tmp_path)
    path = store.path(step) / "rows.parquet"
    intact = path.read_bytes()
    for at in (*range(0, len(intact), len(intact) // 40), len(intact) - 1):
        content = bytearray(intact)
        content[at] ^= 4
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"rows\.parquet was changed after it was written; run the study again"):
            store.rows(step)


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
        return [] if list(work.watched("ab")) == ["a", "b"] else None

    watcher = Watcher()
    steps = [Step(Action("slow", work_slowly), {"name": "slow"}), Step(FAIL, {"name": "bad"})]
    run(steps, tmp_path, watcher=watcher)
    assert watcher.events == [
        ("begins", "slow", 2),
        ("progress", 1, 2),
        ("progress", 2, 2),
        ("ends", "slow", 1),
        ("begins", "bad", 1),
        ("fails", "bad", 0, "no such thing"),
    ]


@pytest.mark.slow
def test_steps_in_processes_are_watched_too(tmp_path):
    watcher = Watcher()
    plan = chain()
    outcome = run(plan, tmp_path, workers=2, watcher=watcher)
    assert {step.settings["name"] for step in outcome.done} == {"a", "b", "other", "c"}
    assert [event[0] for event in watcher.events] == ["ends"] * 4 and watcher.events[-1][2] == 0
    assert Store(tmp_path).rows(plan[-1])[0].setting == "c b other"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def reported(steps, folder, stream, monkeypatch, done=0):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "200")
    with StepReport(len(steps), done) as report:
        run(steps, folder, watcher=report)
    return stream.getvalue()


def test_a_log_has_a_line_for_every_finished_or_failed_step(tmp_path, monkeypatch):
    long = "a title that is longer than a line of eighty characters, which a log must not break in two"
    steps = [Step(COUNT, {"name": "a"}, title=long), Step(FAIL, {"name": "bad"}, title="[bold] bad")]
    lines = reported(steps, tmp_path, io.StringIO(), monkeypatch).splitlines()
    assert lines[0].startswith(f"[1/2] {long}: 0.") and lines[0].endswith(" s")
    assert lines[1:] == ["[2/2] [bold] bad: FAILED: no such thing"]
    again = reported(steps, tmp_path, io.StringIO(), monkeypatch, done=1).splitlines()
    assert again == ["1 of 2 steps are there already", "[2/2] [bold] bad: FAILED: no such thing"]


def test_a_terminal_shows_bars_and_the_same_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    text = reported(chain(), tmp_path, Terminal(), monkeypatch)
    assert "[3/3] " in text and "\x1b[?25l" in text and text.count("\x1b[?25h") == 1  # the cursor is hidden, and comes back
