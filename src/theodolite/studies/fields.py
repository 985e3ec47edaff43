"""Reading a study's file: every mistake is told with the file, the key, the rule and the way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from theodolite.core.rows import Row
from theodolite.tasks.errors import DataError, close_to, listed

ROW_FIELDS = ("model", "state", "task", "split", "setting", "label")
"""What a table may say of its numbers."""


class Digits(float):
    """A number as it is written: 87.50 has two digits behind the point."""

    text: str

    def __new__(cls, text: str) -> Digits:
        made = super().__new__(cls, text)
        made.text = text
        return made


def half_unit(number: float) -> float:
    """Half a unit of the last digit that a number is written with."""
    mantissa, _, power = getattr(number, "text", str(int(number))).lower().partition("e")
    return 0.5 * 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a file, its numbers with the digits they are written with."""
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Digits)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"this is no TOML: {error}; correct that place", file=path) from error


@dataclass
class Fields:
    """A table of the file: what is asked of it, is checked, and what nobody asks for is a mistake."""

    values: Mapping[str, Any]
    file: Path
    where: str = ""
    seen: set[str] = field(default_factory=set)

    def fault(self, key: str, message: str) -> DataError:
        """An error at a key."""
        return DataError(f"key '{self.where}{key}': {message}", file=self.file)

    def get(self, key: str, kind: type | tuple[type, ...], rule: str, default: Any = None) -> Any:
        """A value of a kind; `rule` says which, for whoever gave another."""
        self.seen.add(key)
        if key not in self.values:
            if default is not None:
                return default
            raise self.fault(key, f"is missing; it is {rule}. There are {listed(list(self.values))}")
        value = self.values[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.fault(key, f"{value!r} must be {rule}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        return str(self.get(key, str, 'a text in quotes, such as "stsb"', default))

    def number(self, key: str) -> float:
        return float(self.get(key, (int, float), "a number"))

    def strings(self, key: str) -> list[str]:
        found = self.get(key, list, "a list of texts", [])
        if not all(isinstance(one, str) for one in found):
            raise self.fault(key, f"{found!r} must be a list of texts")
        return list(found)

    def plain(self, key: str) -> dict[str, Any]:
        """A table as plain values."""
        return dict(plain(self.get(key, dict, "a table", {})))

    def plain_list(self, key: str) -> list[list[str]]:
        found = self.get(key, list, 'a list of lists of sources, such as [["RP21 table 1"]]', [])
        if not all(isinstance(one, list) and all(isinstance(name, str) for name in one) for one in found):
            raise self.fault(key, f'{found!r} must be a list of lists of sources, such as [["RP21 table 1"]]')
        return found  # type: ignore[no-any-return]

    def texts(self, key: str) -> dict[str, str]:
        inside = self.inside(key)
        return {name: inside.text(name) for name in inside.values}

    def inside(self, key: str) -> Fields:
        return Fields(self.get(key, dict, "a table", {}), self.file, f"{self.where}{key}.")

    def each(self, key: str, *, needed: bool = True) -> Iterator[Fields]:
        """The tables of an array of tables."""
        found = self.get(key, list, f"an array of tables, each headed [[{key}]]", None if needed else [])
        for number, one in enumerate(found):
            if not isinstance(one, dict):
                raise self.fault(key, f"{one!r} must be a table, headed [[{key}]]")
            yield Fields(one, self.file, f"{self.where}{key}[{number}].")

    def row_fields(self, key: str) -> dict[str, str]:
        """Fields of a row and their values."""
        found = self.texts(key)
        for name in found:
            self.check_row_field(key, name)
        return found

    def check_row_field(self, key: str, name: str) -> None:
        if name not in ROW_FIELDS:
            raise self.fault(
                key, f"{name!r} is no field of a row that a table can set{close_to(name, ROW_FIELDS)}; take {listed(ROW_FIELDS)}"
            )

    def finish(self) -> None:
        """Complain of what nobody has read."""
        strange = [key for key in self.values if key not in self.seen]
        if strange:
            known = sorted(self.seen)
            raise self.fault(strange[0], f"is not known here{close_to(strange[0], known)}; known are {listed(known, most=20)}")


def plain(value: Any) -> Any:
    """Numbers without their digits, all the way down."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return float(value) if isinstance(value, Digits) else value


assert set(ROW_FIELDS) <= set(Row.__dataclass_fields__)
