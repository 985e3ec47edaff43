"""Wording: strings of the data are shown letter for letter, and a result's origin in words."""

from __future__ import annotations

import html
import re
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.core.pictures import draw_picture
from theodolite.core.result import Finding, Result
from theodolite.core.rows import Row
from theodolite.reports.wording import (
    END,
    ISOLATE,
    clean,
    command_of,
    facts_of,
    file_name,
    finding_numbers,
    measured_lines,
    name_of,
    plain,
    plain_lines,
    unique_names,
    with_labels,
    with_states_by_origin,
)

HOSTILE = [
    "</script><script>alert(1)</script>",
    '<a href="javascript:alert(1)">x</a>',
    "<b>bold</b> & <br>",
    "&lt;i&gt;",
    "$\\frac{1}{2}$",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_is_shown_letter_for_letter(text: str) -> None:
    shown = plain(text)
    assert not re.search(r"[<>$]|&(?!amp;|lt;|gt;|#36;)", shown)
    assert html.unescape(shown) == text


@given(st.text(max_size=150), st.integers(1, 120))
def test_any_string_obeys_the_rules(text: str, limit: int) -> None:
    shown = plain(text, limit)
    assert not re.search(r"[<>$\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", shown)
    assert len(html.unescape(shown).strip(ISOLATE + END)) <= limit
    assert shown.count(ISOLATE) == shown.count(END) <= 1
    shown.encode("utf-8")


@given(st.text(alphabet="abc <>&$é日", max_size=60))
def test_harmless_letters_are_not_changed(text: str) -> None:
    assert html.unescape(plain(text)) == text.strip()


def test_control_characters_become_spaces_and_lone_surrogates_can_be_written() -> None:
    assert plain("a\x00\x1b[31m\r\nb\x9fc\u2028d") == "a [31m b c d"
    assert plain("a\ud800b") == "a\ufffdb"


def test_right_to_left_text_is_isolated_and_cannot_end_its_isolate() -> None:
    assert plain("שלום <b>") == f"{ISOLATE}שלום &lt;b&gt;{END}"
    assert plain(f"{END}\u202eevil\u202c שלום") == f"{ISOLATE}evil שלום{END}"
    assert plain("\u202eexe.txt") == "exe.txt"


def test_a_string_of_ten_megabytes_is_cut_at_once() -> None:
    start = time.perf_counter()
    shown = plain("x<" * 5_000_000)
    assert time.perf_counter() - start < 1
    assert html.unescape(shown) == ("x<" * 150)[:299] + "…"


def test_a_string_that_is_cut_ends_in_an_ellipsis() -> None:
    assert plain("x" * 300) == "x" * 300
    assert plain("x" * 301) == "x" * 299 + "…"
    assert clean(None) == plain(None) == ""
    assert plain(12) == "12"
    with pytest.raises(ValueError, match="limit=0 must be at least 1"):
        plain("x", 0)


def test_lines_break_between_words_and_escape_within() -> None:
    shown = plain_lines("one <two> three שלום four", width=10)
    assert shown.split("<br>") == ["one &lt;two&gt;", f"{ISOLATE}three שלום{END}", "four"]


def test_file_names_are_not_paths_and_different_strings_have_different_names() -> None:
    assert file_name("a", "../../etc/passwd").count("/") == 0
    assert file_name("cloud", "minilm", "6") == "cloud-minilm-6"
    assert file_name("x", "A") != file_name("x", "a")
    assert len(file_name("x" * 10_000)) < 60
    assert file_name("..") not in ("", ".", "..")


def test_names_that_come_again_are_numbered() -> None:
    assert unique_names(["a", "a", "a-2", "a"]) == ["a", "a-2", "a-2-2", "a-3"]


def test_a_result_is_called_by_its_name_its_title_or_its_verb() -> None:
    assert name_of(Result(verb="survey", title="a title", provenance={"name": "mine\x00"})) == "mine"
    assert name_of(Result(verb="survey", title="a title")) == "a title"
    assert name_of(Result(verb="survey")) == "survey"
    assert name_of(Result(verb="")) == "unnamed"


def test_a_command_of_arguments_is_quoted_for_a_shell() -> None:
    arguments = ["theodolite", "study", "run", "a b"]
    assert command_of(Result(verb="study", provenance={"command": arguments})) == "theodolite study run 'a b'"
    assert command_of(Result(verb="study", provenance={"command": "theodolite survey x.npy"})) == "theodolite survey x.npy"
    assert command_of(Result(verb="study")) == ""


def test_facts_are_words_and_what_is_empty_or_shown_elsewhere_is_left_out() -> None:
    provenance = {
        "command": "c",
        "tables": [{"title": "t"}],
        "models": ["a", "b"],
        "settings": {"seed": 0, "tuning": {"epochs": 1}, "limit": None},
        "inputs": [],
    }
    facts = facts_of(Result(verb="study", rows=(Row(metric="m", value=1.0, versions="python 3"),), provenance=provenance))
    assert facts == [
        ("verb", "study"),
        ("models", "a, b"),
        ("settings", [("seed", "0"), ("tuning", "epochs=1"), ("limit", "none")]),
        ("versions", "python 3"),
    ]


def test_sentences_have_the_labels_of_metrics() -> None:
    text = "largest log_partition_isotropy_unit_norm, iso_score and spearman_change of my_iso_score"
    assert with_labels(text) == "largest log I, unit norm, IsoScore and Spearman change of my_iso_score"


def test_a_flagged_value_never_looks_like_its_bound() -> None:
    about = {"topic": "cone", "metric": "mean_cosine", "source": "", "meaning": "", "action": ""}
    flagged = Finding(verdict="watch", value=0.20001, healthy="at most 0.2", **about)
    assert finding_numbers(flagged) == "mean cosine 0.20001, healthy at most 0.2"
    assert finding_numbers(replace(flagged, value=0.30004)) == "mean cosine 0.3, healthy at most 0.2"
    assert finding_numbers(replace(flagged, verdict="good", value=0.19999)) == "mean cosine 0.2, healthy at most 0.2"


def test_the_first_line_names_encoder_unit_prompts_length_limit_and_number_of_texts() -> None:
    encoder = {"model": "e5", "unit": "text", "prompt": "passage: ", "query_prompt": "query: ", "max_length": 512, "texts": 1200}
    facts = {"name": "e5, docs", "n": 1200, "d": 384, "encoder": encoder}
    (line,) = measured_lines(Result(verb="advise", provenance={"inputs": [facts]}))
    assert line == "e5, docs: 1,200 × 384, text, prompt 'passage: ' and 'query: ', at most 512 tokens, 1,200 texts"
    (line,) = measured_lines(
        Result(verb="survey", provenance={"inputs": [{"name": "v.npy", "n": 5, "d": 3, "dtype": "float32"}]})
    )
    assert line == "v.npy: 5 × 3, float32"


def test_only_an_encoder_of_known_origin_has_a_pre_trained_state() -> None:
    origins = {"old": {"kind": "pre-trained"}, "tuned": {"kind": "tuned"}, "unknown": {"kind": ""}}
    states = [(model, state) for model in origins for state in ("pre-trained", "fine-tuned")]
    rows = tuple(Row(metric="iso_score", value=0.1, model=model, state=state) for model, state in states)
    pictures = tuple(draw_picture(np.eye(4), about={"model": model, "state": "pre-trained"}) for model in origins)
    lines = [{"model": model, "k": 1, "state": state} for model, state in states]
    records = {"spectra": pa.Table.from_pylist(lines), "cells": pa.table({"state": ["pre-trained"]})}
    facts = {"origins": origins}
    shown = with_states_by_origin(Result(verb="study", rows=rows, pictures=pictures, records=records, provenance=facts))
    assert shown.records["spectra"].to_pylist() == [
        {**line, "state": row.state} for line, row in zip(lines, shown.rows, strict=True)
    ]
    assert shown.records["cells"] is records["cells"]
    assert [row.state for row in shown.rows] == ["pre-trained", "fine-tuned", *["before", "fine-tuned"] * 2]
    assert [picture.about["state"] for picture in shown.pictures] == ["pre-trained", "before", "before"]
    elsewhere = Result(verb="tune", rows=rows)
    assert with_states_by_origin(elsewhere) is elsewhere
