"""IsoScore as a loss against its eigenvalues through autograd: time of forward and backward, and the gradient's error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from data import cloud_file, load
from scale import Scale
from table import Result
from theodolite.tuning.regularisers import iso_score, iso_score_star
from timing import best_in_turns

BATCH = 32
ZETA = 0.2
TURNS = 5
"""Times the asked repeats: a call is so short that few of them say little."""

Score = Callable[[torch.Tensor], torch.Tensor]


def by_eigenvalues(X: torch.Tensor, reference: torch.Tensor | None = None) -> torch.Tensor:
    """IsoScore, or IsoScore* with C0, as it is usually differentiated: singular values of the covariance, and the seven steps."""
    d = X.shape[1]
    covariance = torch.cov(X.T)
    if reference is not None:
        covariance = (1 - ZETA) * covariance + ZETA * reference
    variances = torch.linalg.svdvals(covariance)
    even = d**0.5 * variances / torch.linalg.vector_norm(variances)
    defect = torch.linalg.vector_norm(even - 1) / (2 * (d - d**0.5)) ** 0.5
    share = (d - defect**2 * (d - d**0.5)) ** 2 / d**2
    score: torch.Tensor = (d * share - 1) / (d - 1)
    return score


def gradient(score: Score, X: torch.Tensor) -> torch.Tensor:
    X = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(score(X), X)
    return slope


def error(made: torch.Tensor, exact: torch.Tensor) -> float:
    """Relative, of all of the gradient together."""
    return float(torch.linalg.vector_norm(made.double() - exact) / torch.linalg.vector_norm(exact))


def compared(name: str, X: torch.Tensor, ours: Score, theirs: Score, exact: torch.Tensor, repeats: int) -> Iterator[Result]:
    """Time and error of both sides on the float32 batch; `exact` is the gradient in float64."""
    gradient(ours, X)  # the first run of anything in torch is slow
    gradient(theirs, X)
    mine, peer = best_in_turns(lambda: gradient(ours, X), lambda: gradient(theirs, X), repeats=TURNS * repeats)
    case = f"{name}, forward and backward, {X.shape[0]} × {X.shape[1]}"
    yield Result(
        table="loss",
        case=case,
        value=peer / mine,
        sense="at least",
        goal=50,
        ours=f"{mine * 1000:.2f} ms",
        theirs=f"svdvals of the covariance through autograd, {peer * 1000:.0f} ms",
    )
    good, other = error(gradient(ours, X), exact), error(gradient(theirs, X), exact)
    yield Result(
        table="loss",
        case=f"{case}: error of the gradient, float32 rows against float64",
        value=good / other,
        sense="at most",
        goal=1,
        ours=f"{good:.2g}",
        theirs=f"svdvals, {other:.2g}",
        note="as a share of theirs",
    )


def measure(scale: Scale, folder: Path) -> Iterator[Result]:
    many = torch.from_numpy(load(cloud_file(folder, 3_000, scale.d)))
    X, reference = many[:BATCH].clone(), torch.cov(many.T)
    # The closed form in float64, where both ways agree; the tests hold that.
    exact = gradient(iso_score, X.double())
    yield from compared("IsoScore", X, iso_score, by_eigenvalues, exact, scale.repeats)
    yield from compared(
        "IsoScore*",
        X,
        lambda rows: iso_score_star(rows, reference, zeta=ZETA),
        lambda rows: by_eigenvalues(rows, reference),
        gradient(lambda rows: iso_score_star(rows, reference.double(), zeta=ZETA), X.double()),
        scale.repeats,
    )
