"""Reading a study's TOML file: every mistake is reported with the file, the key, the rule and the way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from theodolite.spaces.readers.errors import DataError, name_list, suggestion

ROW_FIELDS = ("model", "state", "task", "split", "setting", "label")
"""The fields of a row that a printed table may set."""


class Digits(float):
    """A number that remembers how it is written: 87.50 has two digits after the point."""

    text: str

    def __new__(cls, text: str) -> Digits:
        number = super().__new__(cls, text)
        number.text = text
        return number


def half_unit(number: float) -> float:
    """Half a unit of the last digit that a number is written with: the largest error that rounding it can have made.

    >>> half_unit(Digits("87.50")), half_unit(3)
    (0.005, 0.5)
    """
    # A whole number is read as an int, whose last written digit is the one before the point.
    mantissa, _, power = getattr(number, "text", str(int(number))).lower().partition("e")
    return 0.5 * 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file, with every fractional number as `Digits`."""
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Digits)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"this is not valid TOML: {error}; correct it there", file=path) from error


@dataclass
class TomlTable:
    """A table of the file that checks every value it hands out, and knows which keys nothing has read.

    Parameters
    ----------
    values
        The content of the table.
    file
        The file, for messages.
    prefix
        What comes before a key of this table in messages, such as `claims[0].`.
    """

    values: Mapping[str, Any]
    file: Path
    prefix: str = ""
    read_keys: set[str] = field(default_factory=set)

    def error(self, key: str, message: str) -> DataError:
        """An error at a key, to raise."""
        return DataError(f"key '{self.prefix}{key}': {message}", file=self.file)

    def get(self, key: str, kind: type | tuple[type, ...], rule: str, default: Any = None) -> Any:
        """The value of a key, which must be of a type.

        Parameters
        ----------
        key
            The key.
        kind
            The type or types that are allowed.
        rule
            What the value must be, in words, for the message.
        default
            The value of a missing key; None if the key must be there.
        """
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

    def number(self, key: str) -> float:
        return float(self.get(key, (int, float), "a number"))

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

    def row_fields(self, key: str) -> dict[str, str]:
        """A table of row fields and their values."""
        values = self.texts(key)
        for name in values:
            self.check_row_field(key, name)
        return values

    def check_row_field(self, key: str, name: str) -> None:
        if name not in ROW_FIELDS:
            hint = suggestion(name, ROW_FIELDS)
            raise self.error(
                key, f"{name!r} is not a field of a row that a table can set{hint}; choose from {name_list(ROW_FIELDS)}"
            )

    def finish(self) -> None:
        """Raise an error if there is a key that nothing has read."""
        unknown = next((key for key in self.values if key not in self.read_keys), None)
        if unknown is not None:
            keys = sorted(self.read_keys)
            raise self.error(unknown, f"is not known here{suggestion(unknown, keys)}; the keys are {name_list(keys, most=20)}")


def plain_values(value: Any) -> Any:
    """The same values without the digits that numbers are written with, at every depth."""
    if isinstance(value, dict):
        return {key: plain_values(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain_values(inner) for inner in value]
    return float(value) if isinstance(value, Digits) else value
