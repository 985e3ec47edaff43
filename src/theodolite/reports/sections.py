"""What a page of some results shows, section by section: gathered here, laid out by the template."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from theodolite.core.spelling import name_list
from theodolite.reports.cards import card, outcome_counts, verdict_table
from theodolite.reports.cloud_display import CloudDisplay
from theodolite.reports.clouds import clouds_document
from theodolite.reports.displays import Display
from theodolite.reports.figures import displays_of
from theodolite.reports.tables import Entry, all_rows, frame_table, tables_of
from theodolite.reports.theme import CLASS_COLOURS, GREY, ramp_colours, template
from theodolite.reports.wording import (
    COMMAND,
    FACT,
    SEVERITY_LOOKS,
    clean,
    command_of,
    facts_of,
    finding_numbers,
    is_word,
    measured_lines,
    name_of,
    unique_names,
    verdict_look,
    with_states_by_origin,
)

if TYPE_CHECKING:
    from theodolite.core.result import Answer, Result

# Results by names that no two of them share.
Runs: TypeAlias = Sequence[tuple[str, "Result"]]
# Pixels of a figure that does not say.
HEIGHT = 420
# Pixels of a figure that has others of its kind next to it.
LOW = 320
# Lines up to which the first table of a page is open.
OPEN_LINES = 50
# Colours of the ramp that the viewer of clouds has.
SHADES = 32
# The figures that carry a page of each verb, by the ids of their sections: the first that the page has, and those next to it.
CARRYING: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "survey": (("figures-ranges", "figures-similarities"), ("figures-similarities",), ("figures-isotropy-by-layer",)),
    "compare": (("figures-isotropy-by-layer", "figures-changes"), ("figures-similarities",)),
    "study": tuple((f"figures-{name}",) for name in ("claims", "repair-gains", "centroid-movement", "isotropy-by-layer")),
    "tune": (("figures-training",),),
    "probe": (("figures-probe-by-layer", "figures-label-distances"), ("figures-label-distances",)),
    "advise": (("figures-layer-scores",), ("figures-gains",)),
    "migrate": (("figures-tiers", "figures-bridge-curve"),),
    "calibrate": (("figures-match-probability", "figures-similarities"), ("figures-similarities",)),
}


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
    """Everything that the page of these results shows."""
    results = [with_states_by_origin(result) for result in results]
    runs = list(zip(unique_names(map(name_of, results), "{} ({})"), results, strict=True))
    page = PageContent()
    several = len(runs) > 1
    numbers = count(1)
    pictures = [(name, picture) for name, result in runs for picture in result.pictures if picture.n]
    shared = [note for note in results[0].notes if note and all(note in other.notes for other in results)] if several else []
    page.context = {
        "title": _title(runs),
        "facts_line": " · ".join(_facts(results)),
        "answers": [_answer(name if several else "", result.answer) for name, result in runs if result.answer is not None],
        "conditions": [clean(condition, FACT) for result in results for condition in result.conditions],
        "several": several,
        "runs": [
            {
                "name": name,
                "title": clean(result.title, 200),
                "cards": [card(verdict, next(numbers)) for verdict in result.verdicts],
            }
            for name, result in runs
        ],
        "verdict_table": verdict_table([(name, result.verdicts) for name, result in runs]),
        "findings": [finding for name, result in runs for finding in _findings(name if several else "", result)],
        "counts": outcome_counts([verdict for result in results for verdict in result.verdicts]),
        "tables": _tables(page, runs),
        **_opening_figures(results, _figures(page, runs)),
        "folded": results[0].verb == "study" or any(result.verdicts for result in results),
        "clouds": bool(pictures),
        "panels": len(pictures),
        "provenance": [
            {
                "name": name,
                "command": command_of(result),
                "facts": facts_of(result),
                "notes": [clean(note, FACT) for note in result.notes if note and note not in shared],
            }
            for name, result in runs
        ],
        "shared_notes": [clean(note, FACT) for note in shared],
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


def _answer(run: str, answer: Answer) -> dict[str, Any]:
    """An answer for the template."""
    sign, kind = verdict_look(answer.verdict)
    return {
        "run": run,
        "verdict": answer.verdict if is_word(answer.verdict) else "",
        "sign": sign,
        "kind": kind,
        "sentence": clean(answer.sentence, FACT),
        "reasons": [clean(reason, FACT) for reason in answer.reasons],
        "commands": [{"why": clean(command.why, FACT), "words": clean(command.words, COMMAND)} for command in answer.next],
    }


def _facts(results: Sequence[Result]) -> Iterator[str]:
    """What was measured and when: the inputs of a single result, or else the models and tasks of the rows."""
    lines = measured_lines(results[0])[:2] if len(results) == 1 else []
    for name in () if lines else ("model", "task"):
        values = dict.fromkeys(clean(value, 60) for result in results for row in result.rows if (value := getattr(row, name)))
        lines += [name_list(list(values), most=4)] if values else []
    yield from lines
    if len(results) == 1 and (date := results[0].provenance.get("date")):
        yield clean(date, 40)


def _opening_figures(results: Sequence[Result], sections: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures that carry the page of a single result, and the sections of figures that are left for later."""
    by_id = {section["id"]: section for section in sections}
    choices = CARRYING.get(results[0].verb, ()) if len(results) == 1 else ()
    names = next((choice for choice in choices if choice[0] in by_id), ())
    carrying = [{**by_id[name]["figures"][0], "section": name} for name in names if name in by_id]
    shown, said = {figure["id"] for figure in carrying}, {figure["note"] for figure in carrying}
    left = [{**section, "figures": [f for f in section["figures"] if f["id"] not in shown]} for section in sections]
    # What the page opens with says how to read it; another figure of its kind need not say so again.
    for figure in (figure for section in left for figure in section["figures"]):
        figure["note"] = "" if figure["note"] in said else figure["note"]
    return {"carrying": carrying, "figures": [_with_one_note(section) for section in left if section["figures"]]}


def _with_one_note(section: Mapping[str, Any]) -> dict[str, Any]:
    """The section with what all its figures say of themselves said once."""
    figures, notes = section["figures"], {figure["note"] for figure in section["figures"]}
    if len(figures) == 1 or len(notes) > 1:
        return {**section, "note": ""}
    return {**section, "note": notes.pop(), "figures": [{**figure, "note": ""} for figure in figures]}


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
                "command": clean(finding.command, COMMAND),
            }
        )
    return cards


def _tables(page: PageContent, runs: Runs) -> list[dict[str, Any]]:
    entries = [Entry(name, row) for name, result in runs for row in result.rows]
    tables = {f"table-{i}": table for i, table in enumerate(tables_of(runs))}
    # The first table is what was measured; a long one, or one of many, opens on request.
    sections = [
        {"id": id, "title": clean(table.title, 200), "open": i == 0 and table.lines <= OPEN_LINES}
        for i, (id, table) in enumerate(tables.items())
    ]
    every_row = all_rows(entries)
    if every_row is not None:
        tables["table-all"] = every_row
        sections.append({"id": "table-all", "title": f"Every row ({len(entries):,})", "open": False})
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
            for key in ("template", "width", "title"):
                figure["layout"].pop(key, None)
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
        _put_side_by_side(page, section)
        section["figures"].sort(key=lambda figure: figure["place"])  # the first of each run, then the second of each
    return list(sections.values())


def _put_side_by_side(page: PageContent, section: dict[str, Any]) -> None:
    """Several figures of one panel each are low and next to each other, where they can be compared."""
    layouts = [page.data[figure["id"]]["layout"] for figure in section["figures"]]
    is_plain = all("xaxis2" not in layout and "sliders" not in layout and "ticktext" not in layout["yaxis"] for layout in layouts)
    section["side_by_side"] = is_plain and len(layouts) > 1
    if section["side_by_side"]:
        for figure, layout in zip(section["figures"], layouts, strict=True):
            figure["height"] = layout["height"] = LOW


def _numbers_of(display: Display) -> dict[str, Any] | None:
    """The display's numbers as a table; None if pandas, which frames are made of, is not installed."""
    try:
        frame = display.frame()
    except ImportError:
        return None
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    return frame_table(columns, title=clean(display.title, 200)).to_dict()


def _title(runs: Runs) -> str:
    """The title that all runs share, such as that of a study, or how many runs there are."""
    titles = {clean(result.title, 200) for _, result in runs}
    title = titles.pop() if len(titles) == 1 else ""
    return title or (runs[0][0] if len(runs) == 1 else f"{len(runs)} runs side by side")
