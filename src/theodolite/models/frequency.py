"""How common words are: Zipf frequencies of the package wordfreq, which come from several corpora."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from theodolite.models.extra import INSTALL


def zipf_frequencies(words: Iterable[str], *, language: str = "en") -> NDArray[np.float64]:
    """log10 of the occurrences per thousand million words, from 0 (unknown) to about 8; each different word is looked up once."""
    try:
        from wordfreq import zipf_frequency
    except ImportError:
        raise ImportError(f"word frequencies come from the package wordfreq; get it with: {INSTALL}") from None
    listed = list(words)
    known = {word: float(zipf_frequency(word, language)) for word in set(listed)}
    return np.array([known[word] for word in listed], dtype=np.float64)
