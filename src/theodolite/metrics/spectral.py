"""What the eigenvalues show: how much a few directions carry, and how many directions there are in effect."""

from __future__ import annotations

import numpy as np

from theodolite.core.moments import Doubles, Moments
from theodolite.core.spectrum import eigenvalues, noise_floor
from theodolite.core.vectors import Vectors
from theodolite.metrics.cloud import Cloud, Undefined, moments_of, moments_with_spread
from theodolite.metrics.registry import HIGHER, LOWER, metric


def explained_variance(X: Vectors | Moments | Cloud, k: int = 1, *, centered: bool = False) -> float:
    """Explained variance EV_k (IL23 eq. 1), in (0, 1]; small is isotropic, k/d is its least value; nan for a zero matrix.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    k
        Number of largest squared singular values whose share is taken, between 1 and d.
    centered
        Whether to take the singular values of the centred matrix, or of the matrix as it is.
    """
    return float(explained_variance_curve(X, k, centered=centered)[k - 1])


def explained_variance_curve(X: Vectors | Moments | Cloud, k: int = 20, *, centered: bool = False) -> Doubles:
    """EV_1 ... EV_k (IL23 fig. 2): the shares that the first 1 to k directions carry together, rising to at most 1.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    k
        Length of the curve, between 1 and d.
    centered
        Whether to take the singular values of the centred matrix, or of the matrix as it is.
    """
    values = _values(X, centered=centered)
    if not 1 <= k <= len(values):
        raise ValueError(f"k={k} must be between 1 and the dimension d={len(values)}")
    total = values.sum()
    return np.cumsum(values[:k]) / total if total > 0 else np.full(k, np.nan)


@metric("[1, d]", HIGHER, needs="moments", paper="Rudman et al. 2022")
def participation_ratio(X: Vectors | Moments | Cloud) -> float:
    """Number of dimensions that the variance fills, (sum of eigenvalues)^2 / (sum of their squares), in [1, d].

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    moments = moments_with_spread(X)
    return moments.trace**2 / moments.trace_of_square


@metric("[1/d, 1]", LOWER, needs="moments", paper="IL23 eq. 1", label="EV 1")
def ev_1(X: Vectors | Moments | Cloud) -> float:
    """Share of the squared singular values in the strongest direction, not centred (IL23 eq. 1); a low share is isotropic.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    return _share(X, 1)


@metric("[2/d, 1]", LOWER, needs="moments", paper="IL23 eq. 1", label="EV 2")
def ev_2(X: Vectors | Moments | Cloud) -> float:
    """Share of the squared singular values in the two strongest directions, not centred (IL23 eq. 1).

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    return _share(X, 2)


@metric("[3/d, 1]", LOWER, needs="moments", paper="IL23 eq. 1", label="EV 3")
def ev_3(X: Vectors | Moments | Cloud) -> float:
    """Share of the squared singular values in the three strongest directions, not centred (IL23 eq. 1).

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    return _share(X, 3)


@metric("[1/d, 1]", LOWER, needs="moments", paper="IL23 eq. 1", label="EV 1, centred")
def ev_1_centered(X: Vectors | Moments | Cloud) -> float:
    """Share of the variance along the first principal component, in [1/d, 1]; a low share is isotropic.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    return _share(X, 1, centered=True)


@metric("[2/d, 1]", LOWER, needs="moments", paper="IL23 eq. 1", label="EV 2, centred", default=False)
def ev_2_centered(X: Vectors | Moments | Cloud) -> float:
    """Share of the variance along the first two principal components, in [2/d, 1]; a low share is isotropic.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    return _share(X, 2, centered=True)


@metric("[3/d, 1]", LOWER, needs="moments", paper="IL23 eq. 1", label="EV 3, centred", default=False)
def ev_3_centered(X: Vectors | Moments | Cloud) -> float:
    """Share of the variance along the first three principal components, in [3/d, 1]; a low share is isotropic.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    return _share(X, 3, centered=True)


@metric("[1, d]", HIGHER, needs="moments", paper="Roy & Vetterli 2007")
def effective_rank(X: Vectors | Moments | Cloud) -> float:
    """Effective rank, the exponential of the entropy of the normalised covariance eigenvalues, in [1, d]; d is isotropic.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    return _exp_entropy(_spread(X)[0])


@metric("[1, d]", HIGHER, needs="moments", paper="Roy & Vetterli 2007", label="effective rank (singular values)")
def effective_rank_singular(X: Vectors | Moments | Cloud) -> float:
    """Effective rank as Roy & Vetterli (2007) define it, from the centred singular values, in [1, d]; d is isotropic.

    RankMe (Garrido et al. 2023) is the same number for vectors that are not centred.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    values, floor = _spread(X)
    # The root of rounding noise is far larger than the noise, so it is set to 0 before.
    return _exp_entropy(np.sqrt(np.where(values > floor, values, 0.0)))


@metric("[1, d]", HIGHER, needs="moments", paper="principal component analysis", label="dimensions for 95%")
def dimensions_95(X: Vectors | Moments | Cloud) -> float:
    """Number of principal components that explain 95% of the variance, in [1, d]; an isotropic cloud needs 0.95 d.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    values, _ = _spread(X)
    # The factor keeps rounding in the sum from asking for one component too many.
    return float(np.searchsorted(np.cumsum(values), 0.95 * values.sum() * (1 - 1e-12)) + 1)


@metric("[1, inf)", LOWER, needs="moments", paper="numerical linear algebra", resample=False)
def condition_number(X: Vectors | Moments | Cloud) -> float:
    """Largest covariance eigenvalue divided by the smallest one that is not zero, at least 1; 1 is isotropic.

    Parameters
    ----------
    X
        Vectors, their moments or a cloud.
    """
    values, floor = _spread(X)
    significant = values[values > floor]
    return float(significant[0] / significant[-1])


def _values(X: Vectors | Moments | Cloud, *, centered: bool) -> Doubles:
    """(d,) eigenvalues of the scatter or of X^T X, descending."""
    if isinstance(X, Cloud):
        if centered:
            return X.eigenvalues
        # I(W) needs the eigenvectors of X^T X too, so the cloud computes both once.
        values = X.uncentered_spectrum.values
        return np.concatenate([values, np.zeros(X.d - len(values))])
    return eigenvalues(moments_of(X), centered=centered)


def _share(X: Vectors | Moments | Cloud, k: int, *, centered: bool = False) -> float:
    X = X if isinstance(X, Cloud) else moments_of(X)  # a stream can be read only once
    values = _values(X, centered=centered)
    if k > len(values):
        raise Undefined(f"there are only {len(values)} dimensions, fewer than {k}")
    total = float(values.sum())
    if total <= 0 or (centered and not moments_of(X).has_spread):
        raise Undefined("all rows are the same point, so there is no variance" if centered else "all rows are zero")
    return float(values[:k].sum()) / total


def _spread(X: Vectors | Moments | Cloud) -> tuple[Doubles, float]:
    """Covariance eigenvalues up to a factor, and the size up to which they may be rounding error; undefined without variance."""
    moments = moments_with_spread(X)
    values = _values(X if isinstance(X, Cloud) else moments, centered=True)
    return values, noise_floor(values, len(values), eps=moments.eps)


def _exp_entropy(weights: Doubles) -> float:
    shares = weights / weights.sum()
    shares = shares[shares > 0]  # p log p is 0 at p = 0
    return float(np.exp(-(shares * np.log(shares)).sum()))
