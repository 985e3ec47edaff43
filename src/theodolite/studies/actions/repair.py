"""Repairs on tokens, then mean pooling, cosine and correlation with the scores: RP21's tables, its sweep, and every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from theodolite.advice.repaired import pair_cosines
from theodolite.core.moments import Doubles
from theodolite.core.rows import Row, current_versions
from theodolite.core.vectors import Floats
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.survey import survey
from theodolite.repairs import REPAIRS, Repair, scaled_count
from theodolite.spaces.space import Space
from theodolite.studies.actions.vectors import about, opened
from theodolite.studies.correlate import Resampled
from theodolite.studies.step import Work

BASELINE = "baseline"
GAIN = ("zero-mean", "clustering+zero-mean")
"""What the gain from clustering is the difference of."""


def repair_scores(work: Work) -> list[Row]:
    """Scores and isotropy of one layer as it is and after each repair, and how each changes the score.

    Repairs are fitted on the tokens they are applied to, as in RP21. Intervals come from resampled sentence pairs, the same ones
    for every repair, so that the interval of a change is a paired one.
    """
    space, layer = opened(work), int(work.settings["layer"])
    pooling, known = Pooling(space), {**about(space, layer), "seed": work.settings["seed"]}
    draws = Resampled(pooling.scores, work.settings["bootstrap"], seed=work.settings["seed"])
    X, cosines, rows = np.asarray(space[layer]), {}, []
    asked: Mapping[str, Any] = work.settings["repairs"]
    for number, (name, wish) in enumerate(asked.items()):
        changed, removed = repaired(X, wish, seed=work.settings["seed"])
        cosines[name] = pooling.cosines(changed)
        rows += draws.correlations(cosines[name], name, known)
        if removed is not None:
            fields = {**known, "setting": name, "n": len(X), "d": X.shape[1], "versions": current_versions()}
            rows.append(Row(metric="removed_directions", value=float(removed), **fields))
        if name != BASELINE:
            rows.append(draws.change(cosines[BASELINE], cosines[name], "spearman_change", name, known))
        rows += _shape(changed, work.settings["metrics"], {**known, "setting": name})
        if work.tick is not None:
            work.tick(number + 1, len(asked))
    if all(name in cosines for name in GAIN):
        rows.append(draws.change(cosines[GAIN[0]], cosines[GAIN[1]], "clustering_gain", "", known))
    if "cls" in work.inputs:
        rows += _of_cls(opened(work, "cls"), layer, work.settings["bootstrap"], known)
    return rows


def sweep_directions(work: Work) -> list[Row]:
    """Score and isotropy of one layer against the number of removed top directions; 0 is centring alone."""
    space, layer = opened(work), int(work.settings["layer"])
    pooling, known = Pooling(space), {**about(space, layer), "setting": "sweep global", "seed": work.settings["seed"]}
    draws = Resampled(pooling.scores, work.settings["bootstrap"], seed=work.settings["seed"])
    X, rows = np.asarray(space[layer]), []
    counts = [count for count in work.settings["directions"] if count < X.shape[1]]
    for number, count in enumerate(counts):
        wish = {"repair": "global", "n_directions": count} if count else {"repair": "zero-mean"}
        changed, _ = repaired(X, wish, seed=work.settings["seed"])
        fields = {**known, "label": str(count)}
        rows += draws.correlations(pooling.cosines(changed), "sweep global", fields)
        rows += _shape(changed, work.settings["metrics"], fields)
        if work.tick is not None:
            work.tick(number + 1, len(counts))
    return rows


def repaired(X: Floats, wish: Mapping[str, Any], *, seed: int) -> tuple[Floats, int | None]:
    """The rows after a repair, and how many directions it takes out; no repair is the rows themselves.

    `wish` names a repair and its options; `scaled_from_768` stands for that share of the width.
    """
    if not wish.get("repair"):
        return X, None
    options = {name: value for name, value in wish.items() if name not in ("repair", "scaled_from_768")}
    if "scaled_from_768" in wish:
        options["n_directions"] = scaled_count(wish["scaled_from_768"], X.shape[1])
    kind = REPAIRS[wish["repair"]]
    if "seed" in kind().get_params():
        options["seed"] = seed
    made: Repair = kind(**options)
    return made.fit(X).transform(X), options.get("n_directions")


class Pooling:
    """Sentences of pairs as means of their tokens, and the pairs' scores."""

    def __init__(self, space: Space) -> None:
        text, side = (np.asarray(space.rows[name]) for name in ("text", "side"))
        score = np.asarray(space.rows["score"], dtype=np.float64)
        pairs = np.unique(text)
        group = 2 * np.searchsorted(pairs, text) + side
        self._order = np.argsort(group, kind="stable")
        found, self._starts = np.unique(group[self._order], return_index=True)
        if len(found) != 2 * len(pairs):
            raise ValueError("a sentence of a pair has no token, so that it cannot be pooled; take longer texts")
        self._counts = np.diff(np.append(self._starts, len(group)))
        self.scores: Doubles = np.empty(len(pairs))
        self.scores[np.searchsorted(pairs, text)] = score

    def cosines(self, X: Floats) -> Doubles:
        """Cosine of the two sentences of each pair."""
        sums = np.add.reduceat(X[self._order].astype(np.float64), self._starts, axis=0)
        means = sums / self._counts[:, None]
        return pair_cosines(means[0::2], means[1::2])


def _shape(X: Floats, metrics: list[str], fields: dict[str, Any]) -> list[Row]:
    seed = int(fields.pop("seed", 0))
    return survey(Cloud(X, seed=seed), metrics, about=fields) if metrics else []


def _of_cls(space: Space, layer: int, bootstrap: int, known: dict[str, Any]) -> list[Row]:
    """The scores of [CLS] in place of the mean."""
    text, side = (np.asarray(space.rows[name]) for name in ("text", "side"))
    order = np.lexsort((side, text))
    X = np.asarray(space[layer])[order]
    scores = np.asarray(space.rows["score"], dtype=np.float64)[order][0::2]
    draws = Resampled(scores, bootstrap, seed=known["seed"])
    return draws.correlations(pair_cosines(X[0::2], X[1::2]), "baseline [CLS]", known)
