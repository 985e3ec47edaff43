"""Real vectors for demonstrations: the token table that the optional package wordllama carries in its wheel."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from theodolite.core.vectors import Floats, array
from theodolite.spaces.read import read

SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"


def demo_vectors() -> Floats:
    """32,000 token vectors in 256 dimensions (wordllama's l2_supercat, MIT), as float32."""
    return array(read(demo_file()))


def demo_file() -> Path:
    """The file that holds them, its hash checked. wordllama itself is not imported: its dependencies are heavy."""
    found = importlib.util.find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise ImportError('the demo vectors come with the package wordllama; get it with: pip install "theodolite[demo]"')
    path = Path(found.submodule_search_locations[0]) / "weights" / "l2_supercat_256.safetensors"
    if not path.exists():
        raise FileNotFoundError(
            f"wordllama is installed without {path.name}; get the release that has it with: pip install wordllama==0.4.0.post1"
        )
    found_hash = hashlib.sha256(path.read_bytes()).hexdigest()
    if found_hash != SHA256:
        raise ValueError(
            f"{path} has the hash {found_hash[:16]}…, not {SHA256[:16]}…, so its vectors are not the ones the demo describes; "
            "install wordllama==0.4.0.post1"
        )
    return path
