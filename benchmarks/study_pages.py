"""Write docs/study-NAME.md and its figures for every study from the records in docs/studies/records.

`python benchmarks/study_pages.py` needs neither models nor data: claims are judged again from rows and item-level records.
`python benchmarks/study_pages.py --add NAME RUN` first adds the run of a study in the folder RUN. The documentation site takes
the full HTML page of every study from here too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from theodolite.core.result import OUTCOMES, Result
from theodolite.reports.cards import verdict_overview
from theodolite.reports.displays import Display
from theodolite.reports.drawing import write_figures
from theodolite.reports.figures import displays_of
from theodolite.reports.page import report_html, table_lines
from theodolite.reports.tables import Column, Table, tables_of
from theodolite.studies import study, study_names
from theodolite.studies.claims.judging import chance_note

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "studies" / "records"
IMAGES = DOCS / "images"
ENCODERS = {
    "tiny-mlm": "a masked language model of two layers, d = 128, trained from new weights on 10 million tokens",
    "minilm-mlm": "all-MiniLM-L6-v2 re-trained as a masked language model, six layers, d = 384; it has seen contrastive training",
    "all-MiniLM-L6-v2": "the demo's encoder, six layers, d = 384, contrastively tuned before this study, so that its first state "
    "is not a pre-trained one",
    "mobilebert": "MobileBERT as MediaPipe ships it, with int8 weights: 24 layers, d = 512, a real pre-trained encoder",
}
# What of the paper's protocol has not been run yet, and the time on one core that it would take, estimated from what was run.
LEFT = {
    "rp21": "two more seeds of mobilebert, about one and a half hours of one core each; and all-MiniLM-L6-v2 with two seeds "
    "and minilm-mlm with five, again, about four hours in all: their intervals of log I hold the eigenvectors, and are too "
    "narrow.",
    "il23": "three more seeds of MRPC, about a quarter of an hour of one core each; RTE and CoLA, whose learning rates must be "
    "chosen too, about five hours; and minilm-mlm, about as long again.",
    "zs22": "tiny-mlm with three seeds and the full grid of the classifier probe, an estimated 15 hours of one core, and "
    "minilm-mlm, whose classifier probes alone take longer than that.",
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
# Tables of the Markdown page, by how their titles begin, and figures, by their names.
TABLES = {
    "rp21": ("RP21 table 1",),
    "il23": ("IL23 table 2",),
    "zs22": ("Fine-tuned on one task",),
    "do-no-harm": (),
}
FIGURES = {
    "rp21": ("isotropy-by-layer-log_partition_isotropy", "repair-scores-*"),
    "il23": ("scores-by-seed-*", "ev-curves"),
    "zs22": ("similarity-by-layer-*", "movement-directions-*-pos"),
    "do-no-harm": ("repair-gains-all*", "repair-gains-minilm*"),
}
CAVEAT = (
    "These runs use encoders other than the paper's: nothing here reproduces a printed number, and a claim that needs the "
    "paper's models is *not measured*. The same command with Hub ids runs them."
)


def runs(name: str) -> list[Result]:
    """The committed runs of a study, judged again, each under the name of its encoder."""
    of_study, results = study(name), []
    for folder in sorted(folder for folder in RECORDS.glob(f"{name}-*") if (folder / "result.json").is_file()):
        result = of_study.check(folder).result
        assert result is not None
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
        results.append(replace(result, verdicts=verdicts, notes=notes, provenance={**result.provenance, **facts}))
    return results


def _search(result: Result) -> str:
    """How the classifier probe was chosen, if there is one."""
    probe = result.provenance.get("settings", {}).get("probe")
    if probe is None:
        return ""
    # Records from before the setting was there are those of a race.
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
    parts = [
        f"# {spec.title}",
        f"{spec.citation[0].upper()}{spec.citation[1:]}. [The paper]({spec.link}); [what a study is](studies.md).",
    ]
    if not results:
        parts += [
            "No run of this study is committed yet.",
            left,
            "## Repeat it",
            _block([f"theodolite study run {name} -m MODEL --data DATA"]),
        ]
        return "\n\n".join(filter(None, parts)) + "\n"
    whole = Result.joined(results)
    parts += [
        f"**{_found(whole)}**",
        f"{CAVEAT} {MEASURED_ON[name]} {_search(results[0])}".strip() if spec.claims else MEASURED_ON[name],
    ]
    encoders = sorted({row.model for row in whole.rows})
    seeds = {
        encoder: sorted({row.seed for row in whole.rows if row.model == encoder and row.seed is not None}) for encoder in encoders
    }
    parts.append("\n".join(f"- **{encoder}** ({_seeds(seeds[encoder])}): {ENCODERS[encoder]}." for encoder in encoders))
    link = f'<a href="reports/{name}.html">The full page</a>, which the documentation site has, shows'
    parts += [
        left,
        f"{link} every card, figure and table. Both are built from the records in `docs/studies/records`.",
    ]
    if whole.verdicts:
        parts += ["## Verdicts", *table_lines(verdict_overview(whole.verdicts))]
    tables = tables_of([(result.provenance["name"], result) for result in results])
    for start in TABLES[name]:
        for table in (_without_reported(table) for table in tables if table.title.startswith(start)):
            parts += [f"## {table.title}", *table_lines(table)]
    if name == "do-no-harm":
        parts += ["## What each repair gains", *table_lines(_gains(whole))]
    drawn = list(figures(name, results))
    parts += ["## Figures"] if drawn else []
    for path, display, _ in drawn:
        parts.append(f"![{display.title}](images/{path.name})\n\n*{display.title}.*")
    commands = dict.fromkeys(line for result in results for line in str(result.provenance["command"]).splitlines())
    variables = "`$THEODOLITE_DATA` is a folder with the tasks' releases, `$THEODOLITE_MODELS` one with the encoders."
    again = "python benchmarks/study_pages.py  # this page, from the records alone"
    return "\n\n".join(filter(None, [*parts, "## Repeat it", variables, _block([*commands, again])])) + "\n"


def _without_reported(table: Table) -> Table:
    """The table without the lines that a report on the paper, rather than the paper, prints; the full page has them."""
    sources = next((column.values for column in table.columns if column.name == "source"), [""] * table.lines)
    kept = [i for i, source in enumerate(sources) if "(reported)" not in str(source)]
    if len(kept) == table.lines:
        return table
    return replace(table, columns=tuple(replace(column, values=[column.values[i] for i in kept]) for column in table.columns))


def _block(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def _seeds(seeds: Sequence[int]) -> str:
    return (
        "no fine-tuning"
        if not seeds
        else f"fine-tuned with seed {seeds[0]}"
        if len(seeds) == 1
        else f"fine-tuned with {len(seeds)} seeds"
    )


def _found(whole: Result) -> str:
    """What the runs found, and on what, in a sentence."""
    tasks = ", ".join(dict.fromkeys(row.task for row in whole.rows if row.task))
    encoders = sorted({row.model for row in whole.rows})
    where = f"{len(encoders)} encoders" if len(encoders) > 1 else encoders[0]
    outcomes: dict[str, list[str]] = {}
    for verdict in whole.verdicts:
        outcomes.setdefault(verdict.measured.outcome, []).append(verdict.claim)
    if not outcomes:
        bounds = [
            (row.low, row.high) for row in whole.rows if row.metric == "gain" and row.low is not None and row.high is not None
        ]
        up, down = sum(low > 0 for low, _ in bounds), sum(high < 0 for _, high in bounds)
        gains = f"of {len(bounds)} gains, {up} are above 0 and {down} below by their 95% intervals; the other intervals include 0"
        return f"On {where} ({tasks}), {gains}."
    counts = ", ".join(f"{len(outcomes[outcome])} {outcome}" for outcome in OUTCOMES if outcome in outcomes)
    claims = len({verdict.claim for verdict in whole.verdicts})
    return f"On {where} ({tasks}), {claims} claims gave {len(whole.verdicts)} verdicts: {counts}."


def _gains(whole: Result) -> Table:
    """How often each repair gains and loses, over encoders, states and tasks."""
    gains: dict[str, list[tuple[float, float, float]]] = {}
    for row in whole.rows:
        if row.metric == "gain" and row.low is not None and row.high is not None:
            gains.setdefault(row.setting, []).append((row.value, row.low, row.high))
    columns: dict[str, Sequence[Any]] = {
        "repair": list(gains),
        "interval above 0": [sum(low > 0 for _, low, _ in each) for each in gains.values()],
        "interval below 0": [sum(high < 0 for _, _, high in each) for each in gains.values()],
        "interval includes 0": [sum(low <= 0 <= high for _, low, high in each) for each in gains.values()],
        "mean gain": [mean(value for value, _, _ in each) for each in gains.values()],
    }
    note = "Counts over encoders, states and tasks, each with its 95% interval; every single gain is on the full page."
    return Table("", tuple(Column(name, values) for name, values in columns.items()), note)


def add(name: str, run: Path) -> Path:
    """Export a run's records; folders of data and models are written as the variables that tests find them by.

    Of the cosines of sentence pairs, which are most of the size, those of the last layer are kept.
    """
    models = Result.load(run).provenance["models"]
    folder = study(name).export(RECORDS / "-".join([name, *([next(iter(models))] if len(models) == 1 else ["encoders"])]), to=run)
    result = Result.load(folder)
    facts = json.dumps(result.provenance).replace(f" --to {run}", "")
    for variable in ("THEODOLITE_DATA", "THEODOLITE_MODELS"):
        facts = facts.replace(os.environ[variable].rstrip("/"), f"${variable}")
    records = dict(result.records)
    if "pairs" in records:
        layers = records["pairs"]["layer"].to_numpy()
        records["pairs"] = records["pairs"].filter(layers == layers.max())
    replace(result, records=records, provenance=json.loads(facts)).save(folder)
    judged = study(name).check(folder).result  # with commands that name the variables
    assert judged is not None
    return judged.save(folder)


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
