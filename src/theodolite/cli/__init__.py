"""The command line: one thin module per verb, which parses options, calls the verb and prints its result."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point of the command `theodolite`."""
    try:
        from theodolite.cli.app import app_for
        from theodolite.cli.output import end_on_sigterm

        arguments = sys.argv[1:]
        if "--debug" in arguments:  # allowed anywhere, before or after the verb
            arguments.remove("--debug")
            os.environ["THEODOLITE_DEBUG"] = "1"
        end_on_sigterm()
        app_for(arguments)(arguments, prog_name="theodolite")
    except KeyboardInterrupt as interruption:
        print("theodolite: interrupted", file=sys.stderr)
        sys.exit(143 if type(interruption).__name__ == "Terminated" else 130)
