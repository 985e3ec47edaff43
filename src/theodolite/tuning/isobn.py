"""IsoBN (Zhou, Lin & Ren 2021): scale each dimension down by how much it varies and how much others vary with it."""

from __future__ import annotations

import torch
from torch import nn


class IsoBN(nn.Module):
    """Isotropic batch normalisation of pooled vectors, for fine-tuning a whole network (Zhou, Lin & Ren 2021).

    From moving averages of the covariance and the standard deviations σ, both with denominator n:
    γᵢ = meanⱼ corr²ᵢⱼ, scale (γσ + ε)^-β, times √(E/(E' + ε)), which keeps the total variance E = tr cov. The input is not
    centred; no gradient goes through the scale. In training a batch enters the averages before they are used.

    The averages are buffers with bias correction, as if they had not started from zero. A single row has no spread and leaves
    them as they are; before the first batch nothing is scaled.

    Parameters
    ----------
    d
        Dimension of the vectors.
    momentum
        Weight of a new batch in the averages, above 0 and at most 1.
    beta, eps
        β and ε.
    published
        Behave as the authors' program: averages that start from zero without correction, so that for about the first hundred
        steps correlations are too large, and clamped.
    """

    covariance: torch.Tensor
    deviation: torch.Tensor
    steps: torch.Tensor

    def __init__(self, d: int, *, momentum: float = 0.05, beta: float = 0.5, eps: float = 1e-3, published: bool = False) -> None:
        super().__init__()
        if not 0 < momentum <= 1:
            raise ValueError(f"momentum={momentum} must be above 0 and at most 1")
        self.d, self.momentum, self.beta, self.eps, self.published = d, momentum, beta, eps, published
        self.register_buffer("covariance", torch.zeros(d, d))
        self.register_buffer("deviation", torch.zeros(d))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The scaled batch (rows, d); in training mode its moments enter the averages first."""
        if X.dim() != 2 or X.shape[1] != self.d:
            raise ValueError(f"the batch has shape {tuple(X.shape)}; this IsoBN takes (rows, {self.d})")
        if self.training and (len(X) > 1 or self.published):
            self._update(X.detach().to(self.covariance.dtype))
        return X * self.scale().to(X.dtype)

    @torch.no_grad()
    def scale(self) -> torch.Tensor:
        """The factors (d,) that the averages give now; ones before the first batch."""
        # Averages that start from zero hold only this share of what they estimate after k batches.
        share = 1.0 if self.published else 1 - (1 - self.momentum) ** self.steps.clamp(min=1)
        covariance, deviation = self.covariance / share, self.deviation / share
        outer = torch.outer(deviation, deviation)
        # A dimension that never varies correlates with nothing.
        correlation = torch.where(outer > 0, covariance / torch.where(outer > 0, outer, 1.0), 0.0).clamp(-1, 1)
        scale = (correlation.square().mean(1) * deviation + self.eps) ** -self.beta
        variance = covariance.diagonal()
        scale = scale * (variance.sum() / ((variance * scale.square()).sum() + self.eps)).sqrt()
        return torch.where(self.steps > 0, scale, 1.0)

    @torch.no_grad()
    def _update(self, X: torch.Tensor) -> None:
        centred = X - X.mean(0)
        covariance = centred.T @ centred / len(X)
        self.covariance.lerp_(covariance, self.momentum)
        self.deviation.lerp_(covariance.diagonal().sqrt(), self.momentum)
        self.steps += 1

    def extra_repr(self) -> str:
        """What torch prints inside the brackets."""
        return f"{self.d}, momentum={self.momentum}, beta={self.beta}, eps={self.eps}, published={self.published}"
