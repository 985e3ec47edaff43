"""`gate`: bounds and a baseline from a file, broken bounds as bad findings, and no comparison of what is not comparable."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.advice.gate import worse_metrics
from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.spaces import Origin, Space

X = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
ROW = Row(
    metric="iso_score", value=0.5, low=0.499, high=0.501, model="m", layer=6, task="stsb", split="dev", setting="mean", n=300, d=8
)
BOUNDS = """
[bounds]
mean_cosine = { max = 0.3, rise = 0.02 }
iso_score = { drop = "5%" }
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    np.save("vectors.npy", X)
    Path("theodolite.toml").write_text(f'baseline = "baseline"\n[survey]\nsource = "vectors.npy"\n{BOUNDS}')
    return folder


def result(row: Row = ROW, texts: str = "") -> Result:
    return Result(verb="survey", rows=(row,), provenance={"inputs": [{"texts": texts}] if texts else []})


def test_the_same_vectors_pass_and_a_shifted_cloud_does_not(here: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no baseline baseline yet; save one with update=True"):
        th.gate()
    updated = th.gate(update=True)
    assert updated.answer.sentence == "All 2 bounds hold."  # type: ignore[union-attr]
    assert updated.notes == ("baseline saved to baseline",)
    assert [finding.verdict for finding in th.gate().findings] == ["good", "good"]
    np.save("vectors.npy", X + 1)
    judged = th.gate()
    expected = th.metrics.mean_cosine(X + 1)
    limit = th.metrics.mean_cosine(X) + 0.02
    assert judged.answer.sentence.startswith("1 of 2 bounds is broken: ")  # type: ignore[union-attr]
    assert judged.findings[0].meaning.startswith(f"mean cosine {expected:.4g} is above the bound {limit:.4g} (the baseline has ")
    assert judged.value("mean_cosine") == pytest.approx(expected)


def test_a_change_within_sampling_error_passes_and_says_so(here: Path) -> None:
    th.gate(update=True)
    random = np.random.default_rng(5)
    close = 0
    for _ in range(12):
        np.save("vectors.npy", random.standard_normal((300, 8)).astype(np.float32))
        judged = th.gate()
        assert judged.answer is not None and judged.answer.verdict == "pass"
        close += "within noise" in judged.answer.sentence
        assert all(("within noise" in each.meaning) == (each.verdict == "watch") for each in judged.findings)
    Path("theodolite.toml").write_text(
        'baseline = "baseline"\n[survey]\nsource = "vectors.npy"\n[bounds]\niso_score = { drop = 0 }\n'
    )
    assert close or any(finding.verdict == "watch" for finding in th.gate().findings)


def test_rows_that_correspond_are_tested_on_what_they_do_not_share(here: Path) -> None:
    bounds = 'baseline = "baseline"\n[survey]\nsource = "vectors.npy"\n[bounds]\nmean_norm = { drop = 0.01 }\n'
    Path("theodolite.toml").write_text(bounds)
    th.gate(update=True)
    np.save("vectors.npy", (0.99 * X).astype(np.float32))  # a change of 0.027 with a sampling error of 0.04 on either side
    assert th.gate().answer.verdict == "breach"  # type: ignore[union-attr]


def judged_queries(noise: float) -> None:
    random = np.random.default_rng(3)
    documents = np.random.default_rng(1).standard_normal((200, 12))
    queries = documents[:60] + 0.6 * np.random.default_rng(2).standard_normal((60, 12))
    np.save("vectors.npy", documents + noise * random.standard_normal(documents.shape))
    np.save("queries.npy", queries)
    Path("qrels.tsv").write_text("query\tdocument\tgrade\n" + "".join(f"{i}\t{i}\t1\n" for i in range(60)))


@pytest.mark.parametrize("place", ["retrieval", "bounds"])
def test_worse_search_breaches_and_equal_search_does_not(here: Path, place: str) -> None:
    judged_queries(0)
    table = "[retrieval]\nsource = 'vectors.npy'\nqueries = 'queries.npy'\njudgements = 'qrels.tsv'\n"
    bound = "[bounds]\n" * (place == "bounds") + "'ndcg@10' = { drop = 0.01 }\n"
    Path("theodolite.toml").write_text(f"baseline = 'baseline'\n{table}{bound}")
    first = th.gate(update=True)
    assert 0.7 < first.value("ndcg@10") < 1 and first[0].low < first[0].value < first[0].high  # type: ignore[operator]
    judged_queries(0.02)
    assert th.gate().answer.verdict == "pass"  # type: ignore[union-attr]
    judged_queries(1.5)
    judged = th.gate()
    assert judged.answer is not None and judged.answer.verdict == "breach"
    assert judged.findings[0].meaning.startswith("nDCG@10 ") and "it changed by -" in judged.findings[0].meaning
    assert judged.answer.next[0].words == "theodolite gate --config theodolite.toml --update"


def test_an_old_baseline_is_refused_in_one_sentence(here: Path) -> None:
    th.gate(update=True)
    old = Result.load("baseline")
    replace(old, rows=tuple(replace(row, low=None, high=None) for row in old.rows), records={}).save("old")
    Path("theodolite.toml").write_text(f'baseline = "old"\n[survey]\nsource = "vectors.npy"\n{BOUNDS}')
    assert th.gate().answer.verdict == "pass"  # type: ignore[union-attr]  # nothing is beyond its bound
    np.save("vectors.npy", X + 1)
    with pytest.raises(ValueError, match=r"has no data for an interval.*save a new baseline with update=True"):
        th.gate()


def test_the_file_is_found_from_another_folder_with_its_own_paths(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here.parent)
    th.gate(config="project/theodolite.toml", update=True)
    assert (here / "baseline" / "result.json").is_file()
    assert th.gate(config="project/theodolite.toml").answer.sentence == "All 2 bounds hold."  # type: ignore[union-attr]


def test_labels_and_scores_can_be_bounded(here: Path) -> None:
    far = X.copy()
    far[::2, 0] += 30
    np.save("far.npy", far)
    Path("labels.txt").write_text("\n".join("ab"[i % 2] for i in range(len(X))))
    scores = np.linspace(0, 5, 150)
    angle = np.pi * (1 - scores / 5)
    pairs = np.empty((300, 2))
    pairs[0::2], pairs[1::2] = (1, 0), np.c_[np.cos(angle), np.sin(angle)]
    rows = {"text": np.repeat(np.arange(150), 2).tolist(), "side": [0, 1] * 150, "score": np.repeat(scores, 2).tolist()}
    Space.of({3: pairs}, rows=rows, origin=Origin(model="m")).save("space")
    Path("theodolite.toml").write_text(
        "[probe]\nsource = 'far.npy'\nlabels = 'labels.txt'\n[score]\nsource = 'space'\n"
        "[bounds]\nminimum_distance = { min = 5 }\nspearman = { min = 0.999 }\n"
    )
    judged = th.gate()
    assert [finding.topic for finding in judged.findings] == ["minimum distance a", "minimum distance b", "Spearman"]
    assert {finding.verdict for finding in judged.findings} == {"good"} and judged.value("spearman") == pytest.approx(1)


def test_saved_results_are_judged_without_measuring(here: Path) -> None:
    th.gate(update=True)
    th.survey("vectors.npy").save("now.json")
    assert th.gate("now.json").answer.sentence == "All 2 bounds hold."  # type: ignore[union-attr]
    assert th.gate([Result.load("now.json")]).answer.sentence == "All 2 bounds hold."  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="mean_cosine has a bound but was not measured"):
        th.gate(th.survey("vectors.npy", metrics=["iso_score"]))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("model", "other", "model of its iso_score is 'm', the new one's is 'other'"),
        ("setting", "cls", "pooling or setting of its iso_score is 'mean', the new one's is 'cls'"),
        ("task", "rte", "task of its"),
        ("split", "test", "split of its"),
        ("n", 299, "number of rows of its iso_score is 300, the new one's is 299"),
        ("d", 9, "dimension of its"),
        ("layer", 5, "layer of its"),
    ],
)
def test_what_is_not_comparable_is_refused(here: Path, field: str, value: Any, said: str) -> None:
    Path("theodolite.toml").write_text("baseline = 'b.json'\n[bounds]\niso_score = { drop = 0.1 }\n")
    result().save("b.json")
    assert th.gate(result(replace(ROW, value=0.41, revision="newer"))).answer.sentence == "The bound holds."  # type: ignore[union-attr]
    assert th.gate(result(replace(ROW, value=0.39, low=0.389, high=0.391))).answer.sentence.startswith(
        "1 of 1 bounds is broken: "
    )  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=said):
        th.gate(result(replace(ROW, **{field: value})))


def test_other_texts_are_refused_and_absolute_bounds_need_no_baseline(here: Path) -> None:
    Path("theodolite.toml").write_text("baseline = 'b'\n[bounds]\niso_score = { drop = 0.1 }\n")
    result(texts="abc").save("b")
    assert th.gate(result(texts="abc")).findings[0].verdict == "good"
    with pytest.raises(ValueError, match=r"measured on other texts; .* update=True"):
        th.gate(result(texts="abd"))
    Path("theodolite.toml").write_text("[bounds]\niso_score = { min = 0.6 }\n")
    assert th.gate(result(replace(ROW, n=7))).findings[0].verdict == "bad"


def test_a_survey_of_a_space_tells_texts_apart() -> None:
    spaces = [Space.of({0: X}, rows={"sentence": [f"{word} {i}" for i in range(300)]}) for word in ("a", "a", "b")]
    digests = [th.survey(space, metrics=["iso_score"]).provenance["inputs"][0]["texts"] for space in spaces]
    assert digests[0] == digests[1] != digests[2]


def test_the_last_layer_is_judged_unless_another_is_named(here: Path) -> None:
    both = Result(verb="survey", rows=(replace(ROW, layer=5, value=0.1, low=0.09, high=0.11), ROW))
    Path("theodolite.toml").write_text("[bounds]\niso_score = { min = 0.4 }\n")
    assert th.gate(both).answer.sentence == "The bound holds."  # type: ignore[union-attr]
    Path("theodolite.toml").write_text("[bounds]\niso_score = { min = 0.4, layer = 5 }\n")
    assert th.gate(both).answer.sentence.startswith("1 of 1 bounds is broken: ")  # type: ignore[union-attr]
    Path("theodolite.toml").write_text("[bounds]\niso_score = { min = 0.4, layer = 4 }\n")
    with pytest.raises(ValueError, match=r"layer 4, but was measured for \[5, 6\]"):
        th.gate(both)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[bounds", "is not valid TOML"),
        ("baseline = 'b'", r"needs a table \[bounds\] with at least one bound"),
        ("bounds = 3", r"needs a table \[bounds\]"),
        ("[bound]\niso_score = { min = 0 }", "unknown key 'bound'; did you mean 'bounds'"),
        ("[bounds]\niso_score = { drop = 0.1 }", r"but names none; add baseline = 'baseline'"),
        ("[survey]\nmetrics = ['iso_score']\n[bounds]\niso_score = { min = 0 }", r"\[survey\] must name what to measure"),
        (
            "[survey]\nsource = 'vectors.npy'\nsede = 1\n[bounds]\niso_score = { min = 0 }",
            r"no option 'sede'; did you mean 'seed'",
        ),
        ("[bounds]\niso_score = { min = 0 }", "does not say what to measure"),
        ("[score]\nsource = 'vectors.npy'\nlayers = 'all'\n[bounds]\nspearman = { min = 0 }", "needs pairs of texts with scores"),
    ],
)
def test_a_wrong_file_is_refused(here: Path, text: str, said: str) -> None:
    Path("theodolite.toml").write_text(text)
    with pytest.raises(ValueError, match=said):
        th.gate()


def test_a_comparison_is_strict_about_what_is_certain_and_large() -> None:
    same = th.compare(X, X, metrics=["iso_score", "mean_cosine"])
    assert worse_metrics(same) == []
    shifted = th.compare(X, X + 1, metrics=["iso_score", "mean_cosine"])
    (sentence,) = worse_metrics(shifted)
    assert sentence.startswith("mean cosine got worse: ")
    assert worse_metrics(th.compare(X + 1, X, metrics=["mean_cosine"])) == []
    assert worse_metrics(th.compare(X, X + 0.03, metrics=["mean_cosine"])) == []  # certain, but within the tolerance
    with pytest.raises(ValueError, match="add bootstrap=200"):
        worse_metrics(th.compare(X, X, metrics=["mean_cosine"], bootstrap=0))


@pytest.mark.parametrize("inputs", ["x", 3, [3], [{"texts": 3}], {"a": 1}])
def test_a_baseline_whose_provenance_is_of_another_type_is_one_sentence(here: Path, inputs: Any) -> None:
    th.gate(update=True)
    about = json.loads(Path("baseline/result.json").read_text())
    del about["sha256"]
    about["provenance"]["inputs"] = inputs
    Path("baseline/result.json").write_text(json.dumps(about))
    with pytest.raises(ValueError, match=r"result\.json does not describe a result \(provenance\.inputs"):
        th.gate()


def test_a_run_can_be_judged_whose_inputs_are_only_named(here: Path) -> None:
    assert replace(result(), provenance={"inputs": ["someone/encoder"]}).inputs == [{"name": "someone/encoder"}]
    Path("theodolite.toml").write_text("[bounds]\niso_score = { min = 0.1 }")
    named = replace(result(), provenance={"inputs": ["someone/encoder"]})
    assert th.gate(named).answer.sentence == "The bound holds."  # type: ignore[union-attr]
