"""`theodolite study`: a paper's experiments by one command, and its claims judged."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.frame import AsJson, guarded, print_json, split, stdout
from theodolite.cli.texts import Data
from theodolite.cli.tune_seeds import seeds_of

if TYPE_CHECKING:
    from theodolite.studies.spec import Study
    from theodolite.studies.step import Step

app = typer.Typer(
    help="Run a paper's experiments on your models, and hold its claims against what was measured.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
FAILED = 1
FOLDER = "theodolite-studies"

Name = Annotated[str, typer.Argument(metavar="NAME", help="rp21, il23, zs22, or the path of a study's .toml.")]
Run = Annotated[
    str | None, typer.Option("--to", metavar="FOLDER", help=f"Folder of the run; {FOLDER}/NAME by default.", show_default=False)
]


@app.command("list")
@guarded
def list_command(as_json: AsJson = False) -> None:
    """List the studies.

    \b
    Example:
      theodolite study list
    """  # noqa: D301
    from theodolite.cli.study_show import show_studies
    from theodolite.studies.spec import load_study, study_names

    studies = [load_study(name) for name in study_names()]
    if as_json:
        print_json([{"name": one.name, "title": one.title, "claims": [claim.id for claim in one.claims]} for one in studies])
    else:
        show_studies(stdout(), studies)


@app.command("run")
@guarded
def run_command(
    name: Name,
    model: Annotated[
        list[str], typer.Option("--model", "-m", metavar="MODEL", help="Hub id or folder of an encoder; may be repeated.")
    ],
    task: Annotated[
        list[str] | None, typer.Option(help="Only these tasks of the study; may be repeated.", metavar="NAME")
    ] = None,
    data: Data = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds with commas; the study's own by default.", metavar="LIST")] = None,
    layers: Annotated[str | None, typer.Option(help="Only these layers, with commas.", metavar="LIST")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The study's own small sizes: minutes, and wide intervals.")] = False,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a setting of the study, such as tuning.epochs=1; may be repeated.", metavar="KEY=VALUE"
        ),
    ] = None,
    to: Run = None,
    jobs: Annotated[int, typer.Option(help="Steps at a time, each in a process of its own.", min=1, metavar="N")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is done and what is missing, and leave.")] = False,
    no_text: Annotated[bool, typer.Option("--no-text", help="Leave all sentences and tokens out of the report.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run what is missing of a study, judge its claims, and write the report.

    Every step is kept under a hash of all that decides its result: the same command goes on where it was stopped, and a changed
    setting does anew only what depends on it.

    \b
    Examples:
      theodolite study run rp21 -m bert-base-uncased -m roberta-base
      theodolite study run il23 -m ./my-encoder --data ./data --seeds 0,1,2 --jobs 2
      theodolite study run zs22 -m ./my-encoder --data ./data --task pos --quick
      theodolite study run rp21 -m demo --data ./data --set tuning.epochs=1
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.cli.study_show import Lines, Shown, show_plan, show_result
    from theodolite.studies.identity import identify
    from theodolite.studies.plans import PLANS
    from theodolite.studies.runner import run_plan
    from theodolite.studies.spec import load_study
    from theodolite.studies.store import Store
    from theodolite.studies.wish import Wish

    study = load_study(name)
    wish = Wish(
        models=tuple(identify(one) for one in dict.fromkeys(model)),
        data=data,
        tasks=tuple(task or ()),
        seeds=tuple(seeds_of(seeds)) if seeds else (),
        layers=tuple(_numbers(layers)),
        quick=quick,
        changes=dict(map(_change, change or [])),
    )
    _require_names(wish.models)
    folder = Path(to or f"{FOLDER}/{study.name}")
    plan = PLANS[study.plan](study.settings, wish)
    store = Store(folder / "steps")
    if dry_run:
        show_plan(stdout(), plan, store)
        return
    watcher: Any = Shown(store, plan) if sys.stderr.isatty() else Lines(store, plan)
    with watcher:
        outcome = run_plan(
            plan, store, models={one.name: one.place for one in wish.models}, data=data, jobs=jobs, watcher=watcher
        )
    result = finish(study, plan, store, folder, wish=wish, text=not no_text, failed=len(outcome.failed) + len(outcome.blocked))
    if as_json:
        print_json({"folder": str(folder), "verdicts": [asdict(verdict) for verdict in result], "failed": _failures(outcome)})
    else:
        show_result(stdout(), study, result, folder, outcome)
    if outcome.failed:
        raise typer.Exit(FAILED)


@app.command("check")
@guarded
def check_command(
    name: Name,
    to: Run = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where a claim does not hold.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hold a run's numbers against the printed ones, side by side, and judge the claims again.

    A number of another model is never called a reproduction: it stands beside the printed one, and says whose it is.

    \b
    Example:
      theodolite study check rp21
    """  # noqa: D301
    import json

    from theodolite.cli.study_show import show_checked, show_verdicts
    from theodolite.core.rows import read_rows
    from theodolite.studies.check import check
    from theodolite.studies.judge import judge
    from theodolite.studies.spec import load_study

    study = load_study(name)
    place = Path(to or f"{FOLDER}/{study.name}") / "rows.parquet"
    if not place.is_file():
        raise FileNotFoundError(f"there is no run of {study.name} at {place.parent}; make one with: theodolite study run {name}")
    rows = read_rows(place)
    facts = json.loads(place.with_name("run.json").read_text(encoding="utf-8"))
    found, verdicts = check(study, rows, quick=bool(facts.get("quick"))), judge(study, rows)
    if as_json:
        print_json({"checked": [asdict(one) for one in found], "verdicts": [asdict(one) for one in verdicts]})
    else:
        show_checked(stdout(), found)
        show_verdicts(stdout(), verdicts)
    if strict and any(one.measured.outcome == "does not hold" for one in verdicts):
        raise typer.Exit(FAILED)


def finish(study: Study, plan: list[Step], store: Any, folder: Path, *, wish: Any, text: bool, failed: int) -> list[Any]:
    """Judge what is there, and write the folder and its report."""
    from theodolite.reports.page import write_report
    from theodolite.reports.run_folder import read_run
    from theodolite.studies.judge import judge, notes_of
    from theodolite.studies.results import gather, publish

    rows = gather(study, plan, store)
    verdicts = judge(study, rows)
    notes = notes_of(study)
    notes += _of_models(wish.models)
    if wish.quick:
        notes.append("Made with --quick: the study's small sizes. The intervals are wide, and the verdicts are of a try.")
    if failed:
        notes.append(f"{failed} steps of this run failed or wait for one that did: what they measure is missing here.")
    facts = {
        "command": shlex.join(["theodolite", *sys.argv[1:]]),
        "models": {one.name: one.weights for one in wish.models},
        "quick": wish.quick,
        "settings": wish.settings(study.settings),
        "notes": notes,
    }
    publish(study, plan, store, folder, rows=rows, verdicts=verdicts, facts=facts)
    write_report([read_run(folder)], folder / "report.html", text=text)
    return verdicts


def _of_models(models: tuple[Any, ...]) -> list[str]:
    """What has to be said of an encoder whose start is no pre-trained state."""
    from theodolite.models.demo import NAME

    known = any(one.name == NAME for one in models)
    said = f"{NAME} is a contrastively fine-tuned sentence encoder: where this page says pre-trained, it is as it comes."
    return [said] if known else []


def _require_names(models: tuple[Any, ...]) -> None:
    names = [one.name for one in models]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"two models are called {twice!r}, so that their rows could not be told apart; rename one of the folders"
        )


def _numbers(text: str | None) -> list[int]:
    try:
        return [int(part) for part in split(text) or []]
    except ValueError:
        raise ValueError(f"--layers {text!r} must be whole numbers with commas, such as 0,6,12") from None


def _change(text: str) -> tuple[str, Any]:
    """A setting and its value, which is read as TOML: 3, 0.1, true, [1, 2] or a word."""
    import json

    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise ValueError(f"--set {text!r} must be KEY=VALUE, such as tuning.epochs=1")
    try:
        return key.strip(), json.loads(value)
    except ValueError:
        return key.strip(), value.strip()


def _failures(outcome: Any) -> list[dict[str, str]]:
    return [{"step": step.title, "error": str(error)} for step, error in outcome.failed.items()]
