"""What a result says, as paragraphs and tables: the one content that a terminal and a notebook both show."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from theodolite.core.numbers import interval_text, number_text, short_number
from theodolite.core.result import Answer, Finding, Result, Verdict
from theodolite.core.rows import Row
from theodolite.core.spelling import ON_COMMAND_LINE
from theodolite.core.states import DIFFERENCE, EXPLAINED, state_title
from theodolite.metrics.bounds import RETRIEVAL
from theodolite.metrics.isoscore import iso_score_ceiling
from theodolite.metrics.queries_among_documents import QUERY_MEASURES
from theodolite.metrics.registry import LAYER_METRICS, METRICS, label_of
from theodolite.reports.blocks import Block, Paragraph
from theodolite.reports.cards import value_text, verdict_overview
from theodolite.reports.displays import grouped
from theodolite.reports.tables import Column, Entry, Table, all_rows, pivot, text_table
from theodolite.reports.wording import (
    FACT,
    SEVERITY_LOOKS,
    change_mark,
    clean,
    finding_numbers,
    is_word,
    measured_lines,
    outcome_look,
    standing,
    verdict_look,
    with_labels,
)

if TYPE_CHECKING:
    from theodolite.studies.claims.judging import PrintedComparison

COLOURS = {"fails": "red", "open": "yellow", "holds": "green"}
# What a tuning run measures of the vectors that its head reads, next to the task's score.
SHAPE = ("iso_score", "ev_1", "ev_2", "ev_3")
SCORES = ("accuracy", "macro_f1", "matthews", "pearson", "spearman")
# Rows for each dimension from which on the plain IsoScore is within a tenth of the corrected one.
ENOUGH_ROWS = 10
LONGEST_LABEL = 24
# How `advise` calls vectors without a change.
UNCHANGED = "leave it alone"
# Results whose title and notes say it all.
TITLE_AND_NOTES = ("repair", "dry run")
# Results whose tables are all in their body; a page has tables of others by what tells their rows apart.
TABLES_IN_BODY = ("survey", "compare", "verify", "probe", "advise", "calibrate", "gate", "migrate")
# Repairs that `advise` lists: the best, and the vectors as they are.
MOST_REPAIRS = 6
# Rows of a plain list; a result of more is better saved or framed.
MOST_ROWS = 60
# What the first screen of a survey shows at most: causes, numbers in a table, example rows and characters of a name.
MOST_CAUSES, MOST_NUMBERS, MOST_EXAMPLES, NAME = 3, 12, 3, 28
# What metrics of a module are about.
FAMILIES = {
    "isoscore": "IsoScore",
    "partition": "Partition function I(W)",
    "spectral": "Variance by direction",
    "cosine": "Cosines and lengths",
    "sphere": "Coverage of the sphere",
    "neighbours": "Nearest neighbours",
    "populations": "Populations",
}
# Secondary effects of a verdict that are listed; the report has all of them.
MOST_EFFECTS = 3
# Metrics of a comparison and layers of any result that a terminal shows, and metrics that it shows layer by layer.
MOST_CHANGES, MOST_LAYERS, MOST_COLUMNS = 8, 5, 4


def blocks_of(result: Result, *, everything: bool = False) -> list[Block]:
    """The paragraphs and tables that show a result, the answer first; with every number on request."""
    notes: list[Block] = [Paragraph(note, "dim" if result.answer else "") for note in result.notes]
    body = body_blocks(result)
    shown: list[Block] = [block for block in body if everything or not block.detail]
    if len(shown) < len(body):
        shown.append(Paragraph(f"{'--all' if ON_COMMAND_LINE.get() else '.frame()'} shows every number", "dim"))
    # A result without an answer says what it came to in its notes.
    return [*opening_blocks(result), *(shown + notes if result.answer else notes + shown)]


def body_blocks(result: Result) -> list[Block]:
    """What follows the opening, details included."""
    content = {"survey": _survey, "compare": _compare, "probe": _probe, "tune": _tune, "study": _study, "repairs": _repairs}
    content |= {"advise": _advise, "calibrate": _calibrate, "gate": _gate, "migrate": _migrate}
    return [] if result.verb in TITLE_AND_NOTES else list(content.get(result.verb, _any)(result))


def opening_blocks(result: Result) -> Iterator[Paragraph]:
    """What every display of a result opens with: what was measured, the answer, and on how much it stands."""
    lines = measured_lines(result)
    names = "AB" if result.verb in ("compare", "verify") and len(lines) == 2 else ""
    for number, line in enumerate(lines[:2] if names or len(lines) == 1 else [clean(result.title or result.verb, FACT)]):
        yield Paragraph(f"{names[number]} = {line}" if names else line, "" if names else "bold")
    if result.answer is not None:
        yield from answer_blocks(result.answer)
    yield from (Paragraph(condition, "dim") for condition in result.conditions)


def answer_blocks(answer: Answer) -> Iterator[Paragraph]:
    """A verdict and its sentence, the reasons, and what to run next with why."""
    sign, look = verdict_look(answer.verdict)
    # The counts of a study are its sentence.
    lead = f"{sign} {answer.verdict}: " if is_word(answer.verdict) else ""
    yield Paragraph(answer.sentence, COLOURS.get(look, "") if lead else "bold", lead=lead)
    yield from (Paragraph(reason, indent=2) for reason in answer.reasons)
    for command in answer.next:
        yield Paragraph(f"→ {command.why}:" if command.why else "→", indent=2)
        yield Paragraph(command.words, indent=4, is_code=True)


def verdict_blocks(verdicts: Sequence[Verdict]) -> Iterator[Block]:
    """Each claim with its verdict, why, and what the printed rows say; all effects are a detail."""
    several = len({verdict.model for verdict in verdicts}) > 1
    for verdict in verdicts:
        model = f" [{verdict.model}]" if several and verdict.model else ""
        measured = verdict.measured
        sign, look = outcome_look(measured.outcome)
        lead = f"{sign} {verdict.claim}{model} {verdict.title}: "
        yield Paragraph(measured.outcome, COLOURS[look], lead=lead)
        yield Paragraph(with_labels(measured.why), indent=4)
        if words := standing(measured).strip():
            yield Paragraph(words, "dim", indent=4)
        if measured.command:
            yield Paragraph(f"to decide it: {measured.command}", indent=4)
        others = [effect for effect in measured.effects if not effect.primary]
        for effect in others[:MOST_EFFECTS]:
            words = f"{with_labels(effect.name)}: {number_text(effect.value)} {interval_text(effect.low, effect.high)}".rstrip()
            yield Paragraph(words, "dim", indent=4)
        if measured.effects:
            names = [with_labels(effect.name) for effect in measured.effects]
            values = [value_text(effect, with_level=effect.level != 0.95) for effect in measured.effects]
            sources = [effect.how for effect in measured.effects]
            yield text_table({"effect": names, "value, interval": values, "from": sources}, detail=True)
        if verdict.stated:
            yield Paragraph(f"The paper: {verdict.stated}", indent=4, detail=True)
        for judged in verdict.printed:
            yield Paragraph(
                f"{judged.source}: the table {judged.outcome}", "dim", indent=4, detail=judged.outcome == "not printed"
            )
            yield Paragraph(with_labels(judged.why), "dim", indent=6, detail=True)


def comparison_blocks(comparisons: Sequence[PrintedComparison]) -> Iterator[Block]:
    """Printed and measured, side by side: one table for each source and pair of models."""
    measured = [comparison for comparison in comparisons if comparison.measured is not None]
    tables = grouped(measured, lambda comparison: (comparison.printed.source, comparison.printed.row.model, comparison.model))
    for (source, printed, model), cells in tables.items():
        yield Paragraph(f"{source}: {printed} as printed, {model} as measured here", "bold")
        several = len({cell.printed.row.task for cell in cells}) > 1
        fields = [*(["task"] if several else []), "state", "setting", "metric"]
        names = [", ".join(filter(None, (getattr(cell.printed.row, field) for field in fields))) for cell in cells]
        values = [cell.measured.value for cell in cells if cell.measured is not None]
        printed_values = [cell.printed.row.value for cell in cells]
        yield text_table({"cell": names, "printed": printed_values, "measured": values})
    if len(measured) < len(comparisons):
        yield Paragraph(f"{len(comparisons) - len(measured)} printed numbers have no measured counterpart", "dim")
    for comparison in comparisons:
        if comparison.comparable:
            row = comparison.printed.row
            yield Paragraph(f"{comparison.printed.source}, {row.state} {row.setting} {row.metric}: {comparison.words}")
    if not all(comparison.comparable for comparison in comparisons):
        yield Paragraph("a number from another model, shown next to a printed one, is not a reproduction of it", "dim")


def _survey(result: Result) -> Iterator[Block]:
    by_model = grouped(result.findings, lambda finding: finding.model)
    models = grouped(result.rows, lambda row: row.model) or {"": []}
    for model, rows in models.items():
        findings = by_model.get(model, []) if len(models) > 1 else result.findings
        if len(models) > 1:
            yield Paragraph(clean(model, FACT), "bold")
        asked, rows = [row for row in rows if _is_of_queries(row)], [row for row in rows if not _is_of_queries(row)]
        layers = {row.layer for row in rows}
        yield from _findings(findings)
        if len(models) == 1 and EXPLAINED in result.records:
            yield from _explained(result)
        rows = [row for row in rows if row.state != EXPLAINED]
        yield from _queries(result, asked)
        # The table belongs on the first screen if it is short, or if there is nothing else to say.
        is_many = len(layers) > MOST_LAYERS if layers != {None} else len(rows) > MOST_NUMBERS
        is_long = bool(asked) or (bool(findings) and is_many)
        numbers = _metrics(rows) if layers == {None} else _pivoted(rows, "layer", "metric")
        yield from (replace(block, detail=is_long) for block in chain(numbers, _reasons(rows)))


def _explained(result: Result) -> Iterator[Block]:
    """The column that each direction, and hubs and outliers, follow most closely, and how closely; all columns on request."""
    links = result.records[EXPLAINED].to_pylist()
    closest = [own[0] for own in grouped(links, lambda link: link["target"]).values()]
    yield _link_table(closest)
    resampled = "rows of one text are kept together" if links[0]["by_text"] else "rows are treated as independent"
    yield Paragraph(f"p and the intervals hold for all {len(links)} comparisons at once; {resampled}", "dim")
    if len(links) > len(closest):
        yield replace(_link_table(links), detail=True)


def _link_table(links: Sequence[Mapping[str, Any]]) -> Table:
    """One line per link; r for numbers, the explained share for categories."""
    kinds = {"numbers": "r", "categories": "share"}
    lines = ({**link, "column": clean(link["column"], NAME), "kind": kinds[link["kind"]]} for link in links)
    words = {"what": ("target", ""), "follows": ("column", ""), "": ("kind", "")}
    return text_table(_record_cells(lines, {**words, "value": ("value", ".2f"), "95% interval": ("", ".2f"), "p": ("p", ".3f")}))


def _is_of_queries(row: Row) -> bool:
    return row.metric in QUERY_MEASURES or RETRIEVAL.fullmatch(row.metric) is not None


def _queries(result: Result, rows: Sequence[Row]) -> Iterator[Block]:
    """How queries lie among the documents, next to what chance gives, and what other prompts do."""
    if not rows:
        return
    facts = result.provenance.get("queries", {})
    chance = [facts.get("chance", {}).get(row.metric) for row in rows]
    columns: dict[str, list[Any]] = {
        f"{rows[0].n:,} queries": [label_of(row.metric) for row in rows],
        "value": [row.value for row in rows],
        "95% interval": [interval_text(row.low, row.high) for row in rows],
        "by chance": ["" if value is None else short_number(value) for value in chance],
    }
    yield text_table(columns)
    if (trials := result.records.get("prompts")) is not None:
        yield from _prompts(trials.to_pylist(), facts.get("better_prompt"))
    yield from _reasons(rows)


def _prompts(trials: Sequence[Mapping[str, Any]], better: Mapping[str, Any] | None) -> Iterator[Block]:
    """What each pair of prompts does to the gap and to the score."""
    kinds = {"query_prompt": "query prompt", "document_prompt": "document prompt"}
    columns = {head: [repr(trial[name]) if trial[name] else "none" for trial in trials] for name, head in kinds.items()}
    columns["gap"] = [trial["gap"] for trial in trials]
    if trials[0]["metric"]:
        columns[label_of(trials[0]["metric"])] = [trial["score"] for trial in trials]
        gains = ["in use" if trial["in_use"] else f"{trial['gain']:+.3f} {_gain_interval(trial)}".strip() for trial in trials]
        columns["gain over those in use"] = gains
    else:
        columns[""] = ["in use" if trial["in_use"] else "" for trial in trials]
    yield text_table(columns)
    if better is not None:
        words = f"the prompt {better['query_prompt']!r} for queries and {better['document_prompt']!r} for documents"
        yield Paragraph(f"{words} raises {label_of(better['metric'])} by {better['gain']:.3f} {_gain_interval(better)}", "yellow")
    elif trials[0]["metric"]:
        yield Paragraph("no prompts are shown to score better than those in use", "dim")
    else:
        yield Paragraph("a smaller gap does not show that a prompt is right; judged queries would", "dim")


def _gain_interval(trial: Mapping[str, Any]) -> str:
    return interval_text(trial["gain_low"], trial["gain_high"], form="+.3f")


def _record_cells(records: Iterable[Mapping[str, Any] | None], heads: Mapping[str, tuple[str, str]]) -> dict[str, list[str]]:
    """Columns by their heads: a field of each record in its format, or "" for its interval; empty cells for no record."""

    def cell(record: Mapping[str, Any], field: str, form: str) -> str:
        return format(record[field], form) if field else interval_text(record["low"], record["high"], form=form)

    lines = list(records)
    return {head: ["" if record is None else cell(record, *source) for record in lines] for head, source in heads.items()}


def _metrics(rows: Sequence[Row]) -> Iterator[Block]:
    """One table per family of metrics under its heading, each metric with its range and direction."""
    sides = {"higher is isotropic": "high", "lower is isotropic": "low"}
    families = groupby(rows, key=lambda row: METRICS[row.metric].function.__module__ if row.metric in METRICS else "")
    for home, group in families:
        family = list(group)
        entries = [METRICS.get(row.metric) for row in family]
        heading = FAMILIES.get(home.rpartition(".")[2], "Others")
        columns = [Column(heading, [label_of(row.metric) for row in family]), Column("value", [row.value for row in family])]
        if any(row.low is not None for row in family):
            columns.append(Column("95% interval", [interval_text(row.low, row.high) for row in family], optional=True))
        facts = {
            "isotropic": [sides.get(entry.direction, "") if entry else "" for entry in entries],
            # Up to the first comma after a bracket: what follows is a remark.
            "range": [re.split(r"(?<=\]), ", entry.range)[0] if entry else "" for entry in entries],
        }
        columns += [Column(name, texts, optional=True) for name, texts in facts.items()]
        yield Table("", tuple(columns))


def _findings(findings: Sequence[Finding]) -> Iterator[Block]:
    """What is unusual, by cause and worst first; what is fine in one closing line."""
    # Of equally bad ones the number that names the cause comes first: its action is the one to take.
    unusual = sorted(
        (finding for finding in findings if finding.severity),
        key=lambda finding: (-finding.severity, finding.topic != finding.cause),
    )
    causes = grouped(unusual, lambda finding: finding.topic if finding.cause in ("", "unexplained") else finding.cause)
    for number, (cause, group) in enumerate(causes.items()):
        lead, others = group[0], group[1:]
        sign, style = SEVERITY_LOOKS[lead.verdict]
        detail = number >= MOST_CAUSES
        yield Paragraph(f": {finding_numbers(lead)}", COLOURS[style], lead=f"{sign} {cause}", detail=detail)
        yield Paragraph(_sentences(lead.meaning, lead.action), indent=2, detail=detail)
        if lead.command:
            yield Paragraph(lead.command, indent=4, is_code=True, detail=detail)
        examples = next((finding for finding in group if finding.rows), None)
        if examples is not None:
            names = [f"{clean(name, NAME)!r}" for name in examples.names] or list(map(str, examples.rows))
            of = "" if examples is lead else f" ({examples.topic})"
            yield Paragraph(f"rows{of}: {', '.join(names[:MOST_EXAMPLES])}", indent=2, detail=detail)
        if others:
            names = [f"{finding.topic} {number_text(finding.value)}" for finding in others]
            yield Paragraph(f"also unusual for this reason: {', '.join(names)}", indent=2, detail=detail)
        yield Paragraph(f"range: {lead.source}", "dim", indent=2, detail=True)
        for finding in others:
            words = [f"{finding.topic}: {finding_numbers(finding)}", _sentences(finding.meaning, finding.action)]
            yield Paragraph(" – ".join([*words, f"range: {finding.source}"]), "dim", indent=2, detail=True)
    if len(causes) > MOST_CAUSES:
        yield Paragraph(f"and {len(causes) - MOST_CAUSES} more: {', '.join(list(causes)[MOST_CAUSES:])}")
    fine = [finding.topic for finding in findings if not finding.severity]
    if fine:
        yield Paragraph("", "green", lead=f"✓ {len(fine)} {'other ' if unusual else ''}checks OK")
        yield Paragraph(", ".join(fine), "dim", indent=2, detail=True)


def _sentences(*texts: str) -> str:
    """The texts as sentences of one paragraph."""
    return " ".join(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in texts if text)


def _compare(result: Result) -> Iterator[Block]:
    """What differs most on the last layer, with intervals, and a few layers; all metrics and layers on request."""
    measured = [row for row in result.rows if row.metric != "layer_cka"]
    triples = list(grouped(measured, lambda row: (row.layer, row.metric)).values())
    if any(len(triple) != 3 or triple[2].state != DIFFERENCE for triple in triples):  # some rows were selected
        yield from _any(result)
        return
    own = [triple for triple in triples if triple[2].metric not in METRICS]
    asked = [triple for triple in own if triple[2].metric in QUERY_MEASURES]
    yield from _changes([triple for triple in own if triple not in asked], "score")
    yield from _changes(asked, "queries")
    triples = [triple for triple in triples if triple not in own]
    rows = [row for triple in triples for row in triple]
    layers = list(dict.fromkeys(row.layer for row in rows))
    last = [triple for triple in triples if triple[2].layer == layers[-1]]
    shown = sorted(last, key=_certainty, reverse=True)[: MOST_CHANGES - 2 * bool(own) - 2 * bool(asked)]
    head = "metric" if layers == [None] else f"layer {layers[-1]}" if layers else ""
    yield from _changes([triple for triple in last if triple in shown], head)
    if rest := [triple for triple in last if triple not in shown]:
        stars = sum(bool(change_mark(triple[2].low, triple[2].high)) for triple in rest)
        yield Paragraph(f"{len(rest)} more metrics, {stars or 'none'} of them with a star", "dim")
        yield from (replace(table, detail=True) for table in _changes(rest, head))
    if len(layers) > 1:
        some = layers[::-1][:: math.ceil((len(layers) - 1) / (MOST_LAYERS - 1))]
        # What fits one table at 80 columns.
        names = list(dict.fromkeys(row.metric for row in rows))[:MOST_COLUMNS]
        shown_rows = [row for row in rows if row.layer in some and row.metric in names]
        yield from _pivoted(shown_rows, "layer", "metric", _change)
        others = _pivoted([row for row in rows if row not in shown_rows], "layer", "metric", _change)
        yield from (replace(table, detail=True) for table in others)
    if (alike := result.provenance.get("layer_cka")) is not None:
        yield Paragraph(
            f"most alike of {alike['pairs']} pairs of layers: {alike['layer_a']} of A and {alike['layer_b']} of B, CKA "
            f"{alike['calibrated']:.2f} above chance (p = {alike['p']:.2g} for the largest)"
        )
        yield _layer_table(result.rows)
    yield from _reasons([row for triple in (*own, *triples) for row in triple if row.state != DIFFERENCE])


def _layer_table(rows: Sequence[Row]) -> Table:
    """CKA above chance of every pair of layers, A's down and B's across."""
    cells = {(int(row.label), int(row.other_label)): row.value for row in rows if row.metric == "layer_cka"}
    first, second = (sorted({pair[side] for pair in cells}) for side in (0, 1))
    columns = {f"B {b}": [f"{cells[a, b]:.2f}" for a in first] for b in second}
    return text_table({"layer": [f"A {a}" for a in first], **columns}, detail=True)


def _changes(triples: Sequence[Sequence[Row]], head: str) -> Iterator[Table]:
    """One line per metric: A, B and the difference with its interval, which no display leaves out."""
    if not triples:
        return
    before, after, change = zip(*triples, strict=True)
    columns = [
        Column(head, [label_of(row.metric) for row in change]),
        # One of the two is enough to know the other, which is why a narrow terminal may leave this one out.
        Column("A", [row.value for row in before], optional=True),
        Column("B", [row.value for row in after]),
        Column("B - A", [row.value for row in change]),
    ]
    if any(row.low is not None for row in change):
        columns.append(Column("", [change_mark(row.low, row.high) for row in change]))
        columns.append(Column("95% interval", [interval_text(row.low, row.high) for row in change]))
    yield Table("", tuple(columns))


def _certainty(triple: Sequence[Row]) -> float:
    """By how many half-widths of its interval a difference is from 0; without one, by which share of its size."""
    change = triple[2]
    if not math.isfinite(change.value):
        return -1.0
    if change.low is None or change.high is None:
        return abs(change.value) / max(abs(triple[0].value), abs(triple[1].value), 1e-12) / 1e3
    half = (change.high - change.low) / 2
    return abs(change.value) / half if half > 0 else 0.0


def _change(rows: Sequence[Row]) -> str:
    """The first number, an arrow and the second, of rows that meet in a cell; the difference, if it is there, has the mark."""
    mark = f" {change_mark(rows[2].low, rows[2].high)}".rstrip() if len(rows) > 2 else ""
    return f"{short_number(rows[0].value)} → {short_number(rows[1].value)}{mark}" if len(rows) > 1 else ""


def _probe(result: Result) -> Iterator[Block]:
    layers = grouped(result.rows, lambda row: row.layer)
    if len(layers) > 1:
        yield from _probed_layers(layers)
    else:
        yield from _labels(result.rows)
        yield from _accuracies(result.rows)


def _probed_layers(layers: Mapping[int | None, Sequence[Row]]) -> Iterator[Block]:
    """One line per layer: clusters, the closest labels, and accuracy on held-out rows."""
    by_metric = [{row.metric: row for row in rows if not row.label} for rows in layers.values()]
    linear = {None: "–", 0.0: "no", 1.0: "yes"}
    columns = [
        Column("layer", list(layers)),
        Column("clusters", _values("clusters", by_metric)),
        Column("linear", [linear.get(value, "–") for value in _values("is_linear", by_metric)]),
        Column("closest labels", list(map(_closest, layers.values()))),
        Column("min.", _values("mean_minimum_distance", by_metric)),
    ]
    accuracies = [
        # A probe that was trained once has a deviation of 0, which says nothing.
        Column(title, _values(name, by_metric), sd=[deviation or None for deviation in _values(f"{name}_sd", by_metric)])
        for name, title in (("hull_accuracy", "hull"), ("probe_accuracy", "probe"))
        if any(name in rows for rows in by_metric)
    ]
    seconds = [None if value is None else round(value, 1) for value in _values("probe_seconds", by_metric)]
    yield Table("", (*columns, *accuracies, Column("s", seconds, optional=True)))
    explanation = "min.: mean distance from each label to the nearest other label"
    yield Paragraph(explanation + ("; hull, probe: accuracy on held-out rows" if accuracies else ""), "dim")


def _values(metric: str, lines: Iterable[Mapping[str, Row]]) -> list[float | None]:
    """The value of a metric in each line's rows by metric; None if a line has none."""
    return [row.value if (row := rows.get(metric)) is not None else None for rows in lines]


def _closest(rows: Sequence[Row]) -> str:
    distances = [row for row in rows if row.metric == "label_distance" and math.isfinite(row.value)]
    if not distances:
        return "–"
    row = min(distances, key=lambda row: row.value)
    return f"{clean(row.label, 8)} {clean(row.other_label, 8)} {short_number(row.value)}"


def _labels(rows: Sequence[Row]) -> Iterator[Block]:
    """One line per label: its rows and clusters, the nearest other label, and the distances inside its clusters."""
    labels = {label: {row.metric: row for row in group} for label, group in grouped(rows, lambda row: row.label).items() if label}
    if not labels:
        return
    distances = {(row.label, row.other_label): row.value for row in rows if row.metric == "label_distance"}
    lines = list(labels.values())
    shortest = _values("minimum_distance", lines)
    nearest = []
    for label, least in zip(labels, shortest, strict=True):
        others = {(a if b == label else b): distance for (a, b), distance in distances.items() if label in (a, b)}
        is_known = others and least is not None and math.isfinite(least)  # not if one of its distances was not measured
        nearest.append(clean(min(others, key=others.__getitem__), LONGEST_LABEL) if is_known else "")
    counts = [rows.get("label_clusters") for rows in lines]
    columns: dict[str, Sequence[Any]] = {
        "label": [clean(label, LONGEST_LABEL) for label in labels],
        "rows": [row.n if row is not None else None for row in counts],
        "clusters": _values("label_clusters", lines),
        "nearest": nearest,
        "distance": shortest,
        "inside mean": _values("inside_mean", lines),
        "max": _values("inside_max", lines),
    }
    yield text_table(columns)
    shown = [rows[metric] for metric in ("label_clusters", "minimum_distance", "inside_mean") for rows in lines if metric in rows]
    for reason in dict.fromkeys(row.reason for row in shown if row.reason and math.isnan(row.value)):
        yield Paragraph(f"– {reason}", "dim")


def _accuracies(rows: Sequence[Row]) -> Iterator[Block]:
    values = {row.metric: row for row in rows if not row.label}
    for name, title in (("hull_accuracy", "nearest hull"), ("probe_accuracy", "classifier")):
        if name in values:
            row, deviation = values[name], values.get(f"{name}_sd")
            spread = f" ± {deviation.value:.3f}" if deviation is not None and deviation.value else ""
            setting = f" ({row.setting})" if row.setting else ""
            yield Paragraph(f"{title} on {row.n:,} held-out rows: accuracy {row.value:.3f}{spread}{setting}")


def _tune(result: Result) -> Iterator[Block]:
    scored = [row for row in result.rows if row.layer is None and not row.label and row.split not in ("train", "validation")]
    yield from _states([row for row in scored if row.seed is not None])
    seconds = [row.value for row in result.rows if row.metric == "train_seconds"]
    if seconds:
        yield Paragraph(f"the layer was trained in {number_text(statistics.median(seconds))} s on vectors computed only once")
    yield from _steps(result.rows)


def _states(rows: Sequence[Row]) -> Iterator[Block]:
    """The task's score, IsoScore and EV on the scored split, one column per state: median ± standard deviation over seeds."""
    score = next((row for row in rows if row.metric in SCORES), None)
    if score is None:
        return
    by_state = grouped(rows, lambda row: row.state)
    middle = {state: _median_seed(group) for state, group in by_state.items() if any(row.metric in SHAPE for row in group)}
    order = (score.metric, *SHAPE)
    cells = [row for row in rows if row.metric in order and (row.state in middle or not middle)]
    # EV is that of one seed, as IL23's table 3 has it: medians of EV 1, 2 and 3 would be of different ones.
    cells = [row for row in cells if not row.metric.startswith("ev_") or row.seed == middle[row.state]]
    yield from _pivoted(sorted(cells, key=lambda row: order.index(row.metric)), "metric", "state")
    note, seeds = f"{score.task} {score.split}", len({row.seed for row in rows})
    if seeds > 1:
        note += f": median ± standard deviation over {seeds} seeds; EV of the seed with the median EV 1"
        note += f" ({', '.join(f'{state_title(state)} {seed}' for state, seed in middle.items())})"
    yield Paragraph(note, "dim")


def _median_seed(rows: Sequence[Row]) -> int | None:
    """The seed whose EV 1 is the median one, the lower of two in the middle."""
    defined = sorted((row.value, row.seed) for row in rows if row.metric == "ev_1" and not math.isnan(row.value))
    return defined[(len(defined) - 1) // 2][1] if defined else None


def _steps(rows: Sequence[Row]) -> Iterator[Block]:
    """What a tracker measured of every layer at the first and the last step; of few vectors, IsoScore is the corrected one."""
    size = next((row for row in rows if row.metric == "iso_score_corrected" and row.layer is not None), None)
    n, d = (0, 0) if size is None else (size.n or 0, size.d or 0)
    is_small = 0 < n < ENOUGH_ROWS * d
    metrics = [*LAYER_METRICS, "mean_minimum_distance"]
    if is_small:
        metrics[metrics.index("iso_score")] = "iso_score_corrected"
    tracked = [row for row in rows if row.layer is not None and not row.label and row.metric in metrics and row.step is not None]
    steps = sorted({row.step for row in tracked if row.step is not None})
    if len(steps) < 2 or len({row.seed for row in tracked}) > 1:
        return
    sample = f"a fixed sample of {n:,} vectors" if n else "a fixed sample"
    yield Paragraph(f"geometry of {sample}, step {steps[0]} → {steps[-1]}:")
    # Tracked while it trained and measured again afterwards, a step has two rows: the later one counts.
    ends = {(row.layer, row.metric, row.step): row for row in tracked if row.step in (steps[0], steps[-1])}
    yield from _pivoted(sorted(ends.values(), key=lambda row: row.step or 0), "layer", "metric", _change)
    if is_small:
        ceiling = iso_score_ceiling(n, d)
        limit = f"cannot exceed {ceiling:.3g}" if ceiling < 1 else "is too low"
        yield Paragraph(f"the plain IsoScore of {n:,} vectors in {d:,} dimensions {limit}; the corrected one is shown", "dim")


def _study(result: Result) -> Iterator[Block]:
    if result.verdicts:
        yield verdict_overview(result.verdicts)
    yield from verdict_blocks(result.verdicts)


def _repairs(result: Result) -> Iterator[Block]:
    """The score after each repair, one column per state; the last state's changes have intervals."""
    states = grouped(result.rows, lambda row: row.state)
    changes = {row.setting: vars(row) for row in states.pop(DIFFERENCE, ())}
    names = [row.setting for row in next(iter(states.values()))]
    scores = {state: [f"{row.value:.3f}" for row in rows] for state, rows in states.items()}
    cells = _record_cells(map(changes.get, names), {"change": ("value", "+.3f"), "95% interval": ("", "+.3f")})
    yield text_table({"repair": names, **scores, **cells})


def _places(result: Result) -> Iterator[Block]:
    """The best layers and poolings with what they gain, and the one in use; all of them as a map of scores."""
    rows = [row for row in result.rows if row.state == "layer"]
    by_place = grouped(rows, lambda row: f"layer {row.layer}{f' ({row.setting})' if row.setting else ''}")
    shown: dict[str, Sequence[Row]] = {}
    for name, own in by_place.items():
        if len(own) == 1 and not own[0].reason:  # a score without a gain is what the gains are over
            shown[f"{name}, in use"] = own
        elif len(shown) < MOST_REPAIRS - 1:
            shown[name] = own
    yield _tried("vectors", shown)
    scores = sorted((row for row in rows if not row.metric.endswith("_gain")), key=lambda row: row.layer or 0)
    yield from (replace(block, detail=True) for block in _pivoted(scores, "layer", "setting"))
    missing = {name: own[0].reason for name, own in by_place.items() if own[0].reason}
    yield from (Paragraph(f"– {name}: {reason}", "dim") for name, reason in missing.items())


def _advise(result: Result) -> Iterator[Block]:
    if any(row.state == "layer" for row in result.rows):
        yield from _places(result)
        return
    changes = [row for row in result.rows if row.state in ("repair", "compression")]
    tables = {state: grouped(rows, lambda row: row.setting) for state, rows in grouped(changes, lambda row: row.state).items()}
    repairs = list(tables.get("repair", ()))
    best = [name for rank, name in enumerate(repairs) if rank < MOST_REPAIRS - 1 or name == UNCHANGED]
    has_gains = any(row.metric.endswith("_gain") for row in changes)
    if repairs:
        yield _tried("repair", {name: tables["repair"][name] for name in (best if has_gains else repairs)})
    smaller = result.records["smaller"].to_pylist() if "smaller" in result.records else []
    if smaller:
        heads = {
            "smaller vectors": ("form", ""),
            "size": ("size", ".0%"),
            "change": ("gain", "+.3f"),
            "95% interval": ("", "+.3f"),
        }
        yield text_table(_record_cells(smaller, heads))
    kept = {"pca": "pca keeps the principal directions of most variance", "truncate": "truncate keeps the first dimensions"}
    names = " ".join([*best, *(form["form"] for form in smaller)])
    if explained := [words for name, words in kept.items() if name in names]:
        yield Paragraph("; ".join(explained), "dim")
    if has_gains and len(best) < len(repairs):
        yield from (replace(_tried(state, by_change), detail=True) for state, by_change in tables.items())
    yield from _reasons(result.rows)


def _tried(title: str, by_change: Mapping[str, Sequence[Row]]) -> Table:
    """Changes of the vectors, each with its scores and, if there are any, its gain."""
    columns = {title: list(by_change)}
    gains = [next((row for row in rows if row.metric.endswith("_gain")), None) for rows in by_change.values()]
    for metric in dict.fromkeys(row.metric for rows in by_change.values() for row in rows if not row.metric.endswith("_gain")):
        values = [next((row.value for row in rows if row.metric == metric), math.nan) for rows in by_change.values()]
        columns[label_of(metric)] = [f"{value:.3f}" if math.isfinite(value) else "–" for value in values]
    if any(gains):
        columns["gain"] = [f"{row.value:+.3f}" if row else "–" for row in gains]
        changed = [row if row and row.setting != UNCHANGED else None for row in gains]
        columns["95% interval"] = [interval_text(row.low, row.high, form="+.3f") if row else "" for row in changed]
    return text_table(columns)


def _calibrate(result: Result) -> Iterator[Block]:
    by_metric = grouped(result.rows, lambda row: row.metric)
    shares = {name: rows for name, rows in by_metric.items() if name.startswith("unrelated_cosine_")}
    if shares:
        settings = [row.setting for row in next(iter(shares.values()))]
        quantiles = {name.rpartition("_")[2]: [f"{row.value:.3f}" for row in rows] for name, rows in shares.items()}
        yield text_table({"share of pairs below this cosine": settings, **quantiles}, detail=True)
    if cutoffs := by_metric.get("cutoff", []):
        heads = {"pairs": ("setting", ""), "cutoff": ("value", ".3f"), "95% interval": ("", "")}
        columns = _record_cells(map(vars, cutoffs), heads)
        for name, title in (("matches_above", "matches above"), ("non_matches_above", "others above")):
            if values := {row.setting: f"{row.value:.1%}" for row in by_metric.get(name, ())}:
                columns[title] = [values.get(row.setting, "") for row in cutoffs]
        yield text_table(columns)
    points = result.records["probability"].to_pylist() if "probability" in result.records else []
    # Of points with the same probability, the first and the last.
    known = [point["probability"] for point in points]
    points = [point for i, point in enumerate(points) if known[max(i - 1, 0) : i + 2].count(known[i]) < 3]
    if points:
        shown = points[-1::-3][::-1]  # every third and the last; the record has all
        heads = {"cosine": ("cosine", ".3f"), "probability of a match": ("probability", ".3f"), "95% interval": ("", ".3f")}
        yield text_table(_record_cells(shown, heads))


def _migrate(result: Result) -> Iterator[Block]:
    """One line per tier: its score, what it loses, and what it costs; the curve and translated cutoffs on request."""
    tiers = grouped((row for row in result.rows if row.state == "tier"), lambda row: row.setting)
    if not tiers:
        return
    lines = [{row.metric: row for row in rows} for rows in tiers.values()]
    scores = (vars(line["ndcg@10"]) for line in lines)
    columns = {"tier": list(tiers), **_record_cells(scores, {"nDCG@10": ("value", ".3f"), "95% interval": ("", ".3f")})}
    for name, title in (("ndcg@10_loss", "loss"), ("ndcg@10_largest_loss", "at most")):
        columns[title] = ["" if row.setting == "re-index" else f"{row.value:.3f}" for row in (line[name] for line in lines)]
    for name, title in (("documents_to_embed", "embed first"), ("documents_per_query", "per query")):
        columns[title] = [f"{line[name].value:,.0f}" for line in lines]
    yield text_table(columns)
    yield Paragraph(
        "loss is relative to re-index, and its limits hold jointly at 95%; embed first and per query count documents", "dim"
    )
    shown = next((row for row in result.rows if row.state == "shown"), None)
    if shown is not None and shown.reason:
        yield Paragraph(f"– {shown.setting}: {shown.reason}", "dim")
    curve = grouped((row for row in result.rows if row.state == "curve"), lambda row: row.label)
    columns = {"bridge: documents re-embedded": [f"{int(label):,}" for label in curve]}
    for name in dict.fromkeys(row.setting for rows in curve.values() for row in rows):
        points = [next(row for row in rows if row.setting == name) for rows in curve.values()]
        columns[name] = [f"{row.value:.3f} {interval_text(row.low, row.high, form='.3f')}" for row in points]
    yield text_table(columns, detail=True)
    if "thresholds" in result.records:
        cutoffs = result.records["thresholds"].to_pylist()
        heads = {"share of document pairs above": ("share", ".1%"), "old cosine": ("old", ".3f"), "new cosine": ("new", ".3f")}
        yield text_table(_record_cells(cutoffs, heads), detail=True)


def _gate(result: Result) -> Iterator[Block]:
    """One line per broken bound, then what holds; all bounds as a table for a pull request."""
    for finding in result.findings:
        if finding.severity:
            sign, style = SEVERITY_LOOKS[finding.verdict]
            yield Paragraph(finding.meaning, COLOURS[style], lead=f"{sign} ")
    fine = dict.fromkeys(finding.topic for finding in result.findings if not finding.severity)
    if fine:
        yield Paragraph(", ".join(fine), "green", lead="✓ OK: ")
    ordered = sorted(result.findings, key=lambda finding: -finding.severity)
    columns: dict[str, list[object]] = {
        "": [SEVERITY_LOOKS[finding.verdict][0] for finding in ordered],
        "bound": [finding.topic for finding in ordered],
        "layer": ["" if finding.layer is None else str(finding.layer) for finding in ordered],
        "value": [finding.value for finding in ordered],
        "allowed": [finding.healthy for finding in ordered],
        "broken because": [finding.meaning if finding.severity else "" for finding in ordered],
    }
    yield text_table({name: values for name, values in columns.items() if any(map(str, values))}, detail=True)


def _any(result: Result) -> Iterator[Block]:
    """Rows of any kind: the fields that tell them apart, and their values."""
    table = all_rows([Entry("", row) for row in result.rows[:MOST_ROWS]])
    if table is not None:
        columns = [column for column in table.columns if column.name in ("metric", "value") or len(set(column.values)) > 1]
        yield replace(table, columns=tuple(columns))
    if len(result.rows) > MOST_ROWS:
        yield Paragraph(f"… {len(result.rows) - MOST_ROWS:,} more rows", "dim")


def _pivoted(rows: Sequence[Row], lines: str, heads: str, cell: Callable[[Sequence[Row]], str] | None = None) -> Iterator[Block]:
    """A line for each value of one field, a column for each value of another."""
    table = pivot((Entry("", row) for row in rows), rows=(lines,), columns=(heads,), cell=cell)
    if table is not None:
        yield table


def _reasons(rows: Sequence[Row]) -> Iterator[Block]:
    """Why values are missing: each reason once, with the metrics it is given for."""
    for reason, group in grouped((row for row in rows if row.reason), lambda row: row.reason).items():
        yield Paragraph(f"– {', '.join(dict.fromkeys(row.metric for row in group))}: {reason}", "dim")
