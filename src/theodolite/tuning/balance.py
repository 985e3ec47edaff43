"""Two losses in one: each is scaled by its own moving average, so that neither outweighs the other (IL23, eq. 2 and 3)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from theodolite.tuning.isoscore_loss import isotropy_loss

LIMIT = 1000.0
"""The largest factor L̄/L̄ᵢ: a loss that has been zero would otherwise get an infinite weight, and slowly lose it."""


class Balance(nn.Module):
    """The balanced sum of a task's loss and an isotropy loss (IL23 eq. 3): α L̂₁ + (1 − α) L̂₂ with L̂ᵢ = Lᵢ L̄/L̄ᵢ.

    L̄ is the mean of L̄₁ and L̄₂, and after k steps L̄ᵢ ← Lᵢ s/(1 + k) + L̄ᵢ (1 − s/(1 + k)), with s = `smoothing`. α weighs the
    losses *after* they are brought to one size; at ½ this is the paper's ½ (L̂₁ + L̂₂). `balanced=False` is eq. 2 as it stands,
    α L₁ + (1 − α) L₂. What the paper leaves open, and how it is decided:

    - the first averages are the first losses (`initial="ones"`: 1 and 1);
    - no gradient goes through the averages (`detach=False`: it does, through the newest loss in them);
    - an average takes up a loss after that loss was scaled (`update="before"`: at once).

    Losses are at least 0. The averages are buffers, and move in training mode only.
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
                raise ValueError(f"{name}={share} must lie in [0, 1]")
        for name, value, known in (("initial", initial, ("first", "ones")), ("update", update, ("after", "before"))):
            if value not in known:
                raise ValueError(f"{name}={value!r} must be one of {known}")
        self.alpha, self.smoothing, self.balanced = alpha, smoothing, balanced
        self.initial, self.detach, self.update = initial, detach, update
        self.register_buffer("means", torch.ones(2))
        self.register_buffer("iteration", torch.zeros((), dtype=torch.long))

    def weights(self) -> tuple[float, float]:
        """What the next losses are multiplied with, α included; before the first ones, α and 1 − α."""
        first, second = self._weights(self.means).tolist()
        return first, second

    def forward(self, task: torch.Tensor, isotropy: torch.Tensor) -> torch.Tensor:
        """The loss to go down on, in the precision of the task's loss."""
        losses = torch.stack([task, isotropy.to(task.dtype)])
        means = self._before(losses)
        total = (losses * self._weights(means.detach() if self.detach else means)).sum()
        if self.training:
            with torch.no_grad():
                self.means.copy_(means if self.update == "before" else self._moved(means, losses))
                self.iteration += 1
        return total

    def _before(self, losses: torch.Tensor) -> torch.Tensor:
        """The averages that scale these losses."""
        means = self.means.to(losses)
        if self.initial == "first":
            means = torch.where(self.iteration == 0, losses, means)
        return self._moved(means, losses) if self.update == "before" and self.training else means

    def _moved(self, means: torch.Tensor, losses: torch.Tensor) -> torch.Tensor:
        step = self.smoothing / (1 + self.iteration)
        return losses * step + means * (1 - step)

    def _weights(self, means: torch.Tensor) -> torch.Tensor:
        shares = torch.tensor([self.alpha, 1 - self.alpha], dtype=means.dtype, device=means.device)
        if not self.balanced:
            return shares
        mean = means.mean()
        factors = mean / torch.maximum(means, mean / LIMIT)
        return shares * torch.where(mean == 0, 1.0, factors)


class JointLoss(nn.Module):
    """The Isotropy Layer's loss (IL23): a task's loss balanced with log(1/IsoScore) of the batch's vectors."""

    def __init__(self, balance: Balance | None = None, *, corrected: bool = False) -> None:
        super().__init__()
        self.balance = Balance() if balance is None else balance
        self.corrected = corrected

    def forward(self, task: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        joint: torch.Tensor = self.balance(task, isotropy_loss(X, corrected=self.corrected))
        return joint
