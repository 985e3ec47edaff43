"""What models and data are, apart from where they lie: hashes that decide whether a step has been done."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.core.files import sha256_of
from theodolite.tasks.examples import Examples

TELLING = (".json", ".safetensors", ".bin", ".txt", ".model", ".h5", ".msgpack")
"""Endings of the files that make an encoder what it is."""


@dataclass(frozen=True)
class Model:
    """An encoder of a study: the `name` that rows carry, the `place` it is loaded from, the hash of its files, its last layer."""

    name: str
    place: str
    weights: str
    last: int

    @property
    def key(self) -> dict[str, str]:
        """What decides results: the files, and the name they are told under."""
        return {"name": self.name, "weights": self.weights}


def identify(model: str) -> Model:
    """The model of a hub id or a folder; "demo" is the encoder of the extra of that name."""
    from theodolite.models.locate import find, last_layer

    name = ""
    if model == "demo":
        from theodolite.models.demo import NAME, demo_folder

        model, name = str(demo_folder()), NAME
    found = find(model, revision=None)
    weights = _files(Path(found.place)) if found.is_folder else found.revision or ""
    return Model(name or found.name, found.place, weights, last_layer(found))


def data_hash(examples: Examples) -> str:
    """SHA-256 of the examples themselves, whatever file they came from."""
    digest = hashlib.sha256()
    for part in (
        examples.texts,
        examples.second,
        examples.words,
        examples.labels,
        _listed(examples.scores),
        _listed(examples.places),
    ):
        digest.update(repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _files(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in TELLING and path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()} {sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _listed(values: Any) -> Any:
    return None if values is None else values.tolist()
