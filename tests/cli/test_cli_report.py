"""`report`, and `--report` of `survey` and `compare`: a page that shows what was measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import Run
from report_samples import study

from theodolite.metrics.isoscore import iso_score

X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
Y = (X * np.linspace(0.1, 3, 8) + 20).astype(np.float32)


@pytest.fixture(autouse=True)
def files(here: Path) -> Path:
    np.save("x.npy", X)
    np.save("y.npy", Y)
    return here


def block(page: str, id: str) -> dict:
    found = re.search(f'<script type="application/json" id="data-{id}">(.*?)</script>', Path(page).read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def test_a_run_becomes_a_page(files: Path, run: Run) -> None:
    study(points=50).save(files / "run")
    assert "report written to page.html" in run("report", "run", "--to", "page.html").stdout
    page = Path("page.html").read_text()
    assert "RP21: what fine-tuning does to isotropy" in page
    assert len(block("page.html", "clouds")["pictures"]) == 2


def test_several_runs_stand_in_one_page(files: Path, run: Run) -> None:
    study("first", points=20).save(files / "a")
    study("second", points=20).save(files / "b")
    run("survey", "x.npy", "--metrics", "iso_score", "--no-findings", "--output", "rows.parquet")
    run("report", "a", "b", "rows.parquet", "--to", "page.html")
    assert block("page.html", "table-all")["columns"][0]["names"] == ["first", "second", "Rows of rows.parquet"]


def test_without_text_none_is_in_the_page(files: Path, run: Run) -> None:
    sentence = study(points=20).pictures[0].columns["text"][0]
    study(points=20).save(files / "run")
    run("report", "run", "--to", "with.html")
    run("report", "run", "--to", "without.html", "--no-text")
    assert sentence in Path("with.html").read_text()
    assert sentence not in Path("without.html").read_text()


def test_wrong_use_is_one_line_and_leaves_nothing(files: Path, run: Run) -> None:
    for arguments, message in (
        (["report", "nowhere"], "there is no result nowhere"),
        (["report", "x.npy"], "no known ending"),
        (["report", "x.npy", "--to", "no/page.html"], "there is no folder no"),
        (["report", "x.npy", "--to", "page.pdf"], "does not end in .html"),
        (["survey", "x.npy", "--no-text"], "--report FILE"),
        (["survey", "x.npy", "--report", "no/page.html"], "there is no folder no"),
        (["compare", "x.npy", "y.npy", "--report", "page"], "does not end in .html"),
    ):
        result = run(*arguments, code=2)
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert not list(files.glob("*.html"))


def test_what_is_no_report_is_kept(files: Path, run: Run) -> None:
    study(points=10).save(files / "run")
    Path("page.html").write_text("mine")
    assert "--overwrite" in run("report", "run", "--to", "page.html", code=2).stderr
    assert Path("page.html").read_text() == "mine"
    run("report", "run", "--to", "page.html", "--overwrite")
    run("report", "run", "--to", "page.html")


def test_survey_writes_a_page_of_its_numbers_findings_and_clouds(run: Run) -> None:
    assert "report written to s.html" in run("survey", "x.npy", "y.npy", "--report", "s.html").stdout
    table = block("s.html", "table-0")
    names = table["columns"][0]
    line = names["values"].index(names["names"].index("IsoScore"))
    assert [column["values"][line] for column in table["columns"][1:]] == pytest.approx([iso_score(X), iso_score(Y)], rel=1e-5)
    assert [one["n"] for one in block("s.html", "clouds")["pictures"]] == [300, 300]
    assert 'id="findings"' in Path("s.html").read_text()


def test_compare_writes_a_page_of_both_and_their_difference(run: Run) -> None:
    run("compare", "x.npy", "y.npy", "--metrics", "iso_score", "--bootstrap", "20", "--report", "c.html", "--json")
    table = block("c.html", "table-0")
    assert [column["name"] for column in table["columns"]] == ["metric", "before", "after", "difference"]
    difference = table["columns"][3]
    assert difference["low"][0] < difference["values"][0] < difference["high"][0]
    assert table["note"].startswith("before: x.npy; after: y.npy.")


def test_json_stays_json_beside_a_report(run: Run) -> None:
    json.loads(run("survey", "x.npy", "--json", "--report", "s.html").stdout)
    assert Path("s.html").exists()


def test_figures_of_several_runs_cannot_leave_their_folder(files: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    from theodolite.reports import drawing

    places: list[Path] = []
    monkeypatch.setattr(drawing, "require_figures", lambda: None)
    monkeypatch.setattr(drawing, "write_figures", lambda displays, folder: places.append(Path(folder)) or [])
    for i, name in enumerate(("../../up", "/etc", "..")):
        study(name, points=10).save(files / str(i))
    run("report", "0", "1", "2", "--to", "page.html", "--figures", "figures")
    root = (files / "figures").resolve()
    assert len({place.resolve() for place in places}) == 3
    assert all(place.resolve().parent == root for place in places)
