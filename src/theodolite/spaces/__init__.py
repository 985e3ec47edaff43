"""Files of vectors: reading any of the usual formats as a `Source`, and writing results whole or not at all."""

from theodolite.spaces.read import read as read
from theodolite.spaces.write import write_vectors as write_vectors

__all__ = ["read", "write_vectors"]
