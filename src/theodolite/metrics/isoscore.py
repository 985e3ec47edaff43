"""IsoScore and its corrections: how evenly the variance fills the dimensions, without an eigendecomposition."""

from __future__ import annotations

import numpy as np

from theodolite.core.moments import Doubles, Moments
from theodolite.core.vectors import Vectors
from theodolite.metrics.cloud import Cloud, Undefined, moments_with_spread
from theodolite.metrics.registry import HIGHER, metric


@metric("[0, 1]", HIGHER, needs="moments", paper="Rudman et al. 2022", label="IsoScore", isotropic_at="1")
def iso_score(X: Vectors | Moments | Cloud) -> float:
    """IsoScore (Rudman et al. 2022), in [0, 1]: 1 if the variance fills all dimensions evenly, 0 if it fills only one.

    The paper's seven steps reduce to (PR - 1) / (d - 1), where PR is the participation ratio of the covariance. With n <= d
    rows, it cannot exceed (n - 2) / (d - 1).

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    moments = moments_with_spread(X)
    return _score(moments.trace**2 / moments.trace_of_square, moments.d)


def iso_score_ceiling(n: int, d: int) -> float:
    """The largest IsoScore that n rows in d dimensions can have, in [0, 1]: they fill at most n - 1 dimensions.

    Examples
    --------
    >>> round(iso_score_ceiling(32, 256), 3), iso_score_ceiling(1000, 256)
    (0.118, 1.0)
    """
    return min(1.0, max(0, n - 2) / max(1, d - 1))


@metric(
    "about [0, 1], may exceed it",
    HIGHER,
    needs="moments",
    paper="Srivastava 2005; Rudman et al. 2022",
    label="IsoScore, corrected",
    isotropic_at="1",
)
def iso_score_corrected(X: Vectors | Moments | Cloud) -> float:
    """IsoScore without the bias of small samples; 1 is isotropic, and sampling noise can take it outside [0, 1].

    It estimates (tr Σ)² and tr Σ² without bias for Gaussian rows (Srivastava 2005). The plain score of a small sample is too
    low: 0.04 for 32 rows of an isotropic cloud in 768 dimensions.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud; at least 3 rows.
    """
    moments = moments_with_spread(X)
    if moments.n < 3:
        raise Undefined(f"the correction needs at least 3 rows, there are {moments.n}")
    # Srivastava 2005: of Gaussian rows, with `free` degrees of freedom.
    free = moments.n - 1
    trace, square = moments.trace / free, moments.trace_of_square / free**2
    both = (free - 1) * (free + 2)
    trace_of_square = free**2 / both * (square - trace**2 / free)
    squared_trace = (free * (free + 1) * trace**2 - 2 * free * square) / both
    if trace_of_square <= 0:
        raise Undefined(f"the unbiased estimate of tr Σ² is {trace_of_square:.3g}, not positive: {moments.n} rows are too few")
    return _score(squared_trace / trace_of_square, moments.d)


@metric("[0, 1]", HIGHER, needs="reference", paper="Rudman & Eickhoff 2023", default=False, label="IsoScore*", isotropic_at="1")
def iso_score_star(X: Vectors | Moments | Cloud, reference: Doubles, *, zeta: float = 0.2) -> float:
    """IsoScore* (Rudman & Eickhoff 2023), in [0, 1]: IsoScore of the covariance shrunk towards a reference; 1 is isotropic.

    The covariance S is replaced by (1 - zeta) S + zeta C0, which makes the score of small samples less variable. If C0 is the
    identity, the score depends on the scale of the data.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    reference
        C0, a (d, d) covariance from many points.
    zeta
        The weight of C0, in [0, 1].
    """
    moments = moments_with_spread(X)
    if reference.shape != (moments.d, moments.d):
        raise ValueError(f"reference has shape {reference.shape}; C0 must be ({moments.d}, {moments.d}), as wide as the vectors")
    if not 0 <= zeta <= 1:
        raise ValueError(f"zeta={zeta} must be in [0, 1]")
    # The shrunk matrix is not the scatter of a cloud, so its participation ratio comes from the matrix itself.
    shrunk = (1 - zeta) * moments.covariance() + zeta * reference
    return _score(float(np.trace(shrunk)) ** 2 / float(np.vdot(shrunk, shrunk)), moments.d)


def _score(participation: float, d: int) -> float:
    if d == 1:
        raise Undefined("isotropy has no meaning in one dimension (d = 1)")
    return (participation - 1) / (d - 1)
