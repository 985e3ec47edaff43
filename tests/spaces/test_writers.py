"""Writing: what is read back is what was written, and a failure leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from theodolite.core.vectors import array
from theodolite.spaces import read, write_vectors

X = np.random.default_rng(3).normal(size=(100, 6))
ENDINGS = pytest.mark.parametrize("ending", [".npy", ".safetensors", ".parquet"])


@ENDINGS
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", [100, None])
def test_round_trip(tmp_path: Path, ending: str, dtype: str, n: int | None) -> None:
    path = tmp_path / f"v{ending}"
    assert write_vectors([X[:30], X[30:31], X[31:]], path, n=n, d=6, dtype=dtype) == 100
    np.testing.assert_array_equal(array(read(path)), X.astype(dtype))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_other_libraries_read_the_files(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    write_vectors([X], tmp_path / "v.npy", n=None, d=6, dtype="float64")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), X)
    write_vectors([X], tmp_path / "v.safetensors", n=None, d=6, dtype="float64")
    np.testing.assert_array_equal(load_file(tmp_path / "v.safetensors")["vectors"], X)


@ENDINGS
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_leaves_the_earlier_file(tmp_path: Path, ending: str, error: type[BaseException]) -> None:
    def failing() -> Iterator[np.ndarray]:
        yield X[:10]
        raise error

    path = tmp_path / f"v{ending}"
    with pytest.raises(error):
        write_vectors(failing(), path, n=100, d=6)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"before")
    with pytest.raises(error):
        write_vectors(failing(), path, n=100, d=6, overwrite=True)
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@ENDINGS
def test_a_file_is_replaced_only_with_overwrite(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"v{ending}"
    write_vectors([X], path, n=100, d=6)
    with pytest.raises(FileExistsError, match="exists already"):
        write_vectors([X + 1], path, n=100, d=6)
    write_vectors([X + 1], path, n=100, d=6, dtype="float64", overwrite=True)
    np.testing.assert_array_equal(array(read(path)), X + 1)


@ENDINGS
def test_blocks_that_do_not_fit_leave_no_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"v{ending}"
    with pytest.raises(ValueError, match="the blocks have 100 rows, not n=99"):
        write_vectors([X], path, n=99, d=6)
    with pytest.raises(ValueError, match="all must have d=5"):
        write_vectors([X], path, n=100, d=5)
    assert list(tmp_path.iterdir()) == []


def test_wrong_names_and_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'v\.dat' has no known ending"):
        write_vectors([X], tmp_path / "v.dat", n=100, d=6)
    with pytest.raises(ValueError, match="dtype=int64 cannot be stored"):
        write_vectors([X], tmp_path / "v.npy", n=100, d=6, dtype=int)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_vectors([X], tmp_path / "deep" / "v.npy", n=100, d=6)


@ENDINGS
def test_width_and_type_may_come_from_the_first_block(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"v{ending}"
    assert write_vectors(iter([X[:30], X[30:]]), path, dtype=None) == 100
    np.testing.assert_array_equal(array(read(path)), X)
    with pytest.raises(ValueError, match="there are no vectors to write"):
        write_vectors(iter([]), tmp_path / f"w{ending}")
