"""The Isotropy Layer (IL23): a small map of the embedding space onto itself, trained between a frozen encoder and its head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal as keep_orthogonal

Activation: TypeAlias = Literal["identity", "relu", "tanh", "gelu"]

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


class IsotropyLayer(nn.Module):
    """A feed-forward layer d → d (IL23) that is exactly the identity until it is trained.

    The paper names neither activation, bias nor initial weights. By default it is one linear map W x + b that starts at W = I,
    b = 0; `depth` of them stand in a row. With an `activation` each is x + V f(W x + b) with V = 0 at the start: the only
    form that is the identity at first and still learns whatever f is (relu's gradient at 0 is 0).

    `orthogonal` keeps W a rotation (Cayley's parametrisation): distances and angles between vectors stay. IsoScore is blind to
    rotations, so such a layer learns from the task's loss alone. A stack of linear maps is one linear map, too: depth without an
    activation changes how it is learnt, not what it can be.
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
            raise ValueError(f"a layer with activation={activation!r} is no rotation; leave out orthogonal or the activation")
        self.settings: dict[str, Any] = {
            "d": d,
            "depth": depth,
            "bias": bias,
            "activation": activation,
            "orthogonal": orthogonal,
        }
        self.layers = nn.Sequential(*(self._block() for _ in range(depth)))

    def _block(self) -> nn.Module:
        d, bias, activation = self.settings["d"], self.settings["bias"], self.settings["activation"]
        linear = _identity_linear(d, bias=bias)
        if activation != "identity":
            return _Residual(linear, ACTIVATIONS[activation](), d)
        return keep_orthogonal(linear, orthogonal_map="cayley") if self.settings["orthogonal"] else linear

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layers(X)
        return made

    @torch.no_grad()
    def affine(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(W, b) of the whole layer as one linear map x Wᵀ + b, where it is one."""
        if self.settings["activation"] != "identity":
            raise ValueError(f"a layer with activation={self.settings['activation']!r} is not one matrix and a bias")
        first = next(self.parameters())
        basis = torch.eye(self.settings["d"], dtype=torch.float64, device=first.device)
        offset = torch.zeros_like(basis[0])
        linear: Any
        for linear in self.layers:
            weight = linear.weight.to(basis.dtype)
            basis = weight @ basis
            offset = weight @ offset + (0 if linear.bias is None else linear.bias)
        return basis.to(first.dtype), offset.to(first.dtype)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())


class _Residual(nn.Module):
    """x + V f(W x + b), with V = 0 at the start."""

    def __init__(self, inner: nn.Linear, activation: nn.Module, d: int) -> None:
        super().__init__()
        self.inner, self.activation = inner, activation
        self.outer = nn.Linear(d, d, bias=False)
        nn.init.zeros_(self.outer.weight)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = X + self.outer(self.activation(self.inner(X)))
        return made


def _identity_linear(d: int, *, bias: bool) -> nn.Linear:
    linear = nn.Linear(d, d, bias=bias)
    nn.init.eye_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
