"""How things are worded wherever they are shown: strings of the data made safe, findings, verdicts, and a result's origin.

Plotly renders a small part of HTML in whatever it writes: titles, ticks, legends, hover texts. So every token, sentence, label
or name that comes from the data goes through `plain` before it gets there; fixed words of the package do not need to.
"""

from __future__ import annotations

import functools
import re
import shlex
import textwrap
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from theodolite.advice.diagnosis import RULES, FindingRule
from theodolite.core.measures import MEASURES
from theodolite.core.numbers import number_text
from theodolite.core.result import VERDICTS
from theodolite.core.states import BEFORE, DIFFERENCE, PRE_TRAINED
from theodolite.metrics.registry import METRICS, label_of

if TYPE_CHECKING:
    import pyarrow

    from theodolite.core.result import Finding, Judged, Result
    from theodolite.core.rows import Row

# Characters that are shown of a string by default, of a fact of the provenance, and of a command.
LIMIT, FACT, COMMAND = 300, 2_000, 4_000
CUT = "…"
# FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE: right-to-left text between them does not move what is around it.
ISOLATE, END = "\u2068", "\u2069"
# Sign and style of each severity and outcome; an outcome that this version does not know is undecided.
SEVERITY_LOOKS = {"bad": ("✗", "fails"), "watch": ("!", "open"), "good": ("✓", "holds")}
OUTCOME_LOOKS = {
    "supported": ("✓", "holds"),
    "contradicted": ("✗", "fails"),
    "not measured": ("–", "open"),
    "agrees": ("✓", "holds"),
    "disagrees": ("✗", "fails"),
    "not printed": ("–", "open"),
}
UNDECIDED = ("?", "open")
# Verdicts of answers that are good or bad news, or leave a question open; the others, such as "turned", are neither.
VERDICT_LOOKS = {
    **dict.fromkeys(("OK", "identical", "same up to precision", "same up to length", "no shift found"), ("✓", "holds")),
    **dict.fromkeys(("separable", "apply", "leave it alone", "separates", "pass", "learned"), ("✓", "holds")),
    **dict.fromkeys(("keep", "bridge", "two-stage", "re-index"), ("✓", "holds")),
    **dict.fromkeys(("watch", "separable by dimension alone", "cutoff only", "another setting"), ("!", "open")),
    **dict.fromkeys(("not judged", "not shown"), UNDECIDED),
    **dict.fromkeys(
        ("bad", "another model", "not separable", "does not separate", "breach", "not learned", "collapsed"), ("✗", "fails")
    ),
}
# Keys of the provenance that are not listed as facts: the page shows them in places of their own.
SHOWN_ELSEWHERE = ("name", "command", "tables", "versions")

# Marks, embeddings, overrides and isolates: a text's own could end the isolate around it. The byte order mark shows nothing.
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Halves of surrogate pairs cannot be written as UTF-8; the others are guaranteed never to be characters.
_NONCHARACTERS = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
# What the setting of a row says of its sampling, and how it ends if the row is pooled over seeds.
_POOLED = re.compile(r"(?:median|standard deviation) of \d+ seeds$")
# A dollar sign starts a formula if MathJax is on the page.
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})


def clean(text: object, limit: int = LIMIT) -> str:
    """The text on one line, without control characters and direction marks; not escaped."""
    if limit < 1:
        raise ValueError(f"limit={limit} must be at least 1, to leave room for the mark {CUT!r}")
    full = "" if text is None else str(text)
    # Only the start of a string of many megabytes is searched: no more of it is shown.
    start = full[: 8 * limit + 64]
    line = _NONCHARACTERS.sub("\ufffd", _DIRECTIONS.sub("", _CONTROLS.sub(" ", start))).strip()
    if len(line) > limit or len(full) > len(start):
        line = line[: limit - 1].rstrip() + CUT
    return line


def plain(text: object, limit: int = LIMIT) -> str:
    """The text as Plotly shows it letter for letter: cleaned, escaped, and isolated if it runs from right to left."""
    return _escape(clean(text, limit))


def plain_lines(text: object, *, width: int = 60, limit: int = LIMIT) -> str:
    """As `plain`, in lines of at most `width` characters with `<br>` between them, for hover texts."""
    return "<br>".join(map(_escape, textwrap.wrap(clean(text, limit), width)))


def file_name(*strings: str) -> str:
    """A file name without ending, made of any strings: lower-case letters, digits, `-`, `_` and `.`; never a path.

    A string that had to be changed gets a checksum, so that two different strings do not share a name.

    Examples
    --------
    >>> file_name("cloud", "minilm", "6")
    'cloud-minilm-6'
    >>> file_name("../../etc/passwd")
    'etc-passwd-df406b03'
    """
    return "-".join(filter(None, map(_safe_name, strings)))


def unique_names(names: Iterable[str], pattern: str = "{}-{}") -> list[str]:
    """The names in order, numbered from 2 on if one was there before.

    Examples
    --------
    >>> unique_names(["a", "b", "a"], "{} ({})")
    ['a', 'b', 'a (2)']
    """
    unique: list[str] = []
    for name in names:
        candidates = chain([name], (pattern.format(name, number) for number in count(2)))
        unique.append(next(candidate for candidate in candidates if candidate not in unique))
    return unique


def is_value(row: Row) -> bool:
    """Whether the number of a row is a value: not the difference of two states, and not pooled over seeds."""
    return row.state != DIFFERENCE and _POOLED.search(row.setting) is None


def with_states_by_origin(result: Result) -> Result:
    """The result of a study in which only an encoder whose origin is known to be pre-training has a state of that name."""
    origins = result.provenance.get("origins") or {}
    others = {name for name, origin in origins.items() if origin.get("kind") != PRE_TRAINED}
    if not others:
        return result
    pictures = tuple(
        replace(picture, about={**picture.about, "state": BEFORE})
        if picture.about.get("model") in others and picture.about.get("state") == PRE_TRAINED
        else picture
        for picture in result.pictures
    )
    rows = tuple(replace(row, state=BEFORE) if row.model in others and row.state == PRE_TRAINED else row for row in result.rows)
    records = {name: _with_state_before(table, others) for name, table in result.records.items()}
    return replace(result, rows=rows, pictures=pictures, records=records)


def _with_state_before(records: pyarrow.Table, models: Set[str]) -> pyarrow.Table:
    """Records in which these models have a state before instead of a pre-trained one."""
    if not {"model", "state"} <= set(records.column_names):
        return records
    pairs = zip(records["model"].to_pylist(), records["state"].to_pylist(), strict=True)
    states = [BEFORE if model in models and state == PRE_TRAINED else state for model, state in pairs]
    return records.set_column(records.column_names.index("state"), "state", [states])


def outcome_look(outcome: str) -> tuple[str, str]:
    """The sign of an outcome, and its style: holds, fails or open."""
    return OUTCOME_LOOKS.get(outcome, UNDECIDED)


def verdict_look(verdict: str) -> tuple[str, str]:
    """The sign of an answer's verdict, and its style: holds, fails, open, or empty if it is neither good nor bad."""
    return VERDICT_LOOKS.get(verdict, ("•", ""))


def is_word(verdict: str) -> bool:
    """Whether a verdict is a word that a verb declares, rather than the counts of a study, which its sentence has too."""
    return any(verdict in words for words in VERDICTS.values())


def measured_lines(result: Result) -> list[str]:
    """What was measured: for each input its name, size, unit, prompts, length limit and number of texts."""
    lines = []
    for facts in result.inputs:
        name, encoder = clean(facts.get("name", ""), 120), facts.get("encoder") or {}
        model = str(encoder.get("model") or "")
        prompts = [repr(encoder[key]) for key in ("prompt", "query_prompt") if encoder.get(key)]
        words = [
            "" if model in name else f"encoder {clean(model, 120)}",
            size_text(facts),
            str(facts.get("unit") or encoder.get("unit") or facts.get("dtype") or ""),
            f"prompt {' and '.join(dict.fromkeys(prompts))}" if prompts else "no prompt" if encoder.get("unit") == "text" else "",
            f"at most {encoder['max_length']:,} tokens" if encoder.get("max_length") else "",
            f"{encoder['texts']:,} texts" if encoder.get("texts") else "",
            f"{facts['held_out']:,} held out" if facts.get("held_out") else "",
        ]
        lines.append(": ".join(filter(None, [name, ", ".join(filter(None, words))])))
    return lines


def size_text(facts: Mapping[str, Any]) -> str:
    """The size of an input's vectors, such as "1,000 × 384"; empty if it is not known."""
    size = f" × {facts['d']:,}" if facts.get("d") is not None else ""
    return f"{facts['n']:,}{size}" if facts.get("n") is not None else ""


def standing(judged: Judged) -> str:
    """On which encoders, seeds and tasks a verdict stands, and what else its reader must know; empty if nothing is known."""
    encoders = ", ".join(f"{name} ({description})" if description else name for name, description in judged.encoders.items())
    seeds = f"fine-tuning seed{'s' if len(judged.seeds) > 1 else ''} {', '.join(map(str, judged.seeds))}" if judged.seeds else ""
    # Of several tasks each has items of its own: the largest number would not be that of the verdict.
    counts = next((effect.counts for effect in judged.effects if effect.counts), {})
    tasks = ", ".join(f"{task} ({counts[task]:,} items)" if task in counts else task for task in judged.tasks)
    where = "; ".join(filter(None, [encoders, seeds, tasks]))
    remarks = "".join(f" {remark[:1].upper()}{remark[1:]}." for remark in judged.remarks)
    return (f"It is based on {where}." if judged.seeds else "") + remarks


def change_mark(low: float | None, high: float | None) -> str:
    """A star if there is an interval and it excludes 0."""
    return "*" if low is not None and high is not None and not low <= 0 <= high else ""


def with_labels(text: str) -> str:
    """A sentence in which metrics have their labels rather than the names that rows have: IsoScore, not iso_score."""
    return _metric_names().sub(lambda match: label_of(match[1]), text)


def finding_numbers(finding: Finding) -> str:
    """The judged number and its healthy range."""
    rule, value = _rule_of(finding), number_text(finding.value)
    # A value just outside its range that rounds to the bound is shown with all its digits.
    if finding.severity and rule and value == number_text(rule.watch):
        value = f"{finding.value:.10g}"
    return f"{label_of((rule and rule.judged) or finding.metric)} {value}, healthy {finding.healthy}"


def judged_number(finding: Finding) -> str:
    """The judged number alone; a share of the possible maximum says so, since a table has another number for the metric."""
    rule = _rule_of(finding)
    return f"{100 * finding.value:.3g}% of max" if rule and rule.judged else number_text(finding.value)


def _rule_of(finding: Finding) -> FindingRule | None:
    return next((rule for rule in RULES if rule.topic == finding.topic and rule.metric == finding.metric), None)


def name_of(result: Result) -> str:
    """What a result is called among others: its name, or else its title or verb; cleaned, not escaped."""
    return clean(result.provenance.get("name") or result.title or result.verb, 60) or "unnamed"


def command_of(result: Result) -> str:
    """The commands that make the result again, each in one line; a list of arguments is quoted for a shell."""
    command = result.provenance.get("command") or ""
    lines = [shlex.join(map(str, command))] if isinstance(command, (list, tuple)) else str(command).splitlines()
    return "\n".join(clean(line, COMMAND) for line in lines if line.strip())


def facts_of(result: Result) -> list[tuple[str, list[tuple[str, str]] | str]]:
    """Name and value of everything else in the provenance; a value with parts is a list of names and values."""
    provenance = result.provenance
    versions = provenance.get("versions") or next((row.versions for row in result.rows if row.versions), "")
    facts = [("verb", result.verb), *((key, value) for key, value in provenance.items() if key not in SHOWN_ELSEWHERE)]
    return [(clean(key, 60), _fact(value)) for key, value in (*facts, ("versions", versions)) if value not in ("", None, [], {})]


@functools.cache
def _metric_names() -> re.Pattern[str]:
    # Longest first, so that iso_score_corrected is not read as iso_score; names of one word may be ordinary words.
    names = sorted((name for name in {**METRICS, **MEASURES} if "_" in name), key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(names)})\b")


def _fact(value: Any) -> list[tuple[str, str]] | str:
    if isinstance(value, Mapping):
        return [(clean(key, 60), clean(_in_words(inner), FACT)) for key, inner in value.items()]
    return clean(_in_words(value), FACT)


def _in_words(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ("; " if any(isinstance(item, Mapping) for item in value) else ", ").join(map(_in_words, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_in_words(inner)}" for key, inner in value.items())
    return "none" if value is None else str(value)


def _escape(text: str) -> str:
    escaped = text.translate(_MARKUP)
    return f"{ISOLATE}{escaped}{END}" if any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in text) else escaped


def _safe_name(text: str) -> str:
    safe = re.sub(r"[^a-z0-9_.]+", "-", text[:200].lower()).strip("-.")[:40]
    return safe if safe == text else f"{safe}-{zlib.crc32(text.encode('utf-8', 'backslashreplace')):08x}".strip("-")
