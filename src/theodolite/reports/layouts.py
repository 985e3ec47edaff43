"""Which tables a run's rows make: those of the papers where the rows are a study's, and one that fits where they are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from theodolite.reports.tables import Entry, Table, turned

REPAIRS = (
    "baseline",
    "baseline [CLS]",
    "zero-mean",
    "clustering+zero-mean",
    "global",
    "cluster-based",
    "global scaled",
    "cluster-based scaled",
    "least global 100",
    "least global 700",
    "least cluster-based 100",
    "least cluster-based 700",
)
WIDE = 8
"""Metrics side by side; where there are more, a metric gets a line instead."""
FEW = 6
"""Columns that a table of metrics by line may have."""


@dataclass(frozen=True)
class Layout:
    """One table of a study: which rows, and how they are laid out."""

    title: str
    metrics: tuple[str, ...]
    lines: tuple[str, ...]
    across: tuple[str, ...] = ("state", "metric")
    note: str = ""
    settings: tuple[str, ...] | None = None
    begins: str = ""
    """What a row's setting has to begin with."""
    last: bool = False
    """Whether only the last layer of each model is meant."""
    labelled: bool = False
    """Whether rows of single labels are meant, rather than those of the whole."""
    stepped: bool | None = False
    """Whether rows of a training step are meant, rather than those of a state; None: what whole runs ended with."""

    def of(self, entries: Sequence[Entry], last: Callable[[Entry], bool]) -> Table | None:
        """The table, or None where the rows hold nothing of it."""
        chosen = [entry for entry in entries if self._takes(entry) and (not self.last or last(entry))]
        order = {name: i for i, name in enumerate(self.metrics)}
        chosen.sort(key=lambda entry: order[entry.row.metric])
        if self.settings is not None:
            places = {name: i for i, name in enumerate(self.settings)}
            chosen.sort(key=lambda entry: places[entry.row.setting])
        chosen.sort(key=lambda entry: _state_order(entry.row.state))
        owners = {owner: i for i, owner in enumerate(dict.fromkeys((entry.run, entry.row.model) for entry in entries))}
        chosen.sort(key=lambda entry: owners[entry.run, entry.row.model])
        return turned(chosen, lines=self.lines, across=self.across, title=self.title, note=self.note, metrics=self.metrics)

    def _takes(self, entry: Entry) -> bool:
        row = entry.row
        in_settings = (self.settings is None or row.setting in self.settings) and row.setting.startswith(self.begins)
        in_time = row.layer is None if self.stepped is None else (row.step is not None) == self.stepped
        return row.metric in self.metrics and in_settings and bool(row.label) == self.labelled and in_time


STUDIES: dict[str, tuple[Layout, ...]] = {
    "rp21": (
        Layout(
            "Repairs: score and isotropy",
            ("spearman", "spearman_change", "log_partition_isotropy", "iso_score"),
            ("run", "model", "setting"),
            settings=REPAIRS,
            last=True,
            note="Spearman of cosine and human score, its change against the baseline, and the isotropy of the tokens.",
        ),
        Layout(
            "Isotropy by layer",
            ("log_partition_isotropy", "iso_score", "mean_cosine"),
            ("run", "model", "setting", "layer"),
            settings=("tokens", "cls"),
        ),
        Layout(
            "Clusters and word frequency",
            ("silhouette", "between_share", "clustering_gain", "frequency_r2", "norm_frequency_correlation"),
            ("run", "model", "metric"),
            ("state",),
        ),
        Layout(
            "Removing the top directions one by one",
            ("spearman", "log_partition_isotropy", "iso_score"),
            ("run", "model", "label"),
            settings=("sweep global",),
            labelled=True,
        ),
        Layout("Repaired scores by layer", ("spearman",), ("run", "model", "layer", "setting"), ("state",), settings=REPAIRS),
    ),
    "il23": (
        Layout(
            "Score, IsoScore and explained variance",
            ("accuracy", "matthews", "iso_score", "iso_score_corrected", "ev_1", "ev_2", "ev_3"),
            ("run", "model", "task", "metric"),
            ("state",),
            note="Median over the seeds, ± their standard deviation.",
            settings=("",),
            stepped=None,
        ),
    ),
    "zs22": (
        Layout(
            "Clusters, distances and probes",
            ("labels", "clusters", "mean_minimum_distance", "hull_accuracy", "probe_accuracy", "train_test_similarity"),
            ("run", "model", "task"),
            settings=("",),
            last=True,
        ),
        Layout(
            "Clusters by layer",
            ("clusters", "mean_minimum_distance", "hull_accuracy"),
            ("run", "model", "task", "layer"),
            settings=("",),
        ),
        Layout(
            "Fine-tuned on one task, probed on another",
            ("mean_change", "labels_rose", "labels_fell", "probe_accuracy"),
            ("run", "model", "task", "setting"),
            ("metric",),
            begins="tuned on ",
        ),
        Layout(
            "How the centroids moved, by layer",
            ("movement_share_1", "movement_share_2"),
            ("run", "model", "task", "layer"),
            ("metric",),
            note="The share of all labels' movement that lies on one direction, and on two.",
            stepped=True,
        ),
    ),
}


def tables_of(entries: Sequence[Entry]) -> list[Table]:
    """The tables of these rows, of one run or of several."""
    highest: dict[tuple[str, str], int] = {}
    for entry in entries:
        key = (entry.run, entry.row.model)
        highest[key] = max(highest.get(key, -1), -1 if entry.row.layer is None else entry.row.layer)
    tables: list[Table | None] = []
    for study in dict.fromkeys(entry.row.study for entry in entries):
        own = [entry for entry in entries if entry.row.study == study]
        if study in STUDIES:
            tables += [layout.of(own, lambda e: e.row.layer in (None, highest[e.run, e.row.model])) for layout in STUDIES[study]]
        else:
            tables.append(_general(own))
            tables.append(_stepwise(own))
    return [table for table in tables if table is not None]


def _general(entries: Sequence[Entry]) -> Table | None:
    """Metrics side by side, or one a line where there are many of them."""
    whole = [entry for entry in entries if not entry.row.label and entry.row.step is None]
    about: tuple[str, ...] = ("run", "model", "task", "split", "setting", "layer", "seed")
    metrics = {entry.row.metric for entry in whole}
    heads = {tuple(entry.field(f) for f in (*about, "state")) for entry in whole}
    models = _models_of_states(whole)
    note = "; ".join(f"{state}: {model}" for state, model in models.items() if state != "difference") + "." * bool(models)
    if models:  # in a comparison a state is another model, which then needs no column of its own
        about = tuple(name for name in about if name != "model")
    if len(heads) <= FEW or (len(metrics) > WIDE and len(heads) <= WIDE):
        return turned(whole, lines=("metric",), across=(*about, "state"), title="Measured", note=note)
    whole = sorted(whole, key=lambda entry: _state_order(entry.row.state))
    if models:
        order = list(dict.fromkeys(entry.row.metric for entry in entries))
        whole = sorted(whole, key=lambda entry: order.index(entry.row.metric))
    return turned(whole, lines=about, across=("metric", "state") if models else ("state", "metric"), title="Measured", note=note)


def _models_of_states(entries: Sequence[Entry]) -> dict[str, str]:
    """The model of each state, where each has one and they are not all the same; else nothing."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        found.setdefault(entry.row.state, set()).add(entry.row.model)
    alone = all(len(models) == 1 for models in found.values())
    several = len({model for models in found.values() for model in models}) > 1
    return {state: models.pop() for state, models in found.items()} if alone and several and len(found) > 1 else {}


def _stepwise(entries: Sequence[Entry]) -> Table | None:
    stepped = [entry for entry in entries if not entry.row.label and entry.row.step is not None]
    lines = ("run", "model", "task", "setting", "layer", "step")
    return turned(stepped, lines=lines, across=("metric",), title="Over the steps")


def _state_order(state: str) -> int:
    known = ("pre-trained", "before", "fine-tuned", "after", "difference", "isolayer", "isobn")
    return known.index(state) if state in known else len(known)
