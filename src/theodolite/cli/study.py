"""`theodolite study`: list, show, run, check, export."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import CHECK_FAILED, console, print_json, say, show

app = typer.Typer(
    help="Run a paper's experiments on your models, and judge its claims by the measurements.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A study by name (see study list), or the path of a study's .toml.")]
Run = Annotated[
    str | None,
    typer.Option("--to", metavar="FOLDER", help="Folder of the run; theodolite-studies/NAME by default.", show_default=False),
]


@app.command("list")
def list_command(as_json: opt.AsJson = False) -> None:
    """List the studies.

    \b
    Example:
      theodolite study list
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.reports.blocks import Paragraph, print_blocks
    from theodolite.studies import study, study_names

    studies = [study(name) for name in study_names()]
    if as_json:
        print_json([{"name": item.name, "title": item.title, "claims": [claim.id for claim in item.claims]} for item in studies])
        return
    blocks = []
    for known in studies:
        counts = f"{len(known.claims)} claims, {len(known.spec.printed)} printed numbers"
        blocks.append(Paragraph(f"  {known.title} ({counts})", "bold", lead=known.name))
        blocks.append(Paragraph(known.spec.citation, "dim", indent=6))
    blocks.append(Paragraph("run one with: theodolite study run NAME --model MODEL --data FOLDER", "dim"))
    print_blocks(blocks, console())


@app.command("show")
def show_command(name: Name) -> None:
    """Print a study's TOML file, to read it or to start your own study from it.

    \b
    Examples:
      theodolite study show rp21
      theodolite study show rp21 > mine.toml
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.studies import study

    print(study(name).show(), end="")


@app.command("run")
@opt.reading_options("data", "own", "kind", "column", "score_range", "encoding", "trust_remote_code")
def run_command(
    context: typer.Context,
    name: Name,
    models: Annotated[
        list[str],
        typer.Option("--model", "-m", metavar="MODEL", help="Folder or Hub id (ID@REVISION) of an encoder; may be repeated."),
    ],
    tasks: Annotated[
        list[str] | None, typer.Option("--task", help="Run only this task of the study; may be repeated.", metavar="NAME")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds separated by commas; the study's own by default.", metavar="LIST")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Measure only these layers: numbers separated by commas, or last.", metavar="LIST")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use the study's small sizes: fast, but with wide intervals.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a setting of the study, such as tuning.epochs=1; may be repeated.", metavar="KEY=VALUE"
        ),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            help="How encoders unknown to the study were last trained: pre-trained (language modelling) or tuned.",
            metavar="ORIGIN",
        ),
    ] = None,
    to: Run = None,
    workers: opt.Workers = None,
    engine: opt.Engine = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print which steps are missing, and what would be downloaded."),
    ] = False,
    text: opt.Text = True,
    trust_plan: Annotated[
        bool, typer.Option("--trust-plan", help="Run the plan of your own study, which is Python code next to its TOML file.")
    ] = False,
    as_json: opt.AsJson = False,
    everything: opt.Everything = False,
    **_reading: Any,
) -> None:
    """Run the missing steps of a study, judge its claims, and write the report.

    Every step is stored under a hash of everything that decides its result: run the same command again to resume, and a changed
    setting repeats only the steps that depend on it.

    \b
    Examples:
      theodolite study run rp21 -m bert-base-uncased -m roberta-base
      theodolite study run il23 -m ./my-encoder --data ./data --seeds 0,1,2 --workers 2
      theodolite study run zs22 -m ./my-encoder --data ./data --task pos --quick
      theodolite study run rp21 -m demo --data ./data --set tuning.epochs=1
      theodolite study run rp21 -m ./my-encoder --data ./data --origin pre-trained
      theodolite study run il23 -m ./my-encoder --own train=a.csv --own dev=b.csv --kind classification
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.studies import study

    chosen = study(name)
    typed = opt.typed_options(context, "models", "as_json", "everything")
    if dry_run:
        options = {key: value for key, value in typed.items() if key not in ("dry_run", "workers", "engine", "text")}
        say(str(chosen.plan(models, **options, downloads=True)))
        return
    result = chosen.run(models, **typed)
    page = result.report(chosen.folder(to) / "report.html", text=text)
    if as_json:
        print_json(result.to_dict())
    else:
        show(result, everything=everything)
        say(f"report: {page}; rows: {page.with_name('rows.parquet')}")
    if result.provenance["failed"]:
        raise typer.Exit(CHECK_FAILED)


@app.command("check")
def check_command(
    name: Name,
    to: Run = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 if a claim is contradicted.")] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="Also write the run with these verdicts as a page (.html, .md), or its tables (.tex).", metavar="FILE"),
    ] = None,
    as_json: opt.AsJson = False,
    everything: opt.Everything = False,
) -> None:
    """Compare a run's numbers with the printed ones, side by side, and judge the claims again.

    A number of another model is never called a reproduction: it is shown next to the printed one, with its model's name.

    \b
    Example:
      theodolite study check rp21
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.reports.blocks import print_blocks
    from theodolite.reports.summary import comparison_blocks, opening_blocks, verdict_blocks
    from theodolite.studies import study

    check = study(name).check(to)
    if page is not None:
        check.result.report(page)
    if as_json:
        print_json(
            {
                "answer": asdict(answer) if (answer := check.result.answer) else None,
                "checked": [asdict(comparison) for comparison in check.comparisons],
                "verdicts": [asdict(verdict) for verdict in check.verdicts],
            }
        )
    else:
        opening = opening_blocks(check.result)
        verdicts = [block for block in verdict_blocks(check.verdicts) if everything or not block.detail]
        print_blocks([*opening, *verdicts, *comparison_blocks(check.comparisons)], console())
    if strict and any(verdict.measured.outcome == "contradicted" for verdict in check.verdicts):
        raise typer.Exit(CHECK_FAILED)


@app.command("export")
def export_command(
    name: Name,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to write.")],
    to: Run = None,
) -> None:
    """Write a run's rows and item-level records, with the hashes of its steps, without weights, vectors or texts.

    The folder can be committed; `study check` and `report` read it as they read a run. A folder that holds other seeds or tasks
    of the same run gets these too: slices may come from several machines.

    \b
    Example:
      theodolite study export rp21 records/rp21
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.studies import study

    print(f"records: {study(name).export(folder, to=to)}")
