"""DirectProbe's own text: what is written is read back, published lines are read, and every fault names its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theodolite.core.vectors import array
from theodolite.spaces.directprobe_results import (
    ClusterDistance,
    Ranked,
    read_clusters,
    read_distances,
    read_predictions,
    write_clusters,
    write_distances,
    write_predictions,
)
from theodolite.spaces.directprobe_text import (
    read_directprobe,
    read_embeddings,
    read_entities,
    read_label_set,
    write_embeddings,
    write_entities,
    write_label_set,
)

LABELS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_and_labels_come_back_exactly(dtype: type) -> None:
    X = (np.random.default_rng(0).standard_normal((40, 7)) * np.logspace(-30, 20, 7)).astype(dtype)
    examples = [f"the  cat\t{i}" for i in range(40)]
    labels = ["p.Locus", "a-b,c"] * 20
    write_embeddings(X, "X.txt")
    write_entities(examples, labels, "y.txt")
    write_label_set(labels, "labels.txt")
    found = read_directprobe("X.txt", "y.txt", "labels.txt")
    np.testing.assert_array_equal(found.X.astype(dtype), X)
    assert found.labels == tuple(labels)
    assert found.examples[3] == "the cat 3"
    assert read_label_set("labels.txt") == ("a-b,c", "p.Locus")


def test_lines_as_the_published_program_writes_and_reads_them() -> None:
    Path("X.txt").write_text("0.5 1e-3  -2\n1 2 3 \n\n")
    Path("y.txt").write_text("of the\tp.Whole\r\nin\tp.Locus\r\n", newline="")
    Path("clusters.txt").write_text("0\n1\n")
    Path("dis.txt").write_text("(0-p.Locus, 1-p.Whole): 0.3500\n(0-NUM:dist,12-x): 2.0000\n")
    Path("prediction.txt").write_text("p.Whole\t1-p.Whole,0.0000\t0-p.Locus,0.3500\n")
    np.testing.assert_array_equal(array(read_embeddings("X.txt")), [[0.5, 1e-3, -2], [1, 2, 3]])
    assert read_entities("y.txt") == (("of the", "in"), ("p.Whole", "p.Locus"))
    assert read_clusters("clusters.txt").tolist() == [0, 1]
    assert read_distances("dis.txt") == [
        ClusterDistance(0, "p.Locus", 1, "p.Whole", 0.35),
        ClusterDistance(0, "NUM:dist", 12, "x", 2.0),
    ]
    assert read_predictions("prediction.txt") == [Ranked("p.Whole", ((1, "p.Whole", 0.0), (0, "p.Locus", 0.35)))]


@settings(deadline=None, max_examples=40)
@given(names=st.lists(LABELS, min_size=1, max_size=5), seed=st.integers(0, 9))
def test_predictions_come_back_nearest_first(names: list[str], seed: int) -> None:
    distances = np.random.default_rng(seed).integers(0, 4, (6, len(names))) / 3
    write_predictions(names[:1] * 6, distances, names, "prediction.txt", overwrite=True)
    for row, found in zip(distances, read_predictions("prediction.txt"), strict=True):
        assert found.gold == names[0]
        assert found.label == names[int(row.argmin())]  # of equal distances the lower number
        assert [i for i, _, _ in found.clusters] == np.argsort(row, kind="stable").tolist()
        assert [label for _, label, _ in found.clusters] == [names[i] for i, _, _ in found.clusters]
        np.testing.assert_allclose([d for _, _, d in found.clusters], np.sort(row), rtol=1e-9)


def test_thin_margins_survive_and_clusters_come_back() -> None:
    pairs = [ClusterDistance(0, "A-1", 3, "B", 1.234e-9), ClusterDistance(1, "A-1", 3, "B", 7.0)]
    write_distances(pairs, "dis.txt")
    assert read_distances("dis.txt") == pairs
    write_clusters(np.array([2, 0, -1, 1]), "clusters.txt")
    assert Path("clusters.txt").read_text() == "2\n0\n-1\n1\n"
    np.testing.assert_array_equal(read_clusters("clusters.txt", n=4), [2, 0, -1, 1])


EMBEDDINGS = [
    ("1 2\n3\n", "line 2 has 1 tokens"),
    ("1 2\n3 4 5\n", "line 2 has 3 tokens"),
    ("1 2\n3 x\n", "line 2, column 2: 'x' is not a number"),
    ("1 2\n3 4\nnan 6\n", "line 3, column 1: 'nan' is not finite"),
    ("1 2\n3 inf\n", "line 2, column 2: 'inf' is not finite"),
    ("1 2\n\n3 4\n", "line 2 is blank"),
    ("", "is empty"),
    ("\n\n", "is empty"),
]


@pytest.mark.parametrize(("text", "said"), EMBEDDINGS)
def test_faulty_vectors_name_their_line(text: str, said: str) -> None:
    Path("X.txt").write_text(text)
    with pytest.raises(ValueError) as caught:
        array(read_embeddings("X.txt"))
    assert said in str(caught.value) and "X.txt" in str(caught.value)


@pytest.mark.parametrize(
    ("reader", "text", "said"),
    [
        (read_entities, "a\tA\nb\n", "line 2 has 0 tabs"),
        (read_entities, "a\tA\nb\tB\tC\n", "line 2 has 2 tabs"),
        (read_entities, "a\tA\nb\t \n", "line 2 has no label"),
        (read_entities, "a\tA\n\nb\tB\n", "line 2 is blank"),
        (read_entities, "", "is empty"),
        (read_label_set, "\n", "is empty"),
        (read_clusters, "0\n1.5\n", "line 2: '1.5' is no cluster number"),
        (read_clusters, "0\n-2\n", "line 2: '-2'"),
        (read_clusters, "", "is empty"),
        (read_distances, "(0-A, 1-B): 1\n(0-A 1-B): 1\n", "line 2: '(0-A 1-B): 1' does not read"),
        (read_distances, "(0-A, 1-B): nan\n", "line 1: 'nan' is not a distance"),
        (read_predictions, "A\n", "line 1 has no cluster"),
        (read_predictions, "A\t0-A,1\nA\t0-A\n", "line 2: '0-A' does not read"),
        (read_predictions, "A\t0-A,one\n", "line 1: 'one' is not a distance"),
    ],
)
def test_faulty_files_name_their_line(reader: object, text: str, said: str) -> None:
    Path("file.txt").write_text(text)
    with pytest.raises(ValueError) as caught:
        reader("file.txt")  # type: ignore[operator]
    assert said in str(caught.value) and "file.txt" in str(caught.value)


def test_counts_that_differ_say_which_file_ends_where() -> None:
    Path("X.txt").write_text("1 2\n3 4\n")
    Path("y.txt").write_text("a\tA\nb\tB\nc\tA\n")
    Path("labels.txt").write_text("A\n")
    with pytest.raises(ValueError, match=r"X\.txt has 2 vectors, y\.txt 3 examples.*X\.txt ends at line 2"):
        read_directprobe("X.txt", "y.txt")
    with pytest.raises(ValueError, match=r"y\.txt, line 2: label 'B' is not in labels\.txt"):
        read_directprobe("X.txt", "y.txt", "labels.txt")
    Path("clusters.txt").write_text("0\n")
    with pytest.raises(ValueError, match="1 cluster numbers for 2 rows"):
        read_clusters("clusters.txt", n=2)


@pytest.mark.parametrize("label", ["", " A", "a\tb", "a\nb"])
def test_labels_that_no_line_can_hold_are_refused_and_nothing_is_left(label: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        write_entities(["x"], [label], "y.txt")
    assert not list(Path().iterdir())


def test_what_is_there_is_not_overwritten_unasked() -> None:
    write_clusters([0], "clusters.txt")
    with pytest.raises(FileExistsError):
        write_clusters([1], "clusters.txt")
    write_clusters([1], "clusters.txt", overwrite=True)
    assert read_clusters("clusters.txt").tolist() == [1]


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        write_predictions(["A", "B"], np.ones((2, 3)), ["A", "B"], "p.txt")
    with pytest.raises(ValueError, match="2 examples and 1 labels"):
        write_entities(["a", "b"], ["A"], "y.txt")
