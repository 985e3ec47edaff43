"""How an Isotropy Layer is built and trained: what IL23 leaves open, decided here and switchable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

Trains: TypeAlias = Literal["layer", "alternate", "joint"]
Activation: TypeAlias = Literal["identity", "relu", "tanh", "gelu"]


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """The Isotropy Layer and its training (IL23).

    The paper gives the loss and its balance. It gives no value for the layer itself, `learning_rate`, `batch_size`, `epochs`
    and `patience`, so these are ours: AdamW with a constant learning rate and no decay, which would pull the map to zero and
    not to the identity. The epoch with the best score on the validation rows is kept; of equal ones, that with the higher
    IsoScore. The untrained layer is not a candidate: it would often win by a hair.

    Parameters
    ----------
    trains
        "layer" (alone, encoder and head stay frozen), "alternate" (layer, then head, as long as the validation score rises) or
        "joint" (layer and head at once).
    depth, activation, bias, orthogonal
        The layer's form; see `IsotropyLayer`.
    alpha
        Weight of the task's loss, in [0, 1]; 1 - alpha is that of log(1/IsoScore).
    balanced
        Whether each loss is scaled by its moving average (eq. 3); otherwise they are added as they are (eq. 2).
    corrected
        Whether the IsoScore of a batch is bias-corrected; the plain one has a ceiling of (B - 2)/(d - 1) in batches of B rows.
    smoothing, initial, detach, update
        The moving averages; see `Balance`.
    learning_rate
        Of AdamW, constant.
    batch_size
        Rows per batch, at least 3 (2 if not `corrected`).
    epochs
        Passes over the training rows at most.
    patience
        Passes without a better validation score before the training ends.
    """

    trains: Trains = "layer"
    depth: int = 1
    activation: Activation = "identity"
    bias: bool = True
    orthogonal: bool = False
    alpha: float = 0.5
    balanced: bool = True
    corrected: bool = True
    smoothing: float = 0.15
    initial: Literal["first", "ones"] = "first"
    detach: bool = True
    update: Literal["after", "before"] = "after"
    learning_rate: float = 1e-4
    batch_size: int = 128
    epochs: int = 100
    patience: int = 10

    def __post_init__(self) -> None:
        for name in ("depth", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        fewest = 3 if self.corrected else 2
        if self.batch_size < fewest:
            raise ValueError(
                f"batch_size={self.batch_size} must be at least {fewest} for the Isotropy Layer: "
                f"{'the corrected' if self.corrected else 'an'} IsoScore of fewer rows is not defined"
            )
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate={self.learning_rate} must be above 0")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha={self.alpha} must be in [0, 1]: 1 is the task's loss alone, 0 isotropy alone")
        if self.trains not in get_args(Trains):
            raise ValueError(f"trains={self.trains!r} must be one of {', '.join(get_args(Trains))}")

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> LayerSettings:
        """Settings from names and values, such as a user types them.

        Parameters
        ----------
        options
            Values by the name of their setting; what is not named has its default.

        Raises
        ------
        ValueError
            A name is not a setting of the layer; the message lists those there are.
        """
        names = [field.name for field in fields(cls)]
        unknown = next((name for name in options if name not in names), None)
        if unknown is not None:
            raise ValueError(f"the Isotropy Layer has no setting {unknown!r}; it has {', '.join(names)}")
        return cls(**options)

    @property
    def of_layer(self) -> dict[str, Any]:
        """The arguments of `IsotropyLayer`."""
        return self._values("depth", "bias", "activation", "orthogonal")

    @property
    def of_balance(self) -> dict[str, Any]:
        """The arguments of `Balance`."""
        return self._values("alpha", "smoothing", "balanced", "initial", "detach", "update")

    def _values(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    def summary(self) -> str:
        """The method as rows name it: "isolayer" and the settings that differ from their defaults."""
        changed = [field for field in fields(self) if getattr(self, field.name) != field.default]
        return " ".join(["isolayer", *(f"{field.name}={getattr(self, field.name)}" for field in changed)])
