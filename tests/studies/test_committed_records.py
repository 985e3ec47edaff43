"""Records of real runs that are kept with the documentation: a claim's interval, recomputed plainly from its items."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest
from scipy.stats import rankdata, t

from theodolite.advice.scorers import SentencePairs
from theodolite.core.result import Result
from theodolite.studies import study
from theodolite.studies.rp21.plan import apply_repair
from theodolite.studies.spec import load_spec
from theodolite.verbs.extracting import extract

RECORDS = Path(__file__).parents[2] / "docs" / "studies" / "records"
pytestmark = pytest.mark.skipif(not RECORDS.is_dir(), reason="the records of studies are in the repository, not in the sdist")
REPAIRS = ("clustering+zero-mean", "global", "cluster-based")
DRAWS = 400
# One slice of each study for `make records`, by the folder of its records; all of seed 0.
SLICES: dict[str, dict[str, Any]] = {
    "rp21-tiny-mlm": {},
    "il23-all-MiniLM-L6-v2": {"tasks": ["mrpc"]},
    "zs22-tiny-mlm": {
        "tasks": ["ps-role"],
        "settings": {"probe.hidden": [[128, 128]], "probe.alphas": [1e-4, 1e-2, 1.0]},
    },
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
def test_scores_after_repairs_are_those_of_an_independent_program(data: Path, models: Path) -> None:
    """STS-B dev, last layer, 42,709 tokens, as another program computed them."""
    pytest.importorskip("torch", reason="the extra models is not installed")
    space = extract(
        models / "bert-tiny-splade", task="stsb", split="dev", unit="tokens", layers="last", data=data, progress=False
    )
    X, pairs = np.asarray(space[-1]), SentencePairs(space)
    assert len(X) == 42_709
    scores = {
        name: 100 * spearman(pairs.scores, pairs.cosines(apply_repair(X, options, seed=0)[0]))
        for name, options in load_spec("rp21").settings["repairs"].items()
        if name in ("baseline", "zero-mean", "global")
    }
    assert scores == pytest.approx({"baseline": 70.33, "zero-mean": 66.65, "global": 72.53}, abs=0.01)


@pytest.mark.parametrize(("setting", "score"), [("baseline", 70.87), ("zero-mean", 71.43), ("global", 75.94)])
def test_the_scores_of_mobilebert_are_those_of_an_independent_program(setting: str, score: float) -> None:
    """The trigrams of its input read a neighbouring [PAD], so that a text's last token depends a little on the batches."""
    rows = Result.load(RECORDS / "rp21-mobilebert").rows
    wanted = {"metric": "spearman", "state": "pre-trained", "layer": 24, "setting": setting}
    (row,) = [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]
    assert 100 * row.value == pytest.approx(score, abs=0.25)


@pytest.mark.slow
def test_a_claim_on_layers_asks_for_a_deeper_encoder_if_this_one_is_too_shallow(tmp_path: Path) -> None:
    """More seeds would give it no more layers."""
    both = ["ps-role", "ps-fxn"]  # in the other tasks, layer 0 has no overlaps either
    run = Result.load(RECORDS / "zs22-tiny-mlm")
    rows = tuple(row for row in run.rows if row.task in both)
    records = {
        name: table.filter(pyarrow.compute.is_in(table["task"], pyarrow.array(both))) if "task" in table.column_names else table
        for name, table in run.records.items()
    }
    replace(run, rows=rows, records=records).save(tmp_path / "run")
    (shallow,) = [each.measured for each in study("zs22").check(tmp_path / "run").verdicts if each.claim == "ZS22-f"]
    assert (shallow.outcome, shallow.unmet) == ("not measured", "layers")
    assert "--model A-DEEPER-MODEL" in shallow.command and "tiny-mlm" not in shallow.command


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
@pytest.mark.timeout(0)
@pytest.mark.skipif("THEODOLITE_WHOLE_SLICE" not in os.environ, reason="takes an hour or two: make records")
@pytest.mark.parametrize("name", SLICES)
def test_a_whole_slice_of_each_study_gives_the_committed_rows(name: str, data: Path, models: Path, tmp_path: Path) -> None:
    """One seed with its fine-tuning. With other kernels (AVX-512 for AVX2) the states agree to 1e-5, probes to 0.003.

    Only the candidate whose training diverges ends at another validation score.
    """
    paper, _, encoder = name.partition("-")
    model = models / encoder if (models / encoder).is_dir() else "demo"
    again = study(paper).run([model], data=data, seeds=[0], to=tmp_path, progress=True, **SLICES[name])
    measured, kept = _shared_values(again, Result.load(RECORDS / name), 150)
    print(f"{name}: {sum(measured[row] == kept[row] for row in measured)} of {len(measured)} rows are equal to the last bit")
    _assert_same(measured, kept, ("accuracy", "spearman"), abs=0.01)
    _assert_same(measured, kept, ("iso_score", "similarity", "distance", "ev_"), rel=0.001, abs=1e-5)


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
