"""From texts to vectors: encoders, every layer in one pass, and surveys that store no vectors. Needs the extra `models`."""

from theodolite.models.encoder import Encoder as Encoder
from theodolite.models.extraction import extract_space as extract_space

__all__ = ["Encoder", "extract_space"]
