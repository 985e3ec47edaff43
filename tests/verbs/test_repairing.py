"""`repair`: fitted on one input, applied to another, in files of any size."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.metrics import mean_cosine
from theodolite.spaces import Space

X = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32) + 1


def test_fit_gives_a_transformer_and_apply_writes_what_it_gives(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    repair = th.repair.fit("global", tmp_path / "x.npy", directions=2, to=tmp_path / "repair")
    result = th.repair.apply(tmp_path / "repair", X + 1, to=tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), repair.transform(X + 1))
    np.testing.assert_array_equal(th.load_repair(tmp_path / "repair").transform(X), repair.transform(X))
    assert result.value("mean_cosine", state="before") == mean_cosine(X + 1)
    assert "mean cosine 0.8113 →" in " ".join(repr(result).split()) and "300 vectors written" in repr(result)


def test_one_layer_of_a_space_is_repaired(tmp_path: Path) -> None:
    space = Space.of({0: X, 1: X + 3})
    repair = th.repair.fit("zero-mean", space)
    np.testing.assert_allclose(repair.transform(X + 3).mean(axis=0), 0, atol=1e-5)
    th.repair.apply(repair, space, to=tmp_path / "out.npy", layers=0)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), repair.transform(X))
    with pytest.raises(ValueError, match="a repair belongs to one layer"):
        th.repair.fit("zero-mean", space, layers="all")


def test_weighted_removal_learns_from_pairs(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    Y = X + random.standard_normal(X.shape).astype(np.float32)
    scores = random.random(len(X))
    np.save(tmp_path / "scores.npy", scores)
    repair = th.repair.fit("weighted", X, pairs=Y, scores=tmp_path / "scores.npy", settings={"n_directions": 2})
    assert repair.pearson_ >= repair.pearson_before_ - 1e-9  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="go together, and only with the repair 'weighted'"):
        th.repair.fit("global", X, pairs=Y, scores=scores)


def test_mistakes_are_named_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "repair").mkdir()
    with pytest.raises(FileExistsError):
        th.repair.fit("global", X, to=tmp_path / "repair")
    with pytest.raises(ValueError, match="did you mean 'global'"):
        th.repair.fit("globl", X)
    with pytest.raises(ValueError, match="has no setting 'clusters'"):
        th.repair.fit("global", X, clusters=3)
    with pytest.raises(ValueError, match="no known ending"):
        th.repair.apply(th.repair.fit("zero-mean", X), X, to=tmp_path / "out.xlsx")


TEXTS = [f'text "{i}", with a comma\nand a line' for i in range(len(X))]


def write_table(path: Path, *, as_list: bool) -> None:
    """A table of ids, vectors, texts and numbers, in that order."""
    import csv
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    ids = [f"{i:05d}" for i in range(len(X))]
    vectors = {"embedding": X.tolist()} if as_list else {f"v{j}": X[:, j].tolist() for j in range(X.shape[1])}
    columns = {"id": ids, **vectors, "text": TEXTS, "year": list(range(1900, 1900 + len(X)))}
    if path.suffix == ".parquet":
        pq.write_table(pa.table({**columns, "year": pa.array(columns["year"], pa.int16())}), path)
        return
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({**row, "tags": [str(i)] * (i % 3)}) + "\n" for i, row in enumerate(rows)))
        return
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(columns)
        writer.writerows([json.dumps(cell) if isinstance(cell, list) else cell for cell in row.values()] for row in rows)


def read_table(path: Path) -> list[dict[str, object]]:
    import csv
    import json

    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        rows: list[dict[str, object]] = pq.read_table(path).to_pylist()
        return rows
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


TABLES = [".parquet", ".csv", ".tsv", ".jsonl"]


@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("target", TABLES)
@pytest.mark.parametrize("source", TABLES)
def test_a_table_keeps_its_other_columns_in_order(tmp_path: Path, source: str, target: str, as_list: bool) -> None:
    path, out = tmp_path / f"docs{source}", tmp_path / f"out{target}"
    write_table(path, as_list=as_list)
    columns = ["embedding"] if as_list else ["v*"]
    repair = th.repair.fit("zero-mean", X)
    result = th.repair.apply(repair, path, to=out, columns=columns)
    before, after = read_table(path), read_table(out)
    assert list(after[0]) == list(before[0])
    for name in ("id", "text", "year"):
        assert [str(row[name]) for row in after] == [str(row[name]) for row in before]
    written = th.core.vectors.array(th.read(out, columns=columns))
    # A text holds the float64 of its digits, so the repair was applied in double precision.
    np.testing.assert_allclose(written, X - X.mean(axis=0), atol=1e-5)
    if source == target == ".parquet":
        assert result.value("nearly_zero_rows") == 0
    if source == ".jsonl" and target in (".jsonl", ".parquet"):
        assert [row["tags"] for row in after] == [row["tags"] for row in before]


def test_arrow_types_stay_as_they_are(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_table(tmp_path / "docs.parquet", as_list=True)
    table = pq.read_table(tmp_path / "docs.parquet").append_column("when", pa.array(range(len(X)), pa.timestamp("ns", "UTC")))
    pq.write_table(table, tmp_path / "docs.parquet", row_group_size=70)
    th.repair.apply(th.repair.fit("zero-mean", X), tmp_path / "docs.parquet", to=tmp_path / "out.parquet")
    after = pq.read_table(tmp_path / "out.parquet")
    for name in ("id", "text", "year", "when"):
        assert after[name].type == table[name].type and after[name].equals(table[name])


def test_a_repair_that_changes_the_width_names_its_dimensions(tmp_path: Path) -> None:
    write_table(tmp_path / "docs.csv", as_list=False)
    repair = th.repair.fit("whiten", X, components=3)
    th.repair.apply(repair, tmp_path / "docs.csv", to=tmp_path / "out.csv", columns=["v*"])
    assert list(read_table(tmp_path / "out.csv")[0]) == ["id", "dim_0", "dim_1", "dim_2", "text", "year"]
    np.testing.assert_allclose(
        th.core.vectors.array(th.read(tmp_path / "out.csv", columns="dim_*")), repair.transform(X), atol=1e-4
    )


def test_a_csv_without_a_header_stays_one(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "x.csv", X, delimiter=",")
    th.repair.apply(th.repair.fit("zero-mean", X), tmp_path / "x.csv", to=tmp_path / "out.csv")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out.csv", delimiter=","), X - X.mean(axis=0), atol=1e-5)


def test_vectors_alone_become_a_table_and_are_read_back_to_the_bit(tmp_path: Path) -> None:
    repair = th.repair.fit("zero-mean", X)
    for ending in TABLES:
        th.repair.apply(repair, X, to=tmp_path / f"out{ending}")
        written = th.core.vectors.array(th.read(tmp_path / f"out{ending}"))
        np.testing.assert_array_equal(written.astype(np.float32), repair.transform(X))


def test_what_a_space_knows_of_its_rows_is_kept_and_what_is_left_out_is_named(tmp_path: Path) -> None:
    space = Space.of({0: X}, rows={"sentence": TEXTS, "label": [i % 3 for i in range(len(X))]})
    repair = th.repair.fit("zero-mean", space)
    th.repair.apply(repair, space, to=tmp_path / "out.parquet")
    rows = read_table(tmp_path / "out.parquet")
    assert list(rows[0]) == ["sentence", "label", "vector"] and [row["sentence"] for row in rows] == TEXTS
    result = th.repair.apply(repair, space, to=tmp_path / "out.npy")
    assert "out.npy stores vectors only and leaves out sentence, label" in result.notes[0]


def test_shards_keep_their_columns(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "docs").mkdir()
    for number, rows in enumerate((range(100), range(0), range(100, 300))):
        table = {"id": pa.array(list(rows), pa.int64()), "v": pa.array(X[list(rows)].tolist(), pa.list_(pa.float32()))}
        pq.write_table(pa.table(table), tmp_path / "docs" / f"{number}.parquet")
    th.repair.apply(th.repair.fit("zero-mean", X), tmp_path / "docs", to=tmp_path / "out.parquet")
    assert [row["id"] for row in read_table(tmp_path / "out.parquet")] == list(range(300))


def test_rows_that_end_near_zero_are_counted_and_named(tmp_path: Path) -> None:
    far = np.r_[X, 1000 + np.arange(16, dtype=np.float32).reshape(2, 8) * 500]
    repair = th.REPAIRS["cluster-zero-mean"]().fit(far, labels=np.r_[np.zeros(300, int), 1, 2])  # type: ignore[call-arg]
    result = th.repair.apply(repair, far, to=tmp_path / "out.npy")
    lengths = np.linalg.norm(np.load(tmp_path / "out.npy"), axis=1)
    assert np.flatnonzero(lengths < 1e-3).tolist() == [300, 301]
    assert result.value("nearly_zero_rows") == 2
    assert "2 of 302 rows now have (nearly) zero length and so no direction: rows 300, 301" in result.notes[0]
    assert th.repair.apply(th.repair.fit("whiten", 1e6 * X), 1e6 * X, to=tmp_path / "w.npy").value("nearly_zero_rows") == 0


def test_a_repair_remembers_what_it_was_fitted_on(tmp_path: Path) -> None:
    from theodolite.repairs.base import FittingPath
    from theodolite.spaces import Origin

    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert th.repair.fit("global", X).fitted_on_ == FittingPath(normalized=False)
    assert th.repair.fit("global", unit.astype(np.float16)).fitted_on_ == FittingPath(normalized=True)
    almost = unit.copy()
    almost[-1] *= 1.01
    assert not th.repair.fit("cluster-based", almost, clusters=2).fitted_on_.normalized
    space = Space.of({0: X, 5: unit}, rows={"sentence": TEXTS}, origin=Origin(model="m", revision="r", pooling="mean"))
    th.repair.fit("zero-mean", space, to=tmp_path / "r")
    loaded = th.load_repair(tmp_path / "r")
    path = FittingPath(normalized=True, model="m", revision="r", unit="mean", layer=5, texts=tuple(TEXTS[:4]))
    assert loaded.fitted_on_ == path
    np.testing.assert_array_equal(loaded.examples_, unit[:4])


def test_clustered_repairs_say_what_cannot_carry_them(tmp_path: Path) -> None:
    repair = th.repair.fit("cluster-based", X, clusters=2, directions=1)
    with pytest.raises(ValueError, match="neither a Dense nor FAISS's LinearTransform, an ONNX Gemm or an SQL expression"):
        th.repair.export(repair, to=tmp_path / "r.onnx")
    with pytest.raises(ValueError, match="applies to a model"):
        th.repair.export(th.repair.fit("zero-mean", X), to=tmp_path / "r", texts=["a"])
    assert list(tmp_path.iterdir()) == []


def test_a_pipeline_is_exported_as_one_map(tmp_path: Path) -> None:
    from sklearn.pipeline import make_pipeline

    from theodolite.repairs import RemoveDirections, Whiten

    pipeline = make_pipeline(RemoveDirections(2), Whiten(4)).fit(X)
    result = th.repair.export(pipeline, to=tmp_path / "map")
    assert result.value("self_test_difference") < 1e-5
    written = X @ np.load(tmp_path / "map" / "matrix.npy") + np.load(tmp_path / "map" / "bias.npy")
    np.testing.assert_allclose(written, pipeline.transform(X), atol=1e-4)


def test_other_columns_are_read_with_the_delimiter_and_header_of_the_vectors(tmp_path: Path) -> None:
    lines = [" ".join(["#", *map(repr, row.tolist())]) for row in X]
    # A first line of numbers that are names, a delimiter that is not found by itself, and an ending that is not a table's.
    (tmp_path / "x.txt").write_text("\n".join(["9 0 1 2 3 4 5 6 7", *lines]) + "\n")
    names = [str(i) for i in range(8)]
    repair = th.repair.fit("zero-mean", X.astype(float))
    th.repair.apply(repair, tmp_path / "x.txt", to=tmp_path / "out.csv", columns=names, delimiter=" ", header=True)
    written = (tmp_path / "out.csv").read_text().splitlines()
    assert (written[0], len(written)) == (",".join(["9", *names]), 301)
    vectors = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1, usecols=range(1, 9), comments=None)
    np.testing.assert_array_equal(vectors, repair.transform(X.astype(float)))
    assert all(line.startswith("#,") for line in written[1:])


@pytest.mark.parametrize(
    ("name", "options", "least"),
    [
        ("whiten", {}, "at least 80 rows"),
        ("power-whiten", {}, "at least 80 rows"),
        ("whiten", {"components": 20}, "at least 40 rows"),
    ],
)
def test_too_few_rows_to_divide_by_their_variances_are_warned_of(name: str, options: dict[str, Any], least: str) -> None:
    X = np.random.default_rng(0).standard_normal((30, 40))
    with pytest.warns(UserWarning, match=f"^{name} divides by the variances of 40 dimensions.* fitted on 30 rows.*{least}"):
        th.repair.fit(name, X, **options)


@pytest.mark.parametrize(
    ("name", "options", "n"),
    [
        ("whiten", {}, 80),
        ("whiten", {"components": 15}, 30),
        ("whiten", {"settings": {"shrinkage": 0.5}}, 30),
        ("power-whiten", {"settings": {"power": 0}}, 30),
        ("zero-mean", {}, 30),
        ("pca", {"components": 5}, 30),
    ],
)
def test_repairs_that_divide_by_nothing_or_have_rows_enough_are_not(name: str, options: dict[str, Any], n: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        th.repair.fit(name, np.random.default_rng(0).standard_normal((n, 40)), **options)


@pytest.mark.parametrize(("code", "dtype", "width"), [("float16", np.float16, 8), ("int8", np.int8, 8), ("binary", np.uint8, 1)])
def test_quantised_vectors_are_what_advise_measures(tmp_path: Path, code: str, dtype: Any, width: int) -> None:
    from theodolite.advice.changes import Change, source_of

    np.save(tmp_path / "x.npy", X)
    stored = th.repair.quantize(tmp_path / "x.npy", code=code, to=tmp_path / "small.npy")
    np.testing.assert_array_equal(stored, np.load(tmp_path / "small.npy"))
    assert stored.dtype == dtype and stored.shape == (300, width)
    measured = Change(code=code).fit(source_of(X))(X)
    read = np.where(np.unpackbits(stored, axis=1), 1, -1) if code == "binary" else stored.astype(np.float32)
    np.testing.assert_array_equal(read, measured)


def test_quantisation_refuses_what_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="code='int4' must be one of float16, int8, binary"):
        th.repair.quantize(X, code="int4")
    with pytest.raises(ValueError, match=r"must end in \.npy"):
        th.repair.quantize(X, code="int8", to=tmp_path / "x.parquet")
