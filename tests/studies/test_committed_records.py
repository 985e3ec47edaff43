"""Records of real runs that are kept with the documentation: a claim's interval, recomputed plainly from its items."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from scipy.stats import rankdata, t

from theodolite.core.result import Result
from theodolite.core.rows import Row
from theodolite.studies import study

RECORDS = Path(__file__).parents[2] / "docs" / "studies" / "records"
REPAIRS = ("clustering+zero-mean", "global", "cluster-based")
DRAWS = 400


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
    """One seed of a whole study, whatever processor the records come from; `make records` fine-tunes too, which takes longer."""
    pytest.importorskip("torch", reason="the extra models is not installed")
    whole = "THEODOLITE_WHOLE_SLICE" in os.environ

    def not_now(*_: Any, **__: Any) -> None:
        raise RuntimeError("only `make records` fine-tunes")

    if not whole:
        monkeypatch.setattr("theodolite.tuning.fine_tune", not_now)
    committed = Result.load(RECORDS / "rp21-tiny-mlm")
    kept = {_place(row): row.value for row in committed.rows if row.seed in (None, 0)}
    layers = None if whole else [2]
    again = study("rp21").run([models / "tiny-mlm"], data=data, seeds=[0], layers=layers, to=tmp_path / "run", progress=False)
    measured = {_place(row): row.value for row in again.rows if not row.metric.endswith("seconds")}
    shared = measured.keys() & kept.keys()
    assert len(shared) > (300 if whole else 50)
    scores = [place for place in shared if "spearman" in place]
    assert len(scores) > (30 if whole else 10)
    for place in scores:
        assert measured[place] == pytest.approx(kept[place], abs=0.01, nan_ok=True), place
    isotropy = [place for place in shared if "iso_score" in place]
    assert isotropy
    for place in isotropy:
        assert measured[place] == pytest.approx(kept[place], rel=0.05, abs=0.002, nan_ok=True), place


def _place(row: Row) -> tuple[Any, ...]:
    return row.state, row.layer, row.step, row.setting, row.label, row.metric, row.split
