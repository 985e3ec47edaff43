"""Correspondence: every relation on copies that were made by it, and none between unrelated rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from theodolite.probes import correspondence, kept_structure

N, D = 400, 32
RANDOM = np.random.default_rng(0)
SPREAD = RANDOM.standard_normal((D, D)) * np.linspace(2, 0.2, D) / np.sqrt(D)
X = (RANDOM.standard_normal((N, D)) @ SPREAD + 0.3).astype(np.float32)
Q = np.linalg.qr(RANDOM.standard_normal((D, D)))[0]
OTHER = (RANDOM.standard_normal((N, D)) @ np.roll(SPREAD, 3)).astype(np.float32)
ROW, COLUMN, FILE = (np.abs(X).max(axis=axis, keepdims=True) / 127 for axis in (1, 0, None))
RANGE = (X.max(axis=0) - X.min(axis=0)) / 255


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def noise(share: float) -> np.ndarray:
    """Differences of up to that share of the largest entry, as float32 gives the same texts in other batches."""
    return (share * np.abs(X).max() * np.random.default_rng(5).uniform(-1, 1, X.shape)).astype(np.float32)


def truncated(rows: np.ndarray) -> np.ndarray:
    return (rows.view(np.uint32) & 0xFFFF0000).view(np.float32)


def mixed(copy: np.ndarray, share: float) -> np.ndarray:
    rows = copy.copy()
    rows[: round(share * N)] = OTHER[: round(share * N), : copy.shape[1]]
    return rows


MADE: dict[str, tuple[np.ndarray, str, str]] = {
    "itself": (X, "identical", ""),
    "rounding of float32": (X * np.float32(1 + 2e-7), "identical", ""),
    "other batches": (X + noise(3e-6), "same up to precision", "float32 arithmetic"),
    "float16 in other batches": ((X + noise(3e-6)).astype(np.float16), "same up to precision", "float16"),
    "bfloat16 in other batches": (truncated(X + noise(3e-6)), "same up to precision", "bfloat16"),
    "float16": (X.astype(np.float16), "same up to precision", "float16"),
    "bfloat16": (truncated(X), "same up to precision", "bfloat16"),
    "three decimals": (X.round(3), "same up to precision", "3 decimals"),
    "four digits": (np.array([[float(f"{v:.4g}") for v in row] for row in X]), "same up to precision", "4 significant digits"),
    "int8 by row": (np.round(X / ROW) * ROW, "same up to precision", "int8, one step per row"),
    "codes by row": (np.round(X / ROW).astype(np.int8), "same up to precision", "int8, one step per row"),
    "int8 by column": (np.round(X / COLUMN) * COLUMN, "same up to precision", "int8, one step per column"),
    "cut codes by column": (((X - X.min(0)) / RANGE - 128).astype(np.int8), "same up to precision", "int8, one step per column"),
    "codes by file": (np.round(X / FILE).astype(np.int8), "same up to precision", "int8, one step per file"),
    "int4 by column": (np.round(X / COLUMN / 127 * 7 * 127 / 127), "same up to precision", "int4, one step per column"),
    "signs": (np.where(X > 0, 1, -1), "same up to precision", "binary"),
    "bits": (np.packbits(X > 0, axis=1), "same up to precision", "binary, eight dimensions to a byte"),
    "scaled": (3 * X, "same up to length", ""),
    "normalised": (unit(X), "same up to length", ""),
    "another runtime": (X + 0.03 * RANDOM.standard_normal(X.shape), "nearly the same", ""),
    "truncated": (X[:, :16], "first dimensions", "first 16 of 32 dimensions"),
    "truncated and normalised": (unit(X[:, :16]), "first dimensions", "first 16 of 32 dimensions, same up to length"),
    "rotated": (X @ Q, "turned", ""),
    "rotated, shifted, scaled": (2 * X @ Q - 5, "turned", "scaled by 2, with a shift"),
    "rotated and scaled": (X @ Q / 3, "turned", "scaled by 0.333"),
    "scaled and shifted": (3 * X + 1, "turned", "scaled by 3, a shift without rotation"),
    "shifted": (X + 1, "turned", "a shift without rotation"),
    "rotated, then int8": (np.round(X @ Q / FILE) * FILE, "turned", "up to int8"),
    "normalised and rotated": (unit(X) @ Q, "turned", "up to length"),
    "linear map": (X @ RANDOM.standard_normal((D, D)), "linear map", "in both directions"),
    "projection": (X @ RANDOM.standard_normal((D, 12)), "linear map", "from A to B"),
    "10 % re-embedded": (mixed(X, 0.1), "partly re-embedded", "identical"),
    "90 % re-embedded": (mixed(X, 0.9), "partly re-embedded", "identical"),
    "10 % of a float16 copy": (
        mixed(X.astype(np.float16), 0.1).astype(np.float32),
        "partly re-embedded",
        "same up to precision (float16)",
    ),
    "10 % of a rotated copy": (mixed(X @ Q, 0.1), "partly re-embedded", "turned"),
    "shuffled": (X[RANDOM.permutation(N)], "different", ""),
    "other vectors": (OTHER, "different", ""),
    "the same population again": (
        (RANDOM.standard_normal((N, D)) @ SPREAD + 0.3).astype(np.float32),
        "different",
        "",
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_copy_is_called_what_it_is(name: str) -> None:
    B, verdict, detail = MADE[name]
    relation = correspondence(X, B)
    assert (relation.verdict, relation.detail) == (verdict, detail)
    assert relation.n == N


def test_rows_that_do_not_fit_are_listed() -> None:
    for copy in (X, X @ Q, X / 3):
        relation = correspondence(X, mixed(copy, 0.1))
        assert relation.outliers == tuple(range(40)) and relation.share == 0.9
    few = correspondence(X, mixed(X, 0.005))  # 99 % of the rows make it identical
    assert (few.verdict, few.outliers) == ("identical", (0, 1))


def test_the_rounded_side_is_named_in_both_orders() -> None:
    rounded = X.astype(np.float16)
    assert (correspondence(X, rounded).side, correspondence(rounded, X).side) == ("B", "A")
    assert correspondence(X[:, :9], X).side == "A"


def test_64_rows_in_many_dimensions_show_a_rotation_and_too_few_rows_no_linear_map() -> None:
    wide = RANDOM.standard_normal((64, 300))
    turn = np.linalg.qr(RANDOM.standard_normal((300, 300)))[0]
    assert correspondence(wide, wide @ turn).verdict == "turned"
    mapped = correspondence(wide, wide @ RANDOM.standard_normal((300, 300)))
    assert mapped.verdict == "different" and mapped.detail.startswith("too few rows to look for a linear map in 300 dimensions")


def test_unrelated_rows_that_all_point_one_way_are_not_nearly_the_same() -> None:
    far = RANDOM.standard_normal((N, D)) + 30
    assert correspondence(far, far[::-1]).verdict == "different"
    assert correspondence(far, far + 0.1 * RANDOM.standard_normal(far.shape)).verdict == "nearly the same"


def test_different_numbers_of_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="400 and 399 rows"):
        correspondence(X, X[1:])


@pytest.mark.parametrize(("copy", "kept"), [(lambda: X @ Q, 1.0), (lambda: OTHER, None)])
def test_a_rotation_keeps_neighbours_and_unrelated_rows_keep_what_chance_gives(
    copy: Callable[[], np.ndarray], kept: float | None
) -> None:
    structure = kept_structure(X, copy())
    assert structure.chance == pytest.approx(10 / 399)
    if kept is not None:
        assert structure.neighbours > 0.99 and structure.cka.calibrated == pytest.approx(1, abs=1e-6)
        assert structure.cka.p == pytest.approx(1 / 201)
        for _, a, b in structure.thresholds:
            assert a == pytest.approx(b, abs=1e-4)
    else:
        assert structure.low is not None and structure.high is not None
        assert structure.low - 0.01 <= structure.chance <= structure.high + 0.01
        assert abs(structure.cka.calibrated) < 0.05 and structure.cka.p > 0.01


def test_the_share_of_pairs_above_a_translated_cutoff_is_the_same() -> None:
    B = unit(X) + 0.4
    share, a, b = kept_structure(X, B).thresholds[0]
    pairs = np.triu_indices(N, 1)
    above = [((unit(side) @ unit(side).T)[pairs] > cutoff).mean() for side, cutoff in ((X, a), (B, b))]
    assert share == 0.1 and above == pytest.approx([0.1, 0.1], abs=0.01)


def test_cka_by_chance_has_uniform_p() -> None:
    p = [kept_structure(RANDOM.standard_normal((60, 4)), RANDOM.standard_normal((60, 5)), seed=i).cka.p for i in range(40)]
    assert np.count_nonzero(np.array(p) <= 0.05) <= 6 and 10 <= np.count_nonzero(np.array(p) <= 0.5) <= 30
