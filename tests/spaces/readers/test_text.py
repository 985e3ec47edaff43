"""Text with one item per line: every layout gives the same vectors, lines end at newlines only, faults name their line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theodolite.core.vectors import array
from theodolite.spaces import read
from theodolite.spaces.readers.data_files import DataError
from theodolite.spaces.readers.text_files import (
    ClusterDistance,
    read_clusters,
    read_directprobe,
    read_texts,
    write_clusters,
    write_distances,
    write_predictions,
)

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
        ("v.txt", "1 2\n3 4\n5\n", "line 3: the line has 1 numbers, the first vector has 2"),
        ("v.txt", "1 2\n3 x\n", "line 2: column 2: 'x' is not a number"),
        ("v.txt", "# nothing but prose\n", "comments but no vector"),
        ("v.vec", "3 2\nthe 1 2\na 3 4\n", "the first line says 3 vectors, the file holds 2"),
        ("v.vec", "the 1 2\na 3\n", "line 2: the line has 1 numbers, the first vector has 2"),
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


# The files of DirectProbe: outputs are written as its program writes them

LABELS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_and_labels_come_back_exactly(dtype: type) -> None:
    X = (np.random.default_rng(0).standard_normal((40, 7)) * np.logspace(-30, 20, 7)).astype(dtype)
    labels = ["p.Locus", "a-b,c"] * 20
    Path("X.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in X))
    Path("y.txt").write_text("".join(f"the cat {i}\t{label}\n" for i, label in enumerate(labels)))
    Path("labels.txt").write_text("a-b,c\np.Locus\n")
    data = read_directprobe("X.txt", "y.txt", "labels.txt")
    np.testing.assert_array_equal(data.X.astype(dtype), X)
    assert data.labels == tuple(labels)


def test_lines_as_the_published_program_has_them() -> None:
    Path("X.txt").write_text("0.5 1e-3  -2\n1 2 3 \n\n")
    Path("y.txt").write_text("of the\tp.Whole\r\nin\tp.Locus\r\n", newline="")
    Path("clusters.txt").write_text("0\n1\n")
    data = read_directprobe("X.txt", "y.txt")
    np.testing.assert_array_equal(data.X, [[0.5, 1e-3, -2], [1, 2, 3]])
    assert data.labels == ("p.Whole", "p.Locus")
    assert read_clusters("clusters.txt").tolist() == [0, 1]
    write_distances([ClusterDistance(0, "p.Locus", 1, "p.Whole", 0.35), ClusterDistance(0, "NUM:dist", 12, "x", 2.0)], "dis.txt")
    assert Path("dis.txt").read_text() == "(0-p.Locus, 1-p.Whole): 0.35\n(0-NUM:dist, 12-x): 2\n"
    write_predictions(["p.Whole"], [[0.35, 0.0]], ["p.Locus", "p.Whole"], "prediction.txt")
    assert Path("prediction.txt").read_text() == "p.Whole\t1-p.Whole,0\t0-p.Locus,0.35\n"


@settings(max_examples=40)
@given(names=st.lists(LABELS, min_size=1, max_size=5), seed=st.integers(0, 9))
def test_predictions_list_the_nearest_cluster_first_and_ties_by_number(names: list[str], seed: int) -> None:
    distances = np.random.default_rng(seed).integers(0, 4, (6, len(names))) / 3
    write_predictions(names[:1] * 6, distances, names, "prediction.txt", overwrite=True)
    lines = Path("prediction.txt").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    for row, line in zip(distances, lines, strict=True):
        gold, *cells = line.split("\t")
        clusters = [int(cell.partition("-")[0]) for cell in cells]
        assert gold == names[0]
        assert clusters == np.argsort(row, kind="stable").tolist()
        assert [cell.partition("-")[2].rpartition(",")[0] for cell in cells] == [names[i] for i in clusters]
        np.testing.assert_allclose([float(cell.rpartition(",")[2]) for cell in cells], np.sort(row), rtol=1e-9)


def test_a_small_distance_is_not_rounded_to_zero() -> None:
    write_distances([ClusterDistance(0, "A-1", 3, "B", 1.234e-9)], "dis.txt")
    assert Path("dis.txt").read_text() == "(0-A-1, 3-B): 1.234e-09\n"


def test_clusters_come_back() -> None:
    write_clusters(np.array([2, 0, -1, 1]), "clusters.txt")
    assert Path("clusters.txt").read_text() == "2\n0\n-1\n1\n"
    np.testing.assert_array_equal(read_clusters("clusters.txt", n=4), [2, 0, -1, 1])


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("X.txt", "1 2\n3\n", "line 2: the line has 1 numbers"),
        ("X.txt", "1 2\n3 4 5\n", "line 2: the line has 3 numbers"),
        ("X.txt", "1 2\n3 x\n", "line 2: column 2: 'x' is not a number"),
        ("X.txt", "1 2\n3 4\nnan 6\n", "line 3: column 1: 'nan' is not finite"),
        ("X.txt", "1 2\n3 inf\n", "line 2: column 2: 'inf' is not finite"),
        ("X.txt", "1 2\n\n3 4\n", "line 2: the line is blank"),
        ("X.txt", "", "is empty"),
        ("X.txt", "\n\n", "is empty"),
        ("y.txt", "a\tA\nb\n", "line 2: the line has 0 tabs"),
        ("y.txt", "a\tA\nb\tB\tC\n", "line 2: the line has 2 tabs"),
        ("y.txt", "a\tA\nb\t \n", "line 2: the line has no label"),
        ("y.txt", "a\tA\n\nb\tB\n", "line 2: the line is blank"),
        ("y.txt", "", "is empty"),
        ("labels.txt", "\n", "is empty"),
        ("labels.txt", "A\n", "label 'B' is not in labels.txt"),
    ],
)
def test_faulty_files_name_their_line(file: str, text: str, fault: str) -> None:
    Path("X.txt").write_text("1 2\n3 4\n5 6\n")
    Path("y.txt").write_text("a\tA\nb\tB\nc\tA\n")
    Path("labels.txt").write_text("A\nB\n")
    Path(file).write_text(text)
    with pytest.raises(ValueError) as caught:
        read_directprobe("X.txt", "y.txt", "labels.txt")
    assert fault in str(caught.value) and file in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [("0\n1.5\n", "line 2: '1.5' is not a cluster number"), ("0\n-2\n", "line 2: '-2'"), ("", "is empty")],
)
def test_faulty_clusters_name_their_line(text: str, fault: str) -> None:
    Path("clusters.txt").write_text(text)
    with pytest.raises(ValueError, match=f"clusters.txt.*{fault}"):
        read_clusters("clusters.txt")


def test_files_of_different_length_are_named_with_their_last_line() -> None:
    Path("X.txt").write_text("1 2\n3 4\n")
    Path("y.txt").write_text("a\tA\nb\tB\nc\tA\n")
    with pytest.raises(ValueError, match=r"X\.txt has 2 vectors, y\.txt 3 examples.*X\.txt ends at line 2"):
        read_directprobe("X.txt", "y.txt")
    Path("clusters.txt").write_text("0\n")
    with pytest.raises(ValueError, match="1 cluster numbers for 2 rows"):
        read_clusters("clusters.txt", n=2)


@pytest.mark.parametrize("label", ["", " A", "a\tb", "a\nb"])
def test_labels_that_a_line_cannot_hold_are_refused_and_no_file_is_left(label: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        write_predictions([label], [[1.0]], ["A"], "p.txt")
    assert not list(Path().iterdir())


def test_a_file_is_replaced_only_with_overwrite() -> None:
    write_clusters([0], "clusters.txt")
    with pytest.raises(FileExistsError):
        write_clusters([1], "clusters.txt")
    write_clusters([1], "clusters.txt", overwrite=True)
    assert read_clusters("clusters.txt").tolist() == [1]


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        write_predictions(["A", "B"], np.ones((2, 3)), ["A", "B"], "p.txt")
