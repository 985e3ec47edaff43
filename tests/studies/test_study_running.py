"""Studies on a tiny encoder and toy files: they run, continue where they were, judge, check, and take one's own tasks."""

import io
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from theodolite.core.pictures import draw_picture
from theodolite.core.result import Result
from theodolite.core.rows import read_rows
from theodolite.core.spelling import ON_COMMAND_LINE
from theodolite.core.states import FINE_TUNED, ISOBN, ISOLAYER, PRE_TRAINED
from theodolite.studies import Study, study
from theodolite.studies.runner import StepReport
from theodolite.studies.running import _watching
from theodolite.studies.slices import Slices, merge_slices
from theodolite.tasks import DataError, own_task
from theodolite.tasks.declarations import TASKS

CLUSTERED = ("cluster-based", "cluster-based scaled", "least cluster-based 100", "least cluster-based 700")
SMALL = {
    "rp21": {
        "examples": 40, "bootstrap": 200, "starts": 2, "sample": 200, "points": 50, "clusters": 3, "components": 2,
        "sweep": [0, 1, 2], "tuning.epochs": 1, "tuning.track": None,
        "repairs.global.n_directions": 2, "repairs.cluster-based.n_directions": 2,
        **{f"repairs.{name}.n_clusters": 3 for name in ("clustering+zero-mean", *CLUSTERED)},
    },
    "il23": {"tuning.epochs": 1, "choose.learning_rate": [1e-4], "choose.layer_learning_rate": [1e-3]},
    "zs22": {"tuning.epochs": 1, "tuning.track_texts": 40, "probe.classifier": "linear", "points": 30, "cross": []},
}  # fmt: skip


# The shortest fine-tuning that has seeds.
PLAIN = {"tasks": ["cola"], "changes": {"methods": ["plain"]}}


def run(name, model, data, to, *, changes=None, plan=None, **options):
    return study(name).run(model, data=data, to=to, settings={**SMALL[plan or name], **(changes or {})}, **options)


@pytest.fixture(scope="module")
def rp21(study_bert, releases, tmp_path_factory):
    """The folder of a whole run."""
    folder = tmp_path_factory.mktemp("studies") / "rp21"
    run("rp21", study_bert, releases, folder)
    return folder


@pytest.fixture(scope="module")
def seed_0(study_bert, releases, tmp_path_factory):
    """The folder and the result of a run with seed 0."""
    folder = tmp_path_factory.mktemp("studies") / "il23"
    return folder, run("il23", study_bert, releases, folder, seeds=[0], **PLAIN)


@pytest.fixture(scope="module")
def seeds_in_turn(seed_0, study_bert, releases, tmp_path_factory):
    """The folder of a run with seed 0 that went on with seed 1, and both results."""
    folder, first = copy_of(seed_0[0], tmp_path_factory.mktemp("studies") / "il23"), seed_0[1]
    return folder, first, run("il23", study_bert, releases, folder, seeds=[1], **PLAIN)


@pytest.fixture(scope="module")
def declared(study_bert, pairs, tmp_path_factory):
    """The folder and the result of a run on a task that the study's file declares."""
    folder = tmp_path_factory.mktemp("studies")
    text = study("rp21").show().replace('name = "rp21"', 'name = "mine"', 1).replace('task = "stsb"', 'task = "scored"')
    (folder / "mine.toml").write_text(text + OWN_TASK % {"folder": pairs}, encoding="utf-8")
    return folder / "run", run(folder / "mine.toml", study_bert, None, folder / "run", plan="rp21", layers=[2])


def copy_of(folder, to):
    """A folder with the same finished steps, for a test that adds others."""
    return Path(shutil.copytree(folder, to))


def step_times(folder):
    return {path.name: (path / "step.json").stat().st_mtime_ns for path in (folder / "steps").iterdir() if path.is_dir()}


def test_a_study_says_what_it_is():
    rp21 = study("rp21")
    assert (rp21.name, rp21.title, len(rp21.claims)) == ("rp21", rp21.spec.title, 12)
    assert "\n" not in repr(rp21) and "rp21" in repr(rp21) and "12 claims" in repr(rp21)
    assert rp21.show() == Path(rp21.spec.path).read_text(encoding="utf-8")
    assert rp21.folder() == Path("theodolite-studies/rp21") and rp21.folder("x") == Path("x")
    with pytest.raises(AttributeError):
        rp21.spec = None
    with pytest.raises(DataError, match="there is no study 'rp12'"):
        study("rp12")


@pytest.mark.slow
def test_a_run_returns_what_it_saved(rp21, study_bert, releases):
    result, again = Result.load(rp21), run("rp21", study_bert, releases, rp21)
    assert result.verb == "study" and result.title == study("rp21").title
    assert result.rows == again.rows and result.verdicts == again.verdicts and result.notes == again.notes
    assert set(result.records) == set(again.records) == {"draws", "pairs", "spectra", "paper_tables"}
    assert again.provenance["steps"] == {"done": 0, "reused": len(step_times(rp21)), "failed": 0, "blocked": 0}
    facts = result.provenance
    assert (facts["study"], facts["quick"], facts["failed"]) == ("rp21", False, [])
    assert facts["settings"]["points"] == 50 and len(facts["tables"]) == 5
    assert list(facts["models"]) == [Path(study_bert).name]
    assert facts["origins"] == {Path(study_bert).name: {"kind": "undeclared", "about": "", "known_by": ""}}
    bias = next(verdict.measured for verdict in result.verdicts if verdict.claim == "RP21-d")
    assert bias.outcome == "not measured" and bias.unmet in ("learned", "pre-trained")
    assert [effect.name for effect in bias.effects][:1] == ["R² of log frequency, fine-tuned minus before"]
    assert facts["command"].startswith("theodolite.study('rp21').run([") and "'points': 50" in facts["command"]


@pytest.mark.slow
def test_rp21_measures_both_states(rp21):
    result = Result.load(rp21)
    assert {row.study for row in result} == {"rp21"}
    assert {row.state for row in result} >= {PRE_TRAINED, FINE_TUNED}
    assert {row.setting for row in result if row.metric == "iso_score_corrected"} == {"tokens", "cls", "one token per sentence"}
    assert {row.metric for row in result} >= {
        "spearman", "pearson", "spearman_change", "clustering_gain", "silhouette", "between_share", "removed_directions",
        "frequency_r2", "norm_frequency_correlation", "log_partition_isotropy", "iso_score_corrected",
    }  # fmt: skip
    assert {row.setting for row in result if row.metric == "spearman" and not row.label} >= {"baseline", "baseline [CLS]"}
    assert {verdict.claim for verdict in result.verdicts} == {claim.id for claim in study("rp21").claims}
    family = next(verdict for verdict in result.verdicts if verdict.claim == "RP21-c")
    assert family.measured.outcome == "not measured"
    assert len(result.pictures) == 2 and all({"text", "token", "cluster"} <= set(each.columns) for each in result.pictures)


@pytest.mark.slow
def test_an_interval_agrees_with_a_plain_loop_over_the_pairs(rp21):
    """PD22-4's effect on real cosines: Spearman of resampled pairs, computed again one by one."""
    from scipy.stats import spearmanr

    result = Result.load(rp21)
    effect = next(verdict for verdict in result.verdicts if verdict.claim == "PD22-4").measured.effects[0]
    records = [each for each in result.records["pairs"].to_pylist() if each["state"] == FINE_TUNED and each["layer"] == 2]
    scores, rng = np.array(records[0]["scores"]), np.random.default_rng(7)

    def mean(settings, at):
        chosen = [each for each in records if each["setting"] in settings]
        return np.mean([
            np.mean([spearmanr(scores[at], np.array(c["cosines"])[at]).statistic for c in chosen if c["setting"] == s])
            for s in settings
        ])  # fmt: skip

    def change(at):
        return mean(["least global 100", "least cluster-based 100"], at) - mean(["global", "cluster-based"], at)

    assert effect.value == pytest.approx(change(slice(None)), abs=1e-6)
    spread = np.std([change(rng.integers(0, len(scores), len(scores))) for _ in range(200)])
    assert (effect.high - effect.low) / 2 / 1.96 >= 0.75 * spread  # the k-means starts come on top of it
    assert (effect.high - effect.low) / 2 / 1.96 <= 3 * spread


@pytest.mark.slow
def test_records_alone_are_judged_as_the_run_is(rp21, tmp_path):
    folder = study("rp21").export(tmp_path / "records", to=rp21)
    exported, run_result = Result.load(folder), Result.load(rp21)
    assert exported.verdicts == run_result.verdicts
    # The pictures without texts, and the same rows in both states.
    before, after = exported.pictures
    assert {"frequency", "cluster"} <= set(before.columns) and not {"text", "token"} & set(before.columns)
    assert before.rows.tolist() == after.rows.tolist() and before.about["state"] != after.about["state"]
    assert set(exported.provenance["step_hashes"]) == {path.name for path in (rp21 / "steps").iterdir() if path.is_dir()}
    assert study("rp21").check(folder).verdicts == run_result.verdicts
    assert not list(folder.rglob("*.safetensors")) and "text" not in exported.records["pairs"].column_names


@pytest.mark.slow
def test_the_same_run_repeats_nothing_and_a_changed_setting_only_what_depends_on_it(rp21, study_bert, releases):
    before = step_times(rp21)
    run("rp21", study_bert, releases, rp21)
    assert step_times(rp21) == before
    run("rp21", study_bert, releases, rp21, changes={"sweep": [0, 2]})
    new = set(step_times(rp21)) - set(before)
    assert {name.partition("-")[0] for name in new} == {"sweep"} and len(new) == 2
    settings = {**SMALL["rp21"], "tuning.epochs": 2}
    plan = study("rp21").plan(study_bert, data=releases, to=rp21, settings=settings)
    missing = [step.title for step in plan.steps if not step.done]
    assert missing and all("tuned" in title or "fine-tune" in title for title in missing)
    assert len(missing) == plan.missing and f"{len(plan)} steps, {plan.missing} missing" in repr(plan)


@pytest.mark.slow
def test_a_dry_run_shows_what_is_there_and_writes_nothing(rp21, study_bert, releases, tmp_path):
    nothing = run("rp21", study_bert, releases, tmp_path / "new", dry_run=True)
    assert len(nothing) == 0 and not (tmp_path / "new").exists()
    assert all(verdict.measured.outcome == "not measured" for verdict in nothing.verdicts)
    modified = (rp21 / "result.json").stat().st_mtime_ns
    assert len(run("rp21", study_bert, releases, rp21, dry_run=True)) > 100
    assert (rp21 / "result.json").stat().st_mtime_ns == modified


@pytest.mark.slow
def test_pictures_can_do_without_text(rp21, study_bert, releases):
    result = run("rp21", study_bert, releases, rp21, text=False, dry_run=True)
    assert all(not {"text", "token"} & set(picture.columns) for picture in result.pictures) and len(result.pictures) == 2


@pytest.mark.slow
def test_a_check_never_calls_another_model_a_reproduction(rp21):
    check = study("rp21").check(rp21)
    measured = [each for each in check.comparisons if each.measured is not None]
    assert measured and not any(each.comparable for each in check.comparisons)
    assert all("not a reproduction" in each.words for each in measured)
    assert check.verdicts == Result.load(rp21).verdicts
    with pytest.raises(ValueError, match="holds a run of rp21, not of il23"):
        study("il23").check(rp21)


@pytest.mark.slow
def test_quick_sizes_are_noted(study_bert, releases, tmp_path):
    changes = {"tuning.train_rows": 240, "methods": ["plain"]}
    result = run("il23", study_bert, releases, tmp_path, tasks=["cola"], seeds=[0], quick=True, changes=changes)
    assert any("small sizes" in condition for condition in result.conditions)
    assert result.title.startswith("Quick run, not final: ") and "Quick run" in repr(result).splitlines()[0]
    assert study("il23").check(tmp_path).quick
    assert result.provenance["quick"] and result.provenance["settings"]["tuning"]["train_rows"] == 240
    assert not any(each.comparable for each in study("il23").check(tmp_path).comparisons)


@pytest.mark.slow
def test_il23_has_all_three_methods_and_judges_over_seeds(seeds_in_turn, study_bert, releases, tmp_path):
    folder = copy_of(seeds_in_turn[0], tmp_path / "il")  # the plain runs are there
    result = run("il23", study_bert, releases, folder, tasks=["cola"], seeds=range(2))
    scores = {(row.state, row.seed) for row in result if row.metric == "matthews" and row.state != PRE_TRAINED}
    assert scores == {(state, seed) for state in (FINE_TUNED, ISOLAYER, ISOBN) for seed in (0, 1)}
    assert {row.model for row in result} == {Path(study_bert).name}
    readings = {f"ev_{k}{ending}" for k in range(1, 21) for ending in ("", "_centered")}
    for state in (FINE_TUNED, ISOLAYER, ISOBN):
        assert {row.metric for row in result if row.state == state and row.split == "dev"} >= {"iso_score", *readings}
    drawn = set(zip(*(result.records["draws"][name].to_pylist() for name in ("metric", "state", "seed")), strict=True))
    judged = ["matthews", "iso_score", *(f"ev_{k}{ending}" for k in (1, 2, 3) for ending in ("", "_centered"))]
    assert drawn >= {(metric, state, seed) for metric in judged for state in (FINE_TUNED, ISOLAYER, ISOBN) for seed in (0, 1)}
    assert result.records["predictions"].num_rows == 3 * 2 * 40
    gains = {(row.metric, row.state, row.seed) for row in result if row.metric.endswith("_gain")}
    assert gains == {(f"{metric}_gain", ISOLAYER, seed) for metric in ("matthews", "iso_score") for seed in (0, 1)}
    sizes = {row.split: row.value for row in result if row.metric == "examples" and row.seed == 1}
    assert sizes == {"train": 182, "validation": 78, "dev": 40}
    assert {row.value for row in result if row.metric == "majority_share"} == {0.5}


@pytest.mark.slow
def test_forms_of_the_layer_are_states_of_their_own_and_enter_no_claim(seed_0, study_bert, releases, tmp_path):
    form, folder = "isolayer, deeper", copy_of(seed_0[0], tmp_path / "run")
    result = run("il23", study_bert, releases, folder, tasks=["cola"], seeds=[0], changes={"methods": ["plain", form]})
    assert {row.state for row in result if row.metric == "iso_score" and row.layer is None} >= {FINE_TUNED, form}
    assert ISOLAYER not in {row.state for row in result}
    assert {verdict.claim: verdict.measured.outcome for verdict in result.verdicts}["IL23-a"] == "not measured"


@pytest.mark.slow
def test_slices_of_a_run_merge(seeds_in_turn, study_bert, releases, tmp_path):
    """Two runs with one seed each give the rows, records and verdicts of one run with both."""
    folder, first, both = copy_of(seeds_in_turn[0], tmp_path / "s"), *seeds_in_turn[1:]
    assert {row.seed for row in first} == {0} and {row.seed for row in both} == {0, 1}
    assert [f"seeds=[{seed}]" in line for seed, line in enumerate(both.provenance["command"].splitlines())] == [True, True]
    whole = run("il23", study_bert, releases, folder, seeds=[0, 1], **PLAIN)
    assert whole.provenance["steps"]["done"] == 0
    assert set(whole.rows) == set(both.rows) and whole.records["draws"].num_rows == both.records["draws"].num_rows > 0
    changes = {"methods": ["plain"], "tuning.epochs": 2}
    other = run("il23", study_bert, releases, folder, tasks=["cola"], seeds=[1], changes=changes)
    # Other settings: not a slice of the same run.
    assert {row.seed for row in other if not row.metric.startswith(("chosen", "validation", "best"))} == {1}
    study("il23").export(tmp_path / "records", to=seeds_in_turn[0])
    with pytest.raises(ValueError, match="records for other settings"):
        study("il23").export(tmp_path / "records", to=folder)


@pytest.mark.slow
def test_exported_slices_of_two_machines_merge(seed_0, seeds_in_turn, study_bert, releases, tmp_path):
    """Two runs in folders of their own, exported into one, give what one run with both seeds gives."""
    whole = run("il23", study_bert, releases, seeds_in_turn[0], seeds=[0, 1], **PLAIN)
    run("il23", study_bert, releases, tmp_path / "1", seeds=[1], **PLAIN)
    for machine in (seed_0[0], tmp_path / "1"):
        study("il23").export(tmp_path / "records", to=machine)
    merged = study("il23").check(tmp_path / "records")
    timed = {"train_seconds"}
    assert {row for row in merged.result if row.metric not in timed} == {row for row in whole if row.metric not in timed}
    assert {name: table.num_rows for name, table in merged.result.records.items()} == {
        name: table.num_rows for name, table in whole.records.items()
    }
    assert [each.measured.effects for each in merged.verdicts] == [each.measured.effects for each in whole.verdicts]
    assert merged.result.provenance["step_hashes"] == whole.provenance["step_hashes"]
    again = study("il23").export(tmp_path / "records", to=seed_0[0])
    assert len(Result.load(again)) == len(merged.result)


@pytest.mark.slow
def test_zs22_follows_the_labels_of_one_task(study_bert, releases, tmp_path):
    changes = {"cross": [{"probe": "trec-50", "tune": "trec-50"}]}
    result = run("zs22", study_bert, releases, tmp_path / "zs", tasks=["trec-50"], changes=changes)
    assert {row.metric for row in result} >= {
        "clusters", "labels", "probe_accuracy", "train_test_similarity", "minimum_distance", "similarity_to_original",
        "cka_to_original", "centroid_movement", "movement_share_1", "mean_change", "labels_rose",
    }  # fmt: skip
    assert set(result.records["paths"].column_names) == {"model", "task", "seed", "layer", "label", "step", "x", "y", "z"}
    before, after = (
        {
            row.label: row.value
            for row in result.where(metric="minimum_distance", step=None, layer=2, state=state, setting=setting)
        }
        for state, setting in ((PRE_TRAINED, ""), (FINE_TUNED, "tuned on trec-50"))
    )
    change = sum(after[label] - before[label] for label in before) / len(before)
    assert len(before) == 3 and result.value("mean_change", setting="tuned on trec-50") == pytest.approx(change)


@pytest.mark.slow
def test_a_step_that_fails_leaves_the_others_and_is_reported(rp21, study_bert, releases, tmp_path):
    folder = copy_of(rp21, tmp_path / "s")
    result = run("rp21", study_bert, releases, folder, changes={"repairs.global.n_directions": 99})
    assert len(result.provenance["failed"]) == result.provenance["steps"]["failed"] > 0
    assert all("repairs of layer" in each["step"] and "n_directions=99" in each["error"] for each in result.provenance["failed"])
    assert any("failed" in note for note in result.notes) and any("n_directions=99" in note for note in result.notes)
    assert any(row.metric == "silhouette" for row in read_rows(folder / "rows.parquet"))


@pytest.mark.slow
def test_steps_in_parallel_give_the_same_rows(rp21, study_bert, releases, tmp_path):
    def key(row):
        return row.metric, row.setting, row.state, row.layer, row.label, row.task, row.step

    alone = {key(row): row.value for row in run("rp21", study_bert, releases, rp21, dry_run=True)}
    together = {key(row): row.value for row in run("rp21", study_bert, releases, tmp_path / "two", workers=2)}
    assert alone == {name: pytest.approx(value, rel=1e-4, abs=1e-6, nan_ok=True) for name, value in together.items()}


@pytest.mark.slow
def test_a_copy_of_a_study_under_another_name_runs_with_its_tables_and_claims(rp21, study_bert, releases, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(study("rp21").show().replace('name = "rp21"', 'name = "mine"', 1), encoding="utf-8")
    mine = study(path)
    assert isinstance(mine, Study) and mine.folder() == Path("theodolite-studies/mine")
    result = run(path, study_bert, releases, rp21, plan="rp21", dry_run=True)  # the steps are the same: all are done
    original = run("rp21", study_bert, releases, rp21, dry_run=True)
    assert {row.study for row in result} == {"mine"} and len(result) == len(original)
    assert result.provenance["tables"] == original.provenance["tables"] and result.provenance["name"] == "mine"
    outcomes = [(verdict.claim, verdict.measured.outcome) for verdict in result.verdicts]
    assert outcomes == [(verdict.claim, verdict.measured.outcome) for verdict in original.verdicts]
    undecided = next(verdict.measured.why for verdict in result.verdicts if verdict.claim == "PD22-2")
    assert "study run rp21" not in undecided
    saved = run(path, study_bert, releases, copy_of(rp21, tmp_path / "run"), plan="rp21", layers=[2])
    assert mine.check(tmp_path / "run").verdicts == saved.verdicts


OWN_TASK = """
[task]
name = "scored"
kind = "similarity"
files = { train = "%(folder)s/train.csv", test = "%(folder)s/test.csv" }
columns = { text = "left", text_b = "right" }
score_range = [0, 10]
"""


@pytest.mark.slow
def test_a_study_runs_on_a_task_that_its_file_declares(declared):
    _, result = declared
    assert result.provenance["failed"] == []
    assert {row.task for row in result} == {"scored"} and {row.split for row in result if row.metric == "spearman"} == {"test"}
    assert result.where(metric="spearman", setting="global", layer=2, state=FINE_TUNED).rows


@pytest.mark.slow
def test_own_files_run_like_a_task_that_the_studys_file_declares(study_bert, pairs, tmp_path):
    files = {"train": pairs / "train.csv", "dev": pairs / "test.csv"}
    options = {"kind": "similarity", "column": {"text": "left", "text_b": "right"}, "score_range": (0, 10)}
    own = run("rp21", study_bert, None, tmp_path / "run", layers=[2], own=files, **options)
    assert own.provenance["failed"] == [] and own.provenance["own_tasks"] == {"own": "spearman"}
    assert {row.task for row in own} == {"own"} and {row.split for row in own if row.metric == "spearman"} == {"dev"}
    assert own.where(metric="spearman", setting="global", layer=2, state=FINE_TUNED).rows
    assert "kind='similarity'" in own.provenance["command"] and "tasks=" not in own.provenance["command"]
    # The same files under [task], with the same name, make the same steps: nothing is done again.
    text = study("rp21").show().replace('task = "stsb"', 'task = "own"')
    declared = OWN_TASK.replace('"scored"', '"own"').replace("test = ", "dev = ") % {"folder": pairs}
    (tmp_path / "mine.toml").write_text(text + declared, encoding="utf-8")
    same = run(tmp_path / "mine.toml", study_bert, None, tmp_path / "run", plan="rp21", layers=[2])
    assert same.provenance["steps"] == {"done": 0, "reused": own.provenance["steps"]["done"], "failed": 0, "blocked": 0}
    assert same.rows == own.rows and same.provenance["own_tasks"] == {}


def test_own_files_are_planned_and_need_a_kind(study_bert, topics):
    files = {split: topics / f"{split}.csv" for split in ("train", "test")}
    plan = study("il23").plan(study_bert, own=files, kind="classification", seeds=[0])
    assert len(plan) == plan.missing == 5 and all(" on own" in step.title for step in plan.steps)
    with pytest.raises(ValueError, match="needs kind=KIND: similarity, classification"):
        study("il23").plan(study_bert, own=files)
    with pytest.raises(ValueError, match="kind=X describes your own files"):
        study("il23").plan(study_bert, kind="classification")
    with pytest.raises(ValueError, match="'own' is a classification task, but this study measures similarity"):
        study("rp21").plan(study_bert, own=files, kind="classification")


@pytest.mark.slow
def test_a_task_object_takes_the_place_of_the_studys_task(declared, study_bert, pairs, releases, tmp_path):
    files = {split: pairs / f"{split}.csv" for split in ("train", "test")}
    columns = {"text": "left", "text_b": "right"}
    task = own_task(files, "similarity", name="scored", columns=columns, score_range=(0, 10))
    folder, from_file = declared
    result = run("rp21", study_bert, releases, copy_of(folder, tmp_path / "run"), tasks=[task], layers=[2])
    assert result.provenance["failed"] == [] and result.provenance["own_tasks"] == {"scored": "spearman"}
    assert {row.task for row in result} == {"scored"} and len(result) == len(from_file)
    with pytest.raises(ValueError, match="one task at a time"):
        study("rp21").plan(study_bert, data=releases, tasks=["stsb", task])


@pytest.mark.slow
def test_claims_over_tasks_are_judged_over_the_tasks_that_were_given(study_bert, topics, tmp_path):
    files = {split: topics / f"{split}.csv" for split in ("train", "test")}
    task = own_task(files, "classification", name="topics")
    zs22 = run("zs22", study_bert, None, tmp_path / "zs", tasks=[task], changes={"task_tuning.topics.epochs": 1})
    assert zs22.provenance["failed"] == []
    clusters = next(verdict.measured for verdict in zs22.verdicts if verdict.claim == "ZS22-c")
    shares = [row.value for row in zs22 if row.metric == "majority_share"]
    assert shares and shares == pytest.approx([1 / 3] * len(shares))
    # A toy encoder learns nothing, so that the effect is shown, under the name of the one task, and decides nothing.
    assert clusters.unmet == "learned" and clusters.effects[0].name == "clusters per label, topics"
    methods = {"methods": ["plain", "isolayer"]}
    il23 = run("il23", study_bert, None, tmp_path / "il", tasks=[task], seeds=[0, 1], changes=methods)
    assert il23.provenance["failed"] == []
    reshaped = next(verdict.measured for verdict in il23.verdicts if verdict.claim == "IL23-a")
    assert reshaped.effects[0].name == "log ratio of IsoScore, topics"
    assert study("il23").check(tmp_path / "il").verdicts == il23.verdicts


def test_errors_name_the_value_and_the_way_out(study_bert, releases, pairs, tmp_path):
    def plan(name="rp21", models=study_bert, **options):
        return study(name).plan(models, data=releases, **options)

    with pytest.raises(ValueError, match="two models are called 'bert'"):
        plan(models=[study_bert, f"{study_bert}/"])
    with pytest.raises(ValueError, match="no model is given"):
        plan(models=[])
    with pytest.raises(ValueError, match="there is no folder"):
        plan(models=tmp_path / "nothing")
    with pytest.raises(ValueError, match="no task 'rte'; it has stsb"):
        plan(tasks=["rte"])
    with pytest.raises(ValueError, match="no layer 9"):
        plan(layers=[9])
    with pytest.raises(ValueError, match="no setting 'pionts'"):
        plan(settings={"pionts": 3})
    with pytest.raises(ValueError, match="'trec-50' is a classification task, but this study measures similarity"):
        plan(tasks=[TASKS["trec-50"]], settings={"task": "trec-50"})
    clash = own_task({"train": pairs / "train.csv"}, "similarity", name="stsb", score_range=(0, 10))
    with pytest.raises(ValueError, match="another task is called 'stsb'"):
        plan(tasks=[clash])
    with pytest.raises(FileNotFoundError, match=r"there is no run of rp21 in .*to="):
        study("rp21").check(tmp_path / "nothing")
    with pytest.raises(ValueError, match="workers=0"):
        study("rp21").run(study_bert, data=releases, workers=0, to=tmp_path / "x")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("progress", "stream", "on_command_line", "reports"),
    [
        (True, io.StringIO, False, True),
        (False, Terminal, True, False),
        (None, io.StringIO, False, False),
        (None, Terminal, False, True),
        (None, io.StringIO, True, True),
    ],
)
def test_steps_are_reported_if_asked_or_if_somebody_reads_it(monkeypatch, progress, stream, on_command_line, reports):
    monkeypatch.setattr(sys, "stderr", stream())
    token = ON_COMMAND_LINE.set(on_command_line)
    try:
        with _watching(progress, 3, 1) as watcher:
            assert isinstance(watcher, StepReport) if reports else watcher is None
    finally:
        ON_COMMAND_LINE.reset(token)
    assert bool(sys.stderr.getvalue()) == reports


class Listener:
    """Is called with the steps of a run."""

    def __init__(self):
        self.events = []

    def begins(self, step, remaining):
        self.events.append(("begins", remaining))

    def ends(self, step, remaining, seconds):
        self.events.append(("ends", remaining))

    def fails(self, step, remaining, error):
        self.events.append(("fails", remaining))


def test_an_object_that_listens_is_called_itself(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    listener = Listener()
    with _watching(listener, 3, 1) as watcher:
        assert watcher is listener
    assert sys.stderr.getvalue() == ""


@pytest.mark.slow
def test_a_run_calls_the_object_that_listens(study_bert, topics, tmp_path, capfd):
    files, listener = {split: topics / f"{split}.csv" for split in ("train", "test")}, Listener()
    changes = {"methods": ["plain"]}
    run("il23", study_bert, None, tmp_path, own=files, kind="classification", seeds=[0], changes=changes, progress=listener)
    assert listener.events == [("begins", 2), ("ends", 1), ("begins", 1), ("ends", 0)]  # the choice, and the fine-tuning
    assert "[1/2]" not in capfd.readouterr().err


def test_slices_that_end_while_another_runs_are_not_lost(tmp_path):
    from theodolite.studies.requests import Request, StudyModel
    from theodolite.studies.spec import load_spec
    from theodolite.studies.steps import Action, Step

    request = Request(load_spec("il23"), (StudyModel("m", "somewhere", "hash", 6),))
    first, second = (Slices(tmp_path / "slices.json", request) for _ in range(2))  # both begin before either ends
    steps = [Step(Action("measure", lambda _: []), {"seed": seed}) for seed in range(2)]
    assert first.keep(steps[:1], "run --seeds 0") == ([steps[0].folder], "run --seeds 0")
    folders, commands = second.keep(steps[1:], "run --seeds 1 --to /runs/il23")
    assert folders == first.merged([]) == [step.folder for step in steps]
    assert commands == "run --seeds 0\nrun --seeds 1 --to /runs/il23"
    (tmp_path / "slices.json").write_text('{"a": ["../../elsewhere"]}')
    with pytest.raises(ValueError, match=r"slices\.json is damaged, or is not a list of slices.*remove it"):
        first.merged(steps)


def test_pictures_of_slices_are_merged_and_those_of_further_seeds_left_out():
    def result(*states):
        pictures = tuple(draw_picture(np.eye(4) * seed, about={"model": "m", "state": state}) for seed, state in states)
        return Result(verb="study", pictures=pictures, provenance={"study": "rp21"})

    first, second = result((1, "pre-trained"), (2, "fine-tuned")), result((1, "pre-trained"), (3, "fine-tuned"), (4, "isolayer"))
    merged = merge_slices(first, second)
    assert [picture.about["state"] for picture in merged.pictures] == ["pre-trained", "fine-tuned", "isolayer"]
    assert np.abs(merged.pictures[1].points).max() == pytest.approx(np.abs(draw_picture(np.eye(4) * 2).points).max())
