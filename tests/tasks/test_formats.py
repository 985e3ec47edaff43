"""Readers of texts and of words on tiny files: what they keep, and what their errors name."""

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
        ("main\tMSRvid\t2012", "the line has 3 tab-separated columns, but an STS-Benchmark file has 7 or 9"),
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
        ("rte", "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\n", 2, "the line has 3 cells, but the header has 4"),
        ("cola", "in_domain_train.tsv", "gj04\t1\t\tFine.\ngj04\t2\t\tFine.\n", 2, "label '2' must be 0 (unacceptable) or 1"),
        ("cola", "in_domain_train.tsv", "gj04\t1\tFine.\n", 1, "the line has 3 tab-separated columns, but CoLA has 4"),
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
    with pytest.raises(
        DataError, match=r"the columns are index, Sentence_1, sentence2, label \(did you mean 'Sentence_1'\?\); read another"
    ):
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


# Words

CONLLU = "1\tCats\tcat\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n2\tsleep\tsleep\tVERB\tVBP\t_\t{head}\troot\t_\t_\n"
LEX = "1\tsat\tsit\tVERB\tVBD\t_\t0\troot\t_\t_\t_\tV\tsit\tv.stative\t_\t_\t_\t_\tO-V\n"


@pytest.mark.parametrize(
    ("name", "file", "text", "line", "fault"),
    [
        ("pos", "en_pud-ud-test.conllu", "1\tCats\n", 1, "the line has 2 tab-separated columns, but this format has 10"),
        ("pos", "en_pud-ud-test.conllu", "x" + CONLLU.format(head=0)[1:], 1, "'x' is not a word id"),
        ("pos", "en_pud-ud-test.conllu", CONLLU.format(head=0).replace("2\ts", "3\ts"), 2, "word id 3 should be 2"),
        ("pos", "en_pud-ud-test.conllu", CONLLU.format(head=0).replace("VERB", "VRB"), 2, "label 'VRB' is not one of ADJ"),
        ("dep", "en_pud-ud-test.conllu", CONLLU.format(head=7), 2, "head '7' of 'sleep' is not in the sentence"),
        ("dep", "en_pud-ud-test.conllu", CONLLU.format(head="_"), 2, "head '_' of 'sleep' is not in the sentence"),
        ("ps-role", "streusle.ud_train.conllulex", CONLLU.format(head=0), 1, "this format has 19"),
    ],
)
def test_errors_of_treebanks_name_file_and_line(
    tmp_path: Path, write: Callable[..., Path], name: str, file: str, text: str, line: int, fault: str
) -> None:
    path = write(file, text)
    with pytest.raises(DataError, match=re.escape(f"{path}, line {line}: ")) as caught:
        load_task(name, "train", tmp_path)
    assert fault in str(caught.value)
    # The error is still held, with all frames that it passed through: none of them holds the file open.
    descriptors = Path("/proc/self/fd")
    assert str(path) not in [str(each.readlink()) for each in descriptors.glob("*") if each.is_symlink()]


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
