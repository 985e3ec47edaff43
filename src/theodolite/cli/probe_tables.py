"""What `probe` prints: the verdict, what was found of each label, and a line a layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theodolite.cli.numbers import number

if TYPE_CHECKING:
    from rich.console import Console

    from theodolite.core.rows import Row
    from theodolite.probes.rows import Closest, HeldOut, LabelSummary
    from theodolite.probes.score import ProbeScore


@dataclass(frozen=True, eq=False)
class Probed:
    """One layer, probed."""

    layer: int | None
    verdict: str
    clusters: int
    is_linear: bool
    labels: Sequence[LabelSummary]
    closest: Closest | None
    mean_minimum: float
    held_out: HeldOut | None
    score: ProbeScore | None
    seconds: float
    rows: Sequence[Row]

    def document(self) -> dict[str, Any]:
        """What `--json` prints of it, beside the rows."""
        from dataclasses import asdict

        return {
            "layer": self.layer,
            "verdict": self.verdict,
            "clusters": self.clusters,
            "is_linear": self.is_linear,
            "closest": asdict(self.closest) if self.closest is not None else None,
            "mean_minimum_distance": self.mean_minimum,
            "hull_accuracy": self.held_out.accuracy if self.held_out is not None else None,
            "classifier": asdict(self.score) if self.score is not None else None,
            "seconds": self.seconds,
            "labels": [asdict(one) for one in self.labels],
        }


def show_labels(console: Console, labels: Sequence[LabelSummary]) -> None:
    """A line a label: its rows and clusters, the nearest other label, and the distances inside its clusters."""
    from theodolite.cli.tables import plain_table

    numbers = ["rows", "clusters", "distance", "inside mean", "max"]
    table = plain_table(["label", "rows", "clusters", "nearest", "distance", "inside mean", "max"], right=set(numbers))
    for one in labels:
        distances = (one.minimum_distance, one.inside_mean, one.inside_max)
        lengths = [number(distance) for distance in distances]
        table.add_row(_short(one.label), f"{one.rows:,}", f"{one.clusters:,}", _short(one.nearest), *lengths)
    console.print(table)
    if any(math.isnan(one.inside_mean) for one in labels):
        console.print("– inside: every cluster of the label is a single point", style="dim")


def show_probed_layers(console: Console, probed: Sequence[Probed]) -> None:
    """A line a layer."""
    from theodolite.cli.tables import plain_table

    headings = ["layer", "clusters", "linear", "closest", "min."]
    headings += ["hull"] if any(one.held_out for one in probed) else []
    headings += ["probe"] if any(one.score for one in probed) else []
    table = plain_table([*headings, "s"], right={"layer", "clusters", "min.", "hull", "probe", "s"})
    table.collapse_padding = True  # eight columns in 80 characters
    for one in probed:
        cells = [
            str(one.layer),
            f"{one.clusters:,}",
            "yes" if one.is_linear else "no",
            _pair(one.closest),
            _brief(one.mean_minimum),
        ]
        if "hull" in headings:
            cells.append(f"{one.held_out.accuracy:.3f}" if one.held_out else "–")
        if "probe" in headings:
            cells.append(_accuracy(one.score))
        table.add_row(*cells, f"{one.seconds:.1f}" if one.seconds < 100 else f"{one.seconds:.0f}")
    console.print(table)
    scored = "; hull, probe: accuracy on held-out rows" if "hull" in headings else ""
    console.print(f"min.: mean of the labels' distances to the nearest other{scored}", style="dim", markup=False)


def show_scores(console: Console, one: Probed) -> None:
    """Accuracy on held-out rows, by hulls and by a classifier."""
    if one.held_out is not None:
        console.print(f"nearest hull on {one.held_out.n:,} held-out rows: accuracy {one.held_out.accuracy:.3f}", markup=False)
    if one.score is not None:
        chosen = f"hidden {'×'.join(map(str, one.score.hidden))}, " if one.score.hidden else "linear, "
        line = f"classifier on {one.score.n:,} held-out rows: accuracy {_accuracy(one.score)} ({chosen}L2 {one.score.alpha:g})"
        console.print(line, markup=False)
        if one.score.note:
            console.print(f"– {one.score.note}", style="dim", markup=False)


def _accuracy(score: ProbeScore | None) -> str:
    if score is None:
        return "–"
    return f"{score.mean:.3f} ± {score.sd:.3f}" if len(score.scores) > 1 else f"{score.mean:.3f}"


def _pair(closest: Closest | None) -> str:
    if closest is None:
        return "–"
    return f"{_short(closest.first, 7)} {_short(closest.second, 7)} {_brief(closest.distance)}"


def _brief(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


def _short(label: str, width: int = 16) -> str:
    return label if len(label) <= width else f"{label[: width - 1]}…"
