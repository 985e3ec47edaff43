"""Tables of a TOML file: read as the fields of a dataclass say, with every mistake at its key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from theodolite.spaces.readers.data_files import DataError
from theodolite.studies.toml_reading import Digits, plain_values, read_toml


# Types as text, which is what `from __future__ import annotations` makes of them.
@dataclass
class Example:
    name: "str"
    count: "int" = 3
    note: "str | None" = None
    words: "tuple[str, ...]" = ()
    scale: "Mapping[str, float]" = None
    labels: "Mapping[str, str]" = None
    rest: "Mapping[str, Any]" = None


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "example.toml"
        path.write_text(text, encoding="utf-8")
        return read_toml(path)

    return read


def test_numbers_remember_how_they_are_written():
    number = Digits("87.50")
    assert (float(number), str(number), number + 1) == (87.5, "87.50", 88.5)
    plain = plain_values({"a": [number, 2], "b": {"c": number}})
    assert plain == {"a": [87.5, 2], "b": {"c": 87.5}}
    assert type(plain["a"][0]) is type(plain["b"]["c"]) is float


def test_a_table_becomes_a_dataclass(read):
    table = read('name = "a"\nwords = ["b", "c"]\nscale = { x = 0.5, y = 2 }\nlabels = { z = "d" }\nrest = { e = [0.10] }')
    example = table.record(Example, note="given")
    assert example == Example("a", 3, "given", ("b", "c"), {"x": 0.5, "y": 2.0}, {"z": "d"}, {"e": [0.1]})
    assert read('name = "a"\ncount = 7').record(Example) == Example("a", 7, None, (), {}, {}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count = 3", "key 'name': is missing; it must be a text"),
        ('name = "a"\ncount = "b"', "key 'count': 'b' must be a number"),
        ('name = "a"\ncount = true', "key 'count': True must be a number"),
        ('name = "a"\nwords = ["b", 3]', "key 'words': .* must be a list of texts"),
        ('name = "a"\nscale = { x = "b" }', "key 'scale.x': 'b' must be a number"),
        ('name = "a"\nlabels = { z = 1 }', "key 'labels.z': 1 must be a text"),
        ('name = "a"\nnames = "b"', "key 'names': is not known here.*did you mean 'name'"),
    ],
)
def test_a_mistake_is_reported_at_its_key(read, tmp_path, text, message):
    def read_all():
        table = read(text)
        table.record(Example)
        table.finish()

    with pytest.raises(DataError, match=message) as caught:
        read_all()
    assert str(tmp_path / "example.toml") in str(caught.value)


def test_every_table_of_an_array_must_be_read_to_its_last_key(read):
    root = read('[[tables]]\nname = "a"\n[[tables]]\nname = "b"\nnmae = "c"')
    with pytest.raises(DataError, match=r"key 'tables\[1\].nmae': is not known here"):
        [table.record(Example) for table in root.tables("tables")]
    with pytest.raises(DataError, match=r"headed \[\[tables\]\]"):
        list(read("tables = [3]").tables("tables"))
