"""What a page of some results shows, section by section: gathered here, laid out by the template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.metrics.registry import label_of
from theodolite.reports.clouds import clouds_document
from theodolite.reports.displays.base import Display
from theodolite.reports.displays.clouds import CloudDisplay
from theodolite.reports.displays.figures import displays_of
from theodolite.reports.pivot import Entry, all_rows, frame_table
from theodolite.reports.plain_text import clean, unique_names
from theodolite.reports.provenance import FACT, command_of, facts_of, name_of
from theodolite.reports.tables import tables_of
from theodolite.reports.theme import CLASS_COLOURS, GREY, Theme, ramp_colours, template
from theodolite.reports.verdict_cards import card, number_text, outcome_counts

if TYPE_CHECKING:
    from theodolite.core.result import Result

HEIGHT = 420
"""Pixels of a figure that does not say."""
SHADES = 32
"""Colours of the ramp that the viewer of clouds has."""
MOST_LISTED = 4
"""Models or tasks that the first sentence names; others are counted."""
VERBS = {
    "study": "A study",
    "survey": "A survey",
    "compare": "A comparison",
    "probe": "A probe",
    "tune": "A fine-tuning run",
    "rows": "Rows",
}
SEVERITIES = {"bad": ("✗", "fails"), "watch": ("!", "open")}
Runs: TypeAlias = Sequence[tuple[str, "Result"]]
"""Results by names that no two of them share."""


@dataclass
class PageContent:
    """What a page shows: `context` for its template, `data` for its scripts."""

    context: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def has_plots(self) -> bool:
        """Whether Plotly is needed."""
        return any(name.startswith("figure-") for name in self.data)


def page_content(results: Sequence[Result], *, text: bool) -> PageContent:
    """Everything that the page of these results shows.

    Parameters
    ----------
    results
        The results, side by side if there are several.
    text
        Whether sentences and tokens may be on the page.
    """
    runs = list(zip(unique_names(map(name_of, results), "{} ({})"), results, strict=True))
    page = PageContent()
    several = len(runs) > 1
    numbers = count(1)
    page.context = {
        "title": f"{len(runs)} runs side by side" if several else clean(results[0].title, 200) or runs[0][0],
        "lead": _lead(runs),
        "several": several,
        "runs": [
            {
                "name": name,
                "title": clean(result.title, 200),
                "models": len({verdict.model for verdict in result.verdicts}),
                "cards": [card(verdict, next(numbers)) for verdict in result.verdicts],
            }
            for name, result in runs
        ],
        "findings": [finding for name, result in runs for finding in _findings(name if several else "", result)],
        "counts": outcome_counts([verdict for result in results for verdict in result.verdicts]),
        "tables": _tables(page, runs),
        "figures": _figures(page, runs),
        "clouds": _clouds(page, runs, text=text),
        "provenance": [_provenance(name, result) for name, result in runs],
        "text": text,
    }
    page.data["look"] = {
        "classes": list(CLASS_COLOURS),
        "ramp": ramp_colours(SHADES),
        "grey": GREY,
        "templates": {"light": _template("light"), "dark": _template("dark")},
    }
    return page


def figure_for_page(display: Display) -> dict[str, Any]:
    """A display's plot as the page draws it: as wide as there is room, in the page's own colours."""
    import plotly.io

    figure: dict[str, Any] = json.loads(plotly.io.to_json(display.plot(), validate=False))
    # The page has its own templates, light and dark; its captions are the titles.
    for name in ("template", "width", "title"):
        figure["layout"].pop(name, None)
    return figure


def _template(theme: Theme) -> Any:
    import plotly.io

    return json.loads(plotly.io.to_json({"layout": {"template": template(theme)}}, validate=False))["layout"]["template"]


def _tables(page: PageContent, runs: Runs) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = []
    for i, table in enumerate(tables_of(runs)):
        page.data[f"table-{i}"] = table.to_dict()
        tables.append({"id": f"table-{i}", "title": clean(table.title, 200), "all": False})
    entries = [Entry(name, row) for name, result in runs for row in result.rows]
    whole = all_rows(entries, several=len(runs) > 1)
    if whole is not None:
        page.data["table-all"] = whole.to_dict()
        tables.append({"id": "table-all", "title": f"Every row ({len(entries):,})", "all": True})
    return tables


def _figures(page: PageContent, runs: Runs) -> list[dict[str, Any]]:
    """Displays of one kind under one heading, those of several runs side by side."""
    sections: dict[str, dict[str, Any]] = {}
    numbers = count()
    for name, result in runs:
        for display in displays_of(result):
            if isinstance(display, CloudDisplay):  # the page has a viewer of its own for all clouds
                continue
            number = next(numbers)
            figure = page.data[f"figure-{number}"] = figure_for_page(display)
            table = _numbers_of(display)
            if table is not None:
                page.data[f"numbers-{number}"] = table
            empty = {"id": f"figures-{display.kind}", "title": display.heading, "figures": []}
            section = sections.setdefault(display.kind, empty)
            section["figures"].append(
                {
                    "id": f"figure-{number}",
                    "height": int(figure["layout"].get("height") or HEIGHT),
                    "numbers": f"numbers-{number}" if table is not None else "",
                    "title": clean(display.title, 200),
                    "note": clean(display.note, 600),
                    "run": name if len(runs) > 1 else "",
                    "place": sum(placed["run"] == name for placed in section["figures"]),
                }
            )
    for section in sections.values():
        section["figures"].sort(key=lambda figure: figure["place"])  # the first of each run, then the second of each
    return list(sections.values())


def _numbers_of(display: Display) -> dict[str, Any] | None:
    """The display's numbers as a table; None if pandas, which frames are made of, is not installed."""
    try:
        frame = display.frame()
    except ImportError:
        return None
    # nan is not equal to itself; JSON has no nan.
    columns = {str(name): [None if value != value else value for value in frame[name].tolist()] for name in frame.columns}
    return frame_table(columns, title=clean(display.title, 200)).to_dict()


def _clouds(page: PageContent, runs: Runs, *, text: bool) -> bool:
    pictures = [(name, picture) for name, result in runs for picture in result.pictures if picture.n]
    if pictures:
        page.data["clouds"] = clouds_document(pictures, text=text)
    return bool(pictures)


def _lead(runs: Runs) -> str:
    """What was run, in one sentence."""
    rows = [row for _, result in runs for row in result.rows]
    models = _listed([clean(model, 60) for model in dict.fromkeys(row.model for row in rows if row.model)])
    tasks = _listed([clean(task, 40) for task in dict.fromkeys(row.task for row in rows if row.task)])
    what = VERBS.get(runs[0][1].verb, "A run") if len(runs) == 1 else f"The runs {_listed([name for name, _ in runs])}"
    claims = len({verdict.claim for _, result in runs for verdict in result.verdicts})
    about = " ".join(filter(None, (what, f"of {models}" if models else "", f"on {tasks}" if tasks else "")))
    judged = f", {claims} claim{'s' if claims != 1 else ''} judged" if claims else ""
    return f"{about}: {len(rows):,} number{'s' if len(rows) != 1 else ''}{judged}."


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - MOST_LISTED} more"] if len(names) > MOST_LISTED else []
    *first, last = [*names[:MOST_LISTED], *more] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _provenance(name: str, result: Result) -> Mapping[str, Any]:
    notes = [clean(note, FACT) for note in result.notes if note]
    return {"name": name, "command": command_of(result), "facts": facts_of(result), "notes": notes}


def _findings(run: str, result: Result) -> list[dict[str, str]]:
    """What a survey found to be not healthy, worst first."""
    findings = [finding for finding in result.findings if finding.verdict in SEVERITIES]
    cards = []
    for finding in sorted(findings, key=lambda finding: finding.verdict != "bad"):
        sign, kind = SEVERITIES[finding.verdict]
        layer = "" if finding.layer is None else f"layer {finding.layer}"
        measured = f"{label_of(finding.metric)} {number_text(finding.value)}, healthy {finding.healthy}"
        cards.append(
            {
                "run": run,
                "sign": sign,
                "kind": kind,
                "verdict": finding.verdict,
                "topic": clean(finding.topic, 120),
                "measured": clean(measured, 200),
                "where": clean(", ".join(filter(None, (finding.model, layer))), 120),
                "meaning": clean(finding.meaning, 600),
                "action": clean(finding.action, 600),
            }
        )
    return cards
