"""Which tables a result is shown as: those that its study declares, or general ones that fit any rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from theodolite.core.rows import Row
from theodolite.core.states import DIFFERENCE, state_order, state_title
from theodolite.reports.pivot import Entry, Table, pivot

if TYPE_CHECKING:
    from theodolite.core.result import Result

MOST_METRICS = 8
"""Metrics that are side by side; if there are more, each gets a line instead."""
MOST_HEADS = 6
"""Columns up to which a table has a line for each metric."""
Steps: TypeAlias = Literal["none", "only", "final"]


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """The declaration of one table: which rows, and which of their fields are down and across.

    A study's TOML file has these as plain values, and a result carries them in `provenance["tables"]`.

    Parameters
    ----------
    title
        Heading of the table.
    metrics
        Metrics that it shows, in order.
    rows
        Fields of a row that make up a line; `run` tells several runs apart. A field that has one value everywhere gets no column.
    columns
        Fields of a row that make up the heads above the values.
    note
        A sentence on how to read it.
    settings
        The settings of rows that it shows, in order; None shows all of them.
    setting_starts_with
        What a row's setting must begin with.
    last_layer
        Whether only the last layer of each model is shown.
    labels
        Whether it shows rows of single labels, rather than rows of the whole.
    steps
        `none`: rows of a state. `only`: rows of a training step. `final`: rows of no single layer, whatever their step, which
        is what whole training runs end with.

    Examples
    --------
    >>> spec = TableSpec.from_dict({"title": "Isotropy by layer", "metrics": ["iso_score"], "rows": ["model", "layer"]})
    >>> spec.columns
    ('state', 'metric')
    """

    title: str
    metrics: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...] = ("state", "metric")
    note: str = ""
    settings: tuple[str, ...] | None = None
    setting_starts_with: str = ""
    last_layer: bool = False
    labels: bool = False
    steps: Steps = "none"

    @classmethod
    def from_dict(cls, values: Any) -> TableSpec:
        """The declaration that plain values, as TOML and JSON have them, describe.

        Parameters
        ----------
        values
            A mapping of the parameters by name; all but `title`, `metrics` and `rows` may be left out.

        Raises
        ------
        ValueError
            A key is missing or unknown, or its value is of the wrong kind; the message names it.
        """
        title = values.get("title", "") if isinstance(values, Mapping) else ""
        where = f"the declared table {str(title)[:60]!r}"
        if not isinstance(values, Mapping):
            raise ValueError(f"{where} must be a table of keys and values, not {values!r:.60}")
        kinds = {parameter.name: str(parameter.type) for parameter in fields(cls)}
        unknown = next((name for name in values if name not in kinds), None)
        if unknown is not None:
            raise ValueError(f"{where} has the unknown key {str(unknown)[:60]!r}; it may have {', '.join(kinds)}")
        missing = next((name for name in ("title", "metrics", "rows") if not values.get(name)), None)
        if missing is not None:
            raise ValueError(f"{where} needs {missing!r}")
        checked = {name: _checked(value, kinds[name], f"{name!r} of {where}") for name, value in values.items()}
        for name in ("rows", "columns"):
            wrong = next((f for f in checked.get(name, ()) if f not in ("run", *Row.FIELDS)), None)
            if wrong is not None:
                choices = ", ".join(("run", *Row.FIELDS))
                raise ValueError(f"{name!r} of {where} has {wrong[:60]!r}, which is not a field of a row; use {choices}")
        return cls(**checked)

    def table(self, entries: Sequence[Entry]) -> Table | None:
        """The table of these rows; None if it would be empty."""
        # The last layer is that of each model of each run: models differ in depth.
        last: dict[tuple[str, str], int] = {}
        for entry in entries:
            owner = (entry.run, entry.row.model)
            last[owner] = max(last.get(owner, -1), -1 if entry.row.layer is None else entry.row.layer)
        selected = [entry for entry in entries if self._takes(entry.row)]
        if self.last_layer:
            selected = [entry for entry in selected if entry.row.layer in (None, last[entry.run, entry.row.model])]
        places = {owner: i for i, owner in enumerate(last)}
        selected.sort(
            key=lambda entry: (
                places[entry.run, entry.row.model],
                state_order(entry.row.state),
                0 if self.settings is None else self.settings.index(entry.row.setting),
                self.metrics.index(entry.row.metric),
            )
        )
        return pivot(selected, rows=self.rows, columns=self.columns, title=self.title, note=self.note, metrics=self.metrics)

    def _takes(self, row: Row) -> bool:
        in_settings = self.settings is None or row.setting in self.settings
        in_time = row.layer is None if self.steps == "final" else (row.step is not None) == (self.steps == "only")
        return (
            row.metric in self.metrics
            and in_settings
            and row.setting.startswith(self.setting_starts_with)
            and bool(row.label) == self.labels
            and in_time
        )


def tables_of(results: Iterable[tuple[str, Result]]) -> list[Table]:
    """The tables of one result or of several; a table that several of them declare has the rows of all.

    Parameters
    ----------
    results
        The name of each run, and its result.
    """
    declared: dict[TableSpec, list[Entry]] = {}
    others: dict[str, list[Entry]] = {}
    for name, result in results:
        entries = [Entry(name, row) for row in result.rows]
        specs = result.provenance.get("tables") or []
        if not isinstance(specs, (list, tuple)):
            raise ValueError(f"the declared tables of {name[:60]!r} must be a list, not {specs!r:.60}")
        # Two runs of one study declare equal tables, which makes them one key: their rows go into one table.
        for spec in map(TableSpec.from_dict, specs):
            declared.setdefault(spec, []).extend(entries)
        for entry in entries if not specs else ():
            others.setdefault(entry.row.study, []).append(entry)
    tables = [spec.table(entries) for spec, entries in declared.items()]
    for entries in others.values():
        tables += [_general(entries), _by_step(entries)]
    return [table for table in tables if table is not None]


def _checked(value: Any, kind: str, where: str) -> Any:
    if kind.startswith("tuple"):
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise ValueError(f"{where} must be a list of strings, not {value!r:.60}")
    if kind == "Steps":
        if value in ("none", "only", "final"):
            return value
        raise ValueError(f"{where} must be none, only or final, not {value!r:.60}")
    if type(value).__name__ != kind:
        raise ValueError(f"{where} must be a {kind}, not {value!r:.60}")
    return value


def _general(entries: Sequence[Entry]) -> Table | None:
    """Metrics side by side, or one per line if there are many of them."""
    whole = [entry for entry in entries if entry.row.step is None and _is_whole(entry.row)]
    about: tuple[str, ...] = ("run", "model", "task", "split", "setting", "layer", "seed")
    metrics = list(dict.fromkeys(entry.row.metric for entry in whole))
    heads = {tuple(entry.field(f) for f in (*about, "state")) for entry in whole}
    models = _models_of_states(whole)
    note = "; ".join(f"{state_title(state)}: {model}" for state, model in models.items() if state != DIFFERENCE)
    text = {"title": "Measured", "note": f"{note}." if note else ""}
    if models:  # in a comparison each state is another model, which then needs no column of its own
        about = tuple(name for name in about if name != "model")
    # A survey of one cloud has many metrics and one head, a survey of layers many heads: the longer side goes down.
    if len(heads) <= MOST_HEADS or (len(metrics) > MOST_METRICS and len(heads) <= MOST_METRICS):
        return pivot(whole, rows=("metric",), columns=(*about, "state"), **text)
    whole.sort(key=lambda entry: state_order(entry.row.state))
    if models:
        whole.sort(key=lambda entry: metrics.index(entry.row.metric))
    return pivot(whole, rows=about, columns=("metric", "state") if models else ("state", "metric"), **text)


def _models_of_states(entries: Sequence[Entry]) -> dict[str, str]:
    """The model of each state, if each has exactly one and they are not all the same; otherwise nothing."""
    models: dict[str, set[str]] = {}
    for entry in entries:
        models.setdefault(entry.row.state, set()).add(entry.row.model)
    differ = len(models) > 1 and len(set().union(*models.values())) > 1
    return {state: min(names) for state, names in models.items()} if differ and all(len(n) == 1 for n in models.values()) else {}


def _is_whole(row: Row) -> bool:
    # Not of a label, nor of two labels: a probe has thousands of those, which its heat map and the table of all rows show.
    return not row.label and row.metric != "label_distance"


def _by_step(entries: Sequence[Entry]) -> Table | None:
    stepped = [entry for entry in entries if entry.row.step is not None and _is_whole(entry.row)]
    rows = ("run", "model", "task", "setting", "layer", "step")
    return pivot(stepped, rows=rows, columns=("metric",), title="Over the steps")
