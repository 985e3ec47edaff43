"""What a page of these runs shows, section by section: gathered here, laid out by the template."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from theodolite.reports.clouds import Shown, clouds_document, without_text
from theodolite.reports.display import Display
from theodolite.reports.embed import escaped
from theodolite.reports.layouts import tables_of
from theodolite.reports.look import GREY, PALETTE, Theme, ramp, template
from theodolite.reports.plain import clean
from theodolite.reports.run_folder import RunData
from theodolite.reports.tables import Entry, all_rows, frame_table
from theodolite.reports.verdict_cards import card, number, outcome_counts

HEIGHT = 420
"""Pixels of a figure that does not say."""
OWN = frozenset({"CloudPair"})
"""Displays that the page draws itself, in a way that Plotly cannot."""
SHADES = 32
MORE_COLOURS = ("#c39b16", "#5f8f2f", "#d9708f", "#6c63c9", "#4b868c", "#c0453a")
"""For classes beyond the palette's: clouds have no room for symbols."""
FACT = 2_000
"""Characters of one fact of a run."""
COMMAND = 4_000


@dataclass
class Gathered:
    """A page's content: `context` for the template, `data` and `figures` (JSON already) for its scripts."""

    context: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)

    @property
    def has_plots(self) -> bool:
        return bool(self.figures)


def gathered(runs: Sequence[RunData], *, text: bool) -> Gathered:
    """Everything that the page of these runs shows."""
    named = list(zip(_names(runs), runs if text else [_silent(run) for run in runs], strict=True))
    page = Gathered()
    several = len(named) > 1
    entries = [Entry(name, row) for name, run in named for row in run.rows]
    numbers = count(1)
    page.context = {
        "title": _title(named),
        "lead": _lead(named, entries),
        "several": several,
        "runs": [
            {
                "name": name,
                "title": clean(run.title, 200),
                "models": len({verdict.model for verdict in run.verdicts}),
                "cards": [card(v, next(numbers)) for v in run.verdicts],
            }
            for name, run in named
        ],
        "findings": [one for name, run in named for one in _findings(name if several else "", run)],
        "counts": outcome_counts([verdict for _, run in named for verdict in run.verdicts]),
        "tables": _tables(page, entries, several),
        "figures": _figures(page, named),
        "clouds": _clouds(page, named, text=text),
        "provenance": [_provenance(name, run) for name, run in named],
        "text": text,
    }
    page.data["look"] = {
        "classes": [*PALETTE, *MORE_COLOURS],
        "ramp": ramp(SHADES),
        "grey": GREY,
        "templates": {"light": _template("light"), "dark": _template("dark")},
    }
    return page


def _template(theme: Theme) -> Any:
    import plotly.io

    return json.loads(plotly.io.to_json({"layout": {"template": template(theme)}}, validate=False))["layout"]["template"]


def _tables(page: Gathered, entries: Sequence[Entry], several: bool) -> list[dict[str, Any]]:
    shown = []
    for i, table in enumerate(tables_of(entries)):
        page.data[f"table-{i}"] = table.to_dict()
        shown.append({"id": f"table-{i}", "title": table.title, "all": False})
    whole = all_rows(entries, several)
    if whole is not None:
        page.data["table-all"] = whole.to_dict()
        shown.append({"id": "table-all", "title": f"Every row ({len(entries):,})", "all": True})
    return shown


def _figures(page: Gathered, named: Sequence[tuple[str, RunData]]) -> list[dict[str, Any]]:
    """Displays of one kind under one heading, those of several runs beside each other."""
    sections: dict[str, dict[str, Any]] = {}
    numbers = count()
    for name, run in named:
        for display in _displays(run):
            kind = type(display).__name__
            if kind in OWN:
                continue
            at = next(numbers)
            figure = figure_of(display)
            page.figures[f"figure-{at}"] = escaped(json.dumps(figure, ensure_ascii=False, separators=(",", ":")))
            table = _numbers_of(display)
            if table is not None:
                page.data[f"numbers-{at}"] = table
            section = sections.setdefault(kind, {"id": f"figures-{kind}", "title": "", "figures": []})
            section["figures"].append(
                {
                    "id": f"figure-{at}",
                    "height": int(figure["layout"].get("height") or HEIGHT),
                    "numbers": f"numbers-{at}" if table is not None else "",
                    "title": clean(display.title, 200),
                    "note": clean(display.note, 600),
                    "run": name if len(named) > 1 else "",
                    "place": sum(one["run"] == name for one in section["figures"]),
                }
            )
    for kind, section in sections.items():
        section["figures"].sort(key=lambda figure: figure["place"])  # what several runs have alike stands beside each other
        section["title"] = _heading(kind, section["figures"])
    return list(sections.values())


def _displays(run: RunData) -> list[Display]:
    from theodolite.reports.displays import displays_of

    return displays_of(run)


def figure_of(display: Display) -> dict[str, Any]:
    """A display's plot as the page draws it: as wide as there is room, in the page's own colours.

    `scattergl` writes functions of its own while it draws, which the page's policy forbids, so it is drawn as plain `scatter`.
    """
    import plotly.io

    told: dict[str, Any] = json.loads(plotly.io.to_json(display.plot(), validate=False))
    layout = told.setdefault("layout", {})
    for name in ("template", "width", "title"):
        layout.pop(name, None)
    for trace in _traces(told):
        if trace.get("type") == "scattergl":
            trace["type"] = "scatter"
    return told


def _traces(told: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from told.get("data", [])
    for frame in told.get("frames", []):
        yield from frame.get("data", [])


def _numbers_of(display: Display) -> dict[str, Any] | None:
    """The display's numbers as a table; None where pandas, which frames are made of, is not installed."""
    try:
        frame = display.frame()
    except ImportError:
        return None
    columns = {str(name): [None if value != value else value for value in frame[name].tolist()] for name in frame.columns}
    return frame_table(columns, title=clean(display.title, 200)).to_dict()


def _heading(kind: str, figures: Sequence[Mapping[str, Any]]) -> str:
    """What the titles of the figures begin with alike; a single figure's own title."""
    starts = {str(one["title"]).partition(":")[0] for one in figures}
    if len(starts) == 1:
        return starts.pop()
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind).strip()
    return words[:1].upper() + words[1:]


def _clouds(page: Gathered, named: Sequence[tuple[str, RunData]], *, text: bool) -> bool:
    shown = [Shown(name, picture) for name, run in named for picture in run.pictures if picture.n]
    if not shown:
        return False
    page.data["clouds"] = clouds_document(shown, text=text)
    return True


def _silent(run: RunData) -> RunData:
    return replace(run, pictures=tuple(map(without_text, run.pictures)))


def _names(runs: Sequence[RunData]) -> list[str]:
    """A name for each run that none of the others has."""
    names: list[str] = []
    for run in runs:
        plain = clean(run.name, 60) or "unnamed"
        name = plain
        for again in count(2):
            if name not in names:
                break
            name = f"{plain} ({again})"
        names.append(name)
    return names


def _title(named: Sequence[tuple[str, RunData]]) -> str:
    if len(named) > 1:
        return f"{len(named)} runs beside each other"
    name, run = named[0]
    return clean(run.title, 200) or name


def _lead(named: Sequence[tuple[str, RunData]], entries: Sequence[Entry]) -> str:
    """What was run, in one sentence."""
    kinds = {"study": "A study", "survey": "A survey", "compare": "A comparison", "tune": "A fine-tuning run", "rows": "Rows"}
    models = list(dict.fromkeys(entry.row.model for entry in entries if entry.row.model))
    tasks = list(dict.fromkeys(entry.row.task for entry in entries if entry.row.task))
    what = kinds.get(named[0][1].kind, "A run") if len(named) == 1 else "The runs " + _listed([name for name, _ in named])
    parts = [what]
    if models:
        parts.append(f"of {_listed([clean(model, 60) for model in models])}")
    if tasks:
        parts.append(f"on {_listed([clean(task, 40) for task in tasks])}")
    claims = len({verdict.claim for _, run in named for verdict in run.verdicts})
    said = f"{len(entries):,} number{'s' if len(entries) != 1 else ''}"
    judged = f", {claims} claim{'s' if claims != 1 else ''} judged" if claims else ""
    return f"{' '.join(parts)}: {said}{judged}."


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:4]) + ([f"{len(names) - 4} more"] if len(names) > 4 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _provenance(name: str, run: RunData) -> dict[str, Any]:
    facts = {key: value for key, value in run.facts.items() if key != "findings"}
    notes = facts.pop("notes", [])
    versions = facts.pop("versions", "") or next((row.versions for row in run.rows if row.versions), "")
    told = [("kind", run.kind), *facts.items(), ("versions", versions)]
    return {
        "name": name,
        "command": clean(run.command, COMMAND),
        "facts": [(clean(key, 60), _fact(value)) for key, value in told if value not in ("", None, [], {})],
        "notes": [clean(note, FACT) for note in (notes if isinstance(notes, list) else [notes]) if note],
    }


def _findings(name: str, run: RunData) -> list[dict[str, str]]:
    """What a survey found to be not well, worst first."""
    signs = {"bad": ("✗", "fails"), "watch": ("!", "open")}
    found = [one for one in run.facts.get("findings", ()) if isinstance(one, Mapping) and one.get("verdict") in signs]
    return [
        {
            "run": name,
            "sign": signs[one["verdict"]][0],
            "kind": signs[one["verdict"]][1],
            "verdict": one["verdict"],
            "topic": clean(one.get("topic", ""), 120),
            "measured": clean(
                f"{one.get('metric', '')} {number(float(one.get('value') or 0.0))}, healthy {one.get('healthy', '')}", 200
            ),
            "meaning": clean(one.get("meaning", ""), 600),
            "action": clean(one.get("action", ""), 600),
        }
        for one in sorted(found, key=lambda one: one["verdict"] != "bad")
    ]


def _fact(value: Any) -> list[tuple[str, str]] | str:
    """A fact in words; one that has parts as pairs of name and value."""
    if isinstance(value, Mapping):
        return [(clean(key, 60), clean(_flat(inner), FACT)) for key, inner in value.items()]
    return clean(_flat(value), FACT)


def _flat(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_flat(each) for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_flat(inner)}" for key, inner in value.items())
    return "none" if value is None else str(value)
