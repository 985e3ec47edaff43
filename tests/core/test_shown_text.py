"""Nothing that could steer a terminal is shown, and JSON stays the same value."""

from __future__ import annotations

import json
import sys

from theodolite.core.spelling import plain_json, visible


def test_letters_of_every_script_stay_and_controls_go() -> None:
    text = "naïve 猫 [tag] [/] 😀 é"
    assert visible(text) == text
    controls = [chr(i) for i in range(sys.maxunicode + 1) if chr(i) in "\x00\x07\x1b\x7f\x9b\x85\u2028\u202e\ud800"]
    assert visible("".join(controls)) == "\N{REPLACEMENT CHARACTER}" * len(controls)


def test_json_without_controls_is_the_same_value() -> None:
    values = {"a": "\x1b[31m\x9b\u2028\u0085é", "b": ["\ud800", 1.5]}
    document = plain_json(json.dumps(values, ensure_ascii=False))
    assert json.loads(document) == values
    assert document.isprintable() and "é" in document
