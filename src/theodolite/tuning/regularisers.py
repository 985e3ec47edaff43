"""Penalties for fine-tuning a whole network: cosine regularisation and I-STAR, each added to the task's loss."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from theodolite.core.moments import Moments
from theodolite.core.vectors import Vectors
from theodolite.tuning.isoscore_loss import iso_score_star


def cosine_regularisation(X: torch.Tensor) -> torch.Tensor:
    """Mean cosine over the pairs i ≠ j of a batch (Gao et al. 2019), in [−1/(B − 1), 1]; 0 is isotropic; differentiable.

    Exact without the B × B cosines: (‖Σ uᵢ‖² − B)/(B(B − 1)) of the unit vectors uᵢ. Zero rows are left out.
    """
    if X.dim() != 2:
        raise ValueError(f"the batch has shape {tuple(X.shape)}; it must be (rows, dimensions)")
    lengths = torch.linalg.vector_norm(X, dim=1)
    U = X[lengths > 0] / lengths[lengths > 0].unsqueeze(1)
    if len(U) < 2:
        raise ValueError(
            f"a batch with {len(U)} rows that are not zero has no pair; give at least two (drop the last batch if short)"
        )
    cosine: torch.Tensor = (U.sum(0).square().sum() - len(U)) / (len(U) * (len(U) - 1))
    return cosine


class CosineRegulariser(nn.Module):
    """γ times the batch's mean off-diagonal cosine (Gao et al. 2019), to be added to the task's loss."""

    def __init__(self, gamma: float = 1.0) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.gamma * cosine_regularisation(X)


class IStar(nn.Module):
    """λ(1 − IsoScore*) of the batch (I-STAR, Rudman & Eickhoff 2023), to be added to the task's loss.

    C0 is a buffer: `refresh` it before training and then once an epoch from a large sample of vectors, padding left out.
    `strength` is λ; below 0 it rewards anisotropy, which the paper found to help.
    """

    reference: torch.Tensor
    refreshed: torch.Tensor

    def __init__(self, d: int, *, strength: float = 1.0, zeta: float = 0.2) -> None:
        super().__init__()
        if not 0 <= zeta <= 1:
            raise ValueError(f"zeta={zeta} must lie in [0, 1]")
        self.strength, self.zeta = strength, zeta
        self.register_buffer("reference", torch.zeros(d, d))
        self.register_buffer("refreshed", torch.zeros((), dtype=torch.long))

    def refresh(self, sample: torch.Tensor | Vectors) -> None:
        """Take C0 from a sample (n, d) of many vectors, in anything that holds vectors."""
        rows = _array(sample) if isinstance(sample, torch.Tensor) else sample
        C0 = torch.from_numpy(Moments.of(rows).covariance())
        if C0.shape != self.reference.shape:
            raise ValueError(f"the sample has {len(C0)} dimensions; this I-STAR takes {len(self.reference)}")
        self.reference.copy_(C0)
        self.refreshed += 1

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        if not self.refreshed:
            raise ValueError("C0 is not there yet: call refresh(sample) with many vectors before training, then once an epoch")
        return (self.strength * (1 - iso_score_star(X, self.reference, zeta=self.zeta))).to(X.dtype)


def _array(sample: torch.Tensor) -> NDArray[Any]:
    # NumPy has no bfloat16.
    readable = sample if sample.dtype in (torch.float32, torch.float64) else sample.float()
    array: NDArray[Any] = readable.detach().cpu().numpy()
    return array
