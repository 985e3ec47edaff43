"""The Isotropy Layer itself: a small map of the embedding space onto itself (IL23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal as keep_orthogonal

from theodolite.tuning.isolayer.settings import Activation

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


class IsotropyLayer(nn.Module):
    """A feed-forward layer d → d (IL23) that is exactly the identity until it is trained.

    The paper gives neither activation, bias nor initial weights. By default the layer is one linear map W x + b that starts at
    W = I, b = 0. With an `activation` it is x + V f(W x + b) with V = 0 at the start: the only form that is the identity at
    first and still learns whatever f is (relu's gradient at 0 is 0).

    Parameters
    ----------
    d
        Dimension of the vectors.
    depth
        How many maps follow each other, at least 1. A stack of linear maps is one linear map: without an activation, depth
        changes how it is learnt, not what it can be.
    bias
        Whether there is a b.
    activation
        "identity" (none), "relu", "tanh" or "gelu".
    orthogonal
        Whether W stays a rotation (Cayley's parametrisation), which keeps distances and angles. IsoScore does not change under
        rotations, so such a layer learns from the task's loss alone.
    """

    def __init__(
        self, d: int, *, depth: int = 1, bias: bool = True, activation: Activation = "identity", orthogonal: bool = False
    ) -> None:
        super().__init__()
        for name, value in (("d", d), ("depth", depth)):
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        if activation not in get_args(Activation):
            raise ValueError(f"activation={activation!r} must be one of {', '.join(get_args(Activation))}")
        if orthogonal and activation != "identity":
            raise ValueError(f"a layer with activation={activation!r} is not a rotation; leave out orthogonal or the activation")
        self.settings: dict[str, Any] = {"d": d, "depth": depth, "bias": bias, "activation": activation, "orthogonal": orthogonal}
        self.layers = nn.Sequential(*(self._block() for _ in range(depth)))

    def _block(self) -> nn.Module:
        d, bias, activation = self.settings["d"], self.settings["bias"], self.settings["activation"]
        linear = nn.Linear(d, d, bias=bias)
        nn.init.eye_(linear.weight)
        if bias:
            nn.init.zeros_(linear.bias)
        if activation != "identity":
            return _Residual(linear, _ACTIVATIONS[activation](), d)
        return keep_orthogonal(linear, orthogonal_map="cayley") if self.settings["orthogonal"] else linear

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The mapped vectors (rows, d)."""
        mapped: torch.Tensor = self.layers(X)
        return mapped

    @torch.no_grad()
    def affine(self) -> tuple[torch.Tensor, torch.Tensor]:
        """W and b of the whole layer as one map x Wᵀ + b; an error if it has an activation."""
        if self.settings["activation"] != "identity":
            raise ValueError(f"a layer with activation={self.settings['activation']!r} is not one matrix and a bias")
        first = next(self.parameters())
        weight = torch.eye(self.settings["d"], dtype=torch.float64, device=first.device)
        bias = torch.zeros_like(weight[0])
        linear: Any
        for linear in self.layers:
            own_weight = linear.weight.to(weight.dtype)
            weight = own_weight @ weight
            bias = own_weight @ bias + (0 if linear.bias is None else linear.bias)
        return weight.to(first.dtype), bias.to(first.dtype)

    def extra_repr(self) -> str:
        """What torch prints inside the brackets."""
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())


class _Residual(nn.Module):
    """x + V f(W x + b), with V = 0 at the start."""

    def __init__(self, inner: nn.Linear, activation: nn.Module, d: int) -> None:
        super().__init__()
        self.inner, self.activation = inner, activation
        self.outer = nn.Linear(d, d, bias=False)
        nn.init.zeros_(self.outer.weight)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        mapped: torch.Tensor = X + self.outer(self.activation(self.inner(X)))
        return mapped
