"""Repairs of tokens, then mean pooling, cosine and correlation with the scores of pairs (RP21's tables and its sweep)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.repair_scores import row_cosines
from theodolite.core.intervals import NO_INTERVAL, percentile_interval
from theodolite.core.moments import Doubles
from theodolite.core.rows import Row, current_versions
from theodolite.core.vectors import Floats
from theodolite.repairs import REPAIRS, scaled_count
from theodolite.spaces.space import Space
from theodolite.studies.measures.layers import shape_rows
from theodolite.studies.measures.vectors import open_space, row_fields
from theodolite.studies.steps import Action, Work
from theodolite.tasks.scores import score

SCALED = "scaled_from_768"
"""The option that gives a number of directions for 768 dimensions, to be scaled to the dimension of the space."""


def _repair_scores(work: Work) -> list[Row]:
    """Scores and isotropy of one layer as it is and after each repair, and how each repair changes the score.

    Repairs are fitted on the tokens they are applied to, as in RP21. Intervals come from resampled sentence pairs, the same for
    every repair, so that the interval of a change is a paired one. The setting `baseline` names the entry of `repairs` that the
    others are compared with; `gains` are further changes, by the name of their row, each from one entry to another.
    """
    space, settings = open_space(work), work.settings
    layer, seed, baseline = settings["layer"], settings["seed"], settings["baseline"]
    pooling, fields = Pooling(space), {**row_fields(space, layer), "seed": seed}
    draws = PairDraws(pooling.scores, settings["bootstrap"], seed=seed)
    X, cosines, rows = np.asarray(space[layer]), {}, []
    repairs: Mapping[str, Mapping[str, Any]] = settings["repairs"]
    for number, (name, options) in enumerate(repairs.items(), start=1):
        changed, removed = apply_repair(X, options, seed=seed)
        cosines[name] = pooling.cosines(changed)
        rows += draws.correlations(cosines[name], {**fields, "setting": name})
        if removed is not None:
            about = {**fields, "setting": name, "n": len(X), "d": X.shape[1], "versions": current_versions()}
            rows.append(Row(metric="removed_directions", value=float(removed), **about))
        if name != baseline:
            rows.append(draws.change(cosines[baseline], cosines[name], {**fields, "metric": "spearman_change", "setting": name}))
        rows += shape_rows(changed, settings["metrics"], row_fields(space, layer), name, seed=seed)
        work.report(number, len(repairs))
    for metric, (before, after) in settings["gains"].items():
        rows.append(draws.change(cosines[before], cosines[after], {**fields, "metric": metric}))
    if "cls" in work.inputs:
        first, second, scores = _cls_pairs(open_space(work, "cls"), layer)
        cls_draws = PairDraws(scores, settings["bootstrap"], seed=seed)
        rows += cls_draws.correlations(row_cosines(first, second), {**fields, "setting": f"{baseline} [CLS]"})
    return rows


def _sweep_directions(work: Work) -> list[Row]:
    """Score and isotropy of one layer against the number of removed top directions; 0 is centring alone."""
    space, settings = open_space(work), work.settings
    layer, seed = settings["layer"], settings["seed"]
    pooling, fields = Pooling(space), {**row_fields(space, layer), "setting": settings["setting"]}
    draws = PairDraws(pooling.scores, settings["bootstrap"], seed=seed)
    X, rows = np.asarray(space[layer]), []
    counts = [count for count in settings["directions"] if count < X.shape[1]]
    for number, count in enumerate(counts, start=1):
        changed, _ = apply_repair(X, {"repair": "global", "n_directions": count} if count else {"repair": "zero-mean"}, seed=seed)
        about = {**fields, "label": str(count)}
        rows += draws.correlations(pooling.cosines(changed), {**about, "seed": seed})
        rows += shape_rows(changed, settings["metrics"], about, settings["setting"], seed=seed)
        work.report(number, len(counts))
    return rows


def apply_repair(X: Floats, options: Mapping[str, Any], *, seed: int) -> tuple[Floats, int | None]:
    """The rows after a repair that was fitted on them, and how many directions it removed.

    Parameters
    ----------
    X
        The vectors, (n, d).
    options
        The name of the repair under `repair`, and its options; nothing leaves the rows as they are.
    seed
        Seed of repairs that cluster.
    """
    if not options.get("repair"):
        return X, None
    kind = REPAIRS[options["repair"]]
    arguments = {name: value for name, value in options.items() if name not in ("repair", SCALED)}
    if SCALED in options:
        arguments["n_directions"] = scaled_count(options[SCALED], X.shape[1])
    if "seed" in kind().get_params():  # only repairs that cluster take one
        arguments["seed"] = seed
    return kind(**arguments).fit(X).transform(X), arguments.get("n_directions")


class Pooling:
    """Sentences of scored pairs as the means of their tokens.

    Parameters
    ----------
    space
        Token vectors whose rows say the pair (`text`), the sentence of the pair (`side`) and the pair's `score`.
    """

    def __init__(self, space: Space) -> None:
        text, side = (np.asarray(space.rows[name]) for name in ("text", "side"))
        pairs = np.unique(text)  # the numbers of texts need not be consecutive
        sentence = 2 * np.searchsorted(pairs, text) + side
        self._order = np.argsort(sentence, kind="stable")
        sentences, self._starts = np.unique(sentence[self._order], return_index=True)
        if len(sentences) != 2 * len(pairs):
            raise ValueError("a sentence of a pair has no token, so that it cannot be pooled; use longer texts")
        self._counts = np.diff(np.append(self._starts, len(sentence)))
        self.scores: Doubles = np.empty(len(pairs))
        self.scores[np.searchsorted(pairs, text)] = np.asarray(space.rows["score"], dtype=np.float64)

    def cosines(self, X: Floats) -> Doubles:
        """The cosine of the two pooled sentences of each pair, for token vectors (n, d) in the order of the space."""
        # Sums over runs of sorted rows: much faster than adding each token to its sentence.
        sums = np.add.reduceat(X[self._order].astype(np.float64), self._starts, axis=0)
        means = sums / self._counts[:, None]
        return row_cosines(means[0::2], means[1::2])


class PairDraws:
    """Pairs drawn with replacement, the same draws for all that is compared with the scores of these pairs.

    Parameters
    ----------
    scores
        The score of each pair.
    count
        How many draws; 0 gives rows without intervals.
    seed
        Seed of the draws.
    """

    def __init__(self, scores: Doubles, count: int, *, seed: int) -> None:
        self.scores = scores
        self._draws: NDArray[np.intp] = np.random.default_rng(seed).integers(0, len(scores), (count, len(scores)))
        self._ranked = _ranks(scores[self._draws])  # once for all repairs: ranking is most of the work

    def change(self, before: Doubles, after: Doubles, fields: Mapping[str, Any]) -> Row:
        """Spearman's correlation after minus before, with a paired interval; `fields` has the metric's name."""
        (old, why_old), (new, why_new) = (score("spearman", self.scores, cosines) for cosines in (before, after))
        return self._row(new - old, why_old or why_new, self._spearmans(after) - self._spearmans(before), fields)

    def correlations(self, cosines: Doubles, fields: Mapping[str, Any]) -> list[Row]:
        """Spearman's and Pearson's correlation of cosines with the scores, each with its interval."""
        draws = {"spearman": self._spearmans(cosines), "pearson": self._pearsons(cosines)}
        scores = {name: score(name, self.scores, cosines) for name in draws}
        return [self._row(*scores[name], draws[name], {**fields, "metric": name}) for name in draws]

    def _row(self, value: float, reason: str, draws: Doubles, fields: Mapping[str, Any]) -> Row:
        low, high = percentile_interval(draws) if np.isfinite(value) else NO_INTERVAL
        about = {"versions": current_versions(), **fields}
        return Row(value=value, reason=reason, n=len(self.scores), low=low, high=high, **about)

    def _spearmans(self, cosines: Doubles) -> Doubles:
        return _row_correlations(self._ranked, _ranks(cosines[self._draws]))

    def _pearsons(self, cosines: Doubles) -> Doubles:
        return _row_correlations(self.scores[self._draws], cosines[self._draws])


def _cls_pairs(space: Space, layer: int) -> tuple[Floats, Floats, Doubles]:
    """The vectors of the first and of the second sentence of each pair, and the pairs' scores."""
    order = np.lexsort((np.asarray(space.rows["side"]), np.asarray(space.rows["text"])))
    X, scores = np.asarray(space[layer])[order], np.asarray(space.rows["score"], dtype=np.float64)[order]
    return X[0::2], X[1::2], scores[0::2]


def _ranks(values: Doubles) -> Doubles:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, axis=1), dtype=np.float64) if len(values) else values


def _row_correlations(X: Doubles, Y: Doubles) -> Doubles:
    """Pearson's correlation of row i of X with row i of Y; nan if one of them has no spread."""
    if not len(X):
        return np.empty(0)
    X, Y = X - X.mean(axis=1, keepdims=True), Y - Y.mean(axis=1, keepdims=True)
    sizes = np.sqrt(np.einsum("ij,ij->i", X, X) * np.einsum("ij,ij->i", Y, Y))
    products = np.einsum("ij,ij->i", X, Y)
    return np.asarray(np.divide(products, sizes, out=np.full(len(X), np.nan), where=sizes > 0))


REPAIR_SCORES = Action("repairs", _repair_scores)
SWEEP = Action("sweep", _sweep_directions)
