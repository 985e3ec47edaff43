"""Two populations in one file: found if two unrelated encoders made it, and not if one did, whatever the texts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from theodolite.advice.diagnosis import diagnose
from theodolite.metrics import Cloud, metric_rows, second_population
from theodolite.metrics.populations import FEWEST, LOOKED_AT, two_populations

COMMITTED = json.loads((Path(__file__).parents[2] / "benchmarks" / "mixture_error_rates.json").read_text(encoding="utf-8"))
D = 256


def encoder(seed: int, n: int, *, topic: int = 0) -> np.ndarray:
    """Unit rows of a made encoder on n texts of a topic: its own mean, a falling spectrum along its own directions, families."""
    own, texts = np.random.default_rng(seed), np.random.default_rng([7, topic, n])
    turn = np.linalg.qr(own.standard_normal((D, D)))[0] * (1 / np.sqrt(np.arange(1, D + 1)))[:, None]
    centre = 0.9 * np.random.default_rng([3, topic]).standard_normal(D) / np.sqrt(np.arange(1, D + 1)) if topic else np.zeros(D)
    families = texts.standard_normal((-(-n // 10), D)).repeat(10, axis=0)[:n]
    X = (0.8 * families + 0.6 * texts.standard_normal((n, D)) + 3 * centre) @ turn + 0.15 * own.standard_normal(D)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float32)


def mixed(share: float, n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """One made encoder with a share of the rows from another, and which rows these are."""
    is_other = np.random.default_rng(1).permutation(n) < share * n
    return np.where(is_other[:, None], encoder(1, n), encoder(0, n)), is_other


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
def test_rows_of_another_encoder_are_found(share: float) -> None:
    X, is_other = mixed(share)
    found = two_populations(Cloud(X))
    assert found is not None
    rows = found.minority if is_other[found.minority].mean() > 0.5 else found.majority
    assert set(np.flatnonzero(is_other)) == set(rows)
    assert second_population(X) == pytest.approx(min(share, 1 - share))


@pytest.mark.parametrize("seed", range(5))
def test_one_encoder_is_one_population(seed: int) -> None:
    assert second_population(encoder(seed, 1000)) == 0
    two_topics = np.concatenate([encoder(seed, 500, topic=1), encoder(seed, 500, topic=2)])
    assert second_population(two_topics) == 0
    assert second_population(np.random.default_rng(seed).standard_normal((500, D))) == 0


@pytest.mark.parametrize("d", [2, 3, 4, 6, 15, 16, 20])
def test_normal_rows_of_few_dimensions_are_one_population(d: int) -> None:
    for seed in range(5):
        assert second_population(np.random.default_rng(seed).standard_normal((400, d)) + 0.5) == 0


def test_copies_and_few_rows_are_not_a_population() -> None:
    X = encoder(0, 1000)
    near = X[:1] + 0.02 * np.random.default_rng(0).standard_normal((60, D))
    assert second_population(np.concatenate([X, near])) == 0
    few = np.concatenate([X, encoder(1, FEWEST - 5)])
    assert second_population(few) == 0
    assert second_population(encoder(0, 90)) == 0
    assert second_population(np.ones((200, 16), np.float32)) == 0


def test_rotations_scales_and_lengths_change_nothing() -> None:
    X, _ = mixed(0.1)
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((D, D)))[0]
    lengths = np.random.default_rng(6).uniform(0.5, 2, (len(X), 1))
    assert second_population(X @ turn) == second_population(3 * X) == second_population(X * lengths) == pytest.approx(0.1)


def test_a_long_file_is_sampled() -> None:
    X, is_other = mixed(0.1, LOOKED_AT + 1500)
    found = two_populations(Cloud(X))
    assert found is not None
    assert len(found.minority) + len(found.majority) == LOOKED_AT
    assert is_other[found.minority].all() and not is_other[found.majority].any()


def test_the_finding_names_rows_and_no_repair() -> None:
    X, is_other = mixed(0.1)
    cloud = Cloud(X)
    findings, answer = diagnose(cloud, metric_rows(cloud))
    finding = next(each for each in findings if each.topic == "two populations")
    assert (finding.verdict, finding.cause) == ("watch", "two populations")
    assert finding.rows and is_other[list(finding.rows)].all()
    assert "10.0% of rows" in finding.meaning
    assert not any(word in finding.action for word in ("repair", "whiten", "centre", "remove", "subtract"))
    assert answer.verdict != "OK"


def test_what_is_committed_is_what_the_page_says() -> None:
    pure, shares = COMMITTED["one_encoder"], ("0.02", "0.05", "0.1", "0.5")
    assert (pure["spaces"], pure["flagged"]) == (66, ["granite: cisi + stsb"])
    counted = {kind: [COMMITTED[f"mixture_{share}"][kind] for share in shares] for kind in ("unrelated", "related")}
    assert [(each["found"], each["files"]) for each in counted["unrelated"]] == [(27, 28), (28, 28), (28, 28), (14, 14)]
    assert [(each["found"], each["files"]) for each in counted["related"]] == [(0, 14), (1, 14), (1, 14), (0, 7)]
    assert all(each["least_share_of_rows_named_rightly"] == 1 for each in counted["unrelated"])
    assert max(COMMITTED["cpu_seconds"].values()) <= 1.5
