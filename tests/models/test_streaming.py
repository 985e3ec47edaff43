"""A survey without stored vectors gives the rows of a survey of stored ones, in one or two passes for all layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

from theodolite.core.rows import Row
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import metric_rows
from theodolite.models.batches import TokenReading
from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.models.streaming import survey_reading

Tiny = Callable[[str], Path]
RANDOM = np.random.default_rng(0)
WORDS = ["the", "cat", "sat", "on", "mat", "dog", "bank", "river", "unbelievable", "banking", "x", "zoo"]
TEXTS = [" ".join(RANDOM.choice(WORDS, size=RANDOM.integers(1, 12))) for _ in range(300)]


def survey(encoder: Encoder, texts: list[str], metrics: list[str] | None = None, **options: Any) -> list[Row]:
    reading = {name: options.pop(name) for name in ("unit", "layers") if name in options}
    return survey_reading(TokenReading.of(encoder, texts, **reading), metrics, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "block", "sample"), [("tokens", 64, 500), ("tokens", 10_000, 10_000), ("mean", 37, 100)])
def test_it_is_the_survey_of_the_stored_layers(
    unit: Any, block: int, sample: int, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("theodolite.models.streaming.BLOCK_ROWS", block)
    encoder = Encoder.load(tiny("bert"))
    space = extract_space(encoder, TEXTS, unit=unit)
    got = survey(encoder, TEXTS, unit=unit, sample=sample, seed=3)
    names = {row.metric for row in got}
    assert len(got) == len(names) * 4 and {"log_partition_isotropy", "hubness", "iso_score"} <= names
    for layer in space.layers:
        mine = [row for row in got if row.layer == layer]
        want = metric_rows(Cloud(space[layer], sample=sample, seed=3), [row.metric for row in mine])
        for row, other in zip(mine, want, strict=True):
            if math.isnan(other.value):
                assert math.isnan(row.value) and row.reason == other.reason
            else:
                # The smallest eigenvalue is known to float32's rounding of the largest, in whatever blocks rows come.
                close = 1e-4 if row.metric == "condition_number" else 1e-6
                assert row.value == pytest.approx(other.value, rel=close, abs=1e-6), row.metric
            assert (row.n, row.d, row.seed, row.model) == (other.n, other.d, 3, "tiny-bert")
            assert row.setting.startswith(unit) and row.setting.endswith(other.setting)


def test_all_layers_are_encoded_once_or_twice(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    forward, batch_sizes = Encoder.hidden_states, []

    def counted(self: Encoder, ids: Any, mask: Any, types: Any = None) -> Any:
        batch_sizes.append(len(ids))
        return forward(self, ids, mask, types)

    monkeypatch.setattr(Encoder, "hidden_states", counted)
    encoder = Encoder.load(tiny("bert"))
    survey(encoder, TEXTS, ["iso_score", "hubness", "mean_cosine"])
    assert sum(batch_sizes) == len(TEXTS)
    batch_sizes.clear()
    reports = []
    survey(encoder, TEXTS, ["iso_score", "log_partition_isotropy"], progress=lambda done, total: reports.append((done, total)))
    assert sum(batch_sizes) == 2 * len(TEXTS)
    assert reports[-1] == (600, 600) and reports == sorted(reports)


def test_few_texts_with_fields_of_their_own(tiny: Tiny) -> None:
    encoder = Encoder.load(tiny("roberta"))
    metrics = ["iso_score", "log_partition_isotropy", "log_partition_isotropy_centered"]
    rows = survey(encoder, TEXTS[:6], metrics, layers=[-1], about={"state": "pre-trained", "model": "mine"})
    want = metric_rows(extract_space(encoder, TEXTS[:6])[-1], metrics)
    assert [row.value for row in rows] == pytest.approx([row.value for row in want], abs=1e-6)
    assert {(row.model, row.state, row.layer, row.setting) for row in rows} == {("mine", "pre-trained", 3, "mean")}


@pytest.mark.slow
def test_memory_does_not_hold_the_vectors(tiny: Tiny) -> None:
    import tracemalloc

    encoder = Encoder.load(tiny("bert"))
    metrics = ["iso_score", "log_partition_isotropy"]
    survey(encoder, TEXTS[:5], metrics)  # what is made once
    peaks = []
    for times in (5, 20):
        texts = TEXTS * times
        tracemalloc.start()
        survey(encoder, texts, metrics, unit="mean")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # The layout of a row is some bytes; its vectors in an encoder of 7 layers with d = 384 would be 10,752.
    assert (peaks[1] - peaks[0]) / (15 * len(TEXTS)) < 250
