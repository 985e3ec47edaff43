"""The pages of studies are what their committed records give today."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from theodolite.core.result import Effect, Judged, Result, Verdict
from theodolite.core.rows import Row
from theodolite.studies import study_names

ROOT = Path(__file__).parents[2]
HAS_RECORDS = (ROOT / "docs" / "studies" / "records").is_dir()
pytestmark = pytest.mark.skipif(not HAS_RECORDS, reason="the records of studies are in the repository, not in the sdist")


@pytest.fixture(scope="module")
def study_pages() -> ModuleType:
    """The script that writes the pages."""
    spec = importlib.util.spec_from_file_location("study_pages", ROOT / "benchmarks" / "study_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def runs(study_pages: ModuleType) -> dict[str, list[Result]]:
    """The committed runs of every study, judged once for all tests: this takes most of the time of a page."""
    return {name: study_pages.runs(name) for name in study_names()}


@pytest.mark.slow
def test_pages_are_made_from_the_records(
    study_pages: ModuleType, runs: dict[str, list[Result]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_pages, "runs", runs.__getitem__)
    pages = dict(study_pages.pages())
    assert [path.name for path in pages] == [f"study-{name}.md" for name in study_names()]
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"run `python benchmarks/study_pages.py`: {path.name} is out of date"
        assert len(text.splitlines()) <= 90, f"{path.name} is longer than two screens"
        assert max(line.count("|") for line in text.splitlines()) <= 8, f"{path.name} has a table too wide for a phone"
        assert "'$THEODOLITE" not in text


@pytest.mark.slow
def test_figures_have_the_numbers_of_the_records(study_pages: ModuleType, runs: dict[str, list[Result]]) -> None:
    drawn = [each for name in study_names() for each in study_pages.figures(name, runs[name])]
    assert len(drawn) >= 4
    for path, _, mark in drawn:
        text = path.read_text(encoding="utf-8")
        assert f"<!-- numbers {mark} -->" in text, f"run `python benchmarks/study_pages.py`: {path.name} is out of date"
        assert len(text) < 200_000


def test_a_study_without_records_says_what_is_missing(
    study_pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_pages, "RECORDS", tmp_path)
    pages = dict(study_pages.pages())
    assert len(pages) == len(study_names()) and list(study_pages.html_pages()) == []
    for path, text in pages.items():
        assert "No run of this study is committed yet." in text and "theodolite study run" in text
        name = path.stem.removeprefix("study-")
        assert study_pages.LEFT[name] in text


def test_commands_expand_the_folder_of_models(study_pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "theodolite study run rp21 --model '$THEODOLITE_MODELS/a b' --set 'x=[1]'"
    effect = Effect(name="a", value=0.1, low=0.0, high=0.2)
    measured = Judged(source="measured", outcome="not measured", why="", effects=(effect,), command=command)
    result = Result(
        verb="study",
        rows=(Row(metric="spearman", value=0.5, study="rp21", model="m", task="stsb"),),
        verdicts=(Verdict(claim="C", title="c", rule="", model="m", measured=measured),),
        provenance={"study": "rp21", "command": "theodolite study run rp21"},
    )
    result.save(tmp_path / "rp21-m")
    monkeypatch.setattr(study_pages, "RECORDS", tmp_path)
    monkeypatch.setattr(type(study_pages.study("rp21")), "check", lambda self, to: type("Check", (), {"result": result})())
    (run,) = study_pages.runs("rp21")
    assert run.verdicts[0].measured.command == command.replace("'$THEODOLITE_MODELS/a b'", '"$THEODOLITE_MODELS/a b"')
    assert run.provenance["name"] == "m"
    assert not re.search(r"'\$THEODOLITE", str(run.verdicts))


def judged(claim: str, name: str, model: str, low: float, high: float, *, seeds: int = 3) -> tuple[Verdict, list[Row]]:
    """A verdict with one effect, and rows of the encoder's fine-tuning seeds."""
    effect = Effect(name=name, value=(low + high) / 2, low=low, high=high)
    measured = Judged(source="measured", outcome="inconclusive", why="", effects=(effect,), lean="against")
    rows = [Row(metric="m", value=0.5, study="rp21", model=model, task="stsb", seed=seed) for seed in range(seeds)]
    return Verdict(claim=claim, title="c", rule="", model=model, measured=measured), rows


def joined(*judgements: tuple[Verdict, list[Row]]) -> Result:
    rows = tuple(row for _, of in judgements for row in of)
    return Result(verb="study", rows=rows, verdicts=tuple(verdict for verdict, _ in judgements))


BEFORE, AFTER = (f"Spearman change, mean of three repairs, {state}" for state in ("pre-trained", "fine-tuned"))


def test_the_sentence_says_only_what_the_intervals_show(study_pages: ModuleType) -> None:
    run = joined(
        judged("PD22-1", BEFORE, "a", 0.05, 0.15),
        judged("PD22-1", AFTER, "a", -0.03, -0.01),
        judged("PD22-1", BEFORE, "b", -0.02, 0.06, seeds=1),
        judged("PD22-1", AFTER, "b", -0.08, -0.04, seeds=1),
    )
    sentence = study_pages._found("rp21", run)
    assert "raise the score (Spearman × 100, mean of three repairs) on a (+10.0)" in sentence
    assert "and make no clear difference to it on b (+2.0)" in sentence
    assert "After fine-tuning, they lower the score on a (−2.0) and b (−6.0 in one run)." in sentence
    assert "depends on the encoder" in study_pages._lesson("rp21", run)  # not every pre-trained one gains


def test_encoders_of_one_task_are_named_together(study_pages: ModuleType) -> None:
    tasks = {"a": ("pos", 0.02, 0.04), "b": ("pos", 0.05, 0.07), "c": ("pos", -0.01, 0.03)}
    run = joined(*(judged("ZS22-a", f"{task}: probe accuracy", model, low, high) for model, (task, low, high) in tasks.items()))
    probe = "Fine-tuning raises the accuracy of a label probe (× 100) on pos (a +3.0, b +6.0)"
    assert study_pages._found("zs22", run) == f"{probe} and makes no clear difference to it on pos (c +1.0)."


def test_tasks_that_claims_leave_out_are_named_with_the_reason(study_pages: ModuleType) -> None:
    verdict, rows = judged("IL23-a", "x", "a", 0.0, 1.0)
    left = {"stsb": "not learned", "cola": "not run"}
    verdicts = [replace(verdict, claim=claim, measured=replace(verdict.measured, left_out=left)) for claim in ("A", "B")]
    run = Result(verb="study", rows=tuple(rows), verdicts=tuple(verdicts))
    assert study_pages._left_out(run) == "Left out: stsb from A and B (not learned)."  # a task without rows was not run
    assert study_pages._left_out(Result(verb="study", rows=tuple(rows), verdicts=(verdict,))) == ""


def test_the_lesson_of_a_study_is_not_drawn_where_the_runs_do_not_show_it(study_pages: ModuleType) -> None:
    as_in_the_paper = joined(judged("PD22-1", BEFORE, "a", 0.05, 0.15), judged("PD22-1", AFTER, "a", -0.03, -0.01))
    assert "Leave one that was fine-tuned" in study_pages._lesson("rp21", as_in_the_paper)
    helps_both = joined(judged("PD22-1", BEFORE, "a", 0.05, 0.15), judged("PD22-1", AFTER, "a", 0.01, 0.03))
    assert "Leave one" not in study_pages._lesson("rp21", helps_both)
    found = study_pages._found("rp21", helps_both)
    assert "lower" not in found and found.startswith("On a: before fine-tuning on STS-B, isotropy repairs raise the score")
    half = joined(judged("PD22-1", BEFORE, "a", 0.05, 0.15))
    assert study_pages._lesson("rp21", half) == "" and "After" not in study_pages._found("rp21", half)

    layer = [judged("IL23-a", "log ratio of IsoScore, rte", "a", 0.5, 1.5)]
    for low, high, words in (
        (0.01, 0.03, "the task gains from it."),
        (-0.03, -0.01, "the task loses by it"),
        (-0.01, 0.03, "not shown"),
    ):
        run = joined(*layer, judged("IL23-b", "gain as a share, rte", "a", low, high))
        assert words in study_pages._lesson("il23", run)
    flat = joined(
        judged("IL23-a", "log ratio of IsoScore, rte", "a", -0.5, 0.5), judged("IL23-b", "gain as a share, rte", "a", 0.01, 0.03)
    )
    assert study_pages._lesson("il23", flat) == ""
    assert "makes no clear difference to IsoScore on rte (× 1)" in study_pages._found("il23", flat)

    near, far = (f"probe accuracy, tuned on {task} minus untuned" for task in ("PS-role", "POS"))
    assert "related task" in study_pages._lesson(
        "zs22", joined(judged("ZS22-e", near, "a", 0.1, 0.2), judged("ZS22-e", far, "a", -0.1, 0.1))
    )
    assert study_pages._lesson("zs22", joined(judged("ZS22-e", near, "a", 0.1, 0.2), judged("ZS22-e", far, "a", 0.1, 0.2))) == ""


def test_the_sentence_on_held_out_gains_counts_the_intervals(study_pages: ModuleType) -> None:
    def run(bounds: list[tuple[str, float, float]]) -> Result:
        rows = [
            Row(metric="gain", value=(low + high) / 2, low=low, high=high, setting=name, model="a") for name, low, high in bounds
        ]
        return Result(verb="study", rows=tuple(rows))

    harm = run([("x", -0.2, -0.1), ("x", -0.2, -0.1), ("y", 0.1, 0.2), ("y", -0.1, 0.1)])
    assert "hurt more often than they help: of 4 gains, 1 are above 0 and 2 below" in study_pages._found("do-no-harm", harm)
    assert "below 0 x (2 of 2)" in study_pages._found("do-no-harm", harm)
    assert "Do not repair" in study_pages._lesson("do-no-harm", harm)
    help_ = run([("x", 0.1, 0.2), ("y", -0.1, 0.1)])
    assert "do not hurt more often" in study_pages._found("do-no-harm", help_)
    assert "Do not repair" not in study_pages._lesson("do-no-harm", help_)


def test_commands_that_differ_only_in_their_seeds_are_shown_as_one(study_pages: ModuleType) -> None:
    lines = ["run a -m x --seeds 0,1", "run a -m y --seeds 0", "run a -m x --seeds 2", "run b"]
    assert study_pages._commands(lines) == ["run a -m x --seeds 0,1,2", "run a -m y --seeds 0", "run b"]
