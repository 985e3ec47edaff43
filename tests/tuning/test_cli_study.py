"""The command line of studies on a tiny encoder and toy files: it runs, goes on where it was, judges and checks."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from theodolite.cli.app import app
from theodolite.core.rows import read_rows

NOUNS = ("dog", "cat", "house", "river", "book", "song", "tree", "road")
VERBS = ("sees", "likes", "finds", "keeps")
SMALL = {
    "rp21": {
        "examples": 40, "bootstrap": 20, "halves": 20, "sample": 200, "points": 50, "clusters": 3, "components": 2,
        "sweep": [0, 1, 2],
        "tuning.epochs": 1, "tuning.track": None, "repairs.global.n_directions": 2, "repairs.clustering+zero-mean.n_clusters": 3,
        **{f"repairs.{name}.n_clusters": 3 for name in
           ("cluster-based", "cluster-based scaled", "least cluster-based 100", "least cluster-based 700")},
        "repairs.cluster-based.n_directions": 2,
    },
    "il23": {"tuning.epochs": 1, "tuning.track": None},
    "zs22": {"tuning.epochs": 1, "tuning.track_texts": 40, "probe.classifier": "linear", "points": 30, "cross": []},
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("releases")

    def sentence():
        return f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} a {rng.choice(NOUNS)} ."

    (folder / "stsb").mkdir()
    for name, count in (("train", 48), ("dev", 40), ("test", 20)):
        lines = [f"main\tx\t2017\t{i}\t{rng.integers(0, 6)}.0\t{sentence()}\t{sentence()}" for i in range(count)]
        (folder / "stsb" / f"sts-{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "cola").mkdir()
    for name, count in (("in_domain_train", 260), ("in_domain_dev", 20), ("out_of_domain_dev", 20)):
        lines = [f"gj04\t{i % 2}\t\t{sentence()}" for i in range(count)]
        (folder / "cola" / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    (folder / "trec").mkdir()
    for name, count in (("train_5500", 60), ("TREC_10", 24)):
        lines = [f"{('DESC:def', 'HUM:ind', 'NUM:date')[i % 3]} {sentence()}" for i in range(count)]
        (folder / "trec" / f"{name}.label").write_text("\n".join(lines) + "\n", encoding="latin-1")
    return folder


def study(*words, code=0):
    done = CliRunner().invoke(app, ["study", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


def run(name, model, files, to, *more, changes=(), code=0):
    told = [f"--set={key}={json.dumps(value)}" for key, value in {**SMALL[name], **dict(changes)}.items()]
    return study("run", name, "-m", model, "--data", files, "--to", to, *told, *more, code=code)


@pytest.fixture(scope="module")
def rp21(tiny_bert, files, tmp_path_factory):
    to = tmp_path_factory.mktemp("studies") / "rp21"
    run("rp21", tiny_bert, files, to)
    return to


def test_list_names_all_studies():
    told = study("list").output
    assert all(name in told for name in ("rp21", "il23", "zs22"))
    assert {one["name"] for one in json.loads(study("list", "--json").output)} == {"rp21", "il23", "zs22"}


@pytest.mark.slow
def test_rp21_leaves_rows_verdicts_pictures_and_a_page(rp21):
    rows = read_rows(rp21 / "rows.parquet")
    assert {row.study for row in rows} == {"rp21"}
    assert {row.state for row in rows} >= {"pre-trained", "fine-tuned"}
    assert {row.setting for row in rows if row.metric == "iso_score_corrected"} == {"tokens", "cls"}
    assert {row.metric for row in rows} >= {
        "spearman", "pearson", "spearman_change", "clustering_gain", "silhouette", "between_share", "removed_directions",
        "frequency_r2", "norm_frequency_correlation", "log_partition_isotropy", "iso_score_corrected",
    }  # fmt: skip
    verdicts = json.loads((rp21 / "verdicts.json").read_text())
    assert {one["claim"] for one in verdicts} == {"RP21-a", "RP21-b", "RP21-c", "RP21-d", "PD22-1", "PD22-2", "PD22-3", "PD22-4"}
    family = next(one for one in verdicts if one["claim"] == "RP21-c")
    assert family["measured"]["outcome"] == "not decidable here"
    assert len(list((rp21 / "pictures").glob("*.parquet"))) == 2
    assert "RP21-a" in (rp21 / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_same_command_does_nothing_anew_and_a_changed_setting_only_what_depends_on_it(rp21, tiny_bert, files):
    def steps():
        return {path.name: (path / "step.json").stat().st_mtime_ns for path in (rp21 / "steps").iterdir() if path.is_dir()}

    before = steps()
    run("rp21", tiny_bert, files, rp21)
    assert steps() == before
    run("rp21", tiny_bert, files, rp21, changes={"sweep": [0, 2]})
    new = set(steps()) - set(before)
    assert {name.partition("-")[0] for name in new} == {"sweep"} and len(new) == 2
    dry = run("rp21", tiny_bert, files, rp21, "--dry-run", changes={"tuning.epochs": 2}).output
    missing = [line for line in dry.splitlines() if line.startswith("missing")]
    assert missing and all("tuned" in line or "fine-tune" in line for line in missing)


@pytest.mark.slow
def test_check_never_calls_another_model_a_reproduction(rp21):
    checked = json.loads(study("check", "rp21", "--to", rp21, "--json").output)["checked"]
    found = [one for one in checked if one["measured"] is not None]
    assert found and not any(one["comparable"] for one in checked)
    assert all("no reproduction" in one["words"] for one in found)
    assert "no reproduction" in study("check", "rp21", "--to", rp21).output


@pytest.mark.slow
def test_il23_has_all_three_methods_and_judges_over_seeds(tiny_bert, files, tmp_path):
    run("il23", tiny_bert, files, tmp_path / "il", "--task", "cola", "--seeds", "0,1")
    rows = read_rows(tmp_path / "il" / "rows.parquet")
    scores = [row for row in rows if row.metric == "matthews"]
    assert {(row.state, row.seed) for row in scores if row.state != "pre-trained"} == {
        (state, seed) for state in ("fine-tuned", "isolayer", "isobn") for seed in (0, 1)
    }
    assert {row.model for row in rows} == {Path(tiny_bert).name}


@pytest.mark.slow
def test_zs22_follows_the_labels_of_one_task(tiny_bert, files, tmp_path):
    run("zs22", tiny_bert, files, tmp_path / "zs", "--task", "trec-50")
    rows = read_rows(tmp_path / "zs" / "rows.parquet")
    assert {row.metric for row in rows} >= {
        "clusters", "labels", "probe_accuracy", "train_test_similarity", "minimum_distance", "similarity_to_original",
        "cka_to_original", "centroid_movement", "movement_share_1",
    }  # fmt: skip
    assert (tmp_path / "zs" / "paths.parquet").is_file()


def test_errors_name_the_value_and_the_way_out(tiny_bert, files, tmp_path):
    cases = {
        ("run", "rp12", "-m", tiny_bert): "there is no study 'rp12'",
        ("run", "rp21", "-m", tiny_bert, "-m", f"{tiny_bert}/"): "two models are called",
        ("run", "rp21", "-m", tiny_bert, "--data", files, "--task", "rte"): "no task 'rte'",
        ("run", "rp21", "-m", tiny_bert, "--data", files, "--layers", "9"): "no layer 9",
        ("run", "rp21", "-m", tiny_bert, "--data", files, "--set", "pionts=3"): "no setting 'pionts'",
        ("run", "rp21", "-m", tiny_bert, "--data", files, "--set", "points"): "must be KEY=VALUE",
        ("run", "rp21", "-m", tmp_path / "nothing"): "there is no folder",
        ("check", "rp21", "--to", tmp_path / "nothing"): "there is no run of rp21",
    }
    for words, said in cases.items():
        assert said in study(*words, code=2).stderr, words


@pytest.mark.slow
def test_a_step_that_fails_leaves_the_others_and_exit_code_1(tiny_bert, files, tmp_path):
    done = run("rp21", tiny_bert, files, tmp_path / "s", changes={"repairs.global.n_directions": 99}, code=1)
    assert "failed: " in done.output and "n_directions=99" in done.output
    assert any(row.metric == "silhouette" for row in read_rows(tmp_path / "s" / "rows.parquet"))
    notes = json.loads((tmp_path / "s" / "run.json").read_text())["notes"]
    assert any("failed" in note for note in notes)


@pytest.mark.slow
def test_steps_in_parallel_give_the_same_rows(rp21, tiny_bert, files, tmp_path):
    run("rp21", tiny_bert, files, tmp_path / "two", "--jobs", 2)
    one, two = ({(*_key(row),): row.value for row in read_rows(folder / "rows.parquet")} for folder in (rp21, tmp_path / "two"))
    shared = {key for key in two if key[1] != "sweep global"}  # whose settings another test has changed
    assert shared <= set(one)
    assert all(one[key] == pytest.approx(two[key], rel=1e-4, abs=1e-6, nan_ok=True) for key in shared)


def _key(row):
    return row.metric, row.setting, row.state, row.layer, row.label, row.task, row.step
