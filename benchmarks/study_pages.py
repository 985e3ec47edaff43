"""Write docs/study-NAME.md and its figures for every study from the records in docs/studies/records.

`python benchmarks/study_pages.py` needs neither models nor data: claims are judged again from rows and item-level records.
`python benchmarks/study_pages.py --add NAME RUN` first adds the run of a study in the folder RUN. The documentation site takes
the full HTML page of every study from here too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any, NamedTuple

import pyarrow

from theodolite.core.result import OUTCOMES, Effect, Result
from theodolite.core.states import BEFORE, PRE_TRAINED
from theodolite.reports.cards import verdict_overview
from theodolite.reports.displays import Display
from theodolite.reports.drawing import write_figures
from theodolite.reports.figures import displays_of
from theodolite.reports.page import report_html, table_lines
from theodolite.reports.tables import Column, Table, tables_of
from theodolite.reports.wording import with_states_by_origin
from theodolite.studies import study, study_names
from theodolite.studies.claims.judging import chance_note
from theodolite.studies.claims.paper_tables import MEASURED

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "studies" / "records"
IMAGES = DOCS / "images"
ENCODERS = {
    "tiny-mlm": "a masked language model of two layers, d = 128, trained from new weights on 10 million tokens",
    "minilm-mlm": "all-MiniLM-L6-v2 re-trained as a masked language model, six layers, d = 384; it has seen contrastive training",
    "all-MiniLM-L6-v2": "the demo's encoder, six layers, d = 384, contrastively tuned before this study, so that its first state "
    "is not a pre-trained one",
    "mobilebert": "MobileBERT as MediaPipe ships it, with int8 weights: 24 layers, d = 512, a real pre-trained encoder; its "
    "scores depend a little on the batches, because its input layer reads a padding token next to the last one",
}
# What of the paper's protocol has not been run yet, and the time on one core that it would take, estimated from what was run.
LEFT = {
    "rp21": "",
    "il23": "CoLA, whose learning rates must be chosen too, an estimated two hours of one core; and minilm-mlm, an estimated "
    "four hours.",
    "zs22": "two more seeds of PS-role and PS-fxn on minilm-mlm, about an hour of one core; its TREC-50, an estimated half hour; "
    "the whole grid of the classifier probe on all tasks of tiny-mlm, an estimated seven hours (PS-role an estimated eight "
    "minutes a state with AVX-512 kernels); POS and DEP on minilm-mlm, and mobilebert, some hours each.",
    "do-no-harm": "",
}
# The rows that the numbers of each study are on.
MEASURED_ON = {
    "rp21": "Scores and isotropy are on the development split of STS-B; isotropy is on its tokens, without the special ones.",
    "il23": "Learning rates and epochs are chosen on 30% of the training rows; all numbers shown are on the development rows.",
    "zs22": "Clusters and distances before and after fine-tuning are on the training rows, and accuracies on the test rows (the "
    "development rows of PS-role and PS-fxn). Distances, similarities and movements over training are on those same test rows, "
    "all of which are tracked.",
    "do-no-harm": "Repairs are fitted on one part of the data and scored on another.",
}
# Figures of the Markdown page, by their names.
FIGURES = {
    "rp21": ("isotropy-by-layer-log_partition_isotropy", "repair-scores-mobilebert*"),
    "il23": ("scores-by-seed-*", "ev-curves"),
    "zs22": ("similarity-by-layer-*", "movement-directions-*pos"),
    "do-no-harm": ("repair-gains-all*", "repair-gains-minilm*"),
}
CAVEAT = (
    "These runs use encoders other than the paper's: no printed number is reproduced here, and a claim that needs the "
    "paper's models is *not measured*. The same command with Hub ids runs them."
)
LEGEND = (
    "✓ supported, ✗ contradicted, ? inconclusive, with the side that the numbers lean to (or *scale alone*: longer vectors could "
    "explain it), – not measured. Verdicts and sentences are about means over seeds, tables show medians. "
    "[How a claim is judged](studies.md#verdicts)."
)


class Statement(NamedTuple):
    """A sentence about effects of one kind: which ones, and how they are worded.

    `effects` is a regular expression for their names; its group, if it has one, names what an effect is of, otherwise the encoder
    does. `tuned` is whether the number depends on the fine-tuning seed.
    """

    claim: str
    effects: str
    subject: str
    verbs: tuple[str, str]
    number: str
    form: Callable[[float], str]
    where: str = "on"
    unclear: str = "makes no clear difference to"
    tuned: bool = True


def points(value: float) -> str:
    """A difference of two shares or correlations in points of a hundred, with a true minus sign."""
    return f"{100 * value:+.1f}".replace("-", "−")


def percent(value: float) -> str:
    """A share in percent."""
    return f"{value:+.1%}".replace("-", "−")


def ratio(value: float) -> str:
    """A logarithm of a ratio, as the ratio."""
    return f"× {math.exp(value):.2g}"


REPAIRS_CHANGE = "Spearman change, mean of three repairs, "
STATEMENTS = {
    "rp21": (
        Statement("PD22-1", REPAIRS_CHANGE + "(?:pre-trained|before)", "Before fine-tuning on STS-B, isotropy repairs",
                  ("raise", "lower"), "the score (Spearman × 100, mean of three repairs)", points,
                  unclear="make no clear difference to", tuned=False),
        Statement("PD22-1", REPAIRS_CHANGE + "fine-tuned", "After fine-tuning, they", ("raise", "lower"), "the score", points,
                  unclear="make no clear difference to"),
    ),
    "il23": (
        Statement("IL23-a", "log ratio of IsoScore, (.*)", "The Isotropy Layer", ("raises", "lowers"), "IsoScore", ratio),
        Statement("IL23-b", "gain as a share, (.*)", "It", ("raises", "lowers"), "the task's metric", percent),
    ),
    "zs22": (
        Statement("ZS22-a", "(.*): probe accuracy", "Fine-tuning", ("raises", "lowers"), "the accuracy of a label probe (× 100)",
                  points),
        Statement("ZS22-e", "probe accuracy, tuned on (.*) minus untuned", "For a probe of PS-fxn, fine-tuning on another task",
                  ("raises", "lowers"), "its accuracy", points, where="if that is"),
    ),
    "do-no-harm": (),
}  # fmt: skip


def runs(name: str) -> list[Result]:
    """The committed runs of a study, judged again, each under the name of its encoder."""
    of_study, results = study(name), []
    for folder in sorted(folder for folder in RECORDS.glob(f"{name}-*") if (folder / "result.json").is_file()):
        result = of_study.check(folder).result
        facts = {"name": folder.name.removeprefix(f"{name}-"), "tables": [dict(table) for table in of_study.spec.tables]}
        # A folder in a variable is written for a shell that must still expand it.
        verdicts = tuple(
            replace(
                each, measured=replace(each.measured, command=re.sub(r"'(\$THEODOLITE_[^']*)'", r'"\1"', each.measured.command))
            )
            for each in result.verdicts
        )
        notes = tuple(
            filter(None, [*of_study.spec.notes, f"{MEASURED_ON[name]} {_search(result)}".strip(), chance_note(verdicts)])
        )
        shown = replace(result, verdicts=verdicts, notes=notes, provenance={**result.provenance, **facts})
        results.append(with_states_by_origin(shown))
    return results


def _search(result: Result) -> str:
    """How the classifier probe was chosen, if there is one."""
    probe = result.provenance.get("settings", {}).get("probe")
    if probe is None:
        return ""
    # Records from before the setting was there are those of a race.
    if probe.get("search") == "full" and probe["hidden"] and probe["alphas"]:
        layers, weights = (
            _listed([f"({', '.join(map(str, sizes))})" for sizes in probe["hidden"]]),
            map("{:g}".format, probe["alphas"]),
        )
        return (
            f"Of the paper's grid of 128 classifier probes, those with hidden layers of {layers} and L2 weights of "
            f"{_listed(list(weights))} were trained, on five folds each; the best is shown."
        )
    if probe.get("search") == "full":
        return "The classifier probe is the best of the full grid of 128 cells, each trained on five folds."
    return (
        "The classifier probe was chosen by a race: all 128 cells were trained on one fold, and only the best few on the others."
    )


def html_pages() -> Iterator[tuple[str, str]]:
    """The name of every study that has a run, and its HTML page with all of its runs."""
    for name in study_names():
        if results := runs(name):
            yield name, report_html(results, text=False)


def pages() -> Iterator[tuple[Path, str]]:
    """The path and the text of every Markdown page."""
    for name in study_names():
        yield DOCS / f"study-{name}.md", _page(name, runs(name))


def figures(name: str, results: Sequence[Result]) -> Iterator[tuple[Path, Display, str]]:
    """The path of each figure of a Markdown page, what it shows, and a hash of the numbers in it."""
    displays = displays_of(Result.joined(results)) if results else []
    for number, pattern in enumerate(FIGURES[name], 1):
        display = next((display for display in displays if fnmatch(display.name, pattern)), None)
        if display is not None:
            mark = hashlib.sha256(display.frame().to_csv(index=False).encode()).hexdigest()[:16]
            yield IMAGES / f"study-{name}-{number}.svg", display, mark


def draw(name: str, results: Sequence[Result]) -> None:
    """Write the figures of a Markdown page whose numbers have changed."""
    for path, display, mark in figures(name, results):
        comment = f"<!-- numbers {mark} -->"
        if not path.is_file() or comment not in path.read_text(encoding="utf-8"):
            with TemporaryDirectory() as scratch:
                drawn = next(file for file in write_figures([display], scratch) if file.suffix == ".svg")
                path.write_text(drawn.read_text(encoding="utf-8") + comment + "\n", encoding="utf-8")


def _page(name: str, results: Sequence[Result]) -> str:
    spec = study(name).spec
    left = f"Not run yet: {LEFT[name]}" if LEFT[name] else ""
    blocks = [
        f"# {spec.title}",
        f"{spec.citation[0].upper()}{spec.citation[1:]}. [The paper]({spec.link}); [what a study is](studies.md).",
    ]
    if not results:
        command = _block([f"theodolite study run {name} -m MODEL --data DATA"])
        blocks += ["No run of this study is committed yet.", left, "## Repeat it", command]
        return "\n\n".join(filter(None, blocks)) + "\n"
    run = Result.joined(results)
    seeds, tasks = _seeds(run), ", ".join(dict.fromkeys(row.task for row in run.rows if row.task))
    tuned = {
        encoder: f"fine-tuned with {len(of)} seed{'s' * (len(of) > 1)}" if of else "no fine-tuning"
        for encoder, of in seeds.items()
    }
    page = f'<a href="reports/{name}.html">The full page</a> on the documentation site has every card, figure and table.'
    blocks += [
        f"**{found}**" if (found := _found(name, run)) else "",
        _lesson(name, run),
        " ".join(filter(None, [CAVEAT if spec.claims else "", MEASURED_ON[name], _search(results[0]), f"Tasks: {tasks}."])),
        "\n".join(f"- **{encoder}** ({tuned[encoder]}): {ENCODERS[encoder]}." for encoder in seeds),
        _left_out(run),
        left,
        f"{page} It and this one are built from the records in `docs/studies/records`.",
    ]
    if run.verdicts:
        blocks += ["## Verdicts", f"{_counts(run)} {chance_note(run.verdicts)} {LEGEND}", *table_lines(_verdicts(run))]
    for table in _tables(name, results):
        blocks += [f"## {table.title}", *table_lines(table)]
    drawn = list(figures(name, results))
    blocks += ["## Figures"] if drawn else []
    blocks += [f"![{display.title}](images/{path.name})\n\n*{display.title}.*" for path, display, _ in drawn]
    commands = _commands(line for result in results for line in str(result.provenance["command"]).splitlines())
    variables = "`$THEODOLITE_DATA` is a folder with the tasks' releases, `$THEODOLITE_MODELS` one with the encoders."
    again = "python benchmarks/study_pages.py  # this page, from the records alone"
    return "\n\n".join(filter(None, [*blocks, "## Repeat it", variables, _block([*commands, again])])) + "\n"


def _commands(lines: Iterable[str]) -> list[str]:
    """The commands of runs; those that differ only in their seeds as one."""
    seeds: dict[str, set[int]] = {}
    for line in lines:
        of_line = seeds.setdefault(re.sub(r"--seeds \S+", "--seeds SEEDS", line), set())
        if match := re.search(r"--seeds (\S+)", line):
            of_line.update(map(int, match[1].split(",")))
    return [line.replace("SEEDS", ",".join(map(str, sorted(of_line)))) for line, of_line in seeds.items()]


def _block(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def _seeds(run: Result) -> dict[str, set[int]]:
    """The fine-tuning seeds of each encoder."""
    return {
        encoder: {row.seed for row in run.rows if row.model == encoder and row.seed is not None}
        for encoder in sorted({row.model for row in run.rows})
    }


def _counts(run: Result) -> str:
    outcomes = Counter(verdict.measured.outcome for verdict in run.verdicts)
    counts = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in OUTCOMES if outcomes[outcome])
    claims, encoders = len({verdict.claim for verdict in run.verdicts}), len(_seeds(run))
    return f"{claims} claims on {encoders} encoder{'s' * (encoders > 1)}: {counts}."


def _left_out(run: Result) -> str:
    """The tasks that were run and that a claim leaves out, with the reason."""
    measured = {(row.model, row.task) for row in run.rows}
    claims: dict[tuple[str, str, str], list[str]] = {}
    for verdict in run.verdicts:
        for task, reason in verdict.measured.left_out.items():
            if (verdict.model, task) in measured:
                claims.setdefault((task, verdict.model, reason), []).append(verdict.claim)
    alike: dict[tuple[str, str, str], list[str]] = {}
    for (task, encoder, reason), of in claims.items():
        where = f" on {encoder}" * (len(_seeds(run)) > 1)
        alike.setdefault((where, _listed(of), reason), []).append(task)
    tasks = [f"{_listed(of)}{where} from {left} ({reason})" for (where, left, reason), of in alike.items()]
    return f"Left out: {'; '.join(tasks)}." if tasks else ""


def _found(name: str, run: Result) -> str:
    """What the runs found, in words; a side of 0 is named only for an effect whose interval is on it."""
    if not study(name).claims:
        return _gains_found(run)
    sentences = " ".join(filter(None, (_sentence(statement, run) for statement in STATEMENTS[name])))
    (encoder, seeds), *others = _seeds(run).items()
    if others or not sentences:
        return sentences
    return f"On {encoder}{', in one run' * (len(seeds) == 1)}: {sentences[0].lower()}{sentences[1:]}"


def selected(run: Result, claim: str, effects: str) -> Iterator[tuple[str, str, Effect]]:
    """The effects of a claim that have an interval, each with its encoder and with what it is of."""
    for verdict in run.verdicts:
        for effect in verdict.measured.effects if verdict.claim == claim else ():
            match = re.fullmatch(effects, effect.name)
            if match and effect.low is not None and effect.high is not None:
                yield verdict.model, match[1] if match.groups() else verdict.model, effect


def sides(effects: Sequence[Effect]) -> list[int]:
    """1 for an effect above 0, -1 for one below, and 0 for one whose interval includes it."""
    return [(effect.low or 0) > 0 or -((effect.high or 0) < 0) for effect in effects]


def _sentence(statement: Statement, run: Result) -> str:
    """What a statement says of the runs; empty if nothing was measured of it."""
    effects = list(selected(run, statement.claim, statement.effects))
    encoders = dict.fromkeys(encoder for encoder, _, _ in effects)
    seeds = _seeds(run)
    single = {encoder for encoder in encoders if statement.tuned and len(seeds[encoder]) == 1}
    items: dict[int, dict[str, list[str]]] = {1: {}, -1: {}, 0: {}}
    for (encoder, of, effect), side in zip(effects, sides([effect for _, _, effect in effects]), strict=True):
        once = " in one run" if encoder in single and single != set(encoders) else ""
        number = f"{statement.form(effect.value)}{once}"
        items[side].setdefault(of, []).append(f"{encoder} {number}" if of != encoder and len(encoders) > 1 else number)
    clauses: list[str] = []
    for side, verb in ((1, statement.verbs[0]), (-1, statement.verbs[1]), (0, statement.unclear)):
        if items[side]:
            listed = _listed([f"{of} ({', '.join(numbers)})" for of, numbers in items[side].items()])
            clause = (verb, "it" if clauses else statement.number, statement.where, listed)
            clauses.append(" ".join(filter(None, clause)))
    if not clauses:
        return ""
    ending = ", in one run each" if len(encoders) > 1 and single == set(encoders) else ""
    return f"{statement.subject} {_listed(clauses)}{ending}."


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _gains_found(run: Result) -> str:
    gains = _gains(run)
    if not gains:
        return "Nothing was measured."
    up, down, either = (sum(counts[side] for counts in gains.values()) for side in (1, -1, 0))
    often = "hurt more often than they help" if down > up else "do not hurt more often than they help"
    best, worst = (max(gains, key=lambda repair: gains[repair][side]) for side in (1, -1))
    return (
        f"On data that they were not fitted on, repairs {often}: of {up + down + either} gains, {up} are above 0 and {down} "
        f"below, by their 95% intervals. Most often above 0 is {best} ({gains[best][1]} of {gains[best].total()}), and most "
        f"often below 0 {worst} ({gains[worst][-1]} of {gains[worst].total()})."
    )


def _lesson(name: str, run: Result) -> str:
    """What an engineer should take from the runs; empty if they do not bear on it."""
    lesson = LESSONS[name](run)
    return f"**What to take from it.** {lesson}" if lesson else ""


def _repair_lesson(run: Result) -> str:
    before, after = (
        sides([effect for _, _, effect in selected(run, "PD22-1", REPAIRS_CHANGE + state)])
        for state in ("pre-trained", "fine-tuned")
    )
    if not before or not after:
        return ""
    if set(before) == {1} and -1 in after and 1 not in after:
        return (
            "A repair is worth trying on an encoder that was only pre-trained. Leave one that was fine-tuned for the task as it "
            f"is. Either way, {MEASURE_FIRST}."
        )
    return f"Whether a repair helps depends on the encoder: {MEASURE_FIRST}."


def _layer_lesson(run: Result) -> str:
    shape, score = (
        set(sides([effect for _, _, effect in selected(run, statement.claim, statement.effects)]))
        for statement in STATEMENTS["il23"]
    )
    if shape != {1} or not score:
        return ""
    gain = "and the task gains from it" if score == {1} else "but the task loses by it" if score == {-1} else ""
    return f"The layer makes the space more isotropic, {gain or 'but that the task gains from it is not shown here'}."


def _transfer_lesson(run: Result) -> str:
    near, far = (
        set(sides([effect for _, _, effect in selected(run, "ZS22-e", f"probe accuracy, tuned on {task} minus untuned")]))
        for task in ("PS-role", "POS")
    )
    if near != {1} or not far or 1 in far:
        return ""
    return "Fine-tuning on a related task can help the one that you need; on an unrelated one it did not help here."


def _harm_lesson(run: Result) -> str:
    counts = _gains(run).values()
    is_harm = sum(of[-1] for of in counts) > sum(of[1] for of in counts)
    return f"{'Do not repair a space by default' if is_harm else 'A repair may help'}. If you consider one, {MEASURE_FIRST}."


MEASURE_FIRST = "measure it on your own data first: `theodolite repair advise`"
LESSONS: dict[str, Callable[[Result], str]] = {
    "rp21": _repair_lesson,
    "il23": _layer_lesson,
    "zs22": _transfer_lesson,
    "do-no-harm": _harm_lesson,
}


def _gains(run: Result) -> dict[str, Counter[int]]:
    """How many gains of each repair are above 0, below it, and on neither side, over encoders, states and tasks."""
    gains: dict[str, Counter[int]] = {}
    for row in run.rows:
        if row.metric == "gain" and row.low is not None and row.high is not None:
            gains.setdefault(row.setting, Counter())[(row.low > 0) - (row.high < 0)] += 1
    return gains


def _verdicts(run: Result) -> Table:
    """Claims down and encoders across; an inconclusive one with the side that it leans to."""
    table = verdict_overview(run.verdicts)
    judged = {(verdict.claim, verdict.model): verdict.measured for verdict in run.verdicts}
    claims = [str(text).partition(":")[0] for text in table.columns[0].values]

    def cell(text: str, claim: str, encoder: str) -> str:
        measured = judged.get((claim, encoder))
        if measured is None:  # the reason, if there is one encoder and nothing decides
            return text or " ".join(shorten(verdict.measured.why, 110) for verdict in run.verdicts if verdict.claim == claim)
        if any(effect.place == "scale" for effect in measured.effects if effect.primary):
            return "? scale alone"
        if measured.outcome == "inconclusive" and measured.lean:
            return f"? leans {measured.lean}"
        return "–" if measured.outcome == "not measured" else text

    columns = [
        replace(column, values=[cell(text, claim, column.name) for text, claim in zip(column.values, claims, strict=True)])
        for column in table.columns
    ]
    return replace(table, columns=tuple(columns))


def _tables(name: str, results: Sequence[Result]) -> Iterator[Table]:
    """The main table of a study, narrow enough for a phone."""
    if name == "rp21":
        yield _paper_table(name, results, "table 1", by=("state", "model"))
    elif name == "il23":
        yield _paper_table(name, results, "table 2", by=("task", "model"), without=("improvement",))
    elif name == "zs22":
        tables = tables_of([(result.provenance["name"], result) for result in results])
        for table in (table for table in tables if table.title.startswith("Fine-tuned on one task")):
            columns = [column for column in table.columns if column.name not in ("run", "state", "mean minimum distance")]
            columns = [
                replace(column, values=[value if value != "" else "not tuned" for value in column.values]) for column in columns
            ]
            yield replace(table, columns=tuple(columns))
    elif gains := _gains(Result.joined(results)):
        yield _gains_table(Result.joined(results), gains)


def _paper_table(
    name: str, results: Sequence[Result], printed: str, *, by: tuple[str, str], without: Sequence[str] = ()
) -> Table:
    """A table of the paper with one line per model, grouped by the first of two fields; the paper's own models come first.

    Groups in which nothing was measured are left out, and so is what a report on the paper prints.
    """
    spec = study(name).spec
    layout = next(table for table in spec.printed_tables if table.name == printed)
    title = f"{spec.source} {printed}: {layout.title}"
    across = layout.heads or (layout.across,)
    lines: dict[tuple[str, bool, str], dict[str, str]] = {}
    for cell in (cell for result in results for cell in result.records["paper_tables"].to_pylist() if cell["table"] == title):
        fields = dict(zip((*cell["fields"], *across), (*cell["line"], *cell["head"]), strict=False))
        model, source, group = fields["model"], fields.get("source", ""), fields[by[0]]
        head = next(fields[field] for field in across if field not in by)
        if "(reported)" in source or head in without:
            continue
        is_ours = source == MEASURED or model.endswith(f", {MEASURED}")
        encoder = model.removesuffix(f", {MEASURED}") if is_ours else f"{model} (paper)"
        lines.setdefault((group, is_ours, encoder), {})[head] = cell["text"]
    # An encoder whose first state is not a pre-trained one has it among those of the others.
    groups = [*dict.fromkeys(group for group, _, _ in lines if group != BEFORE)]
    measured = {group for group, is_ours, _ in lines if is_ours}
    order = sorted(
        (line for line in lines if line[0] in measured),
        key=lambda line: (groups.index(PRE_TRAINED if line[0] == BEFORE else line[0]), line[1]),
    )
    columns = [Column(by[0], [group for group, _, _ in order]), Column("encoder", [encoder for _, _, encoder in order])]
    heads = dict.fromkeys(head for cells in lines.values() for head in cells)
    columns += [Column(head, [lines[line].get(head, "") for line in order]) for head in heads]
    note = "Lines marked (paper) are as printed. The others were measured here, on other encoders, and reproduce none of them."
    return Table(title, tuple(columns), note)


def _gains_table(run: Result, gains: Mapping[str, Counter[int]]) -> Table:
    """How often each repair gains and loses."""
    values = {repair: [row.value for row in run.rows if row.metric == "gain" and row.setting == repair] for repair in gains}
    columns: dict[str, Sequence[Any]] = {
        "repair": list(gains),
        **{
            head: [counts[side] for counts in gains.values()]
            for head, side in (("above 0", 1), ("below 0", -1), ("includes 0", 0))
        },
        "mean gain × 100": [points(mean(values[repair])) for repair in gains],
    }
    note = "How many 95% intervals are where, over encoders, states and tasks; every single gain is on the full page."
    return Table("What each repair gains", tuple(Column(name, values) for name, values in columns.items()), note)


def add(name: str, run: Path) -> Path:
    """Export a run's records; folders of data and models are written as the variables that tests find them by.

    Most of the size are lists of one number per item: they are stored in single precision. Cosines of sentence pairs, and
    rows of distances between two labels, are kept of the last layer only.
    """
    folders = {variable: os.environ[variable].rstrip("/") for variable in ("THEODOLITE_DATA", "THEODOLITE_MODELS")}
    models = Result.load(run).provenance["models"]
    folder = study(name).export(RECORDS / "-".join([name, *([next(iter(models))] if len(models) == 1 else ["encoders"])]), to=run)
    result = Result.load(folder)
    facts = json.dumps(result.provenance).replace(f" --to {run}", "")
    for variable, path in folders.items():
        facts = facts.replace(path, f"${variable}")
    records = dict(result.records)
    if "pairs" in records:
        layers = records["pairs"]["layer"].to_numpy()
        records["pairs"] = records["pairs"].filter(layers == layers.max())
    records = {table: _in_single_precision(records[table]) for table in records}
    last = max(row.layer or 0 for row in result.rows)
    rows = tuple(row for row in result.rows if row.metric != "label_distance" or row.layer == last)
    replace(result, rows=rows, records=records, provenance=json.loads(facts)).save(folder)
    judged = study(name).check(folder).result  # with commands that name the variables
    return judged.save(folder)


def _in_single_precision(table: pyarrow.Table) -> pyarrow.Table:
    """The table with its lists of numbers as 32-bit ones: seven digits, which intervals do not need."""
    double, single = pyarrow.list_(pyarrow.float64()), pyarrow.list_(pyarrow.float32())
    types = [single if field.type == double else field.type for field in table.schema]
    return table.cast(pyarrow.schema(list(zip(table.column_names, types, strict=True))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--add", nargs=2, metavar=("NAME", "RUN"))
    options = parser.parse_args()
    if options.add:
        print(add(options.add[0], Path(options.add[1])))
    for study_name in study_names():
        draw(study_name, runs(study_name))
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
        print(path)
