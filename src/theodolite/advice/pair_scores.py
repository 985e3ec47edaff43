"""Scored pairs of sentences: the cosine of each pair, from one vector per sentence or from the vectors of its tokens."""

from __future__ import annotations

import numpy as np

from theodolite.core.moments import Doubles
from theodolite.core.vectors import Floats, Indices
from theodolite.spaces.space import Space


def row_cosines(first: Floats, second: Floats) -> Doubles:
    """Cosine of row i of one array with row i of the other; 0 if one of them is zero."""
    products = np.einsum("ij,ij->i", first, second, dtype=np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines: Doubles = np.divide(products, lengths, out=np.zeros(len(products)), where=lengths > 0)
    return cosines


def unit_rows(X: Floats) -> Floats:
    """Rows divided by their lengths; zero rows stay zero."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 0))


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
