"""Records of real runs that are kept with the documentation: a claim's interval, recomputed plainly from its items."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow.parquet
import pytest
from scipy.stats import rankdata, t

from theodolite.core.result import Result
from theodolite.studies import study

RECORDS = Path(__file__).parents[2] / "docs" / "studies" / "records"
REPAIRS = ("clustering+zero-mean", "global", "cluster-based")
DRAWS = 400
# One slice of each study for `make records`, by the folder of its records; all of seed 0.
SLICES: dict[str, dict[str, Any]] = {
    "rp21-tiny-mlm": {},
    "il23-all-MiniLM-L6-v2": {"tasks": ["mrpc"]},
    "zs22-tiny-mlm": {"tasks": ["trec-50"], "settings": {"probe.search": "race"}},
}
Values: TypeAlias = dict[tuple[Any, ...], float]


def spearman(scores: Any, cosines: Any) -> float:
    return float(np.corrcoef(rankdata(scores), rankdata(cosines))[0, 1])


@pytest.mark.slow
def test_the_interval_of_a_repair_on_tuned_spaces_is_that_of_a_plain_loop() -> None:
    folder = RECORDS / "rp21-tiny-mlm"
    verdicts = {verdict.claim: verdict for verdict in study("rp21").check(folder).verdicts}
    effect = verdicts["PD22-1"].measured.effects[0]
    assert effect.name == "Spearman change, mean of three repairs, fine-tuned"

    cosines: dict[tuple[int, str, int], Any] = {}
    scores: Any = None
    for pair in pyarrow.parquet.read_table(folder / "records" / "pairs.parquet").to_pylist():
        if pair["state"] == "fine-tuned" and pair["layer"] == 2 and pair["setting"] in ("baseline", *REPAIRS):
            cosines[pair["seed"], pair["setting"], pair["start"]] = np.array(pair["cosines"])
            scores = np.array(pair["scores"])
    seeds = sorted({seed for seed, _, _ in cosines})
    starts = {name: sorted({start for _, setting, start in cosines if setting == name}) for name in REPAIRS}

    def change(seed: int, name: str, start: int, items: Any) -> float:
        after, before = cosines[seed, name, start], cosines[seed, "baseline", 0]
        return spearman(scores[items], after[items]) - spearman(scores[items], before[items])

    everything = np.arange(len(scores))
    effects = [np.mean([np.mean([change(s, r, k, everything) for k in starts[r]]) for r in REPAIRS]) for s in seeds]
    assert effect.value == pytest.approx(np.mean(effects), abs=1e-6)

    # Variance of the mean over seeds, of the items that all seeds share, and of the starts of k-means.
    rng = np.random.default_rng(1)  # other resamples than those that the records were made with
    draws = []
    for _ in range(DRAWS):
        items = rng.integers(0, len(scores), len(scores))
        draws.append(np.mean([change(s, r, starts[r][0], items) for s in seeds for r in REPAIRS]))
    of_seeds, of_items = np.var(effects, ddof=1) / len(seeds), np.var(draws, ddof=1)
    by_start = [[change(s, r, k, everything) for k in starts[r]] for s in seeds for r in REPAIRS]
    of_starts = sum(np.var(each, ddof=1) / len(each) for each in by_start if len(each) > 1) / len(by_start) ** 2
    variance = of_seeds + of_items + of_starts
    df = variance**2 / (of_seeds**2 / (len(seeds) - 1) + of_items**2 / (len(scores) - 1))
    half = t.ppf(0.975, df) * np.sqrt(variance)
    assert effect.low is not None and effect.high is not None
    assert (effect.high - effect.low) / 2 == pytest.approx(half, rel=0.12)


@pytest.mark.slow
def test_a_slice_run_again_from_nothing_gives_the_committed_rows(
    data: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder of one study as it came, whatever processor the records come from; `make records` fine-tunes too."""
    pytest.importorskip("torch", reason="the extra models is not installed")

    def not_now(*_: Any, **__: Any) -> None:
        raise RuntimeError("only `make records` fine-tunes")

    monkeypatch.setattr("theodolite.tuning.fine_tune", not_now)
    again = study("rp21").run([models / "tiny-mlm"], data=data, seeds=[0], layers=[2], to=tmp_path, progress=False)
    measured, kept = _shared_values(again, Result.load(RECORDS / "rp21-tiny-mlm"), 50)
    _assert_same(measured, kept, ("spearman",), abs=0.01)
    _assert_same(measured, kept, ("iso_score",), rel=0.05, abs=0.002)


@pytest.mark.slow
@pytest.mark.skipif("THEODOLITE_WHOLE_SLICE" not in os.environ, reason="takes an hour: make records")
@pytest.mark.parametrize("name", SLICES)
def test_a_whole_slice_of_each_study_gives_the_committed_rows(name: str, data: Path, models: Path, tmp_path: Path) -> None:
    """One seed with its fine-tuning. On one processor all rows are equal; elsewhere rounding leads training slightly astray."""
    paper, _, encoder = name.partition("-")
    model = models / encoder if (models / encoder).is_dir() else "demo"
    again = study(paper).run([model], data=data, seeds=[0], to=tmp_path, progress=True, **SLICES[name])
    measured, kept = _shared_values(again, Result.load(RECORDS / name), 300)
    print(f"{name}: {sum(measured[row] == kept[row] for row in measured)} of {len(measured)} rows are equal to the last bit")
    _assert_same(measured, kept, ("accuracy", "spearman"), abs=0.03)
    _assert_same(measured, kept, ("iso_score", "similarity"), rel=0.1, abs=0.02)


def _shared_values(again: Result, committed: Result, at_least: int) -> tuple[Values, Values]:
    """The numbers that both have, by what they are of."""
    names = ("state", "task", "layer", "step", "setting", "label", "other_label", "metric", "split", "seed")
    measured, kept = (
        {tuple(getattr(row, name) for name in names): row.value for row in result.rows if not row.metric.endswith("seconds")}
        for result in (again, committed)
    )
    shared = [row for row in measured if row in kept and not (math.isnan(measured[row]) and math.isnan(kept[row]))]
    assert len(shared) > at_least
    return {row: measured[row] for row in shared}, {row: kept[row] for row in shared}


def _assert_same(measured: Values, kept: Values, metrics: tuple[str, ...], **tolerance: float) -> None:
    """The numbers of metrics with one of these words in their names agree; there are at least five."""
    rows = [row for row in measured if any(word in str(row[7]) for word in metrics)]
    assert len(rows) >= 5
    for row in rows:
        assert measured[row] == pytest.approx(kept[row], **tolerance), row
