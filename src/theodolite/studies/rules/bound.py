"""What explained variance allows an IsoScore to be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from theodolite.core.moments import Doubles


def largest_iso_score(explained: Sequence[float], d: int, *, centred: bool) -> float:
    """The largest IsoScore, in [0, 1], of a cloud in `d` dimensions whose explained variance EV 1, EV 2, … is given.

    IsoScore is of the covariance. If EV is too (`centred`), the shares of the first k directions are known and the rest is best
    spread evenly: PR = 1/(p1² + … + pk² + (1 - EVk)²/(d - k)). EV as IL23 writes it is of the second moments M, and the
    covariance is C = M - μμᵀ, so that the mean may be what fills the first direction. Then all that is known is that the
    eigenvalues interlace, m(i+1) <= c(i) <= m(i), and any such c has a mean that gives it. PR is largest where each c(i) is as
    near as it may be to one number t = Σc²/Σc.
    """
    shares = np.diff([0.0, *explained])
    k, rest = len(shares), (1.0 - explained[-1]) / (d - len(shares))
    if not 0 < k < d or (np.diff([*shares, rest]) > 1e-9).any() or rest < -1e-12:
        raise ValueError(
            f"explained variance {list(explained)} must rise by ever smaller steps to at most 1, for fewer than d={d}"
        )
    upper = np.append(shares, np.full(d - k, rest))
    values = upper if centred else _evened(upper, np.append(upper[1 : k + 1], np.full(d - k, rest)))
    ratio = values.sum() ** 2 / np.square(values).sum()
    return float((ratio - 1) / (d - 1))


def _evened(upper: Doubles, lower: Doubles) -> Doubles:
    """The values between the bounds with the largest participation ratio: Σ c(c - t) falls in t, and is 0 at the best."""
    low, high = float(upper[-1]), float(upper[0])
    for _ in range(200):
        middle = (low + high) / 2
        values = np.clip(middle, lower, upper)
        low, high = (middle, high) if float((values * (values - middle)).sum()) > 0 else (low, middle)
    return np.asarray(np.clip((low + high) / 2, lower, upper))
