"""IsoScore as a loss: differentiable, from traces alone, so that no eigenvalue has to be differentiated."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.autograd.function import once_differentiable

FLOOR = 1e-6
"""The lowest IsoScore that the loss tells apart: below, its value is log(1/FLOOR) and its gradient zero.

A cloud that is a line (two rows always are) or one point has IsoScore 0, where the logarithm has no value. IsoScore itself is
stationary there, so nothing is lost.
"""


class CeilingWarning(UserWarning):
    """The batch is too small for its IsoScore to come near 1."""


def iso_score(X: torch.Tensor, *, corrected: bool = False) -> torch.Tensor:
    """IsoScore of a batch (Rudman et al. 2022), in [0, 1]; 1 is isotropic; differentiable, in float64.

    (PR - 1) / (d - 1) with PR = (tr S)² / tr S². Where all rows are one point it is 0 with gradient 0. `corrected` takes the
    unbiased estimates of both traces for Gaussian rows, which small batches need (at least 3 rows). By sampling noise they can
    ask for more than d dimensions: that is clamped to 1, with gradient 0, for such a batch cannot be told from an isotropic one.
    """
    n, d = _checked(X)
    if corrected and n < 3:
        raise ValueError(f"the corrected IsoScore needs at least 3 rows, the batch has {n}: use a larger batch")
    evenness = _evenness(_centred(X))
    return _score(_corrected(evenness, n, d) if corrected else evenness, d)


def iso_score_star(X: torch.Tensor, reference: torch.Tensor, *, zeta: float = 0.2) -> torch.Tensor:
    """IsoScore* of a batch (Rudman & Eickhoff 2023), in [0, 1]; 1 is isotropic; differentiable, in float64.

    IsoScore of (1 - zeta) S + zeta C0, where `reference` is C0, a (d, d) covariance from many points. It expands in traces:
    tr S, tr S², tr S C0. Zeta 0 is IsoScore, 1 a constant.
    """
    n, d = _checked(X)
    if reference.shape != (d, d):
        raise ValueError(f"reference has shape {tuple(reference.shape)}; C0 must be ({d}, {d}), as the vectors are wide")
    if not 0 <= zeta <= 1:
        raise ValueError(f"zeta={zeta} must lie in [0, 1]")
    wide = _wide(X)
    # The one product that costs something is made in the precision of C0; what it sums to is wide again.
    C0 = reference.to(device=X.device, dtype=torch.promote_types(reference.dtype, torch.float32))
    centred = _centred(X) * ((1 - zeta) / (n - 1)) ** 0.5  # its scatter is (1 - zeta) S
    trace = centred.square().sum() + zeta * C0.trace()
    mixed: torch.Tensor = _Form.apply(centred, C0)  # type: ignore[no-untyped-call]
    square = _trace_of_square(centred) + 2 * zeta * mixed + zeta**2 * C0.square().sum(dtype=wide)
    return _score(_ratio(square, trace.square()), d)


def isotropy_loss(X: torch.Tensor, *, corrected: bool = False) -> torch.Tensor:
    """log(1 / IsoScore) of a batch (IL23, L₂), in [0, log(1/FLOOR)]; 0 is isotropic; differentiable, in float64.

    A batch of B <= d rows cannot score above (B - 2)/(d - 1), and a `CeilingWarning` says so unless `corrected`.
    """
    n, d = _checked(X)
    if n <= d and not corrected:
        warnings.warn(
            f"the IsoScore of a batch of {n} rows in {d} dimensions cannot exceed (B - 2)/(d - 1) = {(n - 2) / (d - 1):.3g}: "
            f"pass corrected=True, or use a batch of more than {d} rows",
            CeilingWarning,
            stacklevel=2,
        )
    return -iso_score(X, corrected=corrected).clamp(min=FLOOR).log()


def _checked(X: torch.Tensor) -> tuple[int, int]:
    if X.dim() != 2:
        raise ValueError(f"the batch has shape {tuple(X.shape)}; it must be (rows, dimensions)")
    n, d = X.shape
    if n < 2:
        raise ValueError(
            f"a batch of {n} row{'s' * (n != 1)} has no covariance; give at least two (drop the last batch if short)"
        )
    if d < 2:
        raise ValueError("isotropy has no meaning in one dimension (d = 1)")
    return n, d


def _wide(X: torch.Tensor) -> torch.dtype:
    """Float64, which costs nothing at a batch's size; Apple's GPUs have none."""
    return torch.float32 if X.device.type == "mps" else torch.float64


def _centred(X: torch.Tensor) -> torch.Tensor:
    """The rows about their mean; zeros, without gradient, where they differ by no more than the rounding of centring."""
    wide = X.to(_wide(X))
    mean = wide.mean(0)
    centred = wide - mean
    rounding = torch.finfo(wide.dtype).eps * mean.detach().abs().max()
    same = centred.detach().square().sum() <= centred.numel() * rounding.square()
    return centred * ~same


def _evenness(centred: torch.Tensor) -> torch.Tensor:
    """1/PR = tr S² / (tr S)²: from 1/d, all directions alike, to 1, a line."""
    largest = centred.detach().abs().max()
    # The ratio knows no scale, so this one needs no gradient; without it the fourth powers of tiny numbers would vanish.
    centred = centred / torch.where(largest != 0, largest, 1.0)
    return _ratio(_trace_of_square(centred), centred.square().sum().square())


def _ratio(square: torch.Tensor, squared_trace: torch.Tensor) -> torch.Tensor:
    """1/PR; 1 with gradient 0 where there is no variance at all, nan where there is nan."""
    spread = squared_trace != 0
    return torch.where(spread, square, 1.0) / torch.where(spread, squared_trace, 1.0)


def _trace_of_square(centred: torch.Tensor) -> torch.Tensor:
    """tr (XᵀX)² from the smaller of XᵀX and XXᵀ, which have the same one."""
    n, d = centred.shape
    small = centred @ centred.T if n <= d else centred.T @ centred
    return small.square().sum()


class _Form(torch.autograd.Function):
    """tr XᵀXC for a symmetric constant C. Its gradient 2XC is at hand from the value, where autograd would multiply again."""

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
