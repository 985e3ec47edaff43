"""Extraction into a folder: the same vectors, and nothing encoded twice after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("transformers", reason="the extra `models` is not installed")

from theodolite.models import extract as package_extract
from theodolite.models.encoder import Encoder
from theodolite.models.extract import extract
from theodolite.spaces.space import Origin, Space

Tiny = Callable[[str], Path]

TEXTS = [f"the cat {'sat on ' * (i % 7)} {i}" for i in range(60)]

KILLED = """
import os, signal, sys
from theodolite.models import Encoder, extract
sys.modules["theodolite.models.extract"].PART_BYTES = 4000
texts = [f"the cat {'sat on ' * (i % 7)} {i}" for i in range(60)]
def progress(done, total):
    if done >= total // 2:
        os.kill(os.getpid(), signal.SIGKILL)
extract(Encoder.load(sys.argv[1]), texts, unit="tokens", to=sys.argv[2], batch_size=4, progress=progress)
"""


def kill_halfway(model: Path, target: Path) -> None:
    run = [sys.executable, "-c", KILLED, str(model), str(target)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(run, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["theodolite.models.extract"], "PART_BYTES", 4000)


@pytest.mark.parametrize("unit", ["mean", "tokens", "words"])
def test_stored_and_in_memory_are_the_same(unit: Any, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    encoder = Encoder.load(tiny("bert"))
    origin = Origin(state="pre-trained", step=0)
    held = extract(encoder, TEXTS, unit=unit, batch_size=4, origin=origin)
    stored = extract(encoder, TEXTS, unit=unit, batch_size=4, to=tmp_path / "space", origin=origin)
    opened = Space.open(tmp_path / "space")
    for space in (stored, opened):
        assert space.layers == held.layers and all(np.array_equal(space[layer], held[layer]) for layer in held.layers)
        assert {name: list(column) for name, column in space.rows.items()} == {n: list(c) for n, c in held.rows.items()}
        assert space.origin == held.origin
    assert held.origin.model == "tiny-bert" and held.origin.pooling == unit and "torch" in held.origin.versions
    assert held.origin.state == "pre-trained" and held.origin.step == 0


def test_a_killed_extraction_goes_on_where_it_stopped(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    target = tmp_path / "space"
    kill_halfway(tiny("bert"), target)
    assert not target.exists()
    forward, seen = Encoder.hidden_states, []

    def counted(self: Encoder, ids: Any, mask: Any, types: Any = None) -> Any:
        seen.append(len(ids))
        return forward(self, ids, mask, types)

    monkeypatch.setattr(Encoder, "hidden_states", counted)
    encoder = Encoder.load(tiny("bert"))
    space = extract(encoder, TEXTS, unit="tokens", to=target, batch_size=4)
    assert 0 < sum(seen) <= len(TEXTS) // 2
    want = extract(encoder, TEXTS, unit="tokens", batch_size=4)
    assert all(space[layer] == pytest.approx(want[layer], abs=1e-6) for layer in want.layers)


def test_another_encoder_does_not_continue_it(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    target = tmp_path / "space"
    kill_halfway(tiny("bert"), target)
    encoder = Encoder.load(tiny("distilbert"), name="tiny-bert")  # the same name, layers and width
    space = extract(encoder, TEXTS, unit="tokens", to=target, batch_size=4)
    want = extract(encoder, TEXTS, unit="tokens", batch_size=4)
    assert np.array_equal(space[2], want[2])


def test_a_space_is_not_overwritten_unasked(tiny: Tiny, tmp_path: Path) -> None:
    encoder = Encoder.load(tiny("bert"))
    extract(encoder, TEXTS[:4], to=tmp_path / "space")
    with pytest.raises(FileExistsError, match="overwrite"):
        extract(encoder, TEXTS[:5], to=tmp_path / "space")
    assert extract(encoder, TEXTS[:5], to=tmp_path / "space", overwrite=True).n == 5
    assert Path(tmp_path / "space").is_dir() and package_extract is extract
