"""Queries as an input of `survey`, `compare` and `gate`: the numbers, what they never decide, prompts, and wrong input."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import theodolite as th
from theodolite.core.result import Result
from theodolite.metrics import QUERY_MEASURES, query_measures
from theodolite.probes import cka
from theodolite.spaces import Space

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((200, 8)).astype(np.float32)
Q = (X[:50] + 0.7 * RANDOM.standard_normal((50, 8))).astype(np.float32)
JUDGED = np.array([(i, i, 1) for i in range(50)])
WORDS = ["cat", "dog", "river", "bank", "mat", "sat", "the", "unbelievable"]
TEXTS = [f"{a} {b} on a {c}" for a, b, c in product(WORDS[:6], WORDS[:4], WORDS[:4]) if a != b != c]
PROMPT = "the unbelievable river bank dog cat: "


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def prompted_model(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random encoder that puts the same words before queries and documents."""
    import sentence_transformers as library
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    folder = tmp_path_factory.mktemp("models") / "prompted"
    modules = [Transformer(str(tiny("bert"))), Pooling(16, "cls"), Normalize()]
    prompts = {"query": PROMPT, "document": PROMPT}
    library.SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save_pretrained(str(folder))
    return folder


def beir(folder: Path, queries: list[str]) -> Path:
    (folder / "qrels").mkdir(parents=True)
    for name, texts in {"corpus": TEXTS, "queries": queries}.items():
        lines = [json.dumps({"_id": f"{name[0]}{i}", "text": text}) for i, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    judged = "".join(f"q{i}\tc{TEXTS.index(text)}\t1\n" for i, text in enumerate(queries))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


def numbers(result: Result) -> dict[str, float]:
    return {row.metric: row.value for row in result.rows if row.metric in QUERY_MEASURES}


def test_a_survey_has_the_measures_with_their_intervals_and_what_chance_gives() -> None:
    result, expected = th.survey(X, queries=Q, judgements=JUDGED), query_measures(X, Q)
    assert numbers(result) == {each.metric: each.value for each in expected}
    rows = {row.metric: row for row in result.rows}
    assert all((rows[each.metric].low, rows[each.metric].n) == (each.low, 50) for each in expected)
    assert result.provenance["queries"]["chance"] == {each.metric: each.chance for each in expected}
    cosines = Q.astype(np.float64) @ (X / np.linalg.norm(X, axis=1, keepdims=True).astype(np.float64)).T
    ranks = [int((cosines[i] > cosines[i, i]).sum()) for i in range(50)]
    assert result.value("ndcg@10") == pytest.approx(np.mean([1 / np.log2(rank + 2) if rank < 10 else 0 for rank in ranks]))
    assert "documents no query finds" in repr(result) and "by chance" in repr(result)


def test_queries_never_make_a_finding_however_far_they_are() -> None:
    base = np.eye(8)[0] + 0.05 * X
    alone, far = th.survey(base), th.survey(base, queries=-base[:40])
    assert numbers(far)["far_queries"] == 1
    assert far.findings == alone.findings and far.answer.sentence == alone.answer.sentence  # type: ignore[union-attr]


def test_a_space_and_a_file_of_queries_give_the_same_numbers(tmp_path: Path) -> None:
    np.save("documents.npy", X)
    np.save("queries.npy", Q)
    Space.of({3: X}, rows={"id": [str(i) for i in range(200)]}).save(tmp_path / "space")
    Space.of({3: Q}, rows={"id": [str(i) for i in range(50)]}).save(tmp_path / "asked")
    expected = numbers(th.survey("documents.npy", queries="queries.npy"))
    assert numbers(th.survey(tmp_path / "space", queries=tmp_path / "asked")) == pytest.approx(expected)
    step = th.survey("documents.npy", queries="queries.npy").answer.next[0]  # type: ignore[union-attr]
    assert step.words == "theodolite repair advise documents.npy --queries queries.npy --judgements JUDGEMENTS"


@pytest.mark.slow
def test_a_dropped_prompt_shows_and_the_right_one_is_named(prompted_model: Path, tmp_path: Path) -> None:
    folder = beir(tmp_path / "beir", TEXTS[::2])
    right, dropped = th.survey(prompted_model, retrieval=folder), th.survey(prompted_model, retrieval=folder, query_prompt="")
    assert right.value("ndcg@10") == 1 and numbers(right)["query_gap"] < numbers(dropped)["query_gap"]
    assert dropped.value("ndcg@10") < right.value("ndcg@10")
    better = dropped.provenance["queries"]["better_prompt"]
    assert (better["query_prompt"], better["document_prompt"]) == (PROMPT, PROMPT) and better["gain_low"] > 0
    assert right.provenance["queries"]["better_prompt"] is None
    used = next(line for line in right.records["prompts"].to_pylist() if line["in_use"])
    assert (used["query_prompt"], used["document_prompt"]) == (PROMPT, PROMPT)
    assert repr(PROMPT) in repr(dropped) and "no prompts are shown to score better" in repr(right)
    unjudged = th.survey(prompted_model, texts=TEXTS, queries=TEXTS[::2], query_prompt="")
    lines = {(line["query_prompt"], line["document_prompt"]): line for line in unjudged.records["prompts"].to_pylist()}
    assert lines[PROMPT, PROMPT]["gap"] < lines["", PROMPT]["gap"] and lines["", PROMPT]["score"] is None
    assert "a smaller gap does not show that a prompt is right" in repr(unjudged)


def test_compare_scores_both_sides_on_their_own_queries() -> None:
    turn = np.linalg.qr(RANDOM.standard_normal((8, 8)))[0]
    worse = X @ turn + 1.0 * RANDOM.standard_normal(X.shape)
    result = th.compare(X, worse, queries=(Q, Q @ turn), judgements=JUDGED, metrics=["ev_1"])
    score = result.provenance["score"]
    assert score["before"] == th.survey(X, queries=Q, judgements=JUDGED).value("ndcg@10")
    assert score["after"] == th.survey(worse, queries=Q @ turn, judgements=JUDGED).value("ndcg@10")
    assert score["high"] < 0 and result.value("ndcg@10", state="difference") == score["difference"]
    sentence = result.answer.sentence  # type: ignore[union-attr]
    assert sentence.startswith(
        f"B is worse by {-score['difference']:.3f} [{-score['high']:.3f}, {-score['low']:.3f}] in nDCG@10 on 50"
    )
    same = th.compare(X, X @ turn, queries=(Q, Q @ turn), judgements=JUDGED, metrics=["ev_1"])
    assert same.answer.sentence.startswith("No difference in nDCG@10 is shown on 50 queries (B - A +0.000")  # type: ignore[union-attr]
    for name in QUERY_MEASURES:
        assert same.value(name, state="difference") == pytest.approx(0, abs=1e-5)


def test_compare_matches_queries_by_their_ids(tmp_path: Path) -> None:
    for name, order in (("a", np.arange(50)), ("b", np.arange(50)[::-1])):
        frame = pandas.DataFrame({"id": [f"q{i}" for i in order], **{f"d{k}": Q[order, k] for k in range(8)}})
        frame.to_parquet(f"{name}.parquet")
    table = [(f"q{i}", i, 1) for i in range(50)]
    result = th.compare(X, X, queries=("a.parquet", "b.parquet"), judgements=table, metrics=["ev_1"])
    assert result.provenance["score"]["difference"] == 0 and result.provenance["score"]["low"] == 0
    frame.iloc[1:].to_parquet("b.parquet")
    with pytest.raises(ValueError, match="query 'q49' of A is not among the queries of B"):
        th.compare(X, X, queries=("a.parquet", "b.parquet"), metrics=["ev_1"])


def test_compare_scores_labels_and_pairs() -> None:
    labels = ["ab"[int(row[0] > 0)] for row in X]
    noisy = X + 2 * RANDOM.standard_normal(X.shape)
    result = th.compare(X, noisy, labels=labels, metrics=["ev_1"])
    assert "k-NN accuracy on 200 texts" in result.answer.sentence and result.provenance["score"]["high"] < 0  # type: ignore[union-attr]
    other = X + 0.5 * RANDOM.standard_normal(X.shape)
    scores = (X * other).sum(axis=1) / np.linalg.norm(X, axis=1) / np.linalg.norm(other, axis=1)
    result = th.compare(X, noisy, pairs=(other, RANDOM.standard_normal(X.shape)), scores=scores, metrics=["ev_1"])
    assert result.value("spearman", state="before") == pytest.approx(1) and "worse by" in result.answer.sentence  # type: ignore[union-attr]


def test_what_calibrate_suggests_next_reads_the_collection_with_the_same_prompts(tiny: Any, tmp_path: Path) -> None:
    folder = beir(tmp_path / "beir", TEXTS[::2])
    wrong = "".join(f"q{i}\tc{(2 * i + 7) % len(TEXTS)}\t1\n" for i in range(len(TEXTS[::2])))  # no threshold separates these
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{wrong}")
    result = th.calibrate(tiny("bert"), retrieval=folder, query_prompt="query: ")
    assert result.answer is not None
    (step,) = result.answer.next
    assert "repair advise" in step.words and "--query-prompt 'query: '" in step.words


@pytest.mark.slow
def test_two_encoders_read_a_collection_each_in_its_own_way(prompted_model: Path, tiny: Any, tmp_path: Path) -> None:
    folder = beir(tmp_path / "beir", TEXTS[::2])
    result = th.compare(prompted_model, tiny("bert"), retrieval=folder, metrics=["iso_score"])
    for side, model in (("before", prompted_model), ("after", tiny("bert"))):
        alone = th.calibrate(model, retrieval=folder)
        assert alone.provenance["inputs"][0]["encoder"]["texts"] == len(TEXTS) + len(TEXTS[::2])
        assert result.value("ndcg@10", state=side) == th.survey(model, retrieval=folder).value("ndcg@10")
    assert result.value("ndcg@10", state="before") == 1 and result.provenance["paired_by"] == "texts"
    units = [each["encoder"]["unit"] for each in result.provenance["inputs"]]
    assert units == ["text", "mean"]
    assert result.answer.next[0].words.endswith(f"--retrieval {folder} --report compare.html")  # type: ignore[union-attr]


def test_every_pair_of_layers_is_compared_and_the_planted_pair_is_named() -> None:
    layers = {number: RANDOM.standard_normal((200, 8)) for number in range(3)}
    ids = {"id": [str(i) for i in range(200)]}
    shifted = {0: RANDOM.standard_normal((200, 8)), 1: layers[2] @ np.linalg.qr(RANDOM.standard_normal((8, 8)))[0]}
    result = th.compare(Space.of(layers, rows=ids), Space.of(shifted, rows=ids))
    cells = {(row.label, row.other_label): row.value for row in result.rows if row.metric == "layer_cka"}
    assert len(cells) == 6 and max(cells, key=lambda pair: cells[pair]) == ("2", "1")
    assert cells["1", "0"] == pytest.approx(cka(layers[1], shifted[0]), abs=0.02)
    assert "most alike of 6 pairs of layers: 2 of A and 1 of B, CKA 1.00 above chance" in " ".join(repr(result).split())
    figure = result.plot("layer-cka")
    assert np.asarray(figure.data[0].z).shape == (3, 2) and figure.data[0].z[2][1] == pytest.approx(1)


def test_gates_bound_queries_and_only_a_certain_change_breaches() -> None:
    np.save("documents.npy", X)
    np.save("queries.npy", Q)
    bounds = "[bounds]\nquery_gap = { rise = 0.1 }\nunreached_documents = { max = 0.9 }\n"
    Path("theodolite.toml").write_text(
        f'baseline = "baseline"\n{bounds}[survey]\nsource = "documents.npy"\nqueries = "queries.npy"\nmetrics = ["ev_1"]\n'
    )
    assert th.gate(update=True).answer.verdict == "pass"  # type: ignore[union-attr]
    np.save("queries.npy", Q + 0.01)
    assert th.gate().answer.verdict == "pass"  # type: ignore[union-attr]
    np.save("queries.npy", Q + 2)
    found = th.gate()
    assert [finding.metric for finding in found.findings if finding.verdict == "bad"] == ["query_gap"]
    np.savetxt("qrels.tsv", JUDGED, fmt="%d", delimiter="\t")
    Path("theodolite.toml").write_text(
        f"{bounds.replace('rise = 0.1', 'max = 0.1')}[retrieval]\nsource = 'documents.npy'\nqueries = 'queries.npy'\n"
        "judgements = 'qrels.tsv'\n'ndcg@10' = { min = 0.0 }\n"
    )
    assert {row.metric for row in th.gate().rows} == {"query_gap", "unreached_documents", "ndcg@10"}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: th.survey(X, queries=Q[:, :4]), "queries have 4 dimensions and documents 8"),
        (lambda: th.survey(X, queries=Q[:, :4], judgements=JUDGED), "documents have 8 dimensions and queries 4"),
        (lambda: th.survey(X, judgements=JUDGED), "queries=.* and judgements=.* go together"),
        (lambda: th.calibrate(X, queries=Q), "queries=.* and judgements=.* go together"),
        (lambda: th.advise(X, queries=Q), "queries=.* and judgements=.* go together"),
        (lambda: th.survey(X, queries=Q, judgements=[("a", 0, 1)]), "query"),
        (lambda: th.survey(X, queries=Q, judgements=JUDGED[:9]), "query 9 has no judged document"),
        (lambda: th.survey(X, retrieval="nowhere"), "retrieval"),
        (lambda: th.survey(X, query_prompt="query: "), "query_prompt=.* is for an encoder that reads queries"),
        (lambda: th.survey(X, queries="empty.npy"), "empty"),
        (lambda: th.compare(X, X, queries=(Q, Q[1:])), "A has 50 queries and B 49"),
        (lambda: th.compare(X, X, queries=(Q, Q, Q)), "queries=.* is given 3 times"),
        (lambda: th.compare(X, X, metric="ndcg@10"), "needs items to score on both sides"),
        (lambda: th.compare(X, X, labels=["a", "b"] * 100, queries=Q), "are different signals; give only one"),
    ],
)
def test_wrong_queries_are_one_sentence(call: Callable[[], Any], said: str) -> None:
    Path("empty.npy").write_bytes(b"")
    with pytest.raises((ValueError, OSError), match=said) as error:
        call()
    assert "\n" not in str(error.value)
