"""The verb `migrate`: sides matched by id or order, the answer in every form, and one sentence for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.core.result import Result
from theodolite.core.vectors import Floats
from theodolite.reports.drawing import text_of
from theodolite.reports.figures import displays_of

N, Q, D = 220, 160, 12
random = np.random.default_rng(0)
DOCUMENTS = random.standard_normal((N, D)).astype(np.float32)
QUERIES = (DOCUMENTS[:Q] + 0.3 * random.standard_normal((Q, D))).astype(np.float32)
STRETCH = (np.diag(np.geomspace(1, 40, D)) @ np.linalg.qr(random.standard_normal((D, D)))[0]).astype(np.float32)
JUDGEMENTS = [(query, query, 1) for query in range(Q)]
NEW = {"queries_new": QUERIES}


def stretched(**options: Any) -> Result:
    """From a model that stretches to one that does not: a linear map away."""
    old = {"queries_old": QUERIES @ STRETCH, "queries_new": QUERIES, "judgements": JUDGEMENTS}
    return th.migrate(DOCUMENTS @ STRETCH, DOCUMENTS, **{**old, **options})


@pytest.fixture(scope="module")
def result() -> Result:
    return stretched()


def table(path: Path, rows: Floats, names: list[str]) -> Path:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"id": names, "embedding": list(rows)}), path)
    return path


def test_the_answer_and_every_number_are_fields(result: Result) -> None:
    assert result.answer is not None
    assert result.answer.verdict == result.provenance["migration"]["verdict"] == "bridge"
    assert result.provenance["migration"]["tiers"]["bridge"]["map"] == "ridge"
    keep, best = (result.value("ndcg@10", setting=tier, state="tier") for tier in ("keep", "re-index"))
    assert best - keep == pytest.approx(result.value("ndcg@10_gain"))
    assert result.value("ndcg@10_loss", setting="keep") == pytest.approx(best - keep)
    assert result.value("documents_to_embed", setting="re-index") == N
    assert result.value("documents_per_query", setting="two-stage") == 50
    curve = result.where(state="curve").rows
    assert {(row.setting, row.label) for row in curve} == {
        (map, m) for map in ("procrustes", "ridge") for m in ("50", "100", "110")
    }
    assert all(row.low is not None and row.low <= row.value <= (row.high or 0) for row in curve)
    assert result.records["thresholds"].column_names == ["share", "old", "new"]
    assert result.where(state="shown").rows[0].setting == "new queries, old index"


def test_the_map_that_the_answer_names_does_what_it_says(result: Result) -> None:
    bridge = th.repair.fit("bridge", DOCUMENTS @ STRETCH, target=DOCUMENTS, settings={"map": "ridge"})
    assert bridge.transform(DOCUMENTS @ STRETCH) == pytest.approx(DOCUMENTS, abs=0.05)
    assert result.answer is not None
    assert result.answer.next[0].words == "th.repair.fit('bridge', OLD, target=NEW, settings={'map': 'ridge'})"


def test_the_first_screen_is_short_and_the_page_has_the_tiers_and_the_curve(result: Result) -> None:
    assert len(text_of(result, width=80).splitlines()) <= 25
    assert [display.name for display in displays_of(result)] == ["tiers", "bridge-curve"]
    tiers, curve = (display.frame() for display in displays_of(result))
    assert tiers["setting"].tolist() == ["keep", "bridge", "two-stage", "re-index", "new queries, old index"]
    assert sorted(set(curve["documents"])) == [50.0, 100.0, 110.0]
    json.dumps(result.to_dict())


def test_rows_are_matched_by_id_in_any_order(tmp_path: Path, result: Result) -> None:
    names, asked = [f"d{row}" for row in range(N)], [f"q{row}" for row in range(Q)]
    documents, queries = random.permutation(N), random.permutation(Q)
    old = table(tmp_path / "old.parquet", DOCUMENTS @ STRETCH, names)
    new = table(tmp_path / "new.parquet", DOCUMENTS[documents], [names[row] for row in documents])
    sides = {
        "queries_old": table(tmp_path / "qo.parquet", QUERIES @ STRETCH, asked),
        "queries_new": table(tmp_path / "qn.parquet", QUERIES[queries], [asked[row] for row in queries]),
    }
    matched = th.migrate(str(old), str(new), **sides, judgements=[(f"q{query}", f"d{query}", 1) for query in range(Q)])
    assert [row.value for row in matched.where(state="tier")] == [row.value for row in result.where(state="tier")]
    assert matched.answer is not None
    assert matched.answer.next[0].words.startswith(f"theodolite repair fit bridge {old} --target {new} --to my-bridge")
    other = table(tmp_path / "other.parquet", DOCUMENTS, [f"x{row}" for row in range(N)])
    with pytest.raises(ValueError, match=r"220 of 220 documents of OLD are not in NEW, such as 'd0'; both sides need the same"):
        th.migrate(old, other, **sides, judgements=[("q0", "d0", 1)])
    with pytest.raises(ValueError, match=r"2 of 220 documents of OLD are not in NEW, such as 'd218'"):
        th.migrate(old, table(tmp_path / "less.parquet", DOCUMENTS[:218], names[:218]))
    with pytest.raises(ValueError, match=r"1 of 220 documents of NEW are not in OLD, such as 'd219'"):
        th.migrate(table(tmp_path / "less2.parquet", DOCUMENTS[:219], names[:219]), new)
    with pytest.raises(ValueError, match=r"documents of OLD have ids but those of NEW have none"):
        th.migrate(old, DOCUMENTS)


def test_without_judged_queries_nothing_is_recommended() -> None:
    unjudged = th.migrate(DOCUMENTS @ STRETCH, DOCUMENTS)
    assert unjudged.answer is not None
    assert unjudged.answer.verdict == "not shown"
    assert not unjudged.answer.next
    assert 0 < unjudged.value("neighbours_kept") < 1
    assert unjudged.provenance["migration"] is None
    same = th.migrate(DOCUMENTS, DOCUMENTS)
    assert same.value("neighbours_kept") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries_old": None}, r"queries_old=FILE, queries_new=FILE and judgements=FILE go together"),
        ({"judgements": None}, r"go together; give all three, or none"),
        ({"judgements": JUDGEMENTS[:-1]}, r"query 159 has no judged document with a grade above 0 \(1 of 160 have none\)"),
        ({"queries_new": QUERIES[:-1]}, r"OLD has 160 queries and NEW 159, without ids to match them by"),
        ({"queries_new": QUERIES[:, :-1]}, r"documents have 12 dimensions and queries 11"),
        ({"judgements": [(0, 999, 1)]}, r"document 999 is not one of the 220 documents"),
        ({"margin": 0.0}, r"margin=0.0 must be above 0 and below 1"),
        ({"folds": 1}, r"folds=1 must be at least 2"),
        ({"unit_old": "cls"}, r"unit_old=UNIT is for an encoder, but OLD has vectors"),
        ({"query_prompt_new": "query: "}, r"query_prompt_new=TEXT is for an encoder that reads queries"),
        ({"max_length": 12}, r"max_length=12 does not apply to vectors in memory"),
    ],
)
def test_wrong_use_is_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        stretched(**options)
    assert ". " not in str(raised.value)


def test_different_numbers_of_rows_without_ids_are_refused() -> None:
    with pytest.raises(ValueError, match=r"OLD has 220 documents and NEW 219, without ids to match them by"):
        th.migrate(DOCUMENTS, DOCUMENTS[:-1])


def test_too_few_queries_for_the_folds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"3 items are too few for folds=5"):
        stretched(queries_old=(QUERIES @ STRETCH)[:3], queries_new=QUERIES[:3], judgements=JUDGEMENTS[:3])


def beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": f"d{i}", "text": f"text {i}"}) + "\n" for i in range(N)))
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": f"q{i}", "text": f"query {i}"}) + "\n" for i in range(Q)))
    lines = ["query-id\tcorpus-id\tscore\n", *(f"q{i}\td{i}\t1\n" for i in range(Q))]
    (folder / "qrels" / "test.tsv").write_text("".join(lines))
    return folder


def test_stored_vectors_are_matched_to_the_ids_of_a_folder(tmp_path: Path, result: Result) -> None:
    folder = beir(tmp_path / "beir")
    names, asked = [f"d{row}" for row in range(N)], [f"q{row}" for row in range(Q)]
    more = np.concatenate([DOCUMENTS @ STRETCH, np.ones((1, D), np.float32)])  # the index may have more than the collection
    old = table(tmp_path / "old.parquet", more, [*names, "elsewhere"])
    new = table(tmp_path / "new.parquet", DOCUMENTS, names)
    queries = {
        "queries_old": table(tmp_path / "qo.parquet", QUERIES @ STRETCH, asked),
        "queries_new": table(tmp_path / "qn.parquet", QUERIES, asked),
    }
    matched = th.migrate(old, new, retrieval=folder, **queries)
    assert [row.value for row in matched.where(state="tier")] == [row.value for row in result.where(state="tier")]
    with pytest.raises(ValueError, match=r"OLD holds stored vectors, so its model's query vectors are needed too"):
        th.migrate(old, new, retrieval=folder, queries_new=queries["queries_new"])
    with pytest.raises(ValueError, match=r"has its own judgements; leave out judgements=FILE"):
        th.migrate(old, new, retrieval=folder, **queries, judgements=JUDGEMENTS)
    with pytest.raises(ValueError, match=r"documents of beir have ids but those of NEW have none"):
        th.migrate(old, DOCUMENTS, retrieval=folder, **queries)
    with pytest.raises(ValueError, match=r"queries_old=FILE is for stored vectors, but OLD is an encoder"):
        th.migrate("demo", new, retrieval=folder, **queries)
