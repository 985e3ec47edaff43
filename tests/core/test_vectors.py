"""Every form of the same vectors is the same source, and anything else is an error that says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from theodolite.core.vectors import BLOCK_BYTES, array, require_finite, source, working_dtype
from theodolite.spaces import read

X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)


def chunks() -> Iterator[np.ndarray]:
    yield X[:7]
    yield X[:0].reshape(0, 6)
    yield X[7:]


def memmap(folder: Path) -> np.ndarray:
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def shards(folder: Path) -> Path:
    np.save(folder / "part-0.npy", X[:20])
    np.save(folder / "part-1.npy", X[20:])
    return folder


def torch_tensor(_: Path) -> Any:
    return pytest.importorskip("torch").tensor(X, requires_grad=True)


def pandas_frame(_: Path) -> Any:
    return pytest.importorskip("pandas").DataFrame(X)


def polars_frame(_: Path) -> Any:
    return pytest.importorskip("polars").DataFrame(X)


def pandas_lists(_: Path) -> Any:
    return pytest.importorskip("pandas").DataFrame({"vector": list(X)})


def polars_lists(_: Path) -> Any:
    return pytest.importorskip("polars").DataFrame({"vector": X.tolist()})


FORMS: dict[str, Callable[[Path], Any]] = {
    "array": lambda _: X,
    "fortran order": lambda _: np.asfortranarray(X),
    "strided": lambda _: np.repeat(X, 2, axis=0)[::2],
    "reversed twice": lambda _: X[::-1].copy()[::-1],
    "memmap": memmap,
    "folder": lambda folder: read(shards(folder)),
    "list of chunks": lambda _: [X[:9], X[9:]],
    "generator": lambda _: chunks(),
    "function": lambda _: chunks,
    "nested list": lambda _: X.tolist(),
    "source": lambda _: source(X),
    "torch": torch_tensor,
    "pandas": pandas_frame,
    "polars": polars_frame,
    "pandas column of lists": pandas_lists,
    "polars column of lists": polars_lists,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_same_vectors_reads_alike(form: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(array(FORMS[form](tmp_path)), X)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "generator"])
def test_all_but_a_generator_can_be_read_twice_and_by_row(form: str, tmp_path: Path) -> None:
    data = source(FORMS[form](tmp_path))
    rows = np.array([0, 7, 19, 20, 49])
    np.testing.assert_array_equal(data.take(rows), X[rows])
    np.testing.assert_array_equal(data.take(rows), X[rows])


def test_a_generator_read_twice_says_what_to_pass_instead() -> None:
    data = source(chunks())
    assert not data.replayable
    assert sum(len(block) for block in data.blocks()) == len(X)
    with pytest.raises(ValueError, match="function that returns"):
        list(data.blocks())


def test_blocks_are_small_whatever_the_chunks() -> None:
    wide = np.zeros((3 * BLOCK_BYTES // 4000, 1000), np.float32)
    tiny = [wide[i : i + 13] for i in range(0, len(wide), 13)]
    for form in (wide, tiny, iter(tiny)):
        sizes = [len(block) for block in source(form).blocks()]
        assert sum(sizes) == len(wide)
        assert max(sizes) * 4000 <= BLOCK_BYTES
        assert len(sizes) <= 4


@pytest.mark.parametrize(
    ("stored", "computed"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.longdouble, np.float64),
        (np.int8, np.float32),
        (np.uint16, np.float32),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (np.bool_, np.float32),
    ],
)
def test_each_dtype_is_read_in_a_precision_that_holds_it(stored: type, computed: type) -> None:
    values = np.array([[0, 1], [1, 1], [1, 0]]).astype(stored)
    assert array(values).dtype == computed == working_dtype(stored)
    np.testing.assert_array_equal(array(values), [[0, 1], [1, 1], [1, 0]])


def test_bfloat16_tensors_are_read() -> None:
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(array(torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16)), [[1.5, -2.0]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_entry_that_is_not_finite_is_named(bad: float) -> None:
    broken = np.zeros((BLOCK_BYTES // 16 + 50, 4), np.float32)
    broken[-3, 2] = bad
    broken[-2, 1] = bad
    for form in (broken, iter([broken[:10], broken[10:]])):
        with pytest.raises(ValueError, match=f"row {len(broken) - 3}, column 2"):
            array(form)
    with pytest.raises(ValueError, match=f"row {len(broken) - 2}, column 1"):
        source(broken).take(np.array([0, len(broken) - 2]))


def test_a_sum_that_overflows_is_not_mistaken_for_a_bad_entry() -> None:
    require_finite(np.full((4, 4), 3e38, np.float32))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(5), r"reshape\(1, -1\)"),
        (np.zeros((2, 3, 4)), r"reshape\(-1, X.shape\[-1\]\)"),
        (np.float64(3.0), "single number"),
        (np.zeros((0, 4)), "at least one row"),
        (np.zeros((4, 0)), "at least one row and one column"),
        ([], "one axis of length 0"),
        (iter([]), "stream is empty"),
        ([np.zeros((0, 2)), np.zeros((0, 2))], "every chunk is empty"),
        (lambda: iter([]), "chunks are empty"),
        ([[1.0, 2.0], [3.0]], "different length"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "has 3 columns"),
        (np.ma.masked_invalid([[np.nan, 1.0]]), "masked"),
    ],
)
def test_errors_about_shapes_name_the_shape_and_the_remedy(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        array(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((2, 2), complex), "not real numbers"),
        (np.array([["a", "b"]]), "not real numbers"),
        (np.array([[None, 1]], dtype=object), "not real numbers"),
        (sparse.eye_array(3), "sparse"),
    ],
)
def test_entries_that_are_not_real_numbers_are_refused(X: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        array(X)


def test_a_number_next_to_text_is_not_taken_for_a_vector() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="'x' alone holds numbers, next to title"):
        source(pandas.DataFrame({"x": [1.0, 2.0], "title": ["a", "b"]}))


def test_a_later_chunk_of_a_wider_type_is_refused_and_not_cast() -> None:
    wide = X.astype(np.float64) + 1e-12
    for form in (lambda: iter([X, wide]), iter([X, wide])):
        with pytest.raises(ValueError, match="chunk at row 50 holds float64, which loses digits when cast to the float32"):
            array(form)
    for chunks in ([X, wide], [wide, X]):  # in a list all types are known beforehand
        assert array(chunks).dtype == np.float64
    np.testing.assert_array_equal(array(lambda: iter([wide, X])), np.concatenate([wide, X]))
    np.testing.assert_array_equal(array(lambda: iter([X, X.astype(np.float16)]))[50:], X.astype(np.float16))


def test_a_bad_entry_in_a_later_part_has_its_row_in_the_whole() -> None:
    bad = X.copy()
    bad[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 53, column 2"):
        source([X, bad]).take(np.array([1, 53]))


def test_a_path_is_refused_with_the_way_to_open_it(tmp_path: Path) -> None:
    for path in (tmp_path, str(tmp_path)):
        with pytest.raises(TypeError, match=r"is a path, not vectors; open it with theodolite\.read"):
            source(path)


def test_watching_reports_every_row_once() -> None:
    counts: list[int] = []
    np.testing.assert_array_equal(array(source(X).watched(counts.append)), X)
    assert sum(counts) == len(X)


def test_float_arrays_are_not_copied() -> None:
    assert np.shares_memory(next(source(X).blocks()), X)


@pytest.mark.parametrize("X", [{"a": np.eye(3)}, {"a": [1, 2]}, {}, {1, 2}])
def test_a_dict_or_set_is_not_a_table_of_vectors(X: Any) -> None:
    with pytest.raises(TypeError, match=r"a (dict|set) is not a table of vectors; pass one array of it"):
        source(X)


@pytest.mark.filterwarnings("ignore")  # torch warns that quantised and sparse tensors may change
@pytest.mark.parametrize("form", ["quantised", "sparse", "meta"])
def test_a_tensor_without_plain_numbers_is_one_sentence(form: str) -> None:
    torch = pytest.importorskip("torch")
    makers: dict[str, Any] = {
        "quantised": lambda: torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8),
        "sparse": lambda: torch.eye(3).to_sparse(),
        "meta": lambda: torch.empty(3, 3, device="meta"),
    }
    with pytest.raises(TypeError, match="this tensor does not become an array"):
        source(makers[form]())
