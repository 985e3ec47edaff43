"""What a page of some results shows, section by section: gathered here, laid out by the template."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.core.numbers import interval_text, number_text
from theodolite.core.result import OUTCOMES, Effect, Judged, Verdict
from theodolite.reports.cloud_display import CloudDisplay
from theodolite.reports.clouds import clouds_document
from theodolite.reports.displays import Display
from theodolite.reports.figures import displays_of
from theodolite.reports.tables import Entry, all_rows, frame_table, tables_of
from theodolite.reports.theme import CLASS_COLOURS, GREY, ramp_colours, template
from theodolite.reports.wording import (
    FACT,
    SEVERITY_LOOKS,
    clean,
    command_of,
    facts_of,
    finding_numbers,
    name_of,
    outcome_look,
    unique_names,
    with_labels,
)

if TYPE_CHECKING:
    from theodolite.core.result import Result

# Results by names that no two of them share.
Runs: TypeAlias = Sequence[tuple[str, "Result"]]
# Pixels of a figure that does not say.
HEIGHT = 420
# Colours of the ramp that the viewer of clouds has.
SHADES = 32
# Models or tasks that the first sentence names; others are counted.
MOST_LISTED = 4
VERBS = {
    "study": "A study", "survey": "A survey", "compare": "A comparison", "probe": "A probe", "tune": "A fine-tuning run",
    "rows": "Rows",
}  # fmt: skip
# Length of the line that an effect is drawn on, and what is left free at both ends.
WIDTH, MARGIN = 200.0, 6.0
# Effects share one scale if the largest reaches at most this many times as far as the smallest.
SAME_SCALE = 20.0


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
    pictures = [(name, picture) for name, result in runs for picture in result.pictures if picture.n]
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
        "clouds": bool(pictures),
        "provenance": [
            {
                "name": name,
                "command": command_of(result),
                "facts": facts_of(result),
                "notes": [clean(note, FACT) for note in result.notes if note],
            }
            for name, result in runs
        ],
        "text": text,
    }
    if pictures:
        page.data["clouds"] = clouds_document(pictures, text=text)
    page.data["look"] = {
        "classes": list(CLASS_COLOURS),
        "ramp": ramp_colours(SHADES),
        "grey": GREY,
        "templates": {"light": template("light").to_plotly_json(), "dark": template("dark").to_plotly_json()},
    }
    return page


def card(verdict: Verdict, number: int) -> dict[str, Any]:
    """What the page's template shows of one verdict: the outcome as a word, a sign and a colour, why, and its effects as bars.

    Parameters
    ----------
    verdict
        The verdict.
    number
        Its number on the page, from 1.
    """
    return {
        "id": f"claim-{number}",
        "claim": clean(verdict.claim, 60),
        "title": clean(verdict.title, 300),
        "rule": clean(verdict.rule, 1000),
        "model": clean(verdict.model, 120),
        "measured": _judged(verdict.measured),
        # A paper's own table that does not support its claim is opened, so that nobody misses it.
        "printed": [{**_judged(judged), "disagrees": outcome_look(judged.outcome)[1] == "fails"} for judged in verdict.printed],
    }


def outcome_counts(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """How many claims had each outcome, in words.

    Parameters
    ----------
    verdicts
        The verdicts of all runs.
    """
    counts: Counter[str] = Counter(verdict.measured.outcome for verdict in verdicts)
    # A file may hold an outcome that this version does not know: it is shown last, as undecided.
    lines = []
    for outcome in (outcome for outcome in dict.fromkeys((*OUTCOMES, *counts)) if counts[outcome]):
        sign, kind = outcome_look(outcome)
        lines.append({"n": counts[outcome], "word": outcome, "sign": sign, "kind": kind})
    return lines


def bars(effects: Sequence[Effect]) -> list[dict[str, Any]]:
    """Effects drawn from left to right: positions of 0, of the value and of the ends of its interval on a line of `WIDTH`.

    Effects of similar size share one scale. `side` is `above` or `below` if the interval leaves out 0, and empty otherwise.

    Parameters
    ----------
    effects
        The effects behind a verdict; one that is not finite has no bar.
    """
    finite = [effect for effect in effects if math.isfinite(effect.value)]
    bounds = [_bounds(effect) for effect in finite]
    reaches = [max(map(abs, (effect.value, *interval))) for effect, interval in zip(finite, bounds, strict=True)]
    positive = [reach for reach in reaches if reach > 0]
    shared = max(positive) if positive and max(positive) <= SAME_SCALE * min(positive) else None
    parts = zip(finite, bounds, reaches, strict=True)
    return [_bar(effect, interval, shared or reach or 1.0) for effect, interval, reach in parts]


def _bounds(effect: Effect) -> tuple[float, ...]:
    """Both ends of the interval, or nothing if there is none."""
    low, high = effect.low, effect.high
    return (low, high) if low is not None and high is not None and math.isfinite(low) and math.isfinite(high) else ()


def _bar(effect: Effect, bounds: Sequence[float], reach: float) -> dict[str, Any]:
    def place(value: float) -> float:
        return round(WIDTH / 2 + max(-1.0, min(1.0, value / reach)) * (WIDTH / 2 - MARGIN), 2)

    low, high = bounds or (effect.value, effect.value)
    return {
        "name": clean(with_labels(effect.name), 160),
        # With the true minus sign that the page's tables have.
        "value": number_text(effect.value).replace("-", "−"),
        "interval": interval_text(*bounds).replace("-", "−") if bounds else "",
        "how": clean(", ".join(filter(None, (effect.claimed and f"claimed {effect.claimed}", effect.how))), 300),
        "shown_only": not effect.primary,
        "zero": WIDTH / 2,
        "at": place(effect.value),
        "low": place(low),
        "high": place(high),
        "side": "" if not bounds else "above" if low > 0 else "below" if high < 0 else "",
    }


def _judged(judged: Judged) -> dict[str, Any]:
    sign, kind = outcome_look(judged.outcome)
    return {
        "source": clean(judged.source, 200),
        "outcome": clean(judged.outcome, 60),
        "why": clean(with_labels(judged.why), 1500),
        "sign": sign,
        "kind": kind,
        "command": clean(judged.command, 1500),
        "bars": bars(judged.effects),
    }


def _findings(run: str, result: Result) -> list[dict[str, str]]:
    """What a survey found to be not healthy, worst first."""
    cards = []
    for finding in sorted((finding for finding in result.findings if finding.severity), key=lambda finding: -finding.severity):
        sign, kind = SEVERITY_LOOKS[finding.verdict]
        layer = "" if finding.layer is None else f"layer {finding.layer}"
        cards.append(
            {
                "run": run,
                "sign": sign,
                "kind": kind,
                "verdict": finding.verdict,
                "topic": clean(finding.topic, 120),
                "measured": clean(finding_numbers(finding), 200),
                "where": clean(", ".join(filter(None, (finding.model, layer))), 120),
                "meaning": clean(finding.meaning, 600),
                "action": clean(finding.action, 600),
            }
        )
    return cards


def _tables(page: PageContent, runs: Runs) -> list[dict[str, Any]]:
    entries = [Entry(name, row) for name, result in runs for row in result.rows]
    tables = {f"table-{i}": table for i, table in enumerate(tables_of(runs))}
    sections = [{"id": id, "title": clean(table.title, 200), "all": False} for id, table in tables.items()]
    whole = all_rows(entries)
    if whole is not None:
        tables["table-all"] = whole
        sections.append({"id": "table-all", "title": f"Every row ({len(entries):,})", "all": True})
    page.data |= {id: table.to_dict() for id, table in tables.items()}
    return sections


def _figures(page: PageContent, runs: Runs) -> list[dict[str, Any]]:
    """Displays of one kind under one heading, those of several runs side by side."""
    sections: dict[str, dict[str, Any]] = {}
    numbers = count()
    for name, result in runs:
        for display in displays_of(result):
            if isinstance(display, CloudDisplay):  # the page has a viewer of its own for all clouds
                continue
            number = next(numbers)
            figure = page.data[f"figure-{number}"] = json.loads(display.plot().to_json(validate=False))
            # The page has its own templates, light and dark; its captions are the titles; a figure is as wide as there is room.
            for part in ("template", "width", "title"):
                figure["layout"].pop(part, None)
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
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    return frame_table(columns, title=clean(display.title, 200)).to_dict()


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
