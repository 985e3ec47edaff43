"""`advise`: every kind of input and signal, the sentence and command at the top, and errors that name the way out."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import theodolite as th
from theodolite.cli.app import app
from theodolite.core.result import Result
from theodolite.spaces import Space
from theodolite.verbs.advising import _sentence

random = np.random.default_rng(0)
N = 150
COSINE = random.uniform(-0.5, 1, N)
A = random.standard_normal((N, 8))
B = COSINE[:, None] * A + np.sqrt(1 - COSINE**2)[:, None] * random.standard_normal((N, 8))
A, B = ((side * random.uniform(0.2, 3, (N, 1)) + 20 * np.eye(8)[0]).astype(np.float32) for side in (A, B))
"""Scored pairs inside a cone: without a repair, lengths hide the cosines."""


@pytest.fixture(scope="module")
def scored() -> Result:
    return th.advise(A, pairs=B, scores=COSINE, folds=3)


def test_a_helpful_repair_is_recommended_with_a_command_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    result = th.advise("a.npy", pairs=B, scores=COSINE, folds=3)
    assert result.answer is not None and result.answer.verdict == "apply"
    recommended = result.provenance["advice"]["recommended"]
    gain = next(row for row in result.rows if row.state == "choice")
    assert gain.low is not None and gain.low > 0 and f"{gain.value:+.3f}" in result.answer.sentence
    np.save("others.npy", B)
    np.savetxt("scores.txt", COSINE)
    for line in (line for step in result.answer.next for line in step.words.split(" && ")):
        assert CliRunner().invoke(app, shlex.split(line)[1:]).exit_code == 0, line
    repaired = th.load_repair("my-repair").transform(A)
    np.testing.assert_array_equal(repaired, np.load("repaired.npy"))
    assert recommended["repair"] in result.answer.next[0].words
    # The commands that follow store the repaired vectors in the form that was measured.
    form = result.records["smaller"].to_pylist()[-1]
    code = form["form"].removesuffix(f" after {gain.setting}")
    assert code in ("float16", "int8") and form["commands"][-1] == result.answer.next[-1].words
    np.testing.assert_array_equal(np.load(f"{code}.npy"), th.repair.quantize(repaired, code=code))


def test_the_score_of_the_search_is_not_said_to_be_that_of_one_repair() -> None:
    """Every round may choose another one: only if all choose the same is the nested gain that of one repair."""
    sentences = {}
    for chosen in (("zero-mean",), ("zero-mean", "whiten", "zero-mean")):
        advice = SimpleNamespace(
            gain=SimpleNamespace(value=0.7, gain=0.1, low=0.05, high=0.15), base=0.6, metric="spearman", noun="pairs", n=300,
            candidates=("zero-mean", "whiten"), is_above_chance=True, verdict="apply", choice="zero-mean", chosen=chosen,
        )  # fmt: skip
        sentences[len(chosen)] = _sentence(advice)  # type: ignore[arg-type]
    change = "Spearman 0.600 → 0.700, +0.100 [+0.050, +0.150]"
    assert sentences[1] == f"Using zero-mean raises {change}."
    assert sentences[3] == f"Choosing among 2 repairs on other pairs raises {change}; on all of them zero-mean scores best."


def test_the_result_is_a_ranked_list_and_prints_as_one(scored: Result, tmp_path: Path) -> None:
    result = scored
    scores = [row.value for row in result.where(state="repair", metric="spearman").rows]
    assert scores == sorted(scores, reverse=True) and len(scores) > 15
    assert result.value("spearman_gain", setting="leave it alone") == 0
    costs = result.where(state="compression", metric="spearman_gain").rows
    assert len(costs) >= 19 and all(row.low is not None for row in costs)
    text = repr(result)
    assert text.index("apply: ") < text.index("th.repair.fit") < text.index("leave it alone") < text.index("smaller vectors")
    assert len(text.splitlines()) <= 32 and ".frame() shows every number" in text
    again = Result.load(result.save(tmp_path / "saved"))
    assert repr(again) == text


@pytest.mark.slow
def test_a_sound_space_is_left_alone_by_many_items_and_few_do_not_show_it() -> None:
    y = np.arange(120) % 3
    X = random.standard_normal((120, 6)) * 0.3 + np.eye(6)[y]
    few = th.advise(X, labels=y.tolist()).answer
    assert few is not None and few.verdict == "not shown" and "texts would settle it" in few.sentence and not few.next
    answer = th.advise(random.standard_normal((200, 8)), labels=["a", "b"] * 100, folds=3).answer
    assert answer is not None and answer.verdict == "not shown" and "scores above chance (0.500)" in answer.sentence
    many = np.arange(900) % 3
    result = th.advise(random.standard_normal((900, 6)) * 0.15 + np.eye(6)[many], labels=many.tolist(), folds=3)
    answer = result.answer
    assert answer is not None and answer.verdict == "leave it alone"
    assert answer.sentence.startswith("None of ")
    assert result.provenance["advice"]["recommended"] is None
    assert not any("power-whiten" in step.words for step in answer.next)
    linear = th.advise(X, labels=y.tolist(), metric="linear_accuracy")
    assert linear.value("linear_accuracy", setting="leave it alone", state="repair") > 0.9


def test_queries_and_judgements_are_arrays_or_files(scored: Result, tmp_path: Path) -> None:
    queries, table = A[:60] + 0.1, [[i, i, 1] for i in range(60)]
    np.save(tmp_path / "q.npy", queries)
    (tmp_path / "j.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{g}\n" for q, d, g in table))
    one = th.advise(A, queries=queries, judgements=table, metric="recall@3")
    other = th.advise(A, queries=tmp_path / "q.npy", judgements=tmp_path / "j.tsv", metric="recall@3")
    assert [row.value for row in one.rows] == [row.value for row in other.rows]
    assert one.rows[0].metric == "recall@3" and one.rows[0].n == 60
    # What was fitted on what is said as it is: documents are seen by every repair, judgements by none.
    for result, fitted in ((one, "fitted on all 150 documents, without the queries"), (scored, "fitted on pairs other than")):
        assert result.answer is not None and fitted in result.answer.reasons[0]


def test_a_space_brings_its_pairs_or_labels_along(scored: Result, tmp_path: Path) -> None:
    rows = {"side": [0] * N + [1] * N, "score": [*COSINE, *COSINE], "sentence": [f"s{i}" for i in range(2 * N)]}
    space = Space.of({0: np.ones((2 * N, 8), np.float32), 6: np.concatenate([A, B])}, rows=rows)
    result = th.advise(space, folds=3)
    assert result.rows[0].layer == 6 and result.rows[0].metric == "spearman"
    assert result.rows[0].value == scored.rows[0].value
    labelled = Space.of({0: A[:90]}, rows={"label": ["x", "y"] * 45, "topic": ["u", "v", "w"] * 30})
    assert th.advise(labelled, folds=3).rows[0].metric == "knn_accuracy"
    assert th.advise(labelled, labels="topic", folds=3).rows[0].metric == "knn_accuracy"
    (tmp_path / "topics.txt").write_text("u\nv\nw\n" * 30)
    assert th.advise(Space.of({0: A[:90]}), labels=tmp_path / "topics.txt", folds=3).rows[0].metric == "knn_accuracy"
    with pytest.raises(ValueError, match=r"there are 90 labels for the 80 rows of the space"):
        th.advise(Space.of({0: A[:80]}), labels=tmp_path / "topics.txt", folds=3)


def test_without_a_signal_geometry_is_reported_and_nothing_recommended() -> None:
    result = th.advise(A)
    assert result.answer is not None and result.answer.verdict == "not shown"
    assert result.answer.sentence.startswith("Geometry alone does not show")
    assert result.value("mean_cosine", setting="zero-mean") < 0.1 < result.value("mean_cosine", setting="leave it alone")
    assert result.provenance["advice"]["recommended"] is None
    assert "pairs=FILE" in result.answer.reasons[-1]


def test_sentences_that_repeat_are_never_on_both_sides() -> None:
    from theodolite.advice.folds import grouped_folds
    from theodolite.advice.scorers import ScoredPairs

    repeated = np.repeat(A[: N // 3], 3, axis=0)
    signal = ScoredPairs(repeated, B, COSINE)
    fold = grouped_folds(signal.groups, 5, strata=signal.strata)
    assert all(len(set(fold[3 * i : 3 * i + 3])) == 1 for i in range(N // 3))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"pairs": B}, r"pairs=FILE and scores=FILE go together"),
        ({"queries": B}, r"queries=FILE and judgements=FILE go together"),
        ({"pairs": B, "scores": COSINE, "labels": ["a"] * N}, r"pairs=X and labels=X are different signals"),
        ({"pairs": B, "scores": np.where(COSINE > 0, COSINE, np.nan)}, r"pair \d+ has no score .* leave such pairs out"),
        ({"pairs": B, "scores": np.ones(N)}, r"all 150 scores are 1"),
        ({"labels": ["a"] * N}, r"all 150 rows have the label 'a'"),
        ({"labels": ["a", "b"]}, r"there are 2 labels for the 150 rows"),
        ({"queries": B, "judgements": [[0, 0, 1]]}, r"query 1 has no judged document"),
        ({"queries": B[:1], "judgements": [[0, 150, 1]]}, r"document 150 is not one of the 150 documents"),
        ({"retrieval": "somewhere"}, r"retrieval=X does not go with vectors or a space"),
        ({"labels": ["a", "b"] * (N // 2), "folds": 2}, r"folds=2 must be at least 3"),
        ({"labels": ["a", "b"] * (N // 2), "worth": 0}, r"worth=0 must be above 0: it is the least gain that is worth having"),
        ({"labels": ["a", "b"] * (N // 2), "dimensions": [8]}, r"dimensions=8 must be at least 1 and below d=8"),
        ({"labels": ["a", "b"] * (N // 2), "metric": "spearman"}, r"metric='spearman' is not a metric of texts"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        th.advise(A, **options)


def test_fewer_rows_than_folds_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"4 items are too few for folds=5: each fold needs at least one; give more, or use fewer folds"
    ):
        th.advise(A[:4], pairs=B[:4], scores=COSINE[:4])


def test_a_large_signal_is_sampled_and_says_so() -> None:
    result = th.advise(A, pairs=B, scores=COSINE, sample=100, folds=3)
    assert result.rows[0].n == 100
    assert "measured on a sample of 100 of 150 pairs, seed 0" in result.conditions


@pytest.mark.slow
def test_an_encoder_reads_a_task_and_a_collection(models: Path, data: Path, tmp_path: Path) -> None:
    encoder = models / "tiny-mlm"
    result = th.advise(encoder, task="demo-topics", split="dev")
    assert result.rows[0].metric == "knn_accuracy" and result.rows[0].n == 120
    lines = (data / "cisi" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    folder = tmp_path / "cisi"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("\n".join(lines[:200]) + "\n", encoding="utf-8")
    (folder / "queries.jsonl").write_text((data / "cisi" / "queries.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    judged = [line for line in (data / "cisi" / "qrels" / "test.tsv").read_text().splitlines()[1:] if int(line.split()[1]) <= 200]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(judged) + "\n")
    result = th.advise(encoder, retrieval=folder, metric="mrr")
    assert result.rows[0].metric == "mrr" and result.rows[0].task == "cisi test"
    with pytest.raises(ValueError, match="has its own texts"):
        th.advise(encoder, retrieval=folder, task="stsb")
