"""Odd inputs are read rightly or give one sentence, and the table in docs/files.md says which: every line of it is read here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from theodolite.core.vectors import array, source
from theodolite.spaces import read
from theodolite.spaces.readers.label_files import checked_label, read_labels

PAGE = Path(__file__).parents[2] / "docs" / "files.md"
X = np.array([[0.5, -1.25, 3.75], [0.125, 2.5, -0.75], [-0.5, 1.5, 0.25], [1.75, -0.25, 2.25], [2.5, 0.75, -1.5]])
WORDS = ["cat", "dog", "owl", "eel", "ant"]
D = ["d0", "d1", "d2"]
ABC = ["a", "b", "c"]
Odd = Callable[[Path], Any]


def lines(*columns: Any, names: str | list[str] | None = None, mark: str = ",") -> str:
    """A table of text, the vectors as its last three columns."""
    header = [] if names is None else [names if isinstance(names, str) else mark.join(names)]
    rows = [mark.join(map(str, (*(column[i] for column in columns), *x))) for i, x in enumerate(X.tolist())]
    return "\n".join([*header, *rows]) + "\n"


def text(name: str, content: str, encoding: str = "utf-8", **options: Any) -> Odd:
    def opened(folder: Path) -> Any:
        (folder / name).write_bytes(content.encode(encoding))
        return read(folder / name, **options)

    return opened


def commas(content: str) -> str:
    return content.replace(".", ",")


def parquet(columns: dict[str, Any]) -> Odd:
    def opened(folder: Path) -> Any:
        pq.write_table(pa.table(columns), folder / "x.parquet")
        return read(folder / "x.parquet")

    return opened


def dimensions(names: list[str] = D, **others: Any) -> dict[str, Any]:
    return {**others, **{name: X[:, i] for i, name in enumerate(names)}}


def npy(values: Any, cut: int = 0) -> Odd:
    def opened(folder: Path) -> Any:
        np.save(folder / "x.npy", values)
        if cut:
            (folder / "x.npy").write_bytes((folder / "x.npy").read_bytes()[:-cut])
        return read(folder / "x.npy")

    return opened


def npz(folder: Path) -> Any:
    np.savez(folder / "x.npz", a=X, b=X)
    return read(folder / "x.npz")


def jsonl(*records: str) -> Odd:
    return text("x.jsonl", "\n".join(records) + "\n")


def objects(**others: list[Any]) -> Odd:
    table = zip(*others.values(), *X.T.tolist(), strict=True)
    return jsonl(*(json.dumps(dict(zip([*others, *D], row, strict=True))) for row in table))


def bfloat16(folder: Path) -> Any:
    header = b'{"x":{"dtype":"BF16","shape":[5,3],"data_offsets":[0,30]}}'
    halves = (X.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    (folder / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + halves)
    return read(folder / "x.safetensors")


def shards(*widths: int) -> Odd:
    def opened(folder: Path) -> Any:
        start = 0
        for number, width in enumerate(widths):
            rows = {3: X[start : start + 3], 2: X[3:, :2], 0: X[:0]}[width]
            start += len(rows)
            (folder / f"part-{number}.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows.tolist()))
        return read(folder)

    return opened


def faiss_index(kind: str, damage: Callable[[bytes], bytes] = bytes) -> Odd:
    def opened(folder: Path) -> Any:
        faiss = pytest.importorskip("faiss")
        rows = np.tile(X.astype(np.float32), (128, 1)) + np.arange(640, dtype=np.float32)[:, None] / 64
        index = faiss.index_factory(3, kind)
        index.train(rows)
        index.add(rows[:5] if kind == "Flat" else rows)
        (folder / "x.faiss").write_bytes(damage(faiss.serialize_index(index).tobytes()))
        return read(folder / "x.faiss")

    return opened


def labels(name: str, content: str) -> Odd:
    def opened(folder: Path) -> Any:
        (folder / name).write_text(content, encoding="utf-8")
        return read_labels(folder / name)

    return opened


ODD: dict[str, Odd] = {
    "`.csv`: `doc_id` before `d0`, `d1`, `d2`": text("x.csv", lines(range(100, 105), names=["doc_id", *D])),
    "`.csv`: `year` before `d0`, …": text("x.csv", lines([2019, 2021, 2020, 2020, 2019], names=["year", *D])),
    "`.tsv`: `pmid` before `d0`, …": text("x.tsv", lines([31, 5, 77, 12, 9], names=["pmid", *D], mark="\t")),
    "`.csv`: `target` and `y` before `d0`, …": text("x.csv", lines([0, 1, 0, 1, 1], [1, 0, 0, 1, 1], names=["target", "y", *D])),
    "`.parquet`: a float `score` next to `d0`, …": parquet(dimensions(score=[0.5, 0.1, 0.2, 0.9, 0.4])),
    "`.parquet`: a whole-number `timestamp` next to `d0`, …": parquet(dimensions(timestamp=[10**9 + 7 * i for i in range(5)])),
    "`.jsonl`: `doc` next to `d0`, …": objects(doc=[3, 1, 4, 1, 5]),
    "a pandas frame: `price` and `cluster` next to `d0`, …":
        lambda _: source(pd.DataFrame(dimensions(price=[9.5, 3.0, 1.0, 2.0, 7.5], cluster=[1, 0, 1, 2, 2]))),
    "`.csv`: `emb_000`, `emb_001`, … and a float `weight`":
        text("x.csv", lines([0.5] * 5, names=["weight", "emb_000", "emb_001", "emb_002"])),
    "`.csv`: `x_1`, `x_2`, … and a text": text("x.csv", lines(WORDS, names=["word", "x_1", "x_2", "x_3"])),
    "`.csv` from `DataFrame.to_csv`, with its index": text("x.csv", lines(range(5), names=["", "0", "1", "2"])),
    "`.csv`: `d0`, `d1`, `d2` and `q1`, `q2`": text("x.csv", lines([1.5] * 5, [2.5] * 5, names=["q1", "q2", *D])),
    "`.csv`: `d0`, `d1`, `d5` and `score`": text("x.csv", lines([0.5] * 5, names=["score", "d0", "d1", "d5"])),
    "`.csv`: a float `id` before `a`, `b`, `c`": text("x.csv", lines([0.5, 1.5, 2.5, 3.5, 4.5], names=["id", *ABC])),
    "`.csv`: whole numbers `n` before `a`, `b`, `c`": text("x.csv", lines([31, 5, 77, 12, 9], names=["n", *ABC])),
    "`.csv`: an ascending first column, no header": text("x.csv", lines(range(5))),
    "`.tsv`: row numbers written as `0.0`, `1.0`, …, no header": text("x.tsv", lines([f"{i}.0" for i in range(5)], mark="\t")),
    "`.txt`: an ascending first column between blanks": text("x.txt", lines(range(1, 6), mark=" ")),
    "the same with `--columns 1:3`": text("x.txt", lines(range(1, 6), mark=" "), columns="1:3"),
    "`.parquet`: whole numbers `a`, `b` and `rank` = 1, 2, 3, …":
        parquet({"rank": list(range(1, 13)), "a": [5, 1, 7, 3] * 3, "b": [2, 9, 4, 4] * 3}),
    "`.csv`: two columns called `d1`": text("x.csv", lines(names=["d0", "d1", "d1"])),
    "`.parquet`: one column of lists, an `id` and a text": parquet({"id": list(range(5)), "text": WORDS, "v": X.tolist()}),
    "`.parquet`: two columns of lists": parquet({"v": X.tolist(), "w": X.tolist()}),
    "`.csv`: lists as NumPy prints them": text("x.csv", "v\n" + "".join(f"{row}\n" for row in X)),
    "`.csv`: a list that is cut off": text("x.csv", 'v\n"[0.5, 1.5]"\n"[0.5, 1.\n'),
    "`.csv` with `;` and decimal commas": text("x.csv", commas(lines(names=ABC, mark=";"))),
    "the same with `--decimal ,`": text("x.csv", commas(lines(names=ABC, mark=";")), decimal=","),
    "`.tsv` with decimal commas": text("x.tsv", commas(lines(mark="\t"))),
    "`.txt` with decimal commas between blanks": text("x.txt", commas(lines(mark=" "))),
    "`.txt`: the same with `--decimal ,`": text("x.txt", commas(lines(mark=" ")), decimal=","),
    "`.txt`: one column of `0,05`": text("x.txt", "0,05\n0,25\n1,75\n"),
    "`.vec` with decimal commas": text("x.vec", commas(lines(WORDS, names="5 3", mark=" "))),
    "`.vec`: the same with `--decimal ,`": text("x.vec", commas(lines(WORDS, names="5 3", mark=" ")), decimal=","),
    "`.csv` with `;`: lists such as `[0,5, 1,25]`": text("x.csv", "id;v\na;[0,5, 1,25]\nb;[0,75, 2,5]\n"),
    "`.csv`: such lists with `--decimal ,`":
        text("x.csv", "id;v\n" + commas("".join(f"a;{row}\n" for row in X.tolist())), decimal=","),
    "`.csv` with `;`: `1.234,5` and `--decimal ,`": text("x.csv", "a;b\n1.234,5;0,5\n", decimal=","),
    "`.csv`: a header `word,0,1,2`": text("x.csv", lines(WORDS, names=["word", "0", "1", "2"])),
    "`.csv`: a header `0,1` above fractions": text("x.csv", "0,1\n0.5,0.25\n0.75,0.5\n"),
    "`.txt`: a header `0 1 2` above fractions": text("x.txt", lines(names=["0", "1", "2"], mark=" ")),
    "`.txt`: a header `word d0 d1 d2`": text("x.txt", lines(WORDS, names=["word", *D], mark=" ")),
    "`.csv`: a first line `10,20,30` above fractions": text("x.csv", lines(names=["10", "20", "30"])),
    "`.csv`: no header, words first": text("x.csv", lines(WORDS)),
    "`.csv`: quoted texts with commas and line ends": text("x.csv", lines(['"a, b\nc"'] * 5, names=["text", *D])),
    "`.csv` with a byte-order mark and Windows line ends": text("x.csv", lines(names=D).replace("\n", "\r\n"), "utf-8-sig"),
    "`.csv` in UTF-16": text("x.csv", lines(names=D), "utf-16"),
    "`.csv` with blank lines between the rows": text("x.csv", lines(names=D).replace("\n", "\n\n")),
    "`.csv`: a line with a cell too many": text("x.csv", lines(names=D) + "1,2,3,4\n"),
    "`.csv`: a line that ends with a delimiter": text("x.csv", lines().replace("\n", ",\n")),
    "`.csv`: a cell `NA`": text("x.csv", lines(names=D).replace("-0.25", "NA")),
    "`.csv`: a cell `nan`": text("x.csv", lines(names=D).replace("-0.25", "nan")),
    "`.csv`: a header and nothing else": text("x.csv", "d0,d1,d2\n"),
    "an empty file": text("x.csv", ""),
    "`.csv.gz`": text("x.csv.gz", ""),
    "`.txt` from `numpy.savetxt` with a comment": text("x.txt", "# three numbers each\n" + lines(mark=" ")),
    "`.jsonl`: half of a surrogate pair in a text": jsonl('{"text": "\\ud800", "v": [1.5, 2.5]}'),
    "`.jsonl`: `null` in a list": jsonl("[1.5, 2.5]", "[1.5, null]"),
    "`.jsonl`: a field is missing": jsonl('{"a": 1.5, "b": 2.5}', '{"a": 0.5}'),
    "`.parquet`: a list is missing": parquet({"v": [[1.5, 2.5], None]}),
    "`.parquet`: half floats": parquet({"v": pa.array(list(X.astype(np.float16)), pa.list_(pa.float16()))}),
    "`.npy`: pickled objects": npy(np.array([{}, []], dtype=object)),
    "`.npy`: one axis": npy(X[0]),
    "`.npy`: complex numbers": npy(X + 1j),
    "`.npy`: cut short": npy(X, cut=16),
    "`.npz`: two arrays": npz,
    "`.safetensors`: bfloat16": bfloat16,
    "a folder with an empty shard": shards(3, 0, 3),
    "a folder of shards of different width": shards(3, 2),
    "FAISS: `IVF4,PQ3x4fs`": faiss_index("IVF4,PQ3x4fs"),
    "FAISS: `PQ3x4`": faiss_index("PQ3x4"),
    "FAISS: a flat index whose length says 2³¹":
        faiss_index("Flat", lambda raw: raw[:37] + (2**31).to_bytes(8, "little") + raw[45:]),
    "a masked array": lambda _: source(np.ma.masked_less(X, 0)),
    "labels: `pandas.NA`": lambda _: [checked_label("row 0", pd.NA)],
    "labels, `.txt`: a blank line": labels("y.txt", "a\n\nb\n"),
    "labels, `.jsonl`: half of a surrogate pair": labels("y.jsonl", '{"label": "\\udfff"}\n'),
    "labels, `.jsonl`: `0.5`": labels("y.jsonl", '{"label": 0.5}\n'),
}  # fmt: skip


def outcome(odd: Odd, folder: Path) -> str:
    """What the table says of an input: its shape and note, or the error without the name of the file."""
    try:
        opened = odd(folder)
        if isinstance(opened, list):
            return f"{len(opened)} label"
        values = array(opened)
    except ValueError as error:
        return "error: " + str(error).replace(f"{folder}/", "").replace("<", "&lt;").replace("|", "\\|")
    # Whatever is next to the vectors, they are the numbers that were written.
    if values.shape == X.shape:
        np.testing.assert_allclose(values, X, atol=1e-12)
    note = "".join(f"; note: {note}" for note in opened.notes)
    return f"{values.shape[0]} × {values.shape[1]}{note}"


def documented() -> dict[str, str]:
    page = PAGE.read_text(encoding="utf-8").partition("## Odd inputs")[2].partition("\n## ")[0]
    return dict(match.groups() for match in re.finditer(r"^\| (.+?) \| (.+) \|$", page, re.MULTILINE) if match[1] != "input")


@pytest.mark.parametrize("name", ODD)
def test_an_odd_input_is_read_or_refused_as_the_documentation_says(name: str, tmp_path: Path) -> None:
    assert outcome(ODD[name], tmp_path) == documented()[name]


def test_the_table_has_every_input_and_no_other() -> None:
    assert list(documented()) == list(ODD) and len(ODD) >= 60
