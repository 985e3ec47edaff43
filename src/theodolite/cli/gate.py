"""`theodolite gate`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from theodolite.cli import options as opt
from theodolite.cli.output import CHECK_FAILED, measure


@opt.reading_options("trust_remote_code")
def gate_command(
    context: typer.Context,
    results: Annotated[
        list[str] | None,
        typer.Argument(help="Results to check; by default, what the file says to measure.", metavar="RESULT", show_default=False),
    ] = None,
    config: Annotated[str, typer.Option(help="File with the bounds.", metavar="FILE")] = "theodolite.toml",
    update: Annotated[bool, typer.Option("--update", help="Save the measurements as the new baseline.")] = False,
    as_json: opt.AsJson = False,
    output: opt.Output = None,
    report: Annotated[
        str | None, typer.Option(help="Also write a summary to this .md file, or a report to this .html file.", metavar="FILE")
    ] = None,
    everything: opt.Everything = False,
    **_reading: Any,
) -> None:
    """Check measurements against the bounds and the baseline in a theodolite.toml; exit with code 1 on a breach.

    \b
    Examples:
      theodolite gate
      theodolite gate --update
      theodolite gate survey.json probe.json --config gates/search.toml --report gate.md
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.verbs.gating import gate

    result = measure(context, gate, results or ())
    if any(finding.verdict == "bad" for finding in result.findings):
        raise typer.Exit(CHECK_FAILED)
