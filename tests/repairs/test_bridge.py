"""The bridge between two models: exact where an exact map exists, equal to plain oracles elsewhere, shipped like any repair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from sklearn.linear_model import Ridge

import theodolite as th
from theodolite.core.vectors import Floats
from theodolite.repairs import Bridge, load_repair
from theodolite.repairs.bridge import PENALTIES


def cloud(n: int, d: int, seed: int = 0) -> Floats:
    random = np.random.default_rng(seed)
    return random.standard_normal((n, d)) * np.linspace(1, 3, d) + 4 * random.standard_normal(d)


def turned(X: Floats, d: int, seed: int = 1) -> Floats:
    """A rotated, scaled and shifted copy, with further dimensions of zeros in between if d is larger."""
    random = np.random.default_rng(seed)
    Q = np.linalg.qr(random.standard_normal((d, d)))[0][: X.shape[1]]
    return 2.5 * X @ Q + random.standard_normal(d)


@pytest.mark.parametrize("map", ["procrustes", "ridge"])
@pytest.mark.parametrize("d", [8, 13])
def test_a_rotated_scaled_and_shifted_copy_is_reached_from_unseen_rows(map: str, d: int) -> None:
    X = cloud(300, 8)
    Y = turned(X, d)
    bridge = Bridge(map=map).fit_to(X[:100], Y[:100])
    # A ridge shrinks, by no more than its smallest penalty.
    assert np.abs(bridge.transform(X[100:]) - Y[100:]).max() < (1e-9 if map == "procrustes" else 1e-4)
    back = Bridge(map=map).fit_to(Y[:100], X[:100])
    assert np.abs(back.transform(Y[100:]) - X[100:]).max() < (1e-9 if map == "procrustes" else 1e-4)


def test_a_ridge_reaches_any_linear_map_and_a_rotation_does_not() -> None:
    X = cloud(300, 8)
    Y = X @ np.random.default_rng(3).standard_normal((8, 5)) + 1
    far = {}
    for map in ("procrustes", "ridge"):
        far[map] = np.abs(Bridge(map=map).fit_to(X[:100], Y[:100]).transform(X[100:]) - Y[100:]).max()
    assert far["ridge"] < 1e-3
    assert far["procrustes"] > 1


def test_procrustes_is_the_rotation_of_scipy() -> None:
    X = cloud(200, 6)
    Y = turned(X, 6) + np.random.default_rng(5).standard_normal((200, 6))
    A, B = X - X.mean(axis=0), Y - Y.mean(axis=0)
    R, total = orthogonal_procrustes(A, B)
    bridge = Bridge().fit_to(X, Y)
    assert bridge.kernel_ == pytest.approx(total / np.square(A).sum() * R)
    assert bridge.transform(X[:3]) == pytest.approx((X[:3] - X.mean(axis=0)) @ bridge.kernel_ + Y.mean(axis=0))


def test_the_ridge_has_the_smallest_error_of_generalised_cross_validation() -> None:
    X = cloud(40, 30)
    Y = X @ np.random.default_rng(3).standard_normal((30, 4)) + 8 * np.random.default_rng(4).standard_normal((40, 4))
    A = X - X.mean(axis=0)
    kernels, errors = [], []
    for share in PENALTIES:
        penalty = share * np.square(A).sum() / 30
        model = Ridge(alpha=penalty).fit(X, Y)
        hat = A @ np.linalg.solve(A.T @ A + penalty * np.eye(30), A.T)
        residual = np.square(Y - model.predict(X)).sum()
        kernels.append(model.coef_.T)
        errors.append(residual / (1 - (1 + np.trace(hat)) / 40) ** 2)
    best = int(np.argmin(errors))
    assert 0 < best < len(PENALTIES) - 1, "the noise must make a penalty worth having"
    assert Bridge("ridge").fit_to(X, Y).kernel_ == pytest.approx(kernels[best], rel=1e-6, abs=1e-9)


def test_what_few_rows_do_not_show_is_dropped_not_turned_at_random() -> None:
    X, Y = cloud(10, 20), cloud(10, 20, seed=1)
    kernel = Bridge().fit_to(X, Y).kernel_
    assert np.linalg.matrix_rank(kernel, tol=1e-8) == 9
    unseen = np.linalg.svd(X - X.mean(axis=0))[2][9:]  # directions in which no row varies
    assert np.abs(unseen @ kernel).max() < 1e-8


def test_fit_alone_leaves_vectors_as_they_are() -> None:
    X = cloud(50, 6)
    assert Bridge().fit(X).transform(X) == pytest.approx(X)


def test_wrong_input_is_one_sentence() -> None:
    X = cloud(20, 3)
    with pytest.raises(ValueError, match=r"20 rows to map and 19 to map them to; a bridge needs the same texts"):
        Bridge().fit_to(X, X[:19])
    with pytest.raises(ValueError, match="map='spline' must be one of procrustes, ridge"):
        Bridge("spline").fit_to(X, X)


@pytest.mark.parametrize("ending", ["", ".onnx", ".faiss"])
@pytest.mark.parametrize("map", ["procrustes", "ridge"])
def test_a_map_between_different_dimensions_is_saved_applied_and_exported(tmp_path: Path, map: str, ending: str) -> None:
    pytest.importorskip({".onnx": "onnx", ".faiss": "faiss"}.get(ending, "numpy"))
    X = cloud(300, 8).astype(np.float32)
    Y = turned(X, 13).astype(np.float32)
    np.save(tmp_path / "old.npy", X)
    np.save(tmp_path / "new.npy", Y)
    files = {"target": tmp_path / "new.npy", "to": tmp_path / "bridge"}
    fitted = th.repair.fit("bridge", tmp_path / "old.npy", settings={"map": map}, **files)
    assert load_repair(tmp_path / "bridge").transform(X).tobytes() == fitted.transform(X).tobytes()
    th.repair.apply(tmp_path / "bridge", tmp_path / "old.npy", to=tmp_path / "mapped.npy")
    assert np.load(tmp_path / "mapped.npy") == pytest.approx(Y, abs=1e-2)
    result = th.repair.export(tmp_path / "bridge", to=tmp_path / f"map{ending}")
    assert result.answer is not None
    assert result.answer.verdict == "self-test passed"
    assert "8 → 13 dimensions" in result.title


def test_rows_are_matched_by_id_and_the_source_may_have_more(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    X = cloud(60, 5)
    Y, order = turned(X, 5), np.random.default_rng(9).permutation(60)[:30]

    def write(name: str, rows: Any, ids: list[str]) -> Path:
        parquet.write_table(pyarrow.table({"id": ids, "embedding": list(rows)}), tmp_path / name)
        return tmp_path / name

    old = write("old.parquet", X, [f"d{i}" for i in range(60)])
    new = write("new.parquet", Y[order], [f"d{i}" for i in order])
    assert th.repair.fit("bridge", old, target=new).transform(X) == pytest.approx(Y)
    other = write("other.parquet", Y[:3], ["d0", "d1", "x"])
    with pytest.raises(ValueError, match=r"1 of 3 rows of other.parquet are not in old.parquet, such as 'x'"):
        th.repair.fit("bridge", old, target=other)
    with pytest.raises(ValueError, match=r"needs vectors of the model to map to: target=FILE"):
        th.repair.fit("bridge", old)
    with pytest.raises(ValueError, match=r"the repair 'bridge', and no other"):
        th.repair.fit("global", old, target=new)
