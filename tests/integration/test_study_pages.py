"""The pages of studies are what their committed records give today."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from theodolite.core.result import Effect, Judged, Result, Verdict
from theodolite.core.rows import Row
from theodolite.studies import study_names

ROOT = Path(__file__).parents[2]


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
        assert len(text.splitlines()) <= 100, f"{path.name} is longer than two screens"
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
