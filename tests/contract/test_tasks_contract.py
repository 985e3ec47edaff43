"""What holds for every declared task."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from theodolite.tasks import SCORES, TASKS, DataError, load_task
from theodolite.tasks.examples import labels_of
from theodolite.tasks.formats import TEXT_READERS, WORD_READERS
from theodolite.tasks.task import UNITS

ALL = pytest.mark.parametrize("name", TASKS)


PAPERS = {"stsb", "rte", "cola", "mrpc", "pos", "dep", "ps-role", "ps-fxn", "trec-50", "trec-6"}
DEMO = {"demo-pairs", "demo-topics"}


@pytest.fixture
def home(name: str, request: pytest.FixtureRequest) -> Path | None:
    """Where the files of a task are: in the folder of real data, or (None) inside the package."""
    if name in DEMO:
        return None
    folder: Path = request.getfixturevalue("data")
    return folder


def test_the_tasks_of_the_papers_and_the_demo_are_there() -> None:
    assert set(TASKS) == PAPERS | DEMO


@ALL
def test_the_declaration_is_complete(name: str) -> None:
    task = TASKS[name]
    assert task.name == name
    assert task.score in SCORES
    assert task.layout.format in (WORD_READERS if task.on_words else TEXT_READERS)
    assert task.unit in UNITS
    assert task.train_split == "train"
    assert task.scored_split == ("dev" if "dev" in task.splits else "test")
    assert task.layout.folders and all(task.splits.values())
    assert "train" in task.splits and len(task.splits) > 1
    assert task.citation and task.note.endswith(".")
    assert (task.kind == "similarity") == (task.score_range is not None)
    assert task.labels is None or len(set(task.labels)) == len(task.labels) > 1
    assert pickle.loads(pickle.dumps(task)) == task


@ALL
def test_the_hub_copy_names_the_columns_of_its_kind_and_only_verified_revisions(name: str) -> None:
    task = TASKS[name]
    if task.hub is None:
        assert "Not on the Hub" in task.note
        return
    assert set(task.hub.columns) == ({"words", "head", "label"} if task.on_words else set(task.roles))
    assert set(task.hub.splits) <= set(task.splits)
    assert "train" in task.hub.splits
    assert task.hub.revision is None


@ALL
def test_an_empty_folder_and_an_unknown_split_are_explained(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"there is no file .* of task '{name}'.*has nothing"):
        load_task(name, "train", tmp_path)
    with pytest.raises(DataError, match=f"task '{name}' has no split 'validation'; it has train"):
        load_task(name, "validation", tmp_path)


@ALL
def test_empty_files_are_explained(name: str, tmp_path: Path) -> None:
    for file in TASKS[name].splits["train"]:
        (tmp_path / file).write_bytes(b"\n")
    with pytest.raises(DataError, match="the file is empty"):
        load_task(name, "train", tmp_path)


@ALL
def test_examples_have_the_form_of_their_kind(name: str, home: Path | None) -> None:
    task = TASKS[name]
    for split in task.splits:
        examples = load_task(name, split, home)
        assert (examples.split, examples.task.name) == (split, name)
        assert len(examples) >= 100
        assert all(text.strip() for text in examples.texts)
        assert (examples.second is not None) == task.paired
        assert (examples.labels is None) == (task.kind == "similarity") == (examples.scores is not None)
        assert (examples.words is not None) == task.on_words == (examples.places is not None)
        if examples.places is not None and examples.words is not None:
            assert examples.places.shape[1] == {"tagging": 2, "word_pairs": 3}[task.kind]
            lengths = np.array([len(words) for words in examples.words])
            assert examples.places.min() >= 0 and (examples.places[:, 1:] < lengths[examples.places[:, :1]]).all()
        if examples.labels is not None:
            assert set(examples.labels) <= set(labels_of(examples))


@ALL
def test_every_line_number_leads_back_to_its_example(name: str, home: Path | None) -> None:
    examples = load_task(name, "train", home)
    assert examples.lines is not None
    raw = Path(examples.files[0]).read_text(encoding=examples.task.layout.encoding).split("\n")
    for index in range(0, len(examples), 97):
        line = raw[examples.lines[index][1] - 1]
        if examples.places is None or examples.words is None:
            assert examples.texts[index] in line
        else:
            sentence, word = examples.places[index][0], examples.places[index][-1]
            assert line.split("\t")[1] == examples.words[sentence][word]


@ALL
def test_a_division_seventy_to_thirty_keeps_the_shares_of_labels(name: str, home: Path | None) -> None:
    examples = load_task(name, "train", home)
    first, second = examples.divide(0.7, seed=1)
    assert len(first) + len(second) == len(examples)
    assert len(first) / len(examples) == pytest.approx(0.7, abs=0.02)
    if examples.labels is not None and examples.places is None:
        for label in set(examples.labels):
            whole, inside = examples.labels.count(label), (first.labels or ()).count(label)
            assert abs(inside - 0.7 * whole) <= 1
