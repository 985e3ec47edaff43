"""Loading: files are looked for in the usual folders; the Hub gives the same examples, or one sentence that explains why not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from theodolite.tasks import TASKS, DataError, Task, load_task
from theodolite.tasks.task import Hub

READ = """
import sys
from theodolite.tasks import load_task
try:
    load_task(sys.argv[1], sys.argv[2])
except Exception as error:
    print(type(error).__name__, error)
"""
CARD = """---
configs:
- config_name: {config}
  data_files:
{files}
---
"""


def offline(tmp_path: Path, *arguments: str, code: str = READ) -> str:
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_hub_out_of_reach_is_explained_in_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    message = offline(tmp_path, "rte", "dev")
    assert message.startswith("DataError task 'rte' could not be downloaded from the Hub (nyu-mll/glue: ")
    assert "\n" not in message and message.endswith("data=FOLDER")


def test_without_the_library_the_install_command_is_named(tmp_path: Path) -> None:
    message = offline(tmp_path, "rte", "dev", code="import sys\nsys.modules['datasets'] = None\n" + READ)
    assert message.startswith("ImportError task 'rte' is downloaded from the Hub")
    assert 'pip install "theodolite[models]"' in message and "\n" not in message


def test_a_task_that_is_not_on_the_hub_says_so() -> None:
    with pytest.raises(DataError, match=r"'ps-role' is not on the Hub; .*data=FOLDER"):
        load_task("ps-role", "train")


def test_a_split_that_only_the_release_has() -> None:
    with pytest.raises(DataError, match="the Hub copy of task 'cola' has no split 'in_domain_dev', only train, dev"):
        load_task("cola", "in_domain_dev")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that writes a table as a copy in the Hub's layout and gives the task that reads it from there."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()

    def write(task: Task, columns: dict[str, list[Any]], kinds: dict[str, Any] | None = None, split: str = "dev") -> Task:
        assert task.hub is not None
        place = task.hub.splits[split].partition("[")[0]
        config = task.hub.config or "default"
        folder = tmp_path / "copy" / config
        folder.mkdir(parents=True)
        table = datasets.Dataset.from_dict(columns)
        for name, kind in (kinds or {}).items():
            table = table.cast_column(name, kind)
        table.to_parquet(folder / f"{place}-00000-of-00001.parquet")
        files = f"  - split: {place}\n    path: {config}/{place}-*"
        (tmp_path / "copy" / "README.md").write_text(CARD.format(config=config, files=files), encoding="utf-8")
        return replace(task, hub=replace(task.hub, id=str(tmp_path / "copy")))

    yield write
    datasets.enable_progress_bars()


def test_numbers_that_stand_for_labels_become_names(hub: Any) -> None:
    from datasets import ClassLabel

    columns = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [1, 0], "idx": [0, 1]}
    task = hub(TASKS["rte"], columns, {"label": ClassLabel(names=["entailment", "not_entailment"])})
    examples = load_task(task, "dev")
    assert (examples.texts, examples.second, examples.labels) == (("a", "b"), ("c", "d"), ("not_entailment", "entailment"))


def test_a_hidden_label_is_an_error(hub: Any) -> None:
    from datasets import ClassLabel

    columns = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [1, -1]}
    task = hub(TASKS["rte"], columns, {"label": ClassLabel(names=["entailment", "not_entailment"])})
    with pytest.raises(DataError, match="rte validation, line 2: the label is empty"):
        load_task(task, "dev")


def test_labels_in_words_and_scores_on_their_scale(hub: Any) -> None:
    task = hub(TASKS["stsb"], {"sentence1": ["a"], "sentence2": ["b"], "score": [4.5]})
    examples = load_task(task, "dev")
    assert examples.scores is not None and examples.scores.tolist() == [4.5]


def test_a_score_off_the_scale_and_a_missing_column_are_named(hub: Any, tmp_path: Path) -> None:
    task = hub(TASKS["stsb"], {"sentence1": ["a"], "sentence2": ["b"], "score": [45.0]})
    with pytest.raises(DataError, match="score 45 must be between 0 and 5"):
        load_task(task, "dev")
    assert task.hub is not None
    renamed = replace(task, hub=replace(task.hub, columns={**task.hub.columns, "score": "scores"}))
    with pytest.raises(
        DataError, match=r"no column 'scores' for the score; the columns are sentence1, sentence2, score \(did you mean 'score'"
    ):
        load_task(renamed, "dev")


def test_trec_labels_are_the_releases_own(hub: Any) -> None:
    columns = {"text": ["How far ?"], "label_original": ["NUM:dist"], "label_coarse_original": ["NUM"]}
    task = hub(TASKS["trec-6"], columns, split="test")
    assert load_task(task, "test").labels == ("NUM",)
    assert load_task(replace(TASKS["trec-50"], hub=replace(task.hub, columns=TASKS["trec-50"].hub.columns)), "test").labels == (  # type: ignore[union-attr]
        "NUM:dist",
    )


def test_a_treebank_counts_only_words_of_the_tree_and_is_cut_into_splits(hub: Any) -> None:
    # A multiword token and an empty node have no head, and heads do not count them.
    sentence = {
        "tokens": ["don't", "do", "n't", "go", "sleep"],
        "upos": ["_", "AUX", "PART", "VERB", "VERB"],
        "head": ["None", "3", "3", "_", "0"],
        "deprel": ["_", "aux", "advmod", "_", "root"],
    }
    rows = {name: [values] * 802 for name, values in sentence.items()}
    task = hub(TASKS["dep"], rows, split="train")
    train, test = load_task(task, "train"), load_task(task, "test")
    assert (len(train.texts), len(test.texts)) == (800, 2)
    assert test.words is not None and test.words[0] == ("do", "n't", "sleep")
    assert test.places is not None and test.places.tolist() == [[0, 2, 0], [0, 2, 1], [1, 2, 0], [1, 2, 1]]
    assert test.labels == ("aux", "advmod") * 2
    assert isinstance(task.hub, Hub) and TASKS["pos"].hub is not None
    pos = replace(TASKS["pos"], hub=replace(task.hub, columns=TASKS["pos"].hub.columns))
    assert load_task(pos, "test").labels == ("AUX", "PART", "VERB") * 2


def test_an_unknown_configuration_is_explained_in_one_sentence(hub: Any) -> None:
    task = hub(TASKS["rte"], {"sentence1": ["a"], "sentence2": ["b"], "label": ["entailment"]})
    with pytest.raises(DataError, match=r"could not be downloaded from the Hub .*data=FOLDER"):
        load_task(replace(task, hub=replace(task.hub, config="wnli")), "dev")


# From files


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A file of the folder the task is read from."""

    def written(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


STS = "main\tMSRvid\t2012\t0001\t2.5\ta\tb\n"


def test_a_missing_file_lists_what_the_folder_has(tmp_path: Path, write: Callable[..., Path]) -> None:
    (tmp_path / "stsb").mkdir()
    write("stsb/sts-dev.csv", STS)
    with pytest.raises(DataError, match=r"there is no file sts-train.csv of task 'stsb'.*stsb has sts-dev.csv"):
        load_task("stsb", "train", tmp_path)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is not a folder; data=FOLDER names"):
        load_task("stsb", "train", tmp_path / "nowhere")


def test_a_missing_split_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="task 'rte' has no split 'test'; it has train, dev"):
        load_task("rte", "test", tmp_path)


def test_an_unknown_task_suggests_a_close_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no task 'sts-b'.*did you mean 'stsb'"):
        load_task("sts-b", "train", tmp_path)


def test_empty_nodes_are_for_treebanks(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("sts-train.csv", STS)
    with pytest.raises(DataError, match="empty_nodes=True is for treebanks"):
        load_task("stsb", "train", tmp_path, empty_nodes=True)
