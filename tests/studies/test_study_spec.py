"""A study's file: mistakes are explained, own files and own tasks are read, and all printed numbers are there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from theodolite.spaces.readers.data_files import DataError
from theodolite.studies.spec import StudySpec, load_spec


@pytest.fixture(scope="module")
def rp21() -> StudySpec:
    return load_spec("rp21")


@pytest.fixture(scope="module")
def il23() -> StudySpec:
    return load_spec("il23")


@pytest.fixture(scope="module")
def zs22() -> StudySpec:
    return load_spec("zs22")


BROKEN = [
    ('name = "rp21"', "name = 3", "key 'name': 3 must be a text"),
    ('name = "rp21"\n', "", "key 'name': is missing"),
    ('plan = "rp21"', 'plan = "rp12"', "there is no plan 'rp12'.*did you mean 'rp21'"),
    ("[[tables]]", "[tables]", "key 'tables'|not valid TOML"),
    ("[scale]", "[scala]", "key 'scala': is not known here.*did you mean 'scale'"),
    ("[[models]]", "[[models]", "this is not valid TOML.*line"),
    ("[54.14, 1.1e-5], ", "", r"key 'printed\[0\].values\[0\]': a line has 7 entries"),
    ("[54.14, 1.1e-5]", "[54.14]", r"key 'printed\[0\].values\[0\]': a cell has 2 numbers"),
    ("[54.14, 1.1e-5]", '["54.14", 1.1e-5]', "'54.14' must be a number, the spearman"),
    ('["BERT-base", "pre-trained", [54', '["BERT-bass", "pre-trained", [54', "model 'BERT-bass' is not one of"),
    ('table = "table 1"\nsource = "RP21', 'table = "table 11"\nsource = "RP21', "there is no table 'table 11'.*did you mean"),
    ('rule = "difference"', 'rule = "diference"', "there is no rule 'diference'.*did you mean 'difference'"),
    ('over = "layers"', 'ower = "layers"', "the rule 'difference' takes no parameter 'ower'"),
    ('metric = "between_share"', "", "needs the parameter 'metric'"),
    ('side = "below"', 'side = "under"', "'under' must be one of above, below, inside"),
    ('side = "below"', 'sides = "below"', r"key 'claims\[0\].primary\[0\].sides': is not known here.*did you mean 'side'"),
    ('scope = "models"', 'scope = "all"', "'all' must be model or models"),
    ("scale = { metric", "scale = { metrics", "must name the metric at unit scale"),
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


def test_a_claim_without_a_primary_effect_is_refused(rp21: StudySpec, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    text = Path(rp21.path).read_text(encoding="utf-8")
    path.write_text(text.replace("claims.primary", "claims.secondary"), encoding="utf-8")
    with pytest.raises(DataError, match=r"key 'claims\[0\].primary': there are 0; a claim needs one to three primary effects"):
        load_spec(path)


def test_an_own_file_and_unknown_names(rp21: StudySpec, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(Path(rp21.path).read_text(encoding="utf-8"), encoding="utf-8")
    assert load_spec(path).printed == rp21.printed
    with pytest.raises(DataError, match=r"no study 'rp12'.*il23, rp21, zs22.*did you mean 'rp21'"):
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
        ('name = "mine"', 'name = "stsb"', "'stsb' is a task of the package"),
        ('kind = "similarity"', 'kind = "similar"', "kind 'similar'"),
        ('kind = "similarity"\n', "", "key 'task.kind': is missing"),
        ("files =", "file =", "key 'task.files': is missing"),
        ("score_range", "score_rang", "key 'task.score_rang': is not known here.*did you mean 'score_range'"),
        ("score_range = [0, 10]", "", "score_range"),
        ("columns = {", "columns = { label = 'x',", "label"),
        (".csv", ".xyz", "xyz"),
    ],
)
def test_a_wrong_task_is_explained(rp21: StudySpec, tmp_path: Path, good: str, bad: str, message: str) -> None:
    assert good in OWN_TASK
    with pytest.raises(DataError, match=message):
        load_spec(own_study(rp21, tmp_path, OWN_TASK.replace(good, bad)))


def value(study: StudySpec, source: str, metric: str, **where: str) -> str:
    (text,) = [
        printed.text
        for printed in study.printed
        if (printed.source, printed.row.metric) == (source, metric)
        and all(getattr(printed.row, key) == field for key, field in where.items())
    ]
    return text


def test_every_table_has_all_its_numbers(rp21: StudySpec, il23: StudySpec, zs22: StudySpec) -> None:
    # cells × numbers a cell: 4 × 5 × 2; 2 × 5 × 2; 12 lines × 2; 6 × 2; 12 × 5
    assert Counter(printed.source for printed in rp21.printed) == {
        "RP21 table 1": 40,
        "RP21 table 2": 20,
        "PD22 table 1 (reported)": 40,
        "PD22 table 2 (reported)": 20,
    }
    assert Counter(printed.source for printed in il23.printed) == {
        "IL23 table 2": 24,
        "IL23 table 2, improvements": 12,
        "IL23 table 3": 60,
        "IL23 table 3, IsoBN columns (Zhou et al.)": 30,
        "IL23 table 3, IsoBN's own baselines (Zhou et al.)": 30,
    }
    assert Counter(printed.source for printed in zs22.printed) == {"ZS22 text": 3}


def test_spot_values_of_rp21(rp21: StudySpec) -> None:
    bert, roberta = {"model": "BERT-base"}, {"model": "RoBERTa-base"}
    tuned, raw = {"state": "fine-tuned"}, {"state": "pre-trained"}
    table = "RP21 table 1"
    assert value(rp21, table, "spearman", **bert, **raw, setting="baseline") == "54.14"
    assert value(rp21, table, "partition_isotropy", **bert, **raw, setting="baseline") == "1.1e-5"
    assert value(rp21, table, "spearman", **bert, **tuned, setting="cluster-based") == "64.43"
    assert value(rp21, table, "partition_isotropy", **roberta, **raw, setting="cluster-based") == "0.95"
    assert value(rp21, table, "spearman", **roberta, **tuned, setting="global") == "79.71"
    assert value(rp21, "RP21 table 2", "spearman", **roberta, setting="least global 700") == "78.59"
    assert value(rp21, "RP21 table 2", "partition_isotropy", **bert, setting="least cluster-based 700") == "0.16"
    reported = "PD22 table 1 (reported)"
    assert value(rp21, reported, "spearman", **bert, **raw, setting="clustering+zero-mean") == "59.41"
    assert value(rp21, reported, "partition_isotropy", **bert, **raw, setting="baseline") == "1.7e-07"
    assert value(rp21, reported, "spearman", **roberta, **tuned, setting="cluster-based") == "57.62"
    assert value(rp21, "PD22 table 2 (reported)", "spearman", **roberta, setting="least global 700") == "76.25"
    assert value(rp21, "PD22 table 2 (reported)", "partition_isotropy", **roberta, setting="least global 100") == "3.10e-4"
    assert {printed.standing for printed in rp21.printed if printed.source.startswith("PD22")} == {"reported"}
    assert {printed.standing for printed in rp21.printed if printed.source.startswith("RP21")} == {"printed"}


def test_spot_values_of_il23_and_zs22(il23: StudySpec, zs22: StudySpec) -> None:
    bert, roberta = {"model": "BERT-base-cased"}, {"model": "RoBERTa-large"}
    assert value(il23, "IL23 table 2", "accuracy", task="rte", state="isolayer", **bert) == "71.84"
    assert value(il23, "IL23 table 2", "matthews", task="cola", state="fine-tuned", **roberta) == "67.23"
    assert value(il23, "IL23 table 2", "iso_score", task="mrpc", state="isolayer", **roberta) == "0.00245"
    assert value(il23, "IL23 table 2, improvements", "accuracy_gain", task="mrpc", **bert) == "221.2"
    assert value(il23, "IL23 table 2, improvements", "iso_score_gain", task="cola", **roberta) == "91.67"
    assert value(il23, "IL23 table 3", "accuracy", task="mrpc", state="isolayer", **bert) == "87.5"
    assert value(il23, "IL23 table 3", "matthews_sd", task="cola", state="isolayer", **bert) == "0.85"
    assert value(il23, "IL23 table 3", "ev_3", task="rte", state="isolayer", **roberta) == "0.39"
    isobn = "IL23 table 3, IsoBN columns (Zhou et al.)"
    assert value(il23, isobn, "ev_1", task="mrpc", state="isobn", **bert) == "0.37"
    own = "IL23 table 3, IsoBN's own baselines (Zhou et al.)"
    assert value(il23, own, "accuracy", task="rte", state="fine-tuned", **roberta) == "84.47"
    assert value(zs22, "ZS22 text", "train_test_similarity", model="BERT-small", task="ps-fxn") == "0.44"
    assert value(zs22, "ZS22 text", "mean_change", setting="tuned on pos") == "-1.68"
    bounds = [printed for printed in zs22.printed if printed.row.metric == "similarity_to_original"]
    assert [(bound.text, bound.relation) for bound in bounds] == [("0.5", ">")]


def test_percentages_become_the_metrics_own_unit(rp21: StudySpec, il23: StudySpec) -> None:
    by_text = {printed.text: printed for printed in (*rp21.printed, *il23.printed)}
    assert by_text["84.41"].row.value == pytest.approx(0.8441)
    assert by_text["1.1e-5"].row.value == pytest.approx(1.1e-5)
    assert by_text["390.2"].row.value == pytest.approx(3.902)
