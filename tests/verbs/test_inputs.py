"""What a user gives is recognised, and options that do not apply to it are refused with one sentence."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.spaces import Space
from theodolite.verbs.inputs import EncoderInput, Reading, ReadingOptions, VectorsInput, open_input

X = np.random.default_rng(0).standard_normal((60, 6)).astype(np.float32)


def values(source: Any, **options: Any) -> list[float]:
    return [row.value for row in th.survey(source, metrics=["iso_score", "mean_cosine"], **options)]


EXPECTED = values(X)


def test_arrays_lists_frames_series_and_tensors_are_vectors() -> None:
    import pandas
    import polars
    import torch

    frame = pandas.DataFrame(X)
    inputs = [
        X.tolist(),
        frame,
        pandas.Series(list(X)),
        polars.DataFrame(X),
        polars.Series(X.tolist()),
        torch.tensor(X),
        th.Cloud(X),
    ]
    for each in inputs:
        assert values(each) == pytest.approx(EXPECTED, rel=1e-6), type(each)


def test_files_and_folders_of_shards_are_vectors(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X)
    (tmp_path / "shards").mkdir()
    for number, part in enumerate(np.array_split(X, 3)):
        np.save(tmp_path / "shards" / f"part-{number}.npy", part)
    np.savez(tmp_path / "several.npz", a=X, b=X[:2])
    assert values(tmp_path / "v.npy") == values(str(tmp_path / "v.npy")) == pytest.approx(EXPECTED)
    assert values(tmp_path / "shards") == pytest.approx(EXPECTED)
    assert values([str(path) for path in sorted((tmp_path / "shards").iterdir())]) == pytest.approx(EXPECTED)
    with pytest.raises(FileNotFoundError, match="there is no file a text"):
        values(["a text", "another"])
    assert values(tmp_path / "several.npz", key="a") == pytest.approx(EXPECTED)


def test_a_space_is_one_in_memory_and_in_a_folder(tmp_path: Path) -> None:
    space = Space.of({0: X, 3: X + 1})
    space.save(tmp_path / "space")
    for source in (space, tmp_path / "space", str(tmp_path / "space")):
        result = th.survey(source, metrics=["iso_score"], findings=False)
        assert [row.layer for row in result] == [0, 3]


@pytest.mark.parametrize(
    ("make", "options", "sentence"),
    [
        ("space", {"key": "x"}, "key='x' does not apply to a space"),
        ("space", {"task": "stsb"}, "task=.*does not apply to a space"),
        ("file", {"task": "stsb"}, "task=.*does not apply to a file of vectors"),
        ("file", {"layers": "last"}, "layers=.*does not apply to a file of vectors"),
        ("array", {"columns": ["a"]}, "columns=.*does not apply to vectors in memory"),
        ("array", {"unit": "mean"}, "unit=.*does not apply to vectors in memory"),
        ("model", {"key": "x", "texts": ["a"]}, "key=.*does not apply to an encoder"),
        ("model", {"texts": ["a"], "split": "dev"}, "split=.*belongs to a task"),
        ("model", {"texts": ["a"], "kind": "tagging"}, "kind=.*describes your own files"),
        ("model", {}, "texts that"),
        ("model", {"texts": ["a"], "task": "stsb"}, "texts that"),
    ],
)
def test_an_option_that_does_not_apply_is_refused(make: str, options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", X)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    source = {"space": Space.of({0: X}), "file": tmp_path / "v.npy", "array": X, "model": tmp_path / "model"}[make]
    with pytest.raises(ValueError, match=sentence):
        th.survey(source, **options)


def test_a_name_that_is_not_there_says_how_an_encoder_is_read() -> None:
    with pytest.raises(FileNotFoundError, match=r"if it is an encoder, give the texts that it should read: task='?NAME"):
        th.survey("bert-base-uncased")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        th.survey("nowhere.npy")


def test_a_misspelt_option_names_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"survey\(\) has no option 'tsk'; did you mean 'task'"):
        th.survey(X, tsk="stsb")


def test_signatures_show_the_reading_options() -> None:
    without = {
        th.survey: set(),
        th.compare: {"revision"},
        th.probe: {"texts", "score_range", "specials"},
        th.extract: {"key", "columns"},
    }
    for verb, missing in without.items():
        parameters = inspect.signature(verb).parameters
        assert set(Reading.__dataclass_fields__) - set(parameters) == missing
        assert parameters["layers"].default == "all"


def test_both_lists_of_reading_options_have_the_same_names() -> None:
    assert list(Reading.__dataclass_fields__) == list(ReadingOptions.__annotations__)


def test_loaded_models_are_encoders(tiny: Any) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = tiny("bert")
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert isinstance(open_input(model, Reading(texts=["the cat"], tokenizer=tokenizer)), EncoderInput)
    from_folder = th.extract(folder, ["the cat", "a dog"], layers="last")
    in_memory = th.extract(model, ["the cat", "a dog"], layers="last", tokenizer=tokenizer)
    np.testing.assert_array_equal(from_folder[-1], in_memory[-1])
    assert isinstance(open_input(X, Reading()), VectorsInput)


def test_texts_come_from_a_file_or_a_list(tiny: Any, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("the cat\n\na dog\n", encoding="utf-8")
    one = th.extract(tiny("bert"), tmp_path / "t.txt", layers="last")
    two = th.extract(tiny("bert"), texts=["the cat", "a dog"], layers="last")
    np.testing.assert_array_equal(one[-1], two[-1])


def test_own_files_are_a_task(tiny: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("sentence,label\nthe cat,a\na dog,b\n", encoding="utf-8")
    space = th.extract(
        tiny("bert"), own={"train": str(tmp_path / "mine.csv")}, kind="classification", column={"text": "sentence"}, layers="last"
    )
    assert list(space.rows["label"]) == ["a", "b"]
    with pytest.raises(ValueError, match="needs kind="):
        th.extract(tiny("bert"), own={"train": str(tmp_path / "mine.csv")})
