"""Reading a study's TOML file: every mistake is reported with the file, the key, the rule and the way out."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from theodolite.core.spelling import name_list, refuse_trust
from theodolite.spaces.readers.data_files import DataError

Record = TypeVar("Record")


class Digits(float):
    """A number that remembers how it is written: 87.50 has two digits after the point."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def plain_values(value: Any) -> Any:
    """The same values without the digits that numbers are written with, at every depth."""
    if isinstance(value, dict):
        return {key: plain_values(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain_values(inner) for inner in value]
    return float(value) if isinstance(value, Digits) else value


def read_toml(path: Path) -> TomlTable:
    """The content of a TOML file, with every fractional number as `Digits`."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Digits)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise DataError(f"this is not valid TOML: {reason}; correct it there", file=path) from error
    refuse_trust(values, path)
    return TomlTable(values, file=path)


@dataclass
class TomlTable:
    """A table of the file that checks every value it hands out, and knows which keys nothing has read."""

    values: Mapping[str, Any]
    file: Path
    prefix: str = ""
    read_keys: set[str] = field(default_factory=set)

    def error(self, key: str, message: str) -> DataError:
        """An error at a key, to raise."""
        return DataError(f"key '{self.prefix}{key}': {message}", file=self.file)

    def choice_error(self, key: str, what: str, value: str, choices: list[str]) -> DataError:
        """An error at a key whose value is not one of the choices."""
        return self.error(key, f"there is no {what} {value!r}; choose from {name_list(choices, most=20, near=value)}")

    def get(self, key: str, kind: type | tuple[type, ...], rule: str, default: Any = None) -> Any:
        """The value of a key, which must be of a type."""
        self.read_keys.add(key)
        if key not in self.values:
            if default is not None:
                return default
            raise self.error(key, f"is missing; it must be {rule}. The keys here are {name_list(list(self.values))}")
        value = self.values[key]
        if not isinstance(value, kind) or isinstance(value, bool):  # Python counts a bool as an int
            raise self.error(key, f"{value!r} must be {rule}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return str(self.get(key, str, 'a text in quotes, such as "mean"', default))

    def number(self, key: str, default: float | None = None) -> float:
        return float(self.get(key, (int, float), "a number", default))

    def strings(self, key: str) -> tuple[str, ...]:
        items = self.get(key, list, "a list of texts", [])
        if not all(isinstance(item, str) for item in items):
            raise self.error(key, f"{items!r} must be a list of texts")
        return tuple(items)

    def plain(self, key: str) -> dict[str, Any]:
        """A table as plain values."""
        return dict(plain_values(self.get(key, dict, "a table", {})))

    def texts(self, key: str) -> dict[str, str]:
        """A table whose values are all texts."""
        table = self.subtable(key)
        return {name: table.text(name) for name in table.values}

    def numbers(self, key: str) -> dict[str, float]:
        """A table whose values are all numbers."""
        table = self.subtable(key)
        return {name: table.number(name) for name in table.values}

    def subtable(self, key: str) -> TomlTable:
        return TomlTable(self.get(key, dict, "a table", {}), self.file, f"{self.prefix}{key}.")

    def tables(self, key: str) -> Iterator[TomlTable]:
        """The tables of an array of tables; each must have been read to its last key when the next one is asked for."""
        for number, item in enumerate(self.get(key, list, f"an array of tables, each headed [[{key}]]", [])):
            if not isinstance(item, dict):
                raise self.error(key, f"{item!r} must be a table, headed [[{key}]]")
            table = TomlTable(item, self.file, f"{self.prefix}{key}[{number}].")
            yield table
            table.finish()

    def record(self, kind: Callable[..., Record], **values: Any) -> Record:
        """A dataclass made of the keys of this table that are called like its fields, read as the fields' types say."""
        # By the text of the type, which is what annotations are in a module that postpones their evaluation.
        readers: dict[str, Callable[..., Any]] = {
            "str": self.text,
            "int": lambda key, default: int(self.number(key, default)),
            "float": self.number,
            "str | None": lambda key, _: self.text(key) if key in self.values else None,
            "tuple[str, ...]": lambda key, _: self.strings(key),
            "Mapping[str, str]": lambda key, _: self.texts(key),
            "Mapping[str, float]": lambda key, _: self.numbers(key),
            "Mapping[str, Any]": lambda key, _: self.plain(key),
        }
        for slot in fields(kind):  # type: ignore[arg-type]  # a type of dataclasses cannot be written
            if slot.name not in values:
                default = None if slot.default is MISSING else slot.default
                values[slot.name] = readers[str(slot.type)](slot.name, default)
        return kind(**values)

    def finish(self) -> None:
        """Raise an error if there is a key that nothing has read."""
        unknown = next((key for key in self.values if key not in self.read_keys), None)
        if unknown is not None:
            keys = sorted(self.read_keys)
            raise self.error(unknown, f"is not known here; the keys are {name_list(keys, most=20, near=unknown)}")
