"""`--report` of `survey` and `compare`: what was measured, and the last layer's cloud, as a page."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from theodolite.core.pictures import Picture
    from theodolite.core.rows import Row
    from theodolite.metrics.cloud import Cloud

Report = Annotated[str | None, typer.Option(help="Also write a report to this .html file.", metavar="FILE")]
NoText = Annotated[bool, typer.Option("--no-text", help="Leave sentences and tokens out of the report.")]

PER_BILLION = 9.0
"""A Zipf frequency counts occurrences per thousand million words; a picture keeps shares of all words."""


@dataclass(frozen=True)
class Wish:
    """A report that is asked for, or not."""

    file: str | None
    text: bool = True

    @classmethod
    def of(cls, file: str | None, no_text: bool) -> Wish:
        """What the options say; a place that cannot be written to is refused before the work."""
        if file is None:
            if no_text:
                raise ValueError("--no-text leaves texts out of a report; name one with --report FILE")
            return cls(None)
        from theodolite.reports.page import check_place

        check_place(file)
        return cls(file, not no_text)

    def save(
        self,
        kind: str,
        title: str,
        rows: Sequence[Row],
        pictures: Sequence[Picture],
        *,
        quiet: bool,
        findings: Sequence[Any] = (),
    ) -> None:
        """Write the report where one is asked for, and say so on the terminal."""
        if self.file is None:
            return
        from theodolite.reports.page import write_report
        from theodolite.reports.run_folder import RunData

        models = list(dict.fromkeys(row.model for row in rows if row.model))
        facts = {"models": models, "findings": [asdict(finding) for finding in findings]}
        run = RunData(
            name=kind, title=title, kind=kind, command=this_command(), facts=facts, rows=tuple(rows), pictures=tuple(pictures)
        )
        write_report([run], self.file, text=self.text)
        if not quiet:
            print(f"\nreport written to {self.file}")

    def of_space(self, space: Any, texts: Any, *, seed: int, state: str = "") -> list[Picture]:
        """The cloud of a space's last layer, each point with its sentence and what else is known of it."""
        if self.file is None:
            return []
        from theodolite.core.pictures import draw_picture as picture

        about = {name: space.about(-1)[name] for name in ("model", "state", "layer", "task")}
        about["state"] = about["state"] or state
        return [picture(space[-1], columns=columns_of(space.rows, texts), about=about, seed=seed)]

    def of_cloud(self, cloud: Cloud, name: str, *, state: str = "") -> list[Picture]:
        """The cloud of a file, from the rows that its survey sampled."""
        if self.file is None:
            return []
        from theodolite.core.pictures import draw_picture as picture

        return [picture(cloud.sample, about={"model": name, "state": state}, points=cloud.sample_size, seed=cloud.seed)]


def columns_of(rows: Mapping[str, Sequence[Any]], texts: Any) -> dict[str, Sequence[Any]]:
    """What a picture keeps of a space's rows. `texts` are those that were read: rows of tokens do not repeat their sentence."""
    columns: dict[str, Sequence[Any]] = {}
    for name, names in (("token", ("token", "word")), ("text", ("sentence",)), ("label", ("label",))):
        found = next((one for one in names if one in rows), None)
        if found is not None:
            columns[name] = rows[found]
    if "text" not in columns and "text" in rows and texts is not None:
        columns["text"] = _sentences(rows, texts)
    if "frequency" in rows:
        columns["frequency"] = [float(value) - PER_BILLION if value else None for value in rows["frequency"]]
    return columns


def _sentences(rows: Mapping[str, Sequence[Any]], texts: Any) -> list[str]:
    first = getattr(texts, "texts", texts)
    second = getattr(texts, "second", None)
    sides = rows["side"] if "side" in rows else [0] * len(rows["text"])
    return [(second if side and second is not None else first)[number] for number, side in zip(rows["text"], sides, strict=True)]


def this_command() -> str:
    """The command that is running, to run it again; empty where this is called from another program."""
    called = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119  # a name, not a path
    return shlex.join(["theodolite", *sys.argv[1:]]) if called in ("theodolite", "__main__.py") else ""
