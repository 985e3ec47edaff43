"""Readers of words on tiny files: what they keep, and what their errors name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from theodolite.tasks import DataError, load_task

CONLLU = "1\tCats\tcat\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tsleep\tsleep\tVERB\tVBP\t_\t{head}\troot\t_\t_\n"
LEX = "1\tsat\tsit\tVERB\tVBD\t_\t0\troot\t_\t_\t_\tV\tsit\tv.stative\t_\t_\t_\t_\tO-V\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A file of the folder the task is read from."""

    def written(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.mark.parametrize(
    ("name", "file", "text", "line", "fault"),
    [
        ("pos", "en_pud-ud-test.conllu", "1\tCats\n", 1, "the line has 2 tab-separated columns, this format has 10"),
        ("pos", "en_pud-ud-test.conllu", "x" + CONLLU.format(head=0)[1:], 1, "'x' is not a word id"),
        ("pos", "en_pud-ud-test.conllu", CONLLU.format(head=0).replace("2\ts", "3\ts"), 2, "word id 3 should be 2"),
        ("pos", "en_pud-ud-test.conllu", CONLLU.format(head=0).replace("VERB", "VRB"), 2, "label 'VRB' is not one of ADJ"),
        ("dep", "en_pud-ud-test.conllu", CONLLU.format(head=7), 2, "head '7' of 'sleep' is not in the sentence"),
        ("dep", "en_pud-ud-test.conllu", CONLLU.format(head="_"), 2, "head '_' of 'sleep' is not in the sentence"),
        ("ps-role", "streusle.ud_train.conllulex", CONLLU.format(head=0), 1, "this format has 19"),
    ],
)
def test_errors_name_file_and_line(
    tmp_path: Path, write: Callable[..., Path], name: str, file: str, text: str, line: int, fault: str
) -> None:
    path = write(file, text)
    with pytest.raises(DataError, match=re.escape(f"{path}, line {line}: ")) as caught:
        load_task(name, "train", tmp_path)
    assert fault in str(caught.value)


def test_conllu_skips_multiword_tokens_comments_and_empty_nodes(tmp_path: Path, write: Callable[..., Path]) -> None:
    rows = ["# text = I don't", "1\tI", "2-3\tdon't", "2\tdo", "2.1\tgo", "3\tn't", "4\tunknown"]
    upos = {"I": "PRON", "do": "AUX", "go": "VERB", "n't": "PART"}
    lines = []
    for row in rows:
        if row.startswith("#"):
            lines.append(row)
            continue
        number, form = row.split("\t")
        lines.append("\t".join([number, form, "_", upos.get(form, "_"), "_", "_", "_", "_", "_", "_"]))
    write("en_pud-ud-test.conllu", "\n".join(lines))  # no blank line at the end
    plain = load_task("pos", "train", tmp_path)
    assert plain.words == (("I", "do", "n't", "unknown"),)
    assert plain.labels == ("PRON", "AUX", "PART")  # a word without a tag is not an example
    assert plain.texts == ("I do n't unknown",)
    counted = load_task("pos", "train", tmp_path, empty_nodes=True)
    assert counted.words == (("I", "do", "go", "n't", "unknown"),)
    assert counted.labels == ("PRON", "AUX", "VERB", "PART")


def test_dep_pairs_are_head_then_dependent(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("en_pud-ud-test.conllu", CONLLU.format(head=0) + "\n\n\n" + CONLLU.format(head=0))
    train = load_task("dep", "train", tmp_path)
    assert train.places is not None and train.places.tolist() == [[0, 1, 0], [1, 1, 0]]
    assert train.labels == ("nsubj", "nsubj")


def test_a_short_treebank_has_no_test_split(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("en_pud-ud-test.conllu", CONLLU.format(head=0))
    with pytest.raises(DataError, match="the file has 1 sentences, so split 'test'"):
        load_task("pos", "test", tmp_path)


def test_streusle_without_a_target_says_so(tmp_path: Path, write: Callable[..., Path]) -> None:
    (tmp_path / "train").mkdir()
    write("train/streusle.ud_train.conllulex", LEX)  # the release keeps each split in a folder of its own
    with pytest.raises(DataError, match="there is no word with a label"):
        load_task("ps-role", "train", tmp_path)
