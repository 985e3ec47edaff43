"""What the draws behind every interval promise, on real token vectors: disjoint samples vary as one sample says that it does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from theodolite.advice.scorers import SentencePairs
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import REPLICATES, measure

METRICS = ("log_partition_isotropy", "iso_score")
SETS, SIZE = 76, 75  # disjoint sets of sentence pairs, and the pairs in each


@pytest.mark.slow
def test_disjoint_sets_of_sentences_differ_as_their_intervals_say(data: Path, models: Path) -> None:
    pytest.importorskip("torch", reason="the extra models is not installed")
    from theodolite.models.encoder import Encoder
    from theodolite.models.extraction import extract_space
    from theodolite.tasks.loading import load_task

    examples = load_task("stsb", "train", data)
    space = extract_space(Encoder.load(models / "tiny-mlm"), examples, unit="tokens", layers="last", frequencies=False)
    X, pair = np.asarray(space[-1]), SentencePairs(space).pair
    order = np.random.default_rng(0).permutation(len(examples))
    values, errors = np.empty((SETS, len(METRICS))), np.empty((SETS, len(METRICS)))
    for number in range(SETS):
        rows = np.isin(pair, order[number * SIZE : (number + 1) * SIZE])
        cloud = Cloud(X[rows], sample=int(rows.sum()))
        for k, (row, deviations) in enumerate(measure(cloud, METRICS, bootstrap=REPLICATES, groups=pair[rows])):
            assert deviations is not None
            values[number, k], errors[number, k] = row.value, deviations.std(ddof=1)
    truth, reported = values.std(axis=0, ddof=1), np.sqrt(np.square(errors).mean(axis=0))
    assert reported == pytest.approx(truth, rel=0.15)
    # All sets are drawn from one population, so every clear difference of two of them is a false alarm.
    alarms = []
    for shift in range(1, SETS):
        difference = np.abs(values - np.roll(values, shift, axis=0))
        error = np.hypot(errors, np.roll(errors, shift, axis=0))
        alarms.append(difference > t.ppf(0.975, 2 * (REPLICATES - 1)) * error)
    assert (np.mean(alarms, axis=(0, 1)) <= 0.1).all()
