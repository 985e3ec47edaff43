"""Spaces with several layers on the command line: measured layer by layer, and held against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theodolite.cli.frame import print_json, progress, save_rows, stdout
from theodolite.cli.numbers import number
from theodolite.cli.report_option import Wish

if TYPE_CHECKING:
    from rich.console import Console

    from theodolite.cli.texts import Chosen
    from theodolite.core.rows import Row

METRICS = ("iso_score", "mean_cosine", "effective_rank", "ev_1", "log_partition_isotropy", "log_partition_isotropy_unit_norm")
"""What is measured of every layer unless asked otherwise: each says one thing of the papers."""

CELL = 18
"""Width of a cell with two numbers and an arrow."""

HEADS = {
    "iso_score": "IsoScore",
    "mean_cosine": "cosine",
    "effective_rank": "eff. rank",
    "ev_1": "EV 1",
    "log_partition_isotropy": "log I",
    "log_partition_isotropy_unit_norm": "log I unit",
    "mean_minimum_distance": "hulls apart",
}


@dataclass(frozen=True)
class ModelTexts:
    """Texts for an encoder to read, and how."""

    chosen: Chosen
    layers: Any
    specials: bool
    batch_size: int | None
    encoder: Mapping[str, Any]
    """Options for loading the encoder."""
    frequencies: bool = False
    """Whether tokens and words are to know how common they are."""

    def space(self, model: str, seen: Any) -> Any:
        """The vectors of every asked layer of a model, in memory."""
        from theodolite.cli.extract import load_encoder
        from theodolite.models.extract import extract

        known = self.frequencies and self.chosen.unit in ("tokens", "words")
        return extract(load_encoder(model, **self.encoder), self.chosen.texts, frequencies=known, **self._reading(seen))

    def streamed(self, model: str, metrics: Sequence[str] | None, *, sample: int, seed: int, seen: Any) -> list[Row]:
        """Rows of every asked layer, measured as the vectors go by."""
        from theodolite.cli.extract import load_encoder
        from theodolite.models.stream import survey_layers

        encoder = load_encoder(model, **self.encoder)
        return survey_layers(encoder, self.chosen.texts, metrics or METRICS, sample=sample, seed=seed, **self._reading(seen))

    def _reading(self, seen: Any) -> dict[str, Any]:
        return {
            "unit": self.chosen.unit,
            "layers": self.layers,
            "specials": self.specials,
            "batch_size": self.batch_size or "auto",
            "progress": seen.steps(f"encoding {self.chosen.name}"),
        }


def is_layered(path: str) -> bool:
    """Whether a path is a space written by `extract`."""
    from theodolite.spaces import is_space

    return is_space(path)


def last_findings(space: Any, *, sample: int, seed: int) -> list[Any]:
    """What a whole survey of the last layer, the one that is usually shipped, finds."""
    from theodolite.advice.findings import findings
    from theodolite.metrics.cloud import Cloud
    from theodolite.metrics.survey import survey

    cloud = Cloud(space[-1], sample=sample, seed=seed)
    return list(findings(cloud, survey(cloud)))


def survey_layers_of(
    title: str,
    make: Callable[[Any], Any],
    metrics: Sequence[str] | None,
    output: str | None,
    wish: Wish,
    *,
    sample: int,
    seed: int,
    bootstrap: int,
    with_findings: bool,
    as_json: bool,
    texts: Any = None,
    streamed: Callable[[Any], list[Row]] | None = None,
) -> None:
    """Measure every layer of a space, or of what goes by, and report it."""
    if streamed is not None and bootstrap:
        raise ValueError("--bootstrap draws from the vectors, which --no-store does not keep; leave one of them out")
    found: list[Any] = []
    pictures: list[Any] = []
    with progress() as bars:
        if streamed is not None:
            rows = streamed(bars)
        else:
            space = make(bars)
            rows = survey_layered(space, metrics, sample=sample, seed=seed, bootstrap=bootstrap, seen=bars)
            found = last_findings(space, sample=sample, seed=seed) if with_findings else []
            pictures = wish.of_space(space, texts, seed=seed)
    report_layers(title, rows, found, output, as_json=as_json)
    wish.save("survey", f"Survey of {title}", rows, pictures, quiet=as_json, findings=found)


def survey_layered(space: Any, metrics: Sequence[str] | None, *, sample: int, seed: int, bootstrap: int, seen: Any) -> list[Row]:
    """Rows of every layer of a space."""
    from theodolite.metrics.cloud import Cloud
    from theodolite.metrics.survey import survey

    rows: list[Row] = []
    tick = seen.steps("measuring layers")
    for number_, layer in enumerate(space.layers):
        cloud = Cloud(space[layer], sample=sample, seed=seed)
        rows += survey(cloud, metrics or METRICS, bootstrap=bootstrap, about=space.about(layer))
        tick(number_ + 1, len(space.layers))
    return rows


def report_layers(title: str, rows: list[Row], found: Sequence[Any], output: str | None, *, as_json: bool) -> None:
    """The rows of a layered space: a table and the findings on its last layer, or JSON, and the file where one is asked for."""
    from dataclasses import asdict

    if as_json:
        print_json({"space": title, "rows": [row.to_dict() for row in rows], "findings": [asdict(one) for one in found]})
    else:
        from theodolite.cli.tables import show_findings

        console = stdout()
        setting = next((row.setting for row in rows if row.setting), "")
        console.print(f"{title}: {rows[0].n:,} × {rows[0].d} {setting}", markup=False)
        show_layers(console, rows)
        if found:
            console.print("\nthe last layer:", markup=False)
            show_findings(console, found)
    save_rows(rows, output, quiet=as_json)


def show_layers(console: Console, rows: Sequence[Row]) -> None:
    """One line a layer, one column a metric."""
    from theodolite.cli.tables import plain_table, show_reasons

    names = list(dict.fromkeys(row.metric for row in rows))
    table = plain_table(["layer", *(HEADS.get(name, name) for name in names)], right={"layer", *(HEADS.get(n, n) for n in names)})
    values = {(row.layer, row.metric): row for row in rows}
    for layer in dict.fromkeys(row.layer for row in rows):
        table.add_row(str(layer), *(number(values[layer, name].value) for name in names))
    console.print(table)
    show_reasons(console, [(row.metric, row.reason) for row in rows])


def show_change(console: Console, before: Sequence[Row], after: Sequence[Row]) -> None:
    """One line a layer: each metric of A, an arrow, and of B."""
    from theodolite.cli.tables import plain_table

    names = [name for name in dict.fromkeys(row.metric for row in before) if any(row.metric == name for row in after)]
    old, new = ({(row.layer, row.metric): row.value for row in rows} for rows in (before, after))
    layers = [layer for layer in dict.fromkeys(row.layer for row in before) if any(key[0] == layer for key in new)]
    fitting = max(1, (console.width - len("layer ")) // CELL)
    for start in range(0, len(names), fitting):  # as many metrics side by side as the terminal has room for
        shown = names[start : start + fitting]
        heads = [HEADS.get(name, name) for name in shown]
        table = plain_table(["layer", *heads], right={"layer", *heads})
        for layer in layers:
            table.add_row(str(layer), *(f"{_short(old[layer, name])} → {_short(new[layer, name])}" for name in shown))
        console.print(table)


def show_steps(console: Console, rows: Sequence[Row]) -> None:
    """What a tracker saw of every layer at the first and the last step."""
    shown = (*METRICS, "mean_minimum_distance")
    tracked = [row for row in rows if row.layer is not None and not row.label and row.metric in shown]
    if not tracked:
        return
    steps = sorted({row.step for row in tracked if row.step is not None})
    first, last = ([row for row in tracked if row.step == step] for step in (steps[0], steps[-1]))
    console.print(f"geometry on a fixed sample, step {steps[0]} → {steps[-1]}:", markup=False)
    show_change(console, first, last)


def _short(value: float) -> str:
    return "–" if value != value else f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"
