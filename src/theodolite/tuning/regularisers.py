"""Methods that act on the head's vectors while a whole network is fine-tuned: cosine regularisation, I-STAR and IsoBN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback

from theodolite.core.moments import Moments
from theodolite.core.sampling import sample_rows
from theodolite.core.vectors import Vectors
from theodolite.tuning.batches import Item
from theodolite.tuning.isobn import IsoBN
from theodolite.tuning.isolayer.features import embed
from theodolite.tuning.isolayer.insertion import At, InsertedLayer
from theodolite.tuning.isolayer.loss import iso_score_star
from theodolite.tuning.settings import TuneSettings

# Training texts that I-STAR's C0 is taken from, or twice the dimension if that is more.
SAMPLE = 1024


def cosine_regularisation(X: torch.Tensor) -> torch.Tensor:
    """Mean cosine over the pairs i ≠ j of a batch (Gao et al. 2019), in [-1/(B - 1), 1]; 0 is isotropic; differentiable.

    It is exact without the B × B cosines: (‖Σ uᵢ‖² - B)/(B(B - 1)) of the unit vectors uᵢ.

    Parameters
    ----------
    X
        The batch (B, d); zero rows are left out, and at least two others are needed.
    """
    if X.dim() != 2:
        raise ValueError(f"the batch has shape {tuple(X.shape)}; it must be (rows, dimensions)")
    lengths = torch.linalg.vector_norm(X, dim=1)
    U = X[lengths > 0] / lengths[lengths > 0].unsqueeze(1)
    if len(U) < 2:
        raise ValueError(
            f"a batch with {len(U)} rows that are not zero has no pair; use at least two (drop the last batch if short)"
        )
    cosine: torch.Tensor = (U.sum(0).square().sum() - len(U)) / (len(U) * (len(U) - 1))
    return cosine


class CosineRegulariser(nn.Module):
    """γ times the batch's mean off-diagonal cosine (Gao et al. 2019), to be added to the task's loss.

    Parameters
    ----------
    gamma
        γ.
    """

    def __init__(self, gamma: float = 1.0) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The penalty of a batch (rows, d)."""
        return self.gamma * cosine_regularisation(X)


class IStar(nn.Module):
    """λ(1 - IsoScore*) of the batch (I-STAR, Rudman & Eickhoff 2023), to be added to the task's loss.

    C0 is a buffer: `refresh` it before training and then once per epoch from a large sample of vectors, without padding.

    Parameters
    ----------
    d
        Dimension of the vectors.
    strength
        λ; below 0 it rewards anisotropy, which the paper found to help.
    zeta
        Share of C0, in [0, 1].
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
        """Take C0 from a sample.

        Parameters
        ----------
        sample
            Many vectors (n, d): a tensor, or anything that has vectors.
        """
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


class Penalised(nn.Module):
    """The identity, with a penalty on what passes: inside the model, so that a penalty's state is in every checkpoint.

    Parameters
    ----------
    penalty
        Gives the penalty of a batch (rows, d).
    """

    def __init__(self, penalty: nn.Module) -> None:
        super().__init__()
        self.penalty = penalty

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The batch as it is."""
        return X


def method_layer(settings: TuneSettings, d: int) -> tuple[nn.Module, At] | None:
    """What a run's method needs between encoder and head while the whole network trains, and where; None if nothing.

    Parameters
    ----------
    settings
        The run's settings.
    d
        Dimension of the vectors.
    """
    if settings.method in ("plain", "isolayer"):
        return None
    if settings.method == "isobn":
        return IsoBN(d, published=settings.published), "after_pooler"
    strength = 1.0 if settings.strength is None else settings.strength
    penalty = CosineRegulariser(strength) if settings.method == "cosreg" else IStar(d, strength=strength)
    return Penalised(penalty), "before_pooler"


class RefreshCallback(TrainerCallback):
    """Takes I-STAR's C0 from a fixed sample of the training texts at the start of every epoch.

    Parameters
    ----------
    inserted
        The penalty in its model.
    items
        The training texts.
    pad
        The token that fills up short texts.
    seed
        Seed of the sample.
    """

    def __init__(self, inserted: InsertedLayer, items: Sequence[Item], *, pad: int, seed: int) -> None:
        assert isinstance(inserted.layer, Penalised)
        assert isinstance(inserted.layer.penalty, IStar)
        self.inserted, self.penalty, self.pad = inserted, inserted.layer.penalty, pad
        size = max(SAMPLE, 2 * len(self.penalty.reference))
        self.items = [items[i] for i in sample_rows(len(items), size, seed=seed)]

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Refresh C0. A run that is continued inside an epoch has its C0 from the checkpoint."""
        per_epoch = max(1, round(state.max_steps / args.num_train_epochs))
        if state.global_step % per_epoch == 0:
            self.penalty.refresh(embed(self.inserted, self.items, pad=self.pad).vectors)
