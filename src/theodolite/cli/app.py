"""All verbs under one command."""

from __future__ import annotations

from copy import copy
from typing import Annotated

import typer

from theodolite.cli import (
    cache,
    calibrate,
    compare,
    demo,
    extract,
    gate,
    mcp,
    migrate,
    probe,
    repair,
    report,
    study,
    survey,
    tune,
    verify,
)
from theodolite.cli.options import CommandGroup, SectionedCommand
from theodolite.cli.output import guarded

HELP = """Survey embedding spaces: measure how a space is shaped, see what fine-tuning did to it, and repair it.

\b
Examples:
  theodolite survey vectors.npy
  theodolite compare before.npy after.npy
  theodolite verify vectors.npy -m ./my-encoder --texts texts.txt
  theodolite probe vectors.npy --labels tags.txt
  theodolite repair advise vectors.npy --labels topics.txt
  theodolite repair fit global vectors.npy --to my-repair
  theodolite calibrate -m ./my-encoder
  theodolite migrate old-model new-model --retrieval ./my-collection
  theodolite tune bert-base-uncased --task stsb --to tuned
  theodolite compare bert-base-uncased tuned/model --task stsb
  theodolite study run rp21 -m bert-base-uncased
  theodolite report rows.parquet --to report.html
  theodolite demo
"""

app = typer.Typer(
    cls=CommandGroup,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: reads well in a pipe, and costs no import of rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("survey")(survey.survey_command)
app.command("compare")(compare.compare_command)
app.command("verify")(verify.verify_command)
app.command("probe")(probe.probe_command)
app.command("extract")(extract.extract_command)
app.command("tune")(tune.tune_command)
app.add_typer(repair.app, name="repair")
app.command("calibrate")(calibrate.calibrate_command)
app.command("gate")(gate.gate_command)
app.command("migrate")(migrate.migrate_command)
app.add_typer(study.app, name="study")
app.command("report")(report.report_command)
app.add_typer(cache.app, name="cache")
app.command("demo")(demo.demo_command)
app.command("mcp")(mcp.mcp_command)
for group in (app, repair.app, study.app, cache.app):
    for registered in group.registered_commands:
        assert registered.callback is not None
        registered.cls, registered.callback = SectionedCommand, guarded(registered.callback)


def app_for(arguments: list[str]) -> typer.Typer:
    """The app with no more than the command that the arguments begin with: building all of them delays every start."""
    chosen = copy(app)
    chosen.registered_commands = [command for command in app.registered_commands if command.name in arguments[:1]]
    chosen.registered_groups = [group for group in app.registered_groups if group.name in arguments[:1]]
    return chosen if chosen.registered_commands or chosen.registered_groups else app


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        print(f"theodolite {version('theodolite')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the full traceback of an error (also: THEODOLITE_DEBUG=1).")
    ] = False,
) -> None:
    """Options before the verb: a callback prints the version, and `main` reads --debug wherever it stands."""
