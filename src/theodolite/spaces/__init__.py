"""Spaces and files of vectors: the `Space` and its store, readers of the usual formats, and writing whole or not at all."""

from theodolite.spaces.read import read as read
from theodolite.spaces.space import Origin as Origin
from theodolite.spaces.space import Space as Space
from theodolite.spaces.space_folder import is_space as is_space
from theodolite.spaces.store import SpaceWriter as SpaceWriter
from theodolite.spaces.write import write_vectors as write_vectors

__all__ = ["Origin", "Space", "SpaceWriter", "is_space", "read", "write_vectors"]
