"""Methods that act on the head's vectors while a whole network is fine-tuned: IsoBN, cosine regularisation and I-STAR."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback

from theodolite.core.moments import Moments
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Vectors
from theodolite.tuning.heads import LinearHead, TextDataset, embed
from theodolite.tuning.isolayer.loss import iso_score_star
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.trainers import steps_per_epoch

# Training texts that I-STAR's C0 is taken from, or twice the dimension if that is more.
SAMPLE = 1024


class IsoBN(nn.Module):
    """Isotropic batch normalisation of pooled vectors, for fine-tuning a whole network (Zhou, Lin & Ren 2021).

    From moving averages of the covariance and the standard deviations σ, both with denominator n:
    γᵢ = meanⱼ corr²ᵢⱼ, scale (γσ + ε)^-β, times √(E/(E' + ε)), which keeps the total variance E = tr cov. The input is not
    centred; no gradient goes through the scale. In training a batch enters the averages before they are used.

    The averages are buffers with bias correction, as if they had not started from zero. A single row has no spread and leaves
    them as they are; before the first batch nothing is scaled.
    """

    covariance: torch.Tensor
    deviation: torch.Tensor
    steps: torch.Tensor

    def __init__(self, d: int, *, momentum: float = 0.05, beta: float = 0.5, eps: float = 1e-3, published: bool = False) -> None:
        super().__init__()
        if not 0 < momentum <= 1:
            raise ValueError(f"momentum={momentum} must be above 0 and at most 1")
        self.settings: dict[str, Any] = {"d": d, "momentum": momentum, "beta": beta, "eps": eps, "published": published}
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
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())


class CosineRegulariser(nn.Module):
    """γ times the mean cosine over the pairs i ≠ j of a batch (Gao et al. 2019), to be added to the task's loss.

    The mean is in [-1/(B - 1), 1], and 0 is isotropic. It is exact without the B × B cosines: (‖Σ uᵢ‖² - B)/(B(B - 1)) of the
    unit vectors uᵢ.
    """

    def __init__(self, gamma: float = 1.0) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The penalty of a batch (rows, d); zero rows are left out, and at least two others are needed."""
        if X.dim() != 2:
            raise ValueError(f"the batch has shape {tuple(X.shape)}; it must be (rows, dimensions)")
        lengths = torch.linalg.vector_norm(X, dim=1)
        U = X[lengths > 0] / lengths[lengths > 0].unsqueeze(1)
        if len(U) < 2:
            raise ValueError(f"a batch with {len(U)} rows that are not zero has no pair; use at least two")
        cosine: torch.Tensor = (U.sum(0).square().sum() - len(U)) / (len(U) * (len(U) - 1))
        return self.gamma * cosine


class IStar(nn.Module):
    """λ(1 - IsoScore*) of the batch (I-STAR, Rudman & Eickhoff 2023), to be added to the task's loss.

    C0 is a buffer: `refresh` it before training and then once per epoch from a large sample of vectors, without padding.
    """

    reference: torch.Tensor
    refreshed: torch.Tensor

    def __init__(self, d: int, *, strength: float = 1.0, zeta: float = 0.2) -> None:
        super().__init__()
        if not 0 <= zeta <= 1:
            raise ValueError(f"zeta={zeta} must be in [0, 1]")
        self.strength, self.zeta = strength, zeta
        self.register_buffer("reference", torch.zeros(d, d))
        self.register_buffer("refreshed", torch.zeros((), dtype=torch.long))

    def refresh(self, sample: torch.Tensor | Vectors) -> None:
        """Take C0 from a sample."""
        if isinstance(sample, torch.Tensor):
            # NumPy has no bfloat16.
            sample = (sample if sample.dtype in (torch.float32, torch.float64) else sample.float()).detach().cpu().numpy()
        C0 = torch.from_numpy(Moments.of(sample).covariance())
        if C0.shape != self.reference.shape:
            raise ValueError(f"the sample has {len(C0)} dimensions; this I-STAR takes {len(self.reference)}")
        self.reference.copy_(C0)
        self.refreshed += 1

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The penalty of a batch (rows, d), in its precision."""
        if not self.refreshed:
            raise ValueError("there is no C0 yet: call refresh(sample) with many vectors before training, then once per epoch")
        return (self.strength * (1 - iso_score_star(X, self.reference, zeta=self.zeta))).to(X.dtype)


def method_modules(settings: TuneSettings, d: int) -> tuple[nn.Module | None, nn.Module | None]:
    """The layer and the penalty that a run's method gives the head while the whole network trains; None for what it lacks."""
    strength = 1.0 if settings.strength is None else settings.strength
    if settings.method == "isobn":
        return IsoBN(d, published=settings.published), None
    if settings.method == "cosreg":
        return None, CosineRegulariser(strength)
    return None, IStar(d, strength=strength) if settings.method == "istar" else None


class RefreshCallback(TrainerCallback):
    """Takes I-STAR's C0 from a fixed sample of the training texts at the start of every epoch."""

    def __init__(self, model: LinearHead, dataset: TextDataset, *, seed: int) -> None:
        assert isinstance(model.penalty, IStar)
        self.model, self.penalty = model, model.penalty
        size = max(SAMPLE, 2 * len(self.penalty.reference))
        self.sample = replace(dataset, texts=dataset.texts[sample_rows(len(dataset), size, seed=seed)])

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Refresh C0. A run that is continued inside an epoch has its C0 from the checkpoint."""
        if state.global_step % steps_per_epoch(args, state) == 0:
            self.penalty.refresh(embed(self.model, self.sample).vectors)
