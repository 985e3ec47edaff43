"""BEIR folders and tables of judgements: real ones are read whole, and every fault is named with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theodolite.tasks import DataError, canonical_sentences, read_beir
from theodolite.tasks.retrieval import NOWHERE, judgements_of


def beir(folder: Path, judgements: str = "q1\td1\t2\nq2\td3\t1\n", *, split: str = "test") -> Path:
    documents = [
        {"_id": "d1", "title": "One", "text": "first"},
        {"_id": "d2", "text": "second"},
        {"_id": "d3", "text": " "},
    ]
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))
    queries = [{"_id": f"q{i}", "text": f"question {i}"} for i in (1, 2, 3)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(each) + "\n" for each in queries))
    (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judgements}")
    return folder


def test_texts_ids_and_grades_are_joined(tmp_path: Path) -> None:
    collection = read_beir(beir(tmp_path / "set"))
    assert collection.documents == ("One first", "second")
    assert collection.queries == ("question 1", "question 2")  # the third is not judged
    assert collection.judgements.query.tolist() == [0, 1]
    assert collection.judgements.document.tolist() == [0, NOWHERE]  # relevant, but without text
    assert collection.judgements.grade.tolist() == [2, 1]
    assert collection.name == "set test"
    assert "1 documents without text" in collection.notes[0] and "1 queries without" in collection.notes[1]


def test_the_split_is_the_one_there_is_or_the_one_that_is_named(tmp_path: Path) -> None:
    folder = beir(tmp_path / "set", split="dev")
    assert read_beir(folder).name == "set dev"
    beir(folder, "q3\td2\t1\n", split="train")
    with pytest.raises(DataError, match=r"there are several splits; name one of dev, train: split='dev'"):
        read_beir(folder)
    assert read_beir(folder, "train").queries == ("question 3",)
    with pytest.raises(DataError, match=r"there is no split 'trian'; .*did you mean 'train'"):
        read_beir(folder, "trian")


@pytest.mark.parametrize(
    ("judgements", "fault"),
    [
        ("q1\td1\t1\nq9\td1\t1\n", r"test.tsv, line 3: the query id 'q9' is not in queries.jsonl"),
        ("q1\td8\t1\n", r"line 2: the document id 'd8' is not in corpus.jsonl"),
        ("q1\td1\tgood\n", r"line 2: the grade 'good' is not a number"),
        ("q1\td1\t0\n", r"no query has a relevant document"),
    ],
)
def test_faulty_judgements_are_named_with_their_line(tmp_path: Path, judgements: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        read_beir(beir(tmp_path / "set", judgements))


def test_missing_files_and_repeated_ids_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a folder; retrieval=FOLDER holds corpus.jsonl"):
        read_beir(tmp_path / "nowhere")
    folder = beir(tmp_path / "set")
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "x"}\n' * 2)
    with pytest.raises(DataError, match=r"corpus.jsonl, line 2: the id 'd1' occurs twice"):
        read_beir(folder)
    (folder / "corpus.jsonl").write_text('{"id": "d1"}\n')
    with pytest.raises(DataError, match=r"line 1: the line is not an object with `_id` and `text`"):
        read_beir(folder)
    (folder / "queries.jsonl").unlink()
    with pytest.raises(DataError, match=r"there is no queries.jsonl in it"):
        read_beir(folder)


@pytest.mark.parametrize(
    ("name", "documents", "queries", "judgements"), [("cranfield", 1398, 225, 1612), ("cisi", 1460, 76, 3114)]
)
def test_real_collections_are_whole(data: Path, name: str, documents: int, queries: int, judgements: int) -> None:
    collection = read_beir(data / name)
    assert (len(collection.documents), len(collection.queries), len(collection.judgements.query)) == (
        documents,
        queries,
        judgements,
    )


TABLE = [[0, 2, 1.0], [1, 0, 2.0], [1, 2, 0.0]]


def test_every_form_of_a_table_gives_the_same_judgements(tmp_path: Path) -> None:
    import pandas

    frame = pandas.DataFrame(TABLE, columns=["query", "document", "grade"])
    (tmp_path / "t.tsv").write_text("query-id\tcorpus-id\tscore\n0\t2\t1\n1\t0\t2\n1\t2\t0\n")
    (tmp_path / "t.csv").write_text("0,2,1\n1,0,2\n1,2,0\n")
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(dict(zip("abc", row, strict=True))) + "\n" for row in TABLE))
    frame.to_parquet(tmp_path / "t.parquet")
    files = [tmp_path / f"t.{ending}" for ending in ("tsv", "csv", "jsonl", "parquet")]
    for table in (TABLE, np.array(TABLE), frame, *files):
        result = judgements_of(table, queries=2, documents=3)
        assert (result.query.tolist(), result.document.tolist(), result.grade.tolist()) == ([0, 1], [2, 0], [1, 2]), table
    assert judgements_of([[0, 1]], queries=1, documents=2).grade.tolist() == [1]


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ([[0, 3, 1]], r"judgement 0: document 3 is not one of the 3 documents, which are numbered from 0 to 2"),
        ([[5, 0, 1]], r"query 5 is not one of the 2 queries"),
        ([["q1", 0, 1]], r"query 'q1' is not one of the 2 queries"),
        ([[0, 0, 1]], r"query 1 has no judged document with a grade above 0 \(1 of 2 have none\)"),
        ([[0, 0, None]], r"the grade None is not a number"),
        ([[0]], r"the row has 1 columns; a judgement has a query, a document and a grade"),
    ],
)
def test_faulty_tables_are_named(table: Any, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        judgements_of(table, queries=2, documents=3)


def test_the_canonical_sentences_are_many_domains_of_different_sentences() -> None:
    texts, domains = canonical_sentences()
    assert len(texts) == len(set(texts)) == 250
    assert len(set(domains)) >= 20
    assert {domains.count(domain) for domain in domains} == {10}
    assert all(text == text.strip() and len(text) > 12 for text in texts)


@pytest.mark.parametrize("line", ["null", "3", '"x"'])
def test_a_line_that_is_not_a_judgement_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "j.jsonl").write_text(f'{{"q": 0, "d": 0}}\n{line}\n')
    with pytest.raises(ValueError, match=r"line 2: the row has 1 columns"):
        judgements_of(tmp_path / "j.jsonl", queries=1, documents=1)
