"""`compare`: before, after and the difference, of clouds and of layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import theodolite as th
from theodolite.metrics import iso_score
from theodolite.spaces import Origin, Space

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((300, 8)).astype(np.float32)
Y = (X * np.linspace(1, 3, 8) + 1).astype(np.float32)
TURN = np.linalg.qr(np.random.default_rng(1).standard_normal((8, 8)))[0]


def test_the_difference_is_after_minus_before() -> None:
    result = th.compare(X, Y, metrics=["iso_score"], bootstrap=30)
    assert [row.state for row in result] == ["before", "after", "difference"]
    assert result.value("iso_score", state="difference") == iso_score(Y) - iso_score(X)
    assert result[2].high < 0  # type: ignore[operator]


def test_a_cloud_does_not_differ_from_itself() -> None:
    result = th.compare(X, X, metrics=["iso_score", "mean_cosine"], bootstrap=30)
    assert all(row.value == 0 and row.low == row.high == 0 for row in result if row.state == "difference")


def test_equal_numbers_of_rows_are_not_pairing() -> None:
    again = RANDOM.standard_normal((300, 8)).astype(np.float32)
    result = th.compare(X, again, metrics=["ev_1"], bootstrap=20)
    assert result.provenance["paired"] is False and result.answer.verdict == "no shift found"  # type: ignore[union-attr]
    assert "a linear classifier cannot tell their rows apart" in result.answer.sentence  # type: ignore[union-attr]
    assert result.answer.next[0].words == "th.compare(A, B, paired=True)"  # type: ignore[union-attr]
    declared = th.compare(X, again, metrics=["ev_1"], bootstrap=20, paired=True)
    assert declared.provenance["paired_by"] == "declared" and declared.answer.verdict == "different"  # type: ignore[union-attr]
    assert declared.answer.next[0].words == "th.compare(A, B, paired=True).report('compare.html')"  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"300 rows and B 100.*leave out paired=True to compare two samples"):
        th.compare(X, Y[:100], metrics=["ev_1"], paired=True)


def test_a_relation_that_chance_cannot_give_pairs_the_rows() -> None:
    turn = np.linalg.qr(RANDOM.standard_normal((8, 8)))[0]
    result = th.compare(X, X @ turn, metrics=["iso_score", "mean_norm"], bootstrap=20)
    assert result.provenance["paired_by"] == "vectors" and result.answer is not None
    assert result.answer.sentence == (
        "B is A rotated: every rotation-invariant number is equal, but the two still cannot be searched together."
    )
    assert "0 of 2 metrics differ (*); about 0.1 would differ by chance alone." in result.answer.reasons
    assert th.compare(X, X @ turn, paired=False, metrics=["ev_1"]).answer.verdict == "no shift found"  # type: ignore[union-attr]


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("copy", "words", "equal", "cosine", "distance"),
    [
        (X @ TURN, "rotated", "every rotation-invariant number is equal", 0, 1),
        (3 * X @ TURN, "rotated and scaled by 3", "cosines are equal, distances are 3 times as large", 0, 3),
        (X @ TURN + 5, "rotated and shifted", "distances are equal, cosines are not", 1, 1),
        (3 * X @ TURN + 5, "rotated, scaled by 3 and shifted", "distances are 3 times as large, and cosines differ", 1, 3),
        (X + 5, "shifted by one vector", "distances are equal, cosines are not", 1, 1),
        (X / 2 + 5, "scaled by 0.5 and shifted by one vector", "distances are 0.5 times as large, and cosines differ", 1, 0.5),
        (unit(X) @ TURN, "rotated up to length", "cosines are equal, distances are not", 0, None),
    ],
)
def test_what_is_said_to_be_equal_between_turned_rows_is(
    copy: np.ndarray, words: str, equal: str, cosine: float, distance: float | None
) -> None:
    answer = th.compare(X, copy, metrics=["ev_1"], bootstrap=0).answer
    assert answer is not None and answer.verdict == "turned"
    assert answer.sentence == f"B is A {words}: {equal}, but the two still cannot be searched together."
    cosines, distances = ([function(side) for side in (X, copy)] for function in (lambda rows: unit(rows) @ unit(rows).T, pdist))
    assert (np.abs(cosines[0] - cosines[1]).max() > 0.05) == bool(cosine)
    ratios = distances[1] / distances[0]
    assert ratios == pytest.approx(distance, rel=1e-4) if distance else ratios.std() > 0.05


def test_a_linear_map_that_too_few_rows_could_show_is_not_ruled_out() -> None:
    few = X[:9]
    answer = th.compare(few, few @ RANDOM.standard_normal((8, 8)), paired=True, metrics=["ev_1"], bootstrap=0).answer
    assert answer is not None and answer.verdict == "different"
    assert "(too few rows to look for a linear map in 8 dimensions: 9)" in answer.sentence


def test_the_first_dimensions_are_named_in_a_sentence() -> None:
    for copy, words in ((X[:, :4], "4 of 8 dimensions"), (unit(X[:, :4]), "4 of 8 dimensions, same up to length")):
        answer = th.compare(X, copy, metrics=["ev_1"], bootstrap=0).answer
        assert answer is not None and answer.sentence.startswith(f"B is A cut to the first {words}; ")


@pytest.mark.parametrize(
    ("copy", "sentence"),
    [
        (X, "A and B are identical in all 300 rows."),
        (X.astype(np.float16), "B is A rounded to float16; 100% of nearest neighbours are kept."),
        (2 * X, "B is A with different row lengths: cosines are equal, distances and dot products are not."),
        (
            np.r_[Y[:30], X[30:]],
            "10% of the rows were re-embedded (30 of 300: rows 0, 1, 2, 3, 4, …); the other 270 are identical.",
        ),
    ],
)
def test_the_sentence_is_the_conclusion(copy: np.ndarray, sentence: str) -> None:
    result = th.compare(X, copy, metrics=["ev_1"], bootstrap=0)
    assert result.answer is not None and result.answer.sentence.replace("99.9%", "100%") == sentence


def test_a_collapse_leads_the_answer() -> None:
    B = RANDOM.standard_normal((300, 8)) * [3, 1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
    result = th.compare(X, B, paired=True, metrics=["effective_rank"])
    assert result.answer is not None and result.answer.sentence.startswith("B collapsed from 8 to 1 effective dimensions; ")
    result = th.compare(Space.of({0: X, 1: X}), Space.of({0: X, 1: B}), paired=True, metrics=["effective_rank"])
    assert result.answer.sentence.startswith("The last layer collapsed from 8 to 1")  # type: ignore[union-attr]


def test_a_shifted_sample_names_the_rows_that_are_most_unlike() -> None:
    B = RANDOM.standard_normal((200, 8))
    B[:40] += 3
    result = th.compare(X, B, metrics=["ev_1"], bootstrap=20)
    assert result.answer is not None and result.answer.verdict == "shifted"
    assert set(result.provenance["shift"]["unlike_b"]) <= set(range(40))


def test_rows_are_paired_by_their_texts_in_any_order() -> None:
    texts = [f"text {i}" for i in range(300)]
    order = RANDOM.permutation(300)
    A, B = Space.of({3: X}, rows={"sentence": texts}), Space.of({3: X[order]}, rows={"sentence": [texts[i] for i in order]})
    result = th.compare(A, B, metrics=["iso_score"], bootstrap=20)
    assert result.answer is not None and result.answer.verdict == "identical"
    assert result.provenance["paired_by"] == "texts" and result.value("iso_score", state="difference") == pytest.approx(0)
    some = Space.of({3: X[:120]}, rows={"sentence": texts[:120]})
    partly = th.compare(A, some, metrics=["iso_score"], bootstrap=20)
    assert partly.answer.verdict == "identical"  # type: ignore[union-attr]
    assert "180 rows that only A has are left out" in partly.conditions


def test_rows_of_files_are_paired_by_their_ids(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [f"d{i}" for i in range(300)], **{f"x{j}": X[:, j] for j in range(8)}})
    order = RANDOM.permutation(300)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.iloc[order].to_csv(tmp_path / "b.csv", index=False)
    columns = [f"x{j}" for j in range(8)]
    result = th.compare(tmp_path / "a.csv", tmp_path / "b.csv", columns=columns, metrics=["ev_1"], bootstrap=20)
    assert result.provenance["paired_by"] == "ids" and result.answer.verdict == "identical"  # type: ignore[union-attr]


def test_tokens_are_halved_by_text() -> None:
    rows = {"text": np.repeat(np.arange(60), 5).tolist(), "position": list(range(5)) * 60, "token": ["a"] * 300}
    A = Space.of({0: X}, rows=rows, origin=Origin(pooling="tokens"))
    result = th.compare(A, Space.of({0: Y}, rows=rows, origin=Origin(pooling="tokens")), metrics=["ev_1"])
    assert result.provenance["paired_by"] == "tokens"
    assert "intervals resample whole texts (60 in all)" in result.conditions


def test_layers_are_compared_one_by_one() -> None:
    result = th.compare(Space.of({0: X, 1: X}), Space.of({0: X, 1: Y}), metrics=["iso_score"])
    changes = result.where(state="difference")
    assert [row.layer for row in changes] == [0, 1]
    assert changes[0].value == 0 and changes[1].value == iso_score(Y) - iso_score(X)
    assert changes[0].low is None and changes[1].low is not None  # by default, intervals are those of the last layer
    every = th.compare(Space.of({0: X, 1: X}), Space.of({0: X, 1: Y}), metrics=["ev_1"], bootstrap=20)
    assert all(row.low is not None for row in every.where(state="difference"))


def test_a_space_and_vectors_give_the_same_sentence_in_both_orders(tmp_path: Path) -> None:
    space = Space.of({0: X, 1: Y})
    np.save(tmp_path / "v.npy", Y)
    for pair in ((space, tmp_path / "v.npy"), (tmp_path / "v.npy", space)):
        with pytest.raises(ValueError, match=r"one input has several layers.*choose one layer with layers='last'"):
            th.compare(*pair)
    result = th.compare(space, tmp_path / "v.npy", layers="last", metrics=["iso_score"], bootstrap=20)
    assert result.value("iso_score", state="difference") == 0
    assert th.compare(tmp_path / "v.npy", Space.of({3: Y}), metrics=["iso_score"], bootstrap=20)[2].value == 0


def test_two_encoders_read_the_same_texts(tiny: Any, vector_texts: list[str]) -> None:
    result = th.compare(tiny("bert"), tiny("bert"), texts=vector_texts, metrics=["mean_cosine"])
    assert {row.value for row in result if row.state == "difference"} == {0.0}
    assert len(result.pictures) == 2


def test_an_encoder_and_a_file_each_take_their_own_options(tiny: Any, vector_texts: list[str], tmp_path: Path) -> None:
    vectors = th.extract(tiny("bert"), vector_texts, layers="last")[-1]
    np.savez(tmp_path / "v.npz", a=vectors, b=vectors[:2])
    result = th.compare(
        tiny("bert"), tmp_path / "v.npz", texts=vector_texts, key="a", layers="last", metrics=["mean_cosine"], bootstrap=0
    )
    assert result.value("mean_cosine", state="difference") == pytest.approx(0, abs=1e-7)


def test_spaces_without_a_common_layer_are_refused() -> None:
    with pytest.raises(ValueError, match="they need a common layer"):
        th.compare(Space.of({0: X, 1: X}), Space.of({2: Y, 3: Y}))
