"""A user's own files: what is written is what is read, and what cannot be read is named."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from theodolite.core.spelling import ON_COMMAND_LINE
from theodolite.tasks import SCORES, DataError, load_task, own_task
from theodolite.tasks.task import Kind

quick = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
ANY = st.characters(exclude_categories=["Cs"], exclude_characters="\x00\ufeff")
INLINE = st.characters(exclude_categories=["Cs"], exclude_characters="\x00\ufeff\t\n\r")
CELL = st.text(ANY, min_size=1).filter(str.strip)
PLAIN = st.text(INLINE, min_size=1).filter(str.strip)


def pairs_of(cell: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(st.tuples(cell, cell), min_size=1, max_size=8)


@quick
@given(rows=pairs_of(CELL))
def test_csv_round_trip(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    path = tmp_path / "own.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    examples = load_task(own_task(path, "classification"), "train")
    assert list(zip(examples.texts, examples.labels or (), strict=True)) == rows


@quick
@given(rows=pairs_of(PLAIN))
def test_tsv_round_trip_with_quotes_as_text(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows]), encoding="utf-8", newline="")
    examples = load_task(own_task(path, "classification"), "train")
    assert list(zip(examples.texts, examples.labels or (), strict=True)) == rows


@quick
@given(rows=pairs_of(CELL))
def test_quoted_tsv_round_trip(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    path = tmp_path / "own.tsv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([("text", "label"), *rows])
    examples = load_task(own_task(path, "classification", quoting=True), "train")
    assert list(zip(examples.texts, examples.labels or (), strict=True)) == rows


@quick
@given(rows=st.lists(st.tuples(CELL, CELL, st.floats(-1, 1)), min_size=1, max_size=8), ascii_only=st.booleans())
def test_jsonl_round_trip(tmp_path: Path, rows: list[tuple[str, str, float]], ascii_only: bool) -> None:
    path = tmp_path / "own.jsonl"
    lines = [json.dumps({"a": a, "b": b, "s": s}, ensure_ascii=ascii_only) for a, b, s in rows]
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    task = own_task(path, "similarity", columns={"text": "a", "text_b": "b", "score": "s"}, score_range=(-1, 1))
    examples = load_task(task, "train")
    assert examples.scores is not None
    assert list(zip(examples.texts, examples.second or (), examples.scores.tolist(), strict=True)) == rows


@quick
@given(sentences=st.lists(pairs_of(PLAIN), min_size=1, max_size=5))
def test_two_column_round_trip(tmp_path: Path, sentences: list[list[tuple[str, str]]]) -> None:
    path = tmp_path / "own.conll"
    blocks = ["\n".join(f"{word}\t{label}" for word, label in sentence) for sentence in sentences]
    path.write_text("\n\n".join(blocks), encoding="utf-8", newline="")
    examples = load_task(own_task(path, "tagging"), "train")
    assert examples.words == tuple(tuple(word for word, _ in sentence) for sentence in sentences)
    assert examples.labels == tuple(label for sentence in sentences for _, label in sentence)


TREE = (
    "1\tMary\tMary\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\tEntity=PER|SpaceAfter=No\n"
    "2\tslept\tsleep\tVERB\tVBD\t_\t0\troot\t_\t_\n"
    "3\twell\twell\tADV\tRB\t_\t2\tadvmod\t_\tEntity=O\n"
)


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (None, ("PROPN", "VERB", "ADV")),
        ("xpos", ("NNP", "VBD", "RB")),
        ("XPOS", ("NNP", "VBD", "RB")),
        ("lemma", ("Mary", "sleep", "well")),
        ("misc:Entity", ("PER", "O")),
        ("feats:Number", ("Sing",)),
    ],
)
def test_any_column_of_a_treebank_tags_words(tmp_path: Path, column: str | None, labels: tuple[str, ...]) -> None:
    path = tmp_path / "own.conllu"
    path.write_text(TREE, encoding="utf-8")
    task = own_task(path, "tagging", columns={"label": column} if column else None)
    assert load_task(task, "train").labels == labels


def test_pairs_of_words_come_from_the_tree(tmp_path: Path) -> None:
    path = tmp_path / "own.conllu"
    path.write_text(TREE, encoding="utf-8")
    examples = load_task(own_task(path, "word_pairs"), "train")
    assert examples.labels == ("nsubj", "advmod")
    assert examples.places is not None and examples.places.tolist() == [[0, 1, 0], [0, 1, 2]]


def test_a_file_may_name_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "own.conllup"
    path.write_text("# global.columns = ID FORM NER\n1\tMary\tB-PER\n2\tslept\tO\n", encoding="utf-8")
    assert load_task(own_task(path, "tagging", columns={"label": "ner"}), "train").labels == ("B-PER", "O")
    path.write_text("# global.columns = FORM NER\nMary\tB-PER\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 1: the columns are form, ner; there must be ID and FORM"):
        load_task(own_task(path, "tagging"), "train")


def test_splits_may_have_several_files_in_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{name},x\n", encoding="utf-8")
    task = own_task({"train": ["a.csv", "b.csv"], "test": "c.csv"}, "classification", score="macro_f1", name="letters")
    train = load_task(task, "train", tmp_path)
    assert (train.texts, train.where(1)) == (("a", "b"), f"{tmp_path / 'b.csv'}, line 2")
    assert load_task(task, "test", tmp_path).texts == ("c",)
    assert (task.score, task.name) == ("macro_f1", "letters")


def test_a_quoted_cell_may_span_lines_and_later_errors_still_name_the_right_one(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text('text,label\n"one\ntwo",x\n\nthree\n', encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(f"{path}, line 5: the line has 1 cells, but the header has 2")):
        load_task(own_task(path, "classification"), "train")


def test_a_lone_quote_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text('text,label\na,x\n"Stop,x\nhe said "no,x\n', encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(f"{path}, line 3: ") + ".*quoting=False"):
        load_task(own_task(path, "classification"), "train")
    assert load_task(own_task(path, "classification", quoting=False), "train").texts[1] == '"Stop'


def test_another_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("text;label\na, b;x\n", encoding="utf-8")
    assert load_task(own_task(path, "classification", delimiter=";"), "train").texts == ("a, b",)


def test_json_labels_may_be_numbers_or_true(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"text": "a", "label": 1}\n\n{"text": "b", "label": true}\n{"text": "c", "label": "no"}', encoding="utf-8")
    assert load_task(own_task(path, "classification"), "train").labels == ("1", "true", "no")


@pytest.mark.parametrize(
    ("name", "text", "kind", "line", "fault"),
    [
        (
            "own.csv",
            "sentence,label\na,x\n",
            "classification",
            1,
            "there is no column 'text' for the text; the columns are sentence",
        ),
        ("own.csv", "text, Label\na,x\n", "classification", 1, "(did you mean ' Label'?)"),
        ("own.csv", "text,text,label\na,b,x\n", "classification", 1, "column 'text' occurs twice"),
        ("own.csv", "text,label\na,\n", "classification", 2, "the label is empty"),
        ("own.csv", "text,label\n,x\n", "classification", 2, "the text is empty"),
        ("own.tsv", "text\tlabel\na\tx\ty\n", "classification", 2, "the line has 3 cells, but the header has 2"),
        ("own.csv", "text,text_b,score\na,b,7\n", "similarity", 2, "score 7 must be between 0 and 5"),
        ("own.csv", "text,text_b,score\na,b,\n", "similarity", 2, "score '' is not a number"),
        ("own.jsonl", '{"text": "a"}\n', "classification", 1, "there is no column 'label' for the label; the columns are text"),
        ("own.jsonl", "{}\n", "classification", 1, "the columns are nothing"),
        ("own.jsonl", '{"text": "a", "label"\n', "classification", 1, "this is not JSON"),
        ("own.jsonl", "[1]\n", "classification", 1, "this is list, not an object"),
        ("own.jsonl", '{"text": 3, "label": "x"}\n', "classification", 1, "the text is '3'; it must be text"),
        ("own.jsonl", '{"text": "a", "label": null}\n', "classification", 1, "the label is 'null'"),
        ("own.jsonl", '{"text": "a", "text_b": "b", "score": "4"}\n', "similarity", 1, "it must be a number"),
        ("own.jsonl", '{"text": "a", "text_b": "b", "score": NaN}\n', "similarity", 1, "score nan must be between 0 and 5"),
        ("own.conll", "Mary\tB-PER\tx\n", "tagging", 1, "the line has 3 columns"),
        ("own.conll", "Mary\tB-PER\nslept\t \n", "tagging", 2, "the label is empty"),
        ("own.conllu", TREE.replace("\t0\troot", "\t9\troot"), "word_pairs", 2, "head '9' of 'slept' is not in the sentence"),
    ],
)
def test_errors_name_file_line_and_a_way_out(tmp_path: Path, name: str, text: str, kind: Any, line: int, fault: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    task = own_task(path, kind, score_range=(0, 5) if kind == "similarity" else None)
    with pytest.raises(DataError, match=re.escape(f"{path}, line {line}: ")) as caught:
        load_task(task, "train")
    assert fault in str(caught.value)


def test_a_wrong_column_of_a_treebank_lists_those_present(tmp_path: Path) -> None:
    path = tmp_path / "own.conllu"
    path.write_text(TREE, encoding="utf-8")
    with pytest.raises(DataError, match=r"no column 'pos'; the columns are id, form.*did you mean '[ux]pos'"):
        load_task(own_task(path, "tagging", columns={"label": "pos"}), "train")


def test_only_declared_labels_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("text,label\na,positiv\n", encoding="utf-8")
    task = own_task(path, "classification", labels=["positive", "negative"])
    with pytest.raises(
        DataError, match=r"line 2: label 'positiv' is not one of positive, negative \(did you mean 'positive'\?\)"
    ):
        load_task(task, "train")


def test_a_missing_file_lists_its_folder_and_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("text,label\na,x\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"absent.csv: there is no such file; its folder has there.csv"):
        load_task(own_task(tmp_path / "absent.csv", "classification"), "train")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="this is a folder, not a file"):
        load_task(own_task(tmp_path / "folder.csv", "classification"), "train")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("own.csv", "clasification"), "kind 'clasification' is not one of .*did you mean 'classification'"),
        (("own.xlsx", "classification"), "own.xlsx: the ending '.xlsx' is not known"),
        (("own.csv", "tagging"), "a tagging task is read from .conllu or .*, not from own.csv"),
        (("own.conll", "word_pairs"), "a word_pairs task is read from .conllu or .conllup, not from own.conll"),
        (("own.csv", "similarity"), r"needs the two ends of its scale, lowest first, not None: score_range=LOW,HIGH"),
        (({"train": "a.csv", "test": "b.jsonl"}, "classification"), "different formats"),
        (({}, "classification"), "there is no file"),
        (({"train": []}, "classification"), "split 'train' has no file"),
    ],
)
def test_a_task_that_does_not_fit_its_files_is_refused_at_once(arguments: tuple[Any, Any], fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        own_task(*arguments)


@pytest.mark.parametrize(
    ("kind", "options", "fault"),
    [
        ("classification", {"score": "spearman"}, "score 'spearman' does not fit"),
        (
            "classification",
            {"columns": {"txt": "a"}},
            r"names 'txt'; a classification task has text, label \(did you mean 'text'",
        ),
        ("classification", {"score_range": (0, 5)}, "has labels, not scores; leave out score_range=LOW,HIGH"),
        ("similarity", {"score_range": (5, 0)}, "lowest first"),
    ],
)
def test_options_that_do_not_fit_the_kind_are_refused(kind: Any, options: dict[str, Any], fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        own_task("own.csv", kind, **options)


def test_a_two_column_file_has_no_named_columns() -> None:
    with pytest.raises(DataError, match="no named columns"):
        own_task("own.conll", "tagging", columns={"label": "x"})


# Hints that can be followed, in Python and on the command line


@pytest.fixture
def on_command_line() -> Iterator[None]:
    token = ON_COMMAND_LINE.set(True)
    yield
    ON_COMMAND_LINE.reset(token)


def missing_column(tmp_path: Path) -> str:
    (tmp_path / "own.csv").write_text("sentence,label\na,x\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        load_task(own_task(tmp_path / "own.csv", "classification"), "train")
    return str(caught.value)


def test_a_missing_column_is_chosen_with_column_in_python(tmp_path: Path) -> None:
    message = missing_column(tmp_path)
    assert (
        "; choose it with column={'text': NAME}. The first line was read as column names" in message and "header=False" in message
    )


@pytest.mark.usefixtures("on_command_line")
def test_a_missing_column_is_chosen_with_column_on_the_command_line(tmp_path: Path) -> None:
    assert "; choose it with --column text=NAME. " in missing_column(tmp_path) and "--no-header" in missing_column(tmp_path)
    with pytest.raises(DataError, match=r"^--column txt=a names 'txt'; a classification task has text, label"):
        own_task("own.csv", "classification", columns={"txt": "a"})
    with pytest.raises(DataError, match=r"lowest first, not None: --score-range LOW,HIGH$"):
        own_task("own.csv", "similarity")


@pytest.mark.usefixtures("on_command_line")
@pytest.mark.parametrize(
    ("name", "text", "kind", "hint"),
    [
        ("own.csv", 'text,label\n"a,x\n', "classification", "in Python, own_task(..., quoting=False)"),
        ("own.csv", "text,label\na\n", "classification", "in Python, own_task(..., quoting=False)"),
        ("own.xyz", "", "classification", "in Python own_task(..., format=NAME)"),
    ],
)
def test_options_of_python_alone_are_not_shown_as_options_of_the_command_line(
    tmp_path: Path, name: str, text: str, kind: Any, hint: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        load_task(own_task(tmp_path / name, kind), "train")
    assert str(caught.value).endswith(hint) and "--quoting" not in str(caught.value)


def test_a_table_without_header_and_with_another_delimiter_is_read(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("good, really;1\nbad;0\n", encoding="utf-8")
    with pytest.raises(DataError, match="there is no column 'text' for the text; the columns are good, really, 1"):
        load_task(own_task(tmp_path / "own.csv", "classification"), "train")
    task = own_task(tmp_path / "own.csv", "classification", header=False, columns={"text": "0", "label": "1"})
    examples = load_task(task, "train")
    assert (examples.texts, examples.labels) == (("good, really", "bad"), ("1", "0"))
    (tmp_path / "own.csv").write_text("text~label\na;b~1\n", encoding="utf-8")
    assert load_task(own_task(tmp_path / "own.csv", "classification", delimiter="~"), "train").texts == ("a;b",)
    with pytest.raises(DataError, match="only tables have a header"):
        own_task("own.jsonl", "classification", header=False)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_default_score_of_every_kind_is_a_score(kind: Any) -> None:
    path = {"tagging": "own.conll", "word_pairs": "own.conllu"}.get(kind, "own.csv")
    assert own_task(path, kind, score_range=(0, 1) if kind == "similarity" else None).score in SCORES
