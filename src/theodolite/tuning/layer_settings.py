"""How an Isotropy Layer is trained: what IL23 leaves open, decided and switchable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Trains: TypeAlias = Literal["layer", "alternate", "joint"]

TRAINS = "layer (alone), alternate (layer, then head, while the validation score rises) or joint (layer and head at once)"


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """The Isotropy Layer and its training (IL23). Encoder and head are frozen unless `trains` says that the head learns too.

    The loss is `alpha` times the task's and 1 - `alpha` times log(1/IsoScore) of the batch, each scaled by its moving average
    (`balanced`, eq. 3, with `smoothing` s). The paper names no value for the rest, so these are ours: AdamW with a constant
    `learning_rate` and no decay (which would pull the map to zero, not to the identity); batches of `batch_size` rows; at most
    `epochs` passes, ended by `patience` passes without a better score on the validation rows. The pass with the best score is
    kept, of equal ones that with the higher IsoScore there. The untrained layer is no candidate: it would often win by a hair.

    `corrected` takes the IsoScore that has no ceiling in small batches. `initial`, `detach` and `update` are the choices that
    `Balance` explains, `depth`, `activation`, `bias` and `orthogonal` those of `IsotropyLayer`.
    """

    trains: Trains = "layer"
    depth: int = 1
    activation: Literal["identity", "relu", "tanh", "gelu"] = "identity"
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
            raise ValueError(f"alpha={self.alpha} must lie in [0, 1]: 1 is the task's loss alone, 0 isotropy alone")
        if self.trains not in ("layer", "alternate", "joint"):
            raise ValueError(f"trains={self.trains!r} must be {TRAINS}")

    def of_layer(self) -> dict[str, Any]:
        """What `IsotropyLayer` takes."""
        return {name: getattr(self, name) for name in ("depth", "bias", "activation", "orthogonal")}

    def of_balance(self) -> dict[str, Any]:
        """What `Balance` takes."""
        return {name: getattr(self, name) for name in ("alpha", "smoothing", "balanced", "initial", "detach", "update")}
