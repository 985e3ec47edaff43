"""The encoder a run starts from."""

from __future__ import annotations

from theodolite.models.encoder import Encoder
from theodolite.tuning.settings import TuneSettings


def load_encoder(settings: TuneSettings) -> Encoder:
    """The encoder in full precision, not yet on its device: trainers place it."""
    return Encoder.load(
        settings.model,
        revision=settings.revision,
        device="cpu",
        trust_remote_code=settings.trust_remote_code,
        max_length=settings.max_length,
    )
