"""What displays share: numbers as a frame, names for files, and how one shows itself in a notebook."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from theodolite.core.rows import Row
from theodolite.reports.look import STATES
from theodolite.reports.plain import clean, plain

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

_SAMPLING = re.compile(r"(?:^|\s)(?:half-samples|sample)=\d+")
SCORED = ("model", "state", "task", "layer", "setting", "metric", "value", "low", "high", "n", "reason")
"""What a frame tells of a score in some setting."""
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class Shown:
    """A display that a notebook shows as its plot, with its title."""

    @property
    def title(self) -> str:
        raise NotImplementedError

    def plot(self) -> Figure:
        raise NotImplementedError

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **options: Any) -> Any:
        figure = self.plot().update_layout(title_text=plain(self.title), margin_t=72)
        return figure._repr_mimebundle_(include, exclude, **options)


@dataclass(frozen=True)
class RowsDisplay(Shown):
    """A display of rows: `fields` are the fields of a row that its frame tells."""

    rows: tuple[Row, ...]
    fields: ClassVar[tuple[str, ...]] = ("model", "state", "layer", "value", "low", "high", "n")

    def frame(self) -> pd.DataFrame:
        """The plotted rows, one line each, with the fields that matter here."""
        return frame_of({name: [getattr(row, name) for row in self.rows] for name in self.fields})

    def about(self, *fields: str) -> str:
        """What all rows agree on in these fields, for a title: `: minilm, rte`."""
        known = [
            clean(one.pop(), 60) for one in ({str(getattr(row, name)) for row in self.rows} for name in fields) if len(one) == 1
        ]
        return ": " + ", ".join(filter(None, known)) if any(known) else ""

    def file_name(self, start: str, *fields: str) -> str:
        """A file name from what all rows agree on in these fields."""
        return file_name(
            start, *(one.pop() for one in ({str(getattr(row, name)) for row in self.rows} for name in fields) if len(one) == 1)
        )


def frame_of(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Columns as a data frame of pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"a frame needs pandas ({error}); get it with: pip install pandas") from None
    return pd.DataFrame(dict(columns))


def file_name(*parts: str) -> str:
    """A file name without ending from anybody's strings: small letters, digits, `-`, `_`, `.`; never a path, never two alike."""
    return "-".join(filter(None, map(_file_part, parts)))


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by key, keys and items in the order they came."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def one_of(rows: Iterable[Row], display: str, *fields: str) -> None:
    """Refuse rows of several models (or tasks ...) where a display shows one."""
    found = list(rows)
    for name in fields:
        several = sorted({str(getattr(row, name)) for row in found})
        if len(several) > 1:
            names = ", ".join(clean(one, 60) for one in several[:4])
            raise ValueError(
                f"{display} shows one {name}, and these rows are of {len(several)} ({names}); give it the rows of one"
            )


def setting_of(row: Row) -> str:
    """The row's setting without what the survey says there of its sampling: `tokens half-samples=20` is of `tokens`."""
    return _SAMPLING.sub("", row.setting).strip()


def last_layer(rows: Sequence[Row]) -> int | None:
    """The highest layer among the rows; None where no row has one."""
    return max((row.layer for row in rows if row.layer is not None), default=None)


def states_of(rows: Iterable[Row]) -> list[str]:
    """The rows' states as they happen: pre-trained, fine-tuned, then what is done to that; others as they came."""
    return sorted(dict.fromkeys(row.state for row in rows), key=state_rank)


def state_rank(name: str) -> int:
    """Where a name that begins with a state stands among the states."""
    state = name.partition(",")[0]
    return STATES.index(state) if state in STATES else len(STATES)


def _file_part(part: str) -> str:
    kept = re.sub(r"[^a-z0-9_.]+", "-", part[:200].lower()).strip("-.")[:40]
    same = kept == part
    return kept if same or not part else f"{kept}-{zlib.crc32(part.encode('utf-8', 'backslashreplace')):08x}".strip("-")
