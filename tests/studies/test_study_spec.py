"""A study's file: mistakes are explained, own files and own tasks are read, and names are plain."""

from __future__ import annotations

from pathlib import Path

import pytest

from theodolite.spaces.readers.errors import DataError
from theodolite.studies.spec import StudySpec, load_spec


@pytest.fixture(scope="module")
def rp21() -> StudySpec:
    return load_spec("rp21")


BROKEN = [
    ('name = "rp21"', "name = 3", "key 'name': 3 must be a text"),
    ('name = "rp21"\n', "", "key 'name': is missing"),
    ('plan = "rp21"', 'plan = "rp12"', "there is no plan 'rp12' .did you mean 'rp21'"),
    ("[[tables]]", "[tables]", "key 'tables'|not valid TOML"),
    ("[scale]", "[scala]", "key 'scala': is not known here .did you mean 'scale'"),
    ("[[models]]", "[[models]", "this is not valid TOML.*line"),
    ("[54.14, 1.1e-5], ", "", r"key 'printed\[0\].values\[0\]': a line has 7 entries"),
    ("[54.14, 1.1e-5]", "[54.14]", r"key 'printed\[0\].values\[0\]': a cell has 2 numbers"),
    ("[54.14, 1.1e-5]", '["54.14", 1.1e-5]', "'54.14' must be a number, the spearman"),
    ('["BERT-base", "pre-trained", [54', '["BERT-bass", "pre-trained", [54', "model 'BERT-bass' is not one of"),
    ('table = "table 1"\nsource = "RP21', 'table = "table 11"\nsource = "RP21', "there is no table 'table 11' .did you mean"),
    ('rule = "changes"', 'rule = "change"', "there is no rule 'change' .did you mean 'changes'"),
    ("share = 0.1", "shares = 0.1", "the rule 'far below the ceiling' takes no parameter 'shares'"),
    ("share = 0.1", "", "needs the parameter 'share'"),
    ('printed = [["RP21 table 1"],', 'printed = [["RP21 table 9"],', "no table is from 'RP21 table 9'"),
    ('keys = ["model", "state"]', 'keys = ["model", "status"]', "'status' is not a field of a row"),
    ('across = "setting"\n', "", "give both or neither"),
]


@pytest.mark.parametrize(("good", "bad", "message"), BROKEN)
def test_a_broken_file_is_explained(rp21: StudySpec, tmp_path: Path, good: str, bad: str, message: str) -> None:
    text = Path(rp21.path).read_text(encoding="utf-8")
    assert good in text
    path = tmp_path / "own.toml"
    path.write_text(text.replace(good, bad, 1), encoding="utf-8")
    with pytest.raises(DataError, match=message) as caught:
        load_spec(path)
    assert str(path) in str(caught.value)


def test_an_own_file_and_unknown_names(rp21: StudySpec, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(Path(rp21.path).read_text(encoding="utf-8"), encoding="utf-8")
    assert load_spec(path).printed == rp21.printed
    with pytest.raises(DataError, match=r"no study 'rp12' .did you mean 'rp21'.*il23, rp21, zs22"):
        load_spec("rp12")
    with pytest.raises(DataError, match="there is no such file"):
        load_spec(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "name", ["../elsewhere", "a/b", "/absolute", "..", "", "two words", "a\\\\b", "</script>", "\\u202eevil"]
)
def test_a_name_that_is_not_plain_is_refused_in_one_sentence(rp21: StudySpec, tmp_path: Path, name: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(Path(rp21.path).read_text(encoding="utf-8").replace('name = "rp21"', f'name = "{name}"', 1), encoding="utf-8")
    with pytest.raises(DataError, match=r"key 'name': .* must be a plain name") as caught:
        load_spec(path)
    assert "\n" not in str(caught.value)


def test_a_copy_under_another_name_keeps_tables_claims_and_printed_numbers(rp21: StudySpec, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(Path(rp21.path).read_text(encoding="utf-8").replace('name = "rp21"', 'name = "mine"', 1), encoding="utf-8")
    copy = load_spec(path)
    assert copy.name == "mine" and copy.plan == "rp21"
    assert (copy.tables, copy.claims, copy.settings) == (rp21.tables, rp21.claims, rp21.settings)
    assert len(copy.tables) == 5 and len(copy.printed) == len(rp21.printed)
    assert {value.row.study for value in copy.printed} == {"mine"}
    assert (copy.reference, rp21.reference) == (str(path), "rp21")


OWN_TASK = """
[task]
name = "mine"
kind = "similarity"
files = { train = "pairs/train.csv", dev = ["pairs/dev.csv"] }
columns = { text = "a", text_b = "b" }
score_range = [0, 10]
"""


def own_study(rp21: StudySpec, folder: Path, task: str) -> Path:
    text = Path(rp21.path).read_text(encoding="utf-8")
    path = folder / "mine.toml"
    path.write_text(text.replace('task = "stsb"', 'task = "mine"') + task, encoding="utf-8")
    return path


def test_a_file_declares_a_task_of_its_own_with_files_next_to_it(
    rp21: StudySpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = load_spec(own_study(rp21, tmp_path, OWN_TASK).name)  # a path relative to the working directory
    task = spec.tasks["mine"]
    assert (task.kind, task.score, task.score_range) == ("similarity", "spearman", (0.0, 10.0))
    assert task.splits == {"train": (str(tmp_path / "pairs/train.csv"),), "dev": (str(tmp_path / "pairs/dev.csv"),)}
    assert task.layout.columns == {"text": "a", "text_b": "b"}
    assert spec.settings["task"] == "mine" and spec.score["mine"] == "spearman"


def test_a_file_may_declare_several_tasks(rp21: StudySpec, tmp_path: Path) -> None:
    tasks = OWN_TASK.replace("[task]", "[[task]]") + OWN_TASK.replace("[task]", "[[task]]").replace('"mine"', '"other"')
    assert list(load_spec(own_study(rp21, tmp_path, tasks)).tasks) == ["mine", "other"]


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ('name = "mine"', 'name = "stsb"', "'stsb' is a task that comes with the package"),
        ('kind = "similarity"', 'kind = "similar"', "kind 'similar'"),
        ('kind = "similarity"\n', "", "key 'task.kind': is missing"),
        ("files =", "file =", "key 'task.files': is missing"),
        ("score_range", "score_rang", "key 'task.score_rang': is not known here .did you mean 'score_range'"),
        ("score_range = [0, 10]", "", "score_range"),
        ("columns = {", "columns = { label = 'x',", "label"),
        (".csv", ".xyz", "xyz"),
    ],
)
def test_a_wrong_task_is_explained(rp21: StudySpec, tmp_path: Path, good: str, bad: str, message: str) -> None:
    assert good in OWN_TASK
    with pytest.raises(DataError, match=message):
        load_spec(own_study(rp21, tmp_path, OWN_TASK.replace(good, bad)))
