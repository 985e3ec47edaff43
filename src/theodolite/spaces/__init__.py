"""Spaces and files of vectors: the `Space` and its folder, readers of the usual formats, and writers."""

from theodolite.spaces.folder import is_space
from theodolite.spaces.opening import read
from theodolite.spaces.space import Origin, Space
from theodolite.spaces.store import SpaceWriter
from theodolite.spaces.writers import write_vectors

__all__ = ["Origin", "Space", "SpaceWriter", "is_space", "read", "write_vectors"]
