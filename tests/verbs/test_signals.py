"""What a user knows about their data: the vectors a model ships, judgements by id, texts of tables, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import theodolite as th
from theodolite.advice.scorers import JudgedQueries, ScoredPairs
from theodolite.spaces import cache
from theodolite.tasks.retrieval import read_text_records
from theodolite.verbs.inputs import Reading
from theodolite.verbs.progress import progress_bars
from theodolite.verbs.signals import SignalInput, Signals, open_signal

random = np.random.default_rng(0)
WORDS = ["cat", "dog", "river", "bank", "mat", "sat", "the", "unbelievable"]
DOCUMENTS = [f"the {first} sat on a {second}" for first in WORDS for second in WORDS[:3]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def sentence_model(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """[CLS] and Normalize, with prompts for queries and documents."""
    return saved(str(tiny("bert")), tmp_path_factory.mktemp("models") / "cls", 16, {"query": "a dog: ", "document": "the mat: "})


def saved(weights: str, folder: Path, d: int, prompts: dict[str, str] | None = None) -> Path:
    import sentence_transformers as library
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    modules = [Transformer(weights), Pooling(d, "cls"), Normalize()]
    library.SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save_pretrained(str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BEIR folder whose ids are not row numbers."""
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    rows = {"corpus": DOCUMENTS, "queries": DOCUMENTS[:6]}
    for name, texts in rows.items():
        lines = [json.dumps({"_id": f"{name[0]}{9 - i}", "text": text}) for i, text in enumerate(texts)]
        (tmp_path / "beir" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    judged = "".join(f"q{9 - i}\tc{9 - i}\t1\n" for i in range(6))
    (tmp_path / "beir" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return tmp_path / "beir"


def opened(source: Any, signals: Signals | None = None, **reading: Any) -> SignalInput:
    with progress_bars(False) as bars:
        return open_signal(source, signals or Signals(), Reading(**{"layers": "last", **reading}), bars)


def own_vectors(model: Path, texts: list[str], role: str = "") -> Any:
    import sentence_transformers as library

    loaded: Any = library.SentenceTransformer(str(model), device="cpu")
    return getattr(loaded, f"encode_{role}" if role else "encode")(texts)


def test_texts_get_the_vectors_that_the_model_ships(sentence_model: Path, folder: Path) -> None:
    plain = opened(sentence_model, texts=DOCUMENTS)
    np.testing.assert_allclose(plain.vectors, own_vectors(sentence_model, DOCUMENTS), atol=1e-6)
    data = opened(sentence_model, Signals(retrieval=folder))
    assert isinstance(data.signal, JudgedQueries)
    np.testing.assert_allclose(data.vectors, own_vectors(sentence_model, DOCUMENTS, "document"), atol=1e-6)
    np.testing.assert_allclose(data.signal.queries, own_vectors(sentence_model, DOCUMENTS[:6], "query"), atol=1e-6)
    facts = data.facts["encoder"]
    assert (facts["unit"], facts["prompt"], facts["query_prompt"], facts["texts"]) == ("text", "the mat: ", "a dog: ", 30)
    assert facts["max_length"] == 64 and facts["model"] == "cls"


def test_a_prompt_is_the_beginning_of_the_text(sentence_model: Path, tiny: Callable[[str], Path], folder: Path) -> None:
    texts = [f"cat {text}" for text in DOCUMENTS[:6]]
    for model, without in (
        (sentence_model, Signals(retrieval=folder, query_prompt="")),
        (tiny("bert"), Signals(retrieval=folder)),
    ):
        data = opened(model, Signals(retrieval=folder, query_prompt="cat ")).signal
        plain = opened(model, without).signal
        expected = opened(model, texts=texts).vectors
        assert isinstance(data, JudgedQueries) and isinstance(plain, JudgedQueries)
        np.testing.assert_allclose(data.queries, expected, atol=1e-5)
        assert not np.allclose(data.queries, plain.queries, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all-MiniLM", "granite-30m"])
def test_advise_and_calibrate_see_what_encode_returns(name: str, models: Path, tmp_path: Path) -> None:
    from theodolite.models.location import find_encoder
    from theodolite.tasks import canonical_sentences, load_task

    folder = models / name
    if name == "all-MiniLM":  # its weights with another pooling than the usual one
        folder = saved(find_encoder("demo").place, tmp_path / "cls", 384)
    data = opened(folder, task="demo-pairs", split="dev")  # what `advise` measures
    assert isinstance(data.signal, ScoredPairs)
    examples = load_task("demo-pairs", "dev")
    assert examples.second is not None
    for side, texts in ((data.signal.first, examples.texts), (data.signal.second, examples.second)):
        expected = own_vectors(folder, list(texts))
        # Relative to the largest entry, which is 10 where vectors are not normalised; batches of another size round differently.
        np.testing.assert_allclose(side, expected, atol=3e-6 * np.abs(expected).max())
    X = own_vectors(folder, list(canonical_sentences()[0]))
    expected = th.calibrate(X, canonical=X).value("cutoff", setting="canonical sentences")
    assert th.calibrate(folder).value("cutoff", setting="canonical sentences") == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("ignore::theodolite.models.tokens.TokenizerWarning")
def test_encoded_vectors_are_kept_and_named(sentence_model: Path, folder: Path) -> None:
    first = opened(sentence_model, Signals(retrieval=folder))
    again = opened(sentence_model, Signals(retrieval=folder))
    place = cache.where() / "vectors"
    assert f"kept in {place}" in first.notes[-1] and f"read from {place}" in again.notes[-1]
    assert "theodolite cache clean" in again.notes[-1]
    assert np.array_equal(first.vectors, again.vectors)
    changed: list[dict[str, Any]] = [{"query_prompt": ""}, {"unit": "mean"}, {"max_length": 5, "allow_unknown": True}]
    for options in changed:
        prompt = options.pop("query_prompt", None)
        other = opened(sentence_model, Signals(retrieval=folder, query_prompt=prompt), **options)
        assert "kept in" in other.notes[-1], options
    entry = next(place.glob("*.npz"))
    for damaged in place.glob("*.npz"):
        damaged.write_bytes(damaged.read_bytes()[:100])
    assert np.array_equal(opened(sentence_model, Signals(retrieval=folder)).vectors, first.vectors)
    assert cache.clean() > 0 and not entry.exists() and not place.exists()


def test_vectors_beyond_the_limit_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LIMIT", 1000)
    kept = cache.VectorCache()
    kept.store("large", {0: np.zeros((100, 4), np.float32)})
    assert kept.load("large") is None
    for key in "abcdef":
        kept.store(key, {0: np.zeros((2, 4), np.float32)})
    assert kept.load("f") is not None and kept.load("a") is None and cache.size() <= 1000


def test_judgements_name_ids_where_there_are_any(sentence_model: Path, folder: Path, tmp_path: Path) -> None:
    expected = opened(sentence_model, Signals(retrieval=folder))
    assert isinstance(expected.signal, JudgedQueries)
    qrels = folder / "qrels" / "test.tsv"
    frames = {}
    for name, texts in (("corpus", expected.vectors), ("queries", expected.signal.queries)):
        ids = [f"{name[0]}{9 - i}" for i in range(len(texts))]
        frames[name] = pandas.DataFrame({"id": ids, **{f"x{i}": texts[:, i] for i in range(16)}})
        frames[name].to_parquet(tmp_path / f"{name}.parquet")
        th.Space.of({0: texts}, rows={"id": ids}).save(tmp_path / name)
    forms = [
        (frames["corpus"], frames["queries"]),
        (tmp_path / "corpus.parquet", tmp_path / "queries.parquet"),
        (tmp_path / "corpus", tmp_path / "queries"),
    ]
    rows = [[i, i, 1] for i in range(6)]
    for documents, queries in forms:
        data = opened(documents, Signals(queries=queries, judgements=qrels)).signal
        assert isinstance(data, JudgedQueries)
        assert data.judgements.document.tolist() == expected.signal.judgements.document.tolist() == list(range(6))
        with pytest.raises(ValueError, match=r"query '0' is not the id of one of the 6 queries; .*not row numbers"):
            opened(documents, Signals(queries=queries, judgements=rows))
    arrays = opened(expected.vectors, Signals(queries=expected.signal.queries, judgements=rows)).signal
    assert isinstance(arrays, JudgedQueries) and arrays.judgements.document.tolist() == list(range(6))
    texts = opened(sentence_model, Signals(queries=folder / "queries.jsonl", judgements=qrels), texts=folder / "corpus.jsonl")
    np.testing.assert_allclose(texts.vectors, expected.vectors, atol=1e-6)


def test_a_space_of_texts_carries_their_ids(sentence_model: Path, folder: Path) -> None:
    space = th.extract(sentence_model, folder / "queries.jsonl", layers="last")
    assert isinstance(space, th.Space)
    assert list(space.rows["id"]) == [f"q{9 - i}" for i in range(6)]


@pytest.mark.parametrize(
    ("signals", "fault"),
    [
        ({"pairs": [[1.0]]}, "pairs=FILE and scores=FILE go together"),
        ({"labels": ["a"], "retrieval": "x"}, "labels=X and retrieval=X are different signals"),
        ({"query_prompt": "q: "}, "query_prompt=TEXT is for an encoder that reads queries"),
    ],
)
def test_signals_that_do_not_go_together_are_refused(signals: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Signals(**signals)


def test_a_prompt_does_not_change_vectors() -> None:
    X = random.standard_normal((4, 3))
    with pytest.raises(ValueError, match="these vectors are encoded already"):
        opened(X, Signals(queries=X, judgements=[[0, 0]], query_prompt="q: "))


def test_tables_give_their_column_of_texts(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"id": [3, 4, 5], "text": ["a cat", 'the "mat", sat', "a dog"], "other": ["x", "y", "z"]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    for ending in ("parquet", "csv", "tsv", "jsonl"):
        records = read_text_records(tmp_path / f"t.{ending}")
        assert records.texts == tuple(frame["text"]) and records.ids == ("3", "4", "5"), ending
        named = read_text_records(tmp_path / f"t.{ending}", {"text": "other"})
        assert named.texts == ("x", "y", "z")
        with pytest.raises(
            ValueError, match=r"there is no column 'body'; name the column of texts, one of id, text, other: column"
        ):
            read_text_records(tmp_path / f"t.{ending}", {"text": "body"})


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("x.csv", "title,body\na,b\n", r"no column is called text; name the column of texts, one of title, body: column="),
        ("x.csv", "a first text\nanother\n", r"no column is called text"),
        ("x.jsonl", '{"text": "a"}\n{"text": 3}\n', r"line 2: '3' is not text"),
        ("x.jsonl", '{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n', r"the id '1' occurs twice"),
        ("x.jsonl", '{"text": "a"}\n["b"]\n', r"line 2: the line is not an object"),
        ("x.txt", '{"text": "a"}\n{"text": "b"}\n', r"the first line is JSON, not a text; rename the file to .jsonl"),
        ("x.json", '["a", "b"]', r".json is not a file of texts; give a .txt file"),
        ("x.csv", "text\n \n", r"the file holds no text"),
    ],
)
def test_texts_that_are_not_clear_are_refused(tmp_path: Path, name: str, content: str, fault: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=fault):
        read_text_records(tmp_path / name)


def test_lines_stay_texts(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("id,text\n{not json}\n\na b\n")
    assert read_text_records(tmp_path / "x.txt").texts == ("id,text", "{not json}", "a b")
    (tmp_path / "x.jsonl").write_text('"a text"\n"another"\n')
    assert read_text_records(tmp_path / "x.jsonl").texts == ("a text", "another")
