"""FAISS indexes give back the vectors that were added, in the order of their ids."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite
from theodolite.core.vectors import array
from theodolite.repairs import Whiten
from theodolite.spaces import read

X = np.random.default_rng(0).standard_normal((400, 8)).astype(np.float32)
IDS = np.random.default_rng(1).permutation(4000)[:400]
faiss: Any = pytest.importorskip("faiss")


def saved(index: Any, path: Path, ids: Any = None) -> Path:
    if not index.is_trained:
        index.train(X)
    index.add(X) if ids is None else index.add_with_ids(X, ids)
    faiss.write_index(index, str(path))
    return path


@pytest.mark.parametrize("kind", ["Flat", "IVF8,Flat", "HNSW8,Flat", "IDMap,Flat", "IDMap2,Flat", "IVF8,SQfp16", "PCA8,Flat"])
@pytest.mark.parametrize("ending", [".faiss", ".index"])
def test_vectors_come_back_in_the_order_they_were_added(tmp_path: Path, kind: str, ending: str) -> None:
    index = faiss.index_factory(8, kind)
    source = read(saved(index, tmp_path / f"v{ending}", np.arange(400) if "IDMap" in kind else None))
    assert (source.n, source.d) == (400, 8)
    tolerance = 1e-2 if "fp16" in kind else 1e-5
    np.testing.assert_allclose(array(source), X, atol=tolerance)
    np.testing.assert_allclose(source.take(np.array([3, 250])), X[[3, 250]], atol=tolerance)


@pytest.mark.parametrize("kind", ["IVF8,Flat", "IDMap,Flat", "IDMap2,IVF8,Flat"])
def test_ids_of_ones_own_give_the_order(tmp_path: Path, kind: str) -> None:
    path = saved(faiss.index_factory(8, kind), tmp_path / "v.faiss", IDS)
    np.testing.assert_array_equal(array(read(path)), X[np.argsort(IDS)])


def test_a_quantised_index_gives_what_it_stores(tmp_path: Path) -> None:
    index = faiss.index_factory(8, "IVF4,PQ4x4")
    vectors = array(read(saved(index, tmp_path / "v.index")))
    expected = X[np.argsort(np.arange(400))]
    assert vectors.shape == X.shape and 0 < np.mean((vectors - expected) ** 2) < np.mean(expected**2)


@pytest.mark.parametrize("kind", ["IVF8,PQ4x4fs", "IDMap2,IVF8,PQ4x4fs", "PCA4,IVF8,PQ4x4fs"])
def test_an_index_that_packs_its_lists_is_refused_and_not_a_crash(tmp_path: Path, kind: str) -> None:
    path = saved(faiss.index_factory(8, kind), tmp_path / "v.faiss", np.arange(400) if "IDMap" in kind else None)
    with pytest.raises(ValueError, match=r"cannot reconstruct its vectors \(FastScan packs"):
        read(path)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ("PQ4x4", "IndexPQ, 16 bits for 8 numbers"),
        ("IVF8,SQ8", "IndexIVFScalarQuantizer, 72 bits for 8 numbers"),
        ("HNSW8,SQ8", "IndexScalarQuantizer, 64 bits for 8 numbers"),
        ("IDMap,PCA4,Flat", "PCAMatrix to 4 of 8 dimensions"),
        ("L2norm,Flat", "vectors of length 1"),
        ("IVF8,PQ4x4fs,RFlat", ""),  # the flat index beside the codes has the vectors
        ("RR8,Flat", ""),
        ("HNSW8,Flat", ""),
    ],
)
def test_a_result_says_what_an_index_lost(tmp_path: Path, kind: str, loss: str) -> None:
    path = saved(faiss.index_factory(8, kind), tmp_path / "v.faiss", np.arange(400) if "IDMap" in kind else None)
    result = theodolite.survey(path, metrics=["iso_score"], findings=False, progress=False)
    note = f"the index stores approximations ({loss}), so the numbers are for these, not for the original vectors"
    assert (note in result.notes) == bool(loss) == any("approximations" in each for each in result.notes)


@pytest.mark.slow
def test_every_verb_says_what_an_index_lost(tmp_path: Path) -> None:
    path = saved(faiss.index_factory(8, "PQ4x4"), tmp_path / "v.faiss")
    labels = ["a", "b"] * 200
    results = {
        "compare": theodolite.compare(path, path, metrics=["iso_score"], progress=False),
        "probe": theodolite.probe(path, labels=labels, progress=False),
        "advise": theodolite.advise(path, labels=labels, progress=False),
        "apply": theodolite.repair.apply(Whiten().fit(X), path, to=tmp_path / "to.npy", progress=False),
    }
    for verb, result in results.items():
        assert any("the index stores approximations (IndexPQ" in note for note in result.notes), verb


@pytest.mark.parametrize("kind", ["Flat", "IVF4,Flat", "HNSW8,Flat", "PQ4x4", "SQ8", "PCA4,Flat"])
def test_a_damaged_length_takes_no_memory(tmp_path: Path, kind: str) -> None:
    import resource

    raw = saved(faiss.index_factory(8, kind), tmp_path / "v.faiss").read_bytes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for place in range(300):
        (tmp_path / "v.faiss").write_bytes(raw[:place] + (2**28).to_bytes(4, "little") + raw[place + 4 :])
        with suppress(ValueError):
            read(tmp_path / "v.faiss")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


def test_empty_damaged_and_other_files_are_one_sentence(tmp_path: Path) -> None:
    faiss.write_index(faiss.IndexFlatL2(4), str(tmp_path / "empty.faiss"))
    with pytest.raises(ValueError, match="the index is empty"):
        read(tmp_path / "empty.faiss")
    (tmp_path / "no.index").write_bytes(b"not an index at all")
    with pytest.raises(ValueError, match="not a complete FAISS index"):
        read(tmp_path / "no.index")
    path = saved(faiss.IndexFlatL2(8), tmp_path / "cut.faiss")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="not a complete FAISS index"):
        read(path)
    binary = faiss.IndexBinaryFlat(16)
    binary.add(np.zeros((3, 2), np.uint8))
    faiss.write_index_binary(binary, str(tmp_path / "binary.faiss"))
    with pytest.raises(ValueError, match="not a complete FAISS index"):
        read(tmp_path / "binary.faiss")


def test_a_place_without_an_index_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "v.faiss").write_bytes(b"null")
    with pytest.raises(ValueError, match="holds no index"):
        read(tmp_path / "v.faiss")
    raw = saved(faiss.index_factory(8, "IDMap,Flat"), tmp_path / "v.faiss", IDS).read_bytes()
    inner = raw.index(b"IxF2")
    (tmp_path / "v.faiss").write_bytes(raw[:inner] + b"null" + raw[inner + 4 :])
    with pytest.raises(ValueError, match=r"cannot reconstruct its vectors|not a complete FAISS index"):
        read(tmp_path / "v.faiss")


def test_without_faiss_the_error_says_what_to_install(tmp_path: Path) -> None:
    saved(faiss.IndexFlatL2(8), tmp_path / "v.faiss")
    code = "import sys; sys.modules['faiss'] = None; from theodolite.spaces import read; read(sys.argv[1])"
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path / "v.faiss")], capture_output=True, text=True, check=False)
    assert "ImportError" in result.stderr and 'pip install "theodolite[faiss]"' in result.stderr
