"""What a user's own data say about a change of the vectors: scored pairs, labelled rows, or queries with judged documents.

Each signal turns changed vectors into one number per item (a cosine, right or wrong, a query's nDCG), and such numbers into its
metric, so that two changes can be compared item by item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from theodolite.advice.folds import linked_groups, row_names, spearman_influence
from theodolite.core.moments import Doubles, row_cosines, unit_rows
from theodolite.core.spelling import option
from theodolite.core.vectors import Floats, Indices
from theodolite.spaces.space import Space
from theodolite.tasks.retrieval import NOWHERE, Judgements

Transform: TypeAlias = Callable[[Floats], Floats]

NEIGHBOURS = 5  # rows that vote on a label
RIDGE = 1e-3  # penalty of the linear classifier, as a share of the mean variance
BLOCK = 2**22  # similarities in memory at once


def as_they_are(X: Floats) -> Floats:
    """The change that changes nothing."""
    return X


class Signal:
    """Items that a change of vectors is measured on."""

    metrics: ClassVar[tuple[str, ...]] = ()
    noun: ClassVar[str] = ""
    refits: ClassVar[bool] = True
    counts_items: ClassVar[bool] = False  # whether each item is right or wrong, so that few may all be right by chance
    metric: str
    rows: Floats
    groups: Indices
    strata: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def chance(self) -> float:
        """The score of vectors that say nothing about the items."""
        return 0.0

    def take(self, items: Indices) -> Signal:
        """The same signal with only some of its items."""
        raise NotImplementedError

    def rows_of(self, items: Indices) -> Indices:
        """The rows of some items."""
        return items

    def pairs(self, items: Indices) -> tuple[Floats, Floats, Doubles] | None:  # noqa: ARG002  # most signals have none
        """Both sides and the scores of scored pairs, for a repair that learns from them."""
        return None

    def evidence(self, change: Transform, train: Indices, test: Indices) -> Doubles:
        """One number for each of the items `test`, after a change; a classifier learns from the items `train`."""
        raise NotImplementedError

    def value(self, evidence: Doubles, items: Indices, counts: Doubles) -> Doubles:  # noqa: ARG002
        """The metric in each resample of the items, from their numbers; a correlation to first order."""
        return np.asarray((counts @ evidence) / counts.sum(axis=1), dtype=np.float64)


class ScoredPairs(Signal):
    """Pairs of vectors with a score each: Spearman's correlation of the cosines with the scores."""

    metrics = ("spearman",)
    noun = "pairs"

    def __init__(
        self,
        first: Floats,
        second: Floats,
        scores: Any,
        *,
        names: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
        metric: str | None = None,
    ) -> None:
        self.metric = chosen_metric(metric, self)
        self.first, self.second, self.scores = first, second, np.asarray(scores, dtype=np.float64)
        if first.shape == second.shape and self.scores.ndim == 1 and len(self.scores) != len(first):
            raise ValueError(f"there are {len(self.scores):,} scores for {len(first):,} pairs; pair i needs score i")
        if first.shape != second.shape or self.scores.shape != (len(first),):
            raise ValueError(
                f"pairs of shapes {first.shape} and {second.shape} with scores of shape {self.scores.shape} do not match; "
                "row i of both sides and score i make one pair"
            )
        missing = np.flatnonzero(~np.isfinite(self.scores))
        if len(missing):
            raise ValueError(
                f"pair {missing[0]} has no score ({len(missing)} of {len(first)} pairs have none); leave such pairs out"
            )
        if np.ptp(self.scores) == 0:
            raise ValueError(f"all {len(first)} scores are {self.scores[0]:g}; a correlation needs scores that differ")
        self.names = names or (row_names(first), row_names(second))
        self.rows = np.concatenate([first, second])
        self.groups = linked_groups(*self.names)
        self.strata = np.searchsorted(np.quantile(self.scores, [0.25, 0.5, 0.75]), self.scores)

    def take(self, items: Indices) -> ScoredPairs:
        names = tuple([side[i] for i in items] for side in self.names)
        return ScoredPairs(self.first[items], self.second[items], self.scores[items], names=(names[0], names[1]))

    def rows_of(self, items: Indices) -> Indices:
        return np.concatenate([items, items + len(self)])

    def pairs(self, items: Indices) -> tuple[Floats, Floats, Doubles]:
        return self.first[items], self.second[items], self.scores[items]

    def evidence(self, change: Transform, train: Indices, test: Indices) -> Doubles:  # noqa: ARG002
        return row_cosines(change(self.first[test]), change(self.second[test]))

    def value(self, evidence: Doubles, items: Indices, counts: Doubles) -> Doubles:
        correlation, influence = spearman_influence(self.scores[items], evidence)
        return np.asarray(correlation + counts @ influence / counts.sum(axis=1), dtype=np.float64)


class LabelledRows(Signal):
    """Vectors with a label each: how often held-out rows get their label, from their neighbours or from a linear classifier."""

    metrics = ("knn_accuracy", "linear_accuracy")
    noun = "texts"
    counts_items = True

    def __init__(self, X: Floats, labels: Any, *, names: Sequence[Hashable] | None = None, metric: str | None = None) -> None:
        self.metric = chosen_metric(metric, self)
        self.rows, self.labels = X, np.asarray(labels)
        if self.labels.shape != (len(X),):
            raise ValueError(f"there are {len(self.labels)} labels for {len(X)} vectors; row i needs label i")
        kinds, self.codes = np.unique(self.labels, return_inverse=True)
        if len(kinds) < 2:
            raise ValueError(f"all {len(X)} rows have the label {str(kinds[0])!r}; there must be at least two labels")
        self.names = names if names is not None else row_names(X)
        self.groups = linked_groups(self.names, self.names)
        self.strata = self.codes

    @property
    def chance(self) -> float:
        """The share of the most frequent label, which always guessing it would get."""
        return float(np.bincount(self.codes).max() / len(self))

    def take(self, items: Indices) -> LabelledRows:
        return LabelledRows(self.rows[items], self.labels[items], names=[self.names[i] for i in items], metric=self.metric)

    def evidence(self, change: Transform, train: Indices, test: Indices) -> Doubles:
        predict = _neighbours_label if self.metric == "knn_accuracy" else _linear_label
        reference, asked = change(self.rows[train]), change(self.rows[test])
        return np.asarray(predict(reference, self.codes[train], asked) == self.codes[test], dtype=np.float64)


class JudgedQueries(Signal):
    """Queries and documents as vectors, and which documents are relevant: nDCG, recall or the reciprocal rank, by cosine."""

    metrics = ("ndcg@10", "recall@10", "mrr")
    noun = "queries"
    refits = False

    def __init__(self, documents: Floats, queries: Floats, judgements: Judgements, *, metric: str | None = None) -> None:
        self.metric = chosen_metric(metric, self)
        if documents.shape[1] != queries.shape[1]:
            raise ValueError(f"documents have {documents.shape[1]} dimensions and queries {queries.shape[1]}; they must be equal")
        self.rows, self.queries, self.judgements = documents, queries, judgements
        self.groups = np.arange(len(queries))
        order = np.argsort(judgements.query, kind="stable")
        counts = np.bincount(judgements.query, minlength=len(queries))
        self._relevant = np.split(order, np.cumsum(counts)[:-1])  # judgements of each query

    @property
    def chance(self) -> float:
        """The mean score of documents in random order."""
        return float(np.mean([self._chance(judged) for judged in self._relevant]))

    def take(self, items: Indices) -> JudgedQueries:
        kept = np.isin(self.judgements.query, items)
        position = np.full(len(self.queries), -1)
        position[items] = np.arange(len(items))
        judgements = Judgements(
            position[self.judgements.query[kept]], self.judgements.document[kept], self.judgements.grade[kept]
        )
        return JudgedQueries(self.rows, self.queries[items], judgements, metric=self.metric)

    def evidence(self, change: Transform, train: Indices, test: Indices) -> Doubles:  # noqa: ARG002
        documents, queries = unit_rows(change(self.rows)), unit_rows(change(self.queries[test]))
        scores = np.empty(len(test))
        step = max(1, BLOCK // len(documents))
        for start in range(0, len(test), step):
            similarities = queries[start : start + step] @ documents.T
            for query, row in enumerate(similarities, start=start):
                scores[query] = self.score(row, int(test[query]))
        return scores

    def _chance(self, judged: Indices) -> float:
        """The expected metric of one query if all orders of the documents are equally likely."""
        n, grades = len(self.rows), self.judgements.grade[judged]
        is_present = self.judgements.document[judged] != NOWHERE
        if self.metric == "mrr":
            ranks = np.arange(1, n - max(int(is_present.sum()), 1) + 2)
            hit = is_present.sum() / (n + 1 - ranks)  # the share of relevant documents among those not ranked yet
            without = np.append(1.0, np.cumprod(1 - hit)[:-1])
            return float((without * hit / ranks).sum())
        k = int(self.metric.rpartition("@")[2])
        if self.metric.startswith("recall"):
            return float(min(k / n, 1.0) * is_present.mean())
        discounts, ideal = _discounts(grades, k)
        return float(grades[is_present].sum() / n * discounts[:n].sum() / ideal)

    def score(self, similarities: Floats, query: int) -> float:
        """The metric of one query; of documents that are equally similar the first counts as nearer."""
        judged = self._relevant[query]
        documents, grades = self.judgements.document[judged], self.judgements.grade[judged]
        present = documents[documents != NOWHERE]
        if self.metric == "mrr":
            if not len(present):
                return 0.0
            best = present[np.lexsort((present, -similarities[present]))[0]]
            ahead = np.count_nonzero(similarities > similarities[best])
            return 1.0 / (1 + ahead + np.count_nonzero(similarities[:best] == similarities[best]))
        k = int(self.metric.rpartition("@")[2])
        top = largest(similarities, k)
        if self.metric.startswith("recall"):
            return float(np.isin(present, top).sum() / len(documents))
        gain = dict(zip(documents.tolist(), grades.tolist(), strict=True))
        discounts, ideal = _discounts(grades, k)
        gains = np.array([gain.get(int(document), 0.0) for document in top])
        return float(gains @ discounts[: len(gains)] / ideal)


def _discounts(grades: Doubles, k: int) -> tuple[Doubles, float]:
    """The discounts of nDCG at the first k ranks, and the discounted gain of the best order."""
    discounts: Doubles = 1 / np.log2(np.arange(2, k + 2))
    best = np.sort(grades)[::-1][:k]
    return discounts, float(best @ discounts[: len(best)])


def chosen_metric(metric: str | None, signal: Signal) -> str:
    """The metric that a user names, if it is one of the signal's; its first one by default."""
    if metric is None:
        return signal.metrics[0]
    name = metric.lower().replace("-", "_")
    if name in signal.metrics or (not signal.refits and re.fullmatch(r"(ndcg|recall)@[1-9]\d*", name)):
        return name
    names = "ndcg@K, recall@K, mrr" if not signal.refits else ", ".join(signal.metrics)
    raise ValueError(f"{option('metric', metric)} is not a metric of {signal.noun}; it must be one of {names}")


def _neighbours_label(reference: Floats, codes: Indices, asked: Floats) -> Indices:
    """The most frequent label of the nearest rows; of equally frequent ones that of the nearest."""
    reference, asked = unit_rows(reference), unit_rows(asked)
    k = min(NEIGHBOURS, len(reference))
    labels = np.empty(len(asked), np.intp)
    step = max(1, BLOCK // len(reference))
    for start in range(0, len(asked), step):
        similarities = asked[start : start + step] @ reference.T
        nearest = np.argpartition(-similarities, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(similarities, nearest, axis=1), axis=1, kind="stable")
        votes = codes[np.take_along_axis(nearest, order, axis=1)]
        counts = (votes[:, :, None] == votes[:, None, :]).sum(axis=2)  # argmax takes the first, which is the nearest
        labels[start : start + step] = np.take_along_axis(votes, counts.argmax(axis=1)[:, None], axis=1)[:, 0]
    return labels


def _linear_label(reference: Floats, codes: Indices, asked: Floats) -> Indices:
    """The label of largest output of a least-squares classifier with intercept."""
    mean = reference.mean(axis=0, dtype=np.float64)
    centred = (reference - mean).astype(np.float64)
    scatter = centred.T @ centred
    kinds, position = np.unique(codes, return_inverse=True)
    targets = np.eye(len(kinds))[position]
    targets -= targets.mean(axis=0)
    ridge = RIDGE * np.trace(scatter) / len(scatter) or 1.0
    weights = np.linalg.solve(scatter + ridge * np.eye(len(scatter)), centred.T @ targets)
    shares = np.bincount(position) / len(codes)
    return np.asarray(kinds[((asked - mean) @ weights + shares).argmax(axis=1)], dtype=np.intp)


def largest(values: Floats, k: int) -> Indices:
    """Positions of the k largest values, the largest first; of equal ones the first position."""
    if k >= len(values):
        return np.argsort(-values, kind="stable")
    bound = np.partition(values, len(values) - k)[len(values) - k]
    candidates = np.flatnonzero(values >= bound)  # in ascending order, so that the stable sort keeps the first of equals
    return np.asarray(candidates[np.argsort(-values[candidates], kind="stable")][:k], dtype=np.intp)


class SentencePairs:
    """The scored pairs of a space: a sentence's vector is the mean of its rows, which may be one or many.

    The rows of the space name the pair (`text`), the sentence of the pair (`side`) and the pair's `score`. `pair` is the number
    of each row's pair, from 0, and `scores` has the score of each pair.
    """

    def __init__(self, space: Space) -> None:
        if not {"side", "score", "text"} <= set(space.rows):
            raise ValueError("the rows are not pairs of texts with scores, such as those of the task 'stsb'")
        text, side = (np.asarray(space.rows[name]) for name in ("text", "side"))
        numbers, inverse = np.unique(text, return_inverse=True)  # the numbers of texts need not be consecutive
        self.pair: Indices = inverse.reshape(-1)
        sentence = 2 * self.pair + side
        self._order = np.argsort(sentence, kind="stable")
        _, self._starts, self._counts = np.unique(sentence[self._order], return_index=True, return_counts=True)
        if len(self._starts) != 2 * len(numbers):
            raise ValueError("a sentence of a pair has no tokens, so it cannot be pooled; use longer texts")
        self.scores: Doubles = np.empty(len(numbers))
        self.scores[self.pair] = np.asarray(space.rows["score"], dtype=np.float64)

    def __len__(self) -> int:
        return len(self.scores)

    def cosines(self, X: Floats) -> Doubles:
        """The cosine of each pair, for vectors (n, d) in the order of the space's rows."""
        # Sums over runs of sorted rows: much faster than adding each token to its sentence.
        sums = np.add.reduceat(X[self._order].astype(np.float64), self._starts, axis=0)
        means = sums / self._counts[:, None]
        return row_cosines(means[0::2], means[1::2])
