"""Text with one item per line: every layout gives the same vectors, lines end at newlines only, faults name their line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from theodolite.core.vectors import array
from theodolite.spaces import read
from theodolite.spaces.readers.data_files import DataError
from theodolite.spaces.readers.text_files import read_texts

X = np.random.default_rng(1).normal(size=(2500, 4))


@pytest.mark.parametrize(
    "text",
    [
        "1 2\n3 4\n",
        "  1\t2\n\n3 4",
        "# made by hand\n1 2\n3 4\n",
        "the 1 2\nof 3 4\n",  # GloVe
        "2 2\nthe 1 2\nof 3 4\n",  # word2vec, fastText
        "the 1 2\n. . . 3 4\n",  # a word with blanks
        "# 1 2\n# 3 4\n",  # the word "#"
    ],
)
def test_every_layout_gives_the_same_vectors(tmp_path: Path, text: str) -> None:
    for name in ("v.txt", "v.vec"):
        (tmp_path / name).write_text(text)
        np.testing.assert_array_equal(array(read(tmp_path / name)), [[1, 2], [3, 4]])


def test_numpy_reads_the_same(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "v.txt", X)
    np.testing.assert_array_equal(array(read(tmp_path / "v.txt")), np.loadtxt(tmp_path / "v.txt"))


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("v.txt", "1 2\n3 4\n5\n", "line 3: the line has 1 numbers, but the first vector has 2"),
        ("v.txt", "1 2\n3 x\n", "line 2: column 2: 'x' is not a number"),
        ("v.txt", "# nothing but prose\n", "comments but no vector"),
        ("v.vec", "3 2\nthe 1 2\na 3 4\n", "the first line says 3 vectors, but the file holds 2"),
        ("v.vec", "the 1 2\na 3\n", "line 2: the line has 1 numbers, but the first vector has 2"),
        ("v.vec", "0 2\n", "a count line but no vector"),
    ],
)
def test_faults_are_named_by_line_and_column(tmp_path: Path, name: str, text: str, fault: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=fault):
        array(read(tmp_path / name))


def test_texts_are_the_lines_that_are_not_blank(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffone\r\n\r\n  \ntwo\u2028still\x85two\x0b\nthree".encode())
    assert read_texts(path) == ["one", "two\u2028still\x85two\x0b", "three"]


def test_texts_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("naïve\nœuvre\n", encoding="utf-16")
    assert read_texts(path, "utf-16") == ["naïve", "œuvre"]
    with pytest.raises(DataError, match=r"texts\.txt, line 1: byte 0xFF at offset 0 is not utf-8 .*encoding='utf-16'"):
        read_texts(path)


def test_a_file_without_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text(" \n\n")
    with pytest.raises(DataError, match=r"texts\.txt: the file holds no text; write one text per line"):
        read_texts(tmp_path / "texts.txt")
