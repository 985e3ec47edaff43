"""What all displays have in common: a name, a title and a note, their numbers as a frame, and a plot that a notebook shows."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from theodolite.core.rows import Row
from theodolite.metrics import METRICS
from theodolite.metrics.registry import label_of
from theodolite.reports.plain_text import clean, file_name, plain

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow
    from plotly.graph_objects import Figure

    from theodolite.core.result import Result

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
# Two surveys of the same setting with different samples are still of the same setting.
_SAMPLING = re.compile(r"(?:^|\s)(?:half-samples|sample)=\d+")


@dataclass(frozen=True, eq=False, kw_only=True)
class Display(ABC):
    """One figure with the numbers behind it; a notebook shows it as its plot.

    Parameters
    ----------
    name
        A file name without ending; `Result.plot(name)` finds the figure by it.
    kind, heading
        The name of its declaration, and what figures of this kind show: a report puts them together under it.
    title
        The heading, and which model and task it is about; a cleaned string, not escaped.
    note
        How to read the figure, in one or two sentences.
    """

    name: str
    kind: str
    heading: str
    title: str
    note: str

    @abstractmethod
    def frame(self) -> pd.DataFrame:
        """The numbers that are plotted, one per line."""

    @abstractmethod
    def plot(self) -> Figure:
        """A Plotly figure: `.show()` it, or write it with `.write_image()`."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **options: Any) -> Any:
        figure = self.plot().update_layout(title_text=plain(self.title), margin_t=72)
        # Without Plotly's button that uploads a chart to its servers.
        config = {"showSendToCloud": False, "displaylogo": False}
        return figure._repr_mimebundle_(include, exclude, **{"config": config, **options})


@dataclass(frozen=True, kw_only=True)
class FigureSpec(ABC):
    """The declaration of a figure that is drawn from rows.

    Parameters
    ----------
    name
        Start of the file name.
    heading, note
        As those of `Display`.
    metrics
        Metrics of the rows that it shows, in order.
    fields
        Columns of its frame: fields of a row.
    split
        Fields of a row: there is one figure for each of their values.
    about
        Fields that are named in the title and in the file name.
    select
        Takes the rows of these metrics of one figure, and returns those that are drawn, in order; none means no figure.
    source
        The rows that the figure is taken from; a result's own by default.
    """

    name: str
    heading: str
    note: str
    metrics: tuple[str, ...]
    fields: tuple[str, ...]
    split: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    select: Callable[[Sequence[Row]], Sequence[Row]] = list
    source: Callable[[Result], Sequence[Row]] = lambda result: result.rows

    def displays(self, result: Result) -> Iterator[Display]:
        """The figures that a result has numbers for, one for each value of the fields in `split`."""
        # In the declared order, so that panels and figures do not depend on the order in which a run happened to measure.
        order = {metric: i for i, metric in enumerate(self.metrics)}
        rows = sorted((row for row in self.source(result) if row.metric in order), key=lambda row: order[row.metric])
        for group in grouped(rows, lambda row: tuple(getattr(row, name) for name in self.split)).values():
            selected = tuple(self.select(group))
            if selected:
                values = [getattr(selected[0], name) for name in self.about]
                yield self.display(selected, **titles_of(self.name, self.heading, values), note=self.note)

    @abstractmethod
    def display(self, rows: tuple[Row, ...], **labels: str) -> Display:
        """The figure of these rows, with the labels that `Display` takes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RowsDisplay(Display):
    """A display of rows; `fields` are the columns of its frame."""

    rows: tuple[Row, ...]
    fields: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """The rows that are plotted, one per line, with the fields that matter here."""
        return frame_of({name: [getattr(row, name) for row in self.rows] for name in self.fields})


def titles_of(kind: str, heading: str, values: Sequence[str]) -> dict[str, str]:
    """Name, kind, heading and title of a display that is about these values, such as a model and a task."""
    # The file name has the metric's name, which is shorter and has no spaces; the title has its label.
    about = ", ".join(clean(label_of(value) if value in METRICS else value, 60) for value in values if value)
    return {
        "name": file_name(kind, *values),
        "kind": kind,
        "heading": heading,
        "title": f"{heading}: {about}" if about else heading,
    }


def frame_of(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Columns as a pandas DataFrame.

    Raises
    ------
    ImportError
        pandas, which the package does not depend on, is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"a frame needs pandas ({error}); install it with: pip install pandas") from None
    return pd.DataFrame(dict(columns))


def records_of(result: Result, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The lines of one of a result's item-level tables; none if it has no such table.

    Parameters
    ----------
    result
        The result.
    name
        Name of the table among `result.records`.
    columns
        Columns that it must have; others are returned as well.

    Raises
    ------
    ValueError
        The table lacks one of the columns.
    """
    table: pyarrow.Table | None = result.records.get(name)
    if table is None:
        return []
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise ValueError(f"the record {name!r} lacks the column {missing[0]!r}; it must have {', '.join(columns)}")
    lines: list[dict[str, Any]] = table.to_pylist()
    return lines


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by key; keys and items in the order they came."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def setting_of(row: Row) -> str:
    """The row's setting without what a survey says there of its sampling: `tokens half-samples=20` is of `tokens`."""
    return _SAMPLING.sub("", row.setting).strip()


def last_layer(rows: Iterable[Row]) -> int | None:
    """The highest layer among the rows; None if no row has one."""
    return max((row.layer for row in rows if row.layer is not None), default=None)
