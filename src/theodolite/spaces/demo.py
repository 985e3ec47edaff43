"""Real vectors for demonstrations: the token table that the optional package wordllama carries in its wheel."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from theodolite.core.files import sha256_of
from theodolite.core.vectors import Floats, array
from theodolite.spaces.opening import read

SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"


def demo_vectors() -> Floats:
    """32,000 token vectors in 256 dimensions (wordllama's l2_supercat, MIT), as float32."""
    return array(read(demo_file()))


def demo_file() -> Path:
    """The file that holds them, its hash checked. wordllama itself is not imported: its dependencies are heavy."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError('the demo vectors come with the package wordllama; install it with: pip install "theodolite[demo]"')
    path = Path(spec.submodule_search_locations[0]) / "weights" / "l2_supercat_256.safetensors"
    if not path.exists():
        raise FileNotFoundError(
            f"wordllama is installed without {path.name}; get the release that has it: pip install wordllama==0.4.0.post1"
        )
    # The numbers in the documentation hold for these vectors only.
    digest = sha256_of(path)
    if digest != SHA256:
        raise ValueError(
            f"{path} has the hash {digest[:16]}…, not {SHA256[:16]}…, so its vectors are not those that the demo describes; "
            "install wordllama==0.4.0.post1"
        )
    return path
