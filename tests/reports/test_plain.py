"""Anybody's string stays a string: nothing of it is markup, endless, or able to turn what stands around it."""

from __future__ import annotations

import html
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.reports.plain import END, ISOLATE, clean, plain, wrapped

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


@given(st.text(max_size=400), st.integers(1, 350))
def test_any_string_keeps_the_rules(text: str, limit: int) -> None:
    shown = plain(text, limit)
    assert not re.search(r"[<>$\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", shown)
    assert len(html.unescape(shown).strip(ISOLATE + END)) <= limit
    assert shown.count(ISOLATE) == shown.count(END) <= 1
    shown.encode("utf-8")


@given(st.text(alphabet="abc <>&$é日", max_size=60))
def test_harmless_letters_all_stay(text: str) -> None:
    assert html.unescape(plain(text)) == text.strip()


def test_control_characters_end_no_line_and_lone_surrogates_can_be_written() -> None:
    assert plain("a\x00\x1b[31m\r\nb\x9fc\u2028d") == "a [31m b c d"
    assert plain("a\ud800b") == "a\ufffdb"


def test_right_to_left_text_is_isolated_and_cannot_leave() -> None:
    assert plain("שלום <b>") == f"{ISOLATE}שלום &lt;b&gt;{END}"
    assert plain(f"{END}\u202eevil\u202c שלום") == f"{ISOLATE}evil שלום{END}"
    assert plain("\u202eexe.txt") == "exe.txt"


def test_a_string_of_ten_megabytes_is_cut_at_once() -> None:
    start = time.perf_counter()
    shown = plain("x<" * 5_000_000)
    assert time.perf_counter() - start < 1
    assert html.unescape(shown) == ("x<" * 150)[:299] + "…"


def test_a_cut_says_so_and_a_whole_string_does_not() -> None:
    assert plain("x" * 300) == "x" * 300
    assert plain("x" * 301) == "x" * 299 + "…"
    assert clean(None) == plain(None) == ""
    assert plain(12) == "12"
    with pytest.raises(ValueError, match="limit=0 must be at least 1"):
        plain("x", 0)


def test_lines_break_between_words_and_escape_within() -> None:
    shown = wrapped("one <two> three שלום four", width=10)
    assert shown.split("<br>") == ["one &lt;two&gt;", f"{ISOLATE}three שלום{END}", "four"]
