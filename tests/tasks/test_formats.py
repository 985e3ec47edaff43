"""Readers of texts on tiny files: what they keep, and what their errors name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from theodolite.tasks import DataError, load_task

STS = "main\tMSRvid\t2012\t0001\t{score}\t{first}\t{second}"


def sts(*, score: str = "2.5", first: str = "a", second: str = "b") -> str:
    return STS.format(score=score, first=first, second=second)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """A file of the folder the task is read from."""

    def written(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


def test_sts_keeps_lone_quotes_and_ignores_licence_columns(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("sts-train.csv", sts(first='"Stop', second='he said "no') + "\n" + sts(score="5") + "\tlicence\tlicence\r\n")
    train = load_task("stsb", "train", tmp_path)
    assert (train.texts, train.second) == (('"Stop', "a"), ('he said "no', "b"))
    assert train.scores is not None and train.scores.tolist() == [2.5, 5.0]
    assert train.labels is None


def test_other_line_separators_belong_to_the_text(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("sts-train.csv", sts(first="one\u2028two\x0bthree\x85four") + "\n")
    assert load_task("stsb", "train", tmp_path).texts == ("one\u2028two\x0bthree\x85four",)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (sts(score="5.1"), "score 5.1 must be between 0 and 5"),
        (sts(score="-1"), "score -1 must be between 0 and 5"),
        (sts(score="nan"), "score nan must be between 0 and 5"),
        (sts(score="high"), "score 'high' is not a number"),
        (sts(score=""), "score '' is not a number"),
        (sts(first=" "), "the first text is empty"),
        (sts(second=""), "the second text is empty"),
        ("main\tMSRvid\t2012", "the line has 3 tab-separated columns, an STS-Benchmark file has 7 or 9"),
    ],
)
def test_errors_of_sts_name_file_and_line(tmp_path: Path, write: Callable[..., Path], line: str, fault: str) -> None:
    path = write("sts-dev.csv", sts() + "\n" + line + "\n")
    with pytest.raises(DataError, match=re.escape(f"{path}, line 2: {fault}")) as caught:
        load_task("stsb", "dev", tmp_path)
    assert (caught.value.file, caught.value.line) == (str(path), 2)


def test_glue_labels_get_their_names(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("train.tsv", b'\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta "b\tc\n0\t3\t4\td\te\n')
    mrpc = load_task("mrpc", "train", tmp_path)
    assert mrpc.labels == ("equivalent", "not_equivalent")
    assert mrpc.texts == ('a "b', "d")
    write("dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n")
    assert load_task("rte", "dev", tmp_path).label_ids(("not_entailment", "entailment")).tolist() == [1]


@pytest.mark.parametrize(
    ("name", "file", "text", "line", "fault"),
    [
        ("rte", "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentails\n", 2, "label 'entails' must be 0"),
        ("rte", "dev.tsv", "index\tsentence_1\tsentence2\tlabel\n", 1, "no column 'sentence1' for the text"),
        ("rte", "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\n", 2, "the line has 3 cells, the header has 4"),
        ("cola", "in_domain_train.tsv", "gj04\t1\t\tFine.\ngj04\t2\t\tFine.\n", 2, "label '2' must be 0 (unacceptable) or 1"),
        ("cola", "in_domain_train.tsv", "gj04\t1\tFine.\n", 1, "the line has 3 tab-separated columns, CoLA has 4"),
        (
            "trec-50",
            "train_5500.label",
            "NUM:dist How far ?\nHow far ?\n",
            2,
            "'How' before the question is not a label such as NUM:dist",
        ),
        ("trec-50", "train_5500.label", "NUM:dist\n", 1, "the text is empty"),
        (
            "trec-6",
            "train_5500.label",
            "NUMB:dist How far ?\n",
            1,
            "label 'NUMB' is not one of ABBR, DESC, ENTY, HUM, LOC, NUM (did",
        ),
    ],
)
def test_errors_of_every_format_name_file_and_line(
    tmp_path: Path, write: Callable[..., Path], name: str, file: str, text: str, line: int, fault: str
) -> None:
    path = write(file, text)
    split = "dev" if file == "dev.tsv" else "train"
    with pytest.raises(DataError, match=re.escape(f"{path}, line {line}: ")) as caught:
        load_task(name, split, tmp_path)
    assert fault in str(caught.value)


def test_a_wrong_column_lists_those_present_and_suggests_the_close_one(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("dev.tsv", "index\tSentence_1\tsentence2\tlabel\n0\ta\tb\tentailment\n")
    with pytest.raises(DataError, match=r"the columns are index, Sentence_1, sentence2, label \(did you mean 'Sentence_1'\?\)"):
        load_task("rte", "dev", tmp_path)


def test_a_wrong_encoding_is_named_with_its_byte_and_a_way_out(tmp_path: Path, write: Callable[..., Path]) -> None:
    path = write("sts-train.csv", sts().encode() + b"\n" + sts(first="caf_").replace("_", "\xe9").encode("latin-1") + b"\n")
    offset = path.read_bytes().index(b"\xe9")
    with pytest.raises(DataError, match=re.escape(f"{path}, line 2: byte 0xE9 at offset {offset} is not utf-8")) as caught:
        load_task("stsb", "train", tmp_path)
    assert "encoding='latin-1'" in str(caught.value)
    assert load_task("stsb", "train", tmp_path, encoding="latin-1").texts == ("a", "café")


def test_a_utf16_file_is_recognised_by_its_mark(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("sts-train.csv", (sts(first="naïve") + "\n").encode("utf-16"))
    with pytest.raises(DataError, match="encoding='utf-16'"):
        load_task("stsb", "train", tmp_path)
    assert load_task("stsb", "train", tmp_path, encoding="utf-16").texts == ("naïve",)


@pytest.mark.parametrize("text", ["", " \n\n", "\ufeff"])
def test_an_empty_file_is_an_error(tmp_path: Path, write: Callable[..., Path], text: str) -> None:
    path = write("sts-train.csv", text)
    with pytest.raises(DataError, match=re.escape(f"{path}: the file is empty")):
        load_task("stsb", "train", tmp_path)


def test_a_header_alone_holds_no_example(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("dev.tsv", "index\tsentence1\tsentence2\tlabel\n")
    with pytest.raises(DataError, match="there is no example in the file"):
        load_task("rte", "dev", tmp_path)
