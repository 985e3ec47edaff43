"""Isotropy in training: IsoScore as a loss, its balance with a task's loss, IsoBN, cosine regularisation and I-STAR.

IsoScore comes from traces alone, so that no eigenvalue is differentiated.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from transformers import TrainerCallback

from theodolite.core.moments import Moments
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Vectors
from theodolite.tuning.heads import LinearHead, TextDataset, embed
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.trainers import steps_per_epoch

# The lowest IsoScore that the loss distinguishes: below it the loss is log(1/FLOOR) and its gradient zero.
# A cloud that is a line (two rows always are) or a point has IsoScore 0, of which there is no logarithm. IsoScore itself is
# stationary there, so no gradient is lost.
FLOOR = 1e-6
# The largest factor L̄/L̄ᵢ: a loss that has been zero would otherwise get an infinite weight, and lose it only slowly.
LIMIT = 1000.0


class CeilingWarning(UserWarning):
    """The batch is too small for its IsoScore to come near 1."""


def iso_score(X: torch.Tensor, *, corrected: bool = False) -> torch.Tensor:
    """IsoScore of a batch (Rudman et al. 2022), in [0, 1]; 1 is isotropic; differentiable, in float64.

    (PR - 1) / (d - 1) with PR = (tr S)² / tr S². If all rows are one point, it is 0 with gradient 0. `corrected` estimates both
    traces without bias for Gaussian rows, which small batches need; by sampling noise that may ask for more than d dimensions,
    and is clamped to 1 with gradient 0, because such a batch cannot be told from an isotropic one.
    """
    n, d = _shape(X)
    if corrected and n < 3:
        raise ValueError(f"the corrected IsoScore needs at least 3 rows, but the batch has {n}: use a larger batch")
    centred = _centred(X)
    largest = centred.detach().abs().max()
    # The ratio below does not depend on the scale, so this division needs no gradient; without it the fourth powers of tiny
    # numbers would vanish.
    centred = centred / torch.where(largest != 0, largest, 1.0)
    evenness = _ratio(_trace_of_square(centred), centred.square().sum().square())
    return _score(_corrected(evenness, n, d) if corrected else evenness, d)


def iso_score_star(X: torch.Tensor, reference: torch.Tensor, *, zeta: float = 0.2) -> torch.Tensor:
    """IsoScore* of a batch (Rudman & Eickhoff 2023), in [0, 1]; 1 is isotropic; differentiable, in float64.

    It is the IsoScore of (1 - zeta) S + zeta C0, which expands in the traces tr S, tr S² and tr S C0.
    """
    n, d = _shape(X)
    if reference.shape != (d, d):
        raise ValueError(f"reference has shape {tuple(reference.shape)}; C0 must be ({d}, {d}), as the vectors are wide")
    if not 0 <= zeta <= 1:
        raise ValueError(f"zeta={zeta} must be in [0, 1]")
    # The one expensive product is made in the precision of C0; what it sums to is float64 again.
    C0 = reference.to(device=X.device, dtype=torch.promote_types(reference.dtype, torch.float32))
    centred = _centred(X) * ((1 - zeta) / (n - 1)) ** 0.5  # its scatter is (1 - zeta) S
    trace = centred.square().sum() + zeta * C0.trace()
    mixed: torch.Tensor = _TraceOfProduct.apply(centred, C0)  # type: ignore[no-untyped-call]
    square = _trace_of_square(centred) + 2 * zeta * mixed + zeta**2 * C0.square().sum(dtype=centred.dtype)
    return _score(_ratio(square, trace.square()), d)


def isotropy_loss(X: torch.Tensor, *, corrected: bool = False) -> torch.Tensor:
    """log(1 / IsoScore) of a batch (IL23, L₂), in [0, log(1/FLOOR)]; 0 is isotropic; differentiable, in float64.

    Without `corrected`, a batch of B <= d rows cannot exceed (B - 2)/(d - 1), which a `CeilingWarning` reports.
    """
    n, d = _shape(X)
    if n <= d and not corrected:
        warnings.warn(
            f"the IsoScore of a batch of {n} rows in {d} dimensions cannot exceed (B - 2)/(d - 1) = {(n - 2) / (d - 1):.3g}: "
            f"pass corrected=True, or use a batch of more than {d} rows",
            CeilingWarning,
            stacklevel=2,
        )
    return -iso_score(X, corrected=corrected).clamp(min=FLOOR).log()


class Balance(nn.Module):
    """The balanced sum of a task's loss and an isotropy loss (IL23 eq. 3): α L̂₁ + (1 - α) L̂₂ with L̂ᵢ = Lᵢ L̄/L̄ᵢ.

    L̄ is the mean of L̄₁ and L̄₂, and after k steps L̄ᵢ ← Lᵢ s/(1 + k) + L̄ᵢ (1 - s/(1 + k)), s being `smoothing`. The averages are
    buffers, and move in training mode only. Losses are at least 0. Without `balanced` this is eq. 2, α L₁ + (1 - α) L₂.

    The paper leaves open what the averages begin with (`initial`), whether gradients stop at them (`detach`), and whether a loss
    enters its average before or after it is scaled (`update`).
    """

    means: torch.Tensor
    iteration: torch.Tensor

    def __init__(
        self,
        *,
        alpha: float = 0.5,
        smoothing: float = 0.15,
        balanced: bool = True,
        initial: Literal["first", "ones"] = "first",
        detach: bool = True,
        update: Literal["after", "before"] = "after",
    ) -> None:
        super().__init__()
        for name, share in (("alpha", alpha), ("smoothing", smoothing)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name}={share} must be in [0, 1]")
        for name, value, values in (("initial", initial, ("first", "ones")), ("update", update, ("after", "before"))):
            if value not in values:
                raise ValueError(f"{name}={value!r} must be one of {values}")
        self.alpha, self.smoothing, self.balanced = alpha, smoothing, balanced
        self.initial, self.detach, self.update = initial, detach, update
        self.register_buffer("means", torch.ones(2))
        self.register_buffer("iteration", torch.zeros((), dtype=torch.long))

    def forward(self, task: torch.Tensor, isotropy: torch.Tensor) -> torch.Tensor:
        """The loss to minimise, in the precision of the task's loss."""
        losses = torch.stack([task, isotropy.to(task.dtype)])
        means = self.means.to(losses)
        if self.initial == "first":
            means = torch.where(self.iteration == 0, losses, means)
        if self.update == "before" and self.training:
            means = self._moved(means, losses)
        total = (losses * self._weights(means.detach() if self.detach else means)).sum()
        if self.training:
            with torch.no_grad():
                self.means.copy_(means if self.update == "before" else self._moved(means, losses))
                self.iteration += 1
        return total

    def _moved(self, means: torch.Tensor, losses: torch.Tensor) -> torch.Tensor:
        step = self.smoothing / (1 + self.iteration)
        return losses * step + means * (1 - step)

    def _weights(self, means: torch.Tensor) -> torch.Tensor:
        shares = torch.tensor([self.alpha, 1 - self.alpha], dtype=means.dtype, device=means.device)
        if not self.balanced:
            return shares
        mean = means.mean()
        return shares * torch.where(mean == 0, 1.0, mean / torch.maximum(means, mean / LIMIT))


class JointLoss(nn.Module):
    """The Isotropy Layer's loss (IL23): a task's loss balanced with log(1/IsoScore) of the batch's vectors."""

    def __init__(self, balance: Balance | None = None, *, corrected: bool = False) -> None:
        super().__init__()
        self.balance = Balance() if balance is None else balance
        self.corrected = corrected

    def forward(self, task: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        """The loss of a batch: `task` is the task's loss, `X` (rows, d) its vectors."""
        total: torch.Tensor = self.balance(task, isotropy_loss(X, corrected=self.corrected))
        return total


def _shape(X: torch.Tensor) -> tuple[int, int]:
    if X.dim() != 2:
        raise ValueError(f"the batch has shape {tuple(X.shape)}; it must be (rows, dimensions)")
    n, d = X.shape
    if n < 2:
        raise ValueError(f"a batch of {n} row{'s' * (n != 1)} has no covariance; use at least two (drop the last batch if short)")
    if d < 2:
        raise ValueError("isotropy is not defined in one dimension (d = 1)")
    return n, d


def _centred(X: torch.Tensor) -> torch.Tensor:
    """The rows minus their mean, in float64; zeros without gradient if they differ by no more than the rounding of that."""
    # Float64 costs nothing at the size of a batch; Apple's GPUs do not have it.
    wide = X.to(torch.float32 if X.device.type == "mps" else torch.float64)
    mean = wide.mean(0)
    centred = wide - mean
    rounding = torch.finfo(wide.dtype).eps * mean.detach().abs().max()
    is_point = centred.detach().square().sum() <= centred.numel() * rounding.square()
    return centred * ~is_point


def _ratio(square: torch.Tensor, squared_trace: torch.Tensor) -> torch.Tensor:
    """1/PR, from 1/d (all directions alike) to 1 (a line); 1 with gradient 0 if there is no variance, nan if there is nan."""
    varies = squared_trace != 0
    return torch.where(varies, square, 1.0) / torch.where(varies, squared_trace, 1.0)


def _trace_of_square(centred: torch.Tensor) -> torch.Tensor:
    """tr (XᵀX)² from the smaller of XᵀX and XXᵀ, which have the same one."""
    n, d = centred.shape
    small = centred @ centred.T if n <= d else centred.T @ centred
    return small.square().sum()


class _TraceOfProduct(torch.autograd.Function):
    """tr XᵀXC for a symmetric constant C. Its gradient 2XC is a by-product of the value; autograd would multiply again."""

    @staticmethod
    def forward(context: Any, X: torch.Tensor, C: torch.Tensor) -> torch.Tensor:
        product = (X.to(C.dtype) @ C).to(X.dtype)
        context.save_for_backward(product)
        return (product * X).sum()

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: torch.Tensor) -> tuple[torch.Tensor, None]:
        (product,) = context.saved_tensors
        return 2 * slope * product, None


def _corrected(evenness: torch.Tensor, n: int, d: int) -> torch.Tensor:
    """1/PR with unbiased estimates of both traces, at least 1/d."""
    free = n - 1
    square, squared_trace = free**2 * (evenness - 1 / free), free * (free + 1) - 2 * free * evenness
    return (square / squared_trace).clamp(min=1 / d)


def _score(evenness: torch.Tensor, d: int) -> torch.Tensor:
    return (1 / evenness - 1) / (d - 1)


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
