"""What a change of the embedding model requires: keep the old index, bridge it, search in two stages, or re-index.

Every way is scored on the same queries (nDCG@10). Maps are fitted on documents alone, so a query's score does not depend on other
queries; which map, and on how many re-embedded documents, is chosen on folds that the scored queries are not in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from theodolite.advice.folds import grouped_folds, resample_counts
from theodolite.advice.scorers import BLOCK, JudgedQueries, largest
from theodolite.core.intervals import Component, standard_error_interval, student_interval, units_needed
from theodolite.core.moments import Doubles, unit_rows
from theodolite.core.parallel import Progress
from theodolite.core.vectors import Floats, Indices
from theodolite.repairs.bridge import MAPS, Bridge

SearchSide: TypeAlias = tuple[Floats, Floats]  # documents and queries of length 1

KEEP, BRIDGE, TWO_STAGE, REINDEX, NOT_SHOWN = "keep", "bridge", "two-stage", "re-index", "not shown"
TIERS = (KEEP, BRIDGE, TWO_STAGE, REINDEX)  # cheapest first
MARGIN = 0.02  # a loss of nDCG@10 that is small enough to accept
FETCHED = 50  # documents that the first of two stages hands to the second
LEVEL = 0.05  # error rate of the recommendation, shared by the tiers
CHEAPER = 0.25  # share of the margin that a variant which embeds fewer documents may score lower and still be chosen
FEWEST, MOST = 50, 20_000  # documents that maps are fitted on
DRAWS = 200  # resamples that choose a variant anew
MOST_QUERIES = 10  # times the queries there are: beyond that, no number of them is named that would settle it


@dataclass(frozen=True)
class TierVariant:
    """One way to run a tier: with which map, fitted on how many documents that are embedded again for it; no map if empty."""

    tier: str
    map: str = ""
    documents: int = 0


@dataclass(frozen=True, eq=False)
class TierScores:
    """The score of every query under every variant, and what it takes to read them.

    `naive` has the scores of new queries on the old index as it is; None if the dimensions differ. `chance` is the mean score of
    documents in random order.
    """

    scores: Mapping[TierVariant, Doubles]
    naive: Doubles | None
    documents: int
    chance: float

    def of(self, tier: str) -> list[TierVariant]:
        """The variants of one tier, those that embed fewer documents first."""
        return sorted((variant for variant in self.scores if variant.tier == tier), key=lambda variant: variant.documents)


@dataclass(frozen=True, kw_only=True)
class Tier:
    """A tier with its nested score, its loss against re-indexing, and what it costs.

    `low` and `high` are the 95% interval of the score; `most` is the upper limit of the loss that decides. `documents` are
    embedded before the switch, and `per_query` for each query.
    """

    variant: TierVariant
    value: float
    low: float | None
    high: float | None
    loss: float
    most: float
    documents: int
    per_query: int = 0

    @property
    def name(self) -> str:
        """One of `TIERS`."""
        return self.variant.tier


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The score of a bridge that a map fitted on some documents makes, with its 95% interval."""

    map: str
    documents: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Migration:
    """What a change of model requires, by the queries it was measured on.

    `gain` is what re-indexing adds to the old model's score, with its 95% interval; `more` is how many more queries would show
    whether that is more than 0 or less than the margin, None if more than `MOST_QUERIES` times as many or none.
    """

    tiers: tuple[Tier, ...]
    curve: tuple[CurvePoint, ...]
    gain: float
    gain_low: float
    gain_high: float
    naive: float | None
    documents: int
    queries: int
    chance: float
    margin: float
    more: int | None

    def tier(self, name: str) -> Tier:
        """The tier of that name."""
        return next(tier for tier in self.tiers if tier.name == name)

    @property
    def is_above_chance(self) -> bool:
        """Whether the old or the new model is shown to find anything."""
        return any((self.tier(name).low or 0.0) > self.chance for name in (KEEP, REINDEX))

    @cached_property
    def verdict(self) -> str:
        """The cheapest tier that is shown to lose less than the margin, or *not shown*."""
        if not self.is_above_chance:
            return NOT_SHOWN
        if self.gain_high < self.margin:
            return KEEP
        if self.gain_low <= 0:
            return NOT_SHOWN
        return next(tier.name for tier in self.tiers if tier.name == REINDEX or tier.most < self.margin)


def numbers_of_documents(n: int) -> list[int]:
    """How many of n documents to try a map with: 50, 100, 200, 500, ... up to half of them, and half."""
    half = min(n // 2, MOST)
    steps = (factor * 10**power for power in range(1, 6) for factor in (1, 2, 5))
    return sorted({*(step for step in steps if FEWEST <= step < half), half})


def tier_scores(old: JudgedQueries, new: JudgedQueries, *, seed: int = 0, progress: Progress | None = None) -> TierScores:
    """Score every tier with every map on every query; row i of both sides is the same document, and the same query."""
    counts = numbers_of_documents(len(old.rows))
    order = np.random.default_rng(seed).permutation(len(old.rows))
    total, done = len(MAPS) * len(counts), 0
    of_old, of_new = ((unit_rows(side.rows), unit_rows(side.queries)) for side in (old, new))
    scores = {TierVariant(KEEP): _searched(of_old, old), TierVariant(REINDEX): _searched(of_new, new)}
    scores[TierVariant(TWO_STAGE)] = _searched(of_old, new, of_new)
    for count in counts:
        sample = np.sort(order[:count])
        for name in MAPS:
            bridge = Bridge(map=name).fit_to(old.rows[sample], new.rows[sample])
            mapped = (unit_rows(bridge.transform(old.rows)), of_new[1])
            scores[TierVariant(BRIDGE, name, count)] = _searched(mapped, new)
            scores[TierVariant(TWO_STAGE, name, count)] = _searched(mapped, new, of_new)
            done += 1
            if progress is not None:
                progress(done, total)
    naive = None
    if old.rows.shape[1] == new.rows.shape[1]:
        naive = _searched((of_old[0], of_new[1]), new)
    return TierScores(scores, naive, len(old.rows), old.chance)


def decide(
    measured: TierScores, queries: Indices | None = None, *, margin: float = MARGIN, folds: int = 5, seed: int = 0
) -> Migration:
    """What the scores of all queries, or of some, say: choose each tier's variant inside folds, and compare the tiers."""
    chosen = np.arange(len(next(iter(measured.scores.values())))) if queries is None else queries
    scores = {variant: values[chosen] for variant, values in measured.scores.items()}
    n = len(chosen)
    fold = grouped_folds(np.arange(n), folds, seed=seed)
    best = scores[TierVariant(REINDEX)]
    gains = best - scores[TierVariant(KEEP)]
    low, high = _limits(gains, LEVEL / 2)
    tiers, counts = [], resample_counts(np.arange(n), DRAWS, seed=seed)
    for name in TIERS:
        choice = _Choice(measured.of(name), scores, fold, margin)
        losses = best - choice.nested
        # Keep is judged by the 95% interval of the gain, half of whose error is above; with the others that makes LEVEL in all.
        most = 0.0 if name == REINDEX else high
        if name in (BRIDGE, TWO_STAGE):
            most = _limits(losses, LEVEL / len(TIERS), error=choice.error(best, counts))[1]
        documents = measured.documents if name == REINDEX else choice.overall.documents
        costs = {"documents": documents, "per_query": FETCHED if name == TWO_STAGE else 0}
        tiers.append(Tier(variant=choice.overall, loss=float(losses.mean()), most=most, **costs, **_mean(choice.nested)))
    bridges = {variant: values for variant, values in scores.items() if variant.tier == BRIDGE}
    curve = [CurvePoint(map=bridge.map, documents=bridge.documents, **_mean(values)) for bridge, values in bridges.items()]
    gain = float(gains.mean())
    return Migration(
        tiers=tuple(tiers),
        curve=tuple(sorted(curve, key=lambda point: (MAPS.index(point.map), point.documents))),
        gain=gain,
        gain_low=low,
        gain_high=high,
        naive=None if measured.naive is None else float(measured.naive[chosen].mean()),
        documents=measured.documents,
        queries=n,
        chance=measured.chance,
        margin=margin,
        more=_more_queries(gains, gain, margin),
    )


def _searched(first: SearchSide, judged: JudgedQueries, second: SearchSide | None = None) -> Doubles:
    """The score of each query by cosine; with a second stage, that one ranks the documents that the first one fetches."""
    documents, queries = first
    scores = np.empty(len(queries))
    step = max(1, BLOCK // len(documents))
    for start in range(0, len(scores), step):
        similarities = queries[start : start + step] @ documents.T
        for query, row in enumerate(similarities, start=start):
            if second is not None:
                fetched = largest(row, FETCHED)
                row = np.full_like(row, -np.inf)  # what was not fetched cannot be found
                row[fetched] = second[0][fetched] @ second[1][query]
            scores[query] = judged.score(row, query)
    return scores


class _Choice:
    """Which variant of a tier is chosen, without each fold in turn: the cheapest that scores nearly as high as the best.

    Of variants that embed the same number of documents, the one with the higher score is chosen.
    """

    def __init__(self, variants: list[TierVariant], scores: Mapping[TierVariant, Doubles], fold: Indices, margin: float) -> None:
        self.variants, self.fold, self.tolerance = variants, fold, CHEAPER * margin
        self.scores = np.stack([scores[variant] for variant in variants], axis=1)
        self.costs = np.array([variant.documents for variant in variants], dtype=np.float64)

    @property
    def overall(self) -> TierVariant:
        """The variant that all queries choose."""
        return self.variants[int(self._chosen(self.scores.mean(axis=0, keepdims=True))[0])]

    @cached_property
    def nested(self) -> Doubles:
        """The score of each query with the variant that the other folds choose."""
        nested = np.empty(len(self.fold))
        for number in np.unique(self.fold):
            inside = self.fold == number
            nested[inside] = self.scores[inside, self._chosen(self.scores[~inside].mean(axis=0, keepdims=True))[0]]
        return nested

    def error(self, reference: Doubles, counts: Doubles) -> float:
        """The standard error of the mean loss against a reference, from resamples (counts of queries) that choose anew.

        The spread of the losses alone would leave out that other queries choose other variants: of six that are equally good and
        differ query by query, the limits then failed two and a half times as often as declared.
        """
        if len(self.variants) < 2:
            return 0.0
        n, numbers = len(self.fold), np.unique(self.fold)
        drawn_by_fold = [counts[:, self.fold == number] for number in numbers]
        sums = np.stack([drawn @ self.scores[self.fold == number] for drawn, number in zip(drawn_by_fold, numbers, strict=True)])
        sizes = np.stack([drawn.sum(axis=1) for drawn in drawn_by_fold])
        total, drawn = np.zeros(len(counts)), np.arange(len(counts))
        for own, size in zip(sums, sizes, strict=True):
            others = (sums.sum(axis=0) - own) / (n - size)[:, None]
            total += own[drawn, self._chosen(others)]
        return float(((counts @ reference - total) / n).std(ddof=1))

    def _chosen(self, means: Doubles) -> Indices:
        """The number of the chosen variant for each line of mean scores."""
        enough = means >= means.max(axis=1, keepdims=True) - self.tolerance
        costs = np.where(enough, self.costs, np.inf)
        is_cheapest = costs == costs.min(axis=1, keepdims=True)
        return np.asarray(np.where(is_cheapest, means, -np.inf).argmax(axis=1), dtype=np.intp)


def _mean(values: Doubles) -> dict[str, Any]:
    """The mean of the queries' scores, with its 95% interval."""
    low, high = student_interval(values)
    return {"value": float(values.mean()), "low": low, "high": high}


def _limits(differences: Doubles, tail: float, *, error: float = 0.0) -> tuple[float, float]:
    """Lower and upper limit of a mean difference, each exceeded with that probability; its standard error may be larger.

    If no query of n changes, up to 3 in n may (95%), by up to 1: an interval of zero width is no certainty.
    """
    n, mean = len(differences), float(differences.mean())
    error = max(error, float(differences.std(ddof=1)) / math.sqrt(n))
    if not error > 0:
        return mean - 3 / n, mean + 3 / n
    return standard_error_interval(mean, error, n - 1, level=1 - 2 * tail)


def _more_queries(gains: Doubles, gain: float, margin: float) -> int | None:
    """How many more queries would show that the gain is above 0, or below the margin, if it is as large as observed."""
    n = len(gains)
    variance = float(gains.var(ddof=1)) / n
    if variance == 0:
        return max(0, math.ceil(3 / margin) + 1 - n)
    needed = units_needed(
        max(gain, margin - gain), [Component("queries", variance, n - 1, n)], level=1 - LEVEL, most=MOST_QUERIES
    )
    return None if needed is None else needed[1]
