"""Layer files filled in any order are plain `.npy` files, and a journal gives back what was completely written."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from theodolite.spaces.part_files import LayerFile, append_record, recover_records, runs_of

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


def test_a_file_filled_in_any_order_is_the_saved_array(tmp_path: Path) -> None:
    file = LayerFile(tmp_path / "layer.npy", 20, 3, X.dtype)
    assert not file.is_whole()
    file.create()
    assert file.is_whole() and not np.load(file.path).any()
    for rows in np.array_split(np.random.default_rng(1).permutation(20), 3):
        ascending = np.sort(rows)
        file.fill(runs_of(ascending), X[ascending])
    np.save(tmp_path / "saved.npy", X)
    assert file.path.read_bytes() == (tmp_path / "saved.npy").read_bytes()


def test_runs_cover_the_rows() -> None:
    rows = np.flatnonzero(np.random.default_rng(2).random(50) < 0.6)
    runs = runs_of(rows)
    assert [row for start, stop in runs for row in range(start, stop)] == rows.tolist()
    assert all(stop < start for (_, stop), (start, _) in pairwise(runs))
    assert runs_of(np.array([], np.intp)) == []


@pytest.mark.parametrize("tail", [b"", b'{"part": 3', b'{"part": 3}', b'[3]\n{"part": 4}\n', b'\0\0\n{"part": 4}\n'])
def test_a_journal_ends_before_the_first_line_that_is_not_a_complete_record(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "journal"
    assert recover_records(path) == []
    records = [{"part": part, "runs": [[0, part]]} for part in range(3)]
    for record in records:
        append_record(path, record)
    complete = path.read_bytes()
    path.write_bytes(complete + tail)
    assert recover_records(path) == records
    assert path.read_bytes() == complete  # so that the next record does not continue half a line
