"""From texts to vectors: encoders, every layer in one pass, and surveys that keep no vectors. Needs the extra `models`."""

from theodolite.models.demo import demo_encoder as demo_encoder
from theodolite.models.encoder import Encoder as Encoder
from theodolite.models.extract import extract as extract
from theodolite.models.inputs import Unit as Unit
from theodolite.models.stream import survey_layers as survey_layers

__all__ = ["Encoder", "Unit", "demo_encoder", "extract", "survey_layers"]
