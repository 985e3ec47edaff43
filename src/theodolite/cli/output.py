"""What all commands share: errors in one line, exit codes, and where results go."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer

from theodolite.cli.options import PRINTING, typed_options
from theodolite.core.spelling import ON_COMMAND_LINE, plain_json, visible

if TYPE_CHECKING:
    from rich.console import Console

    from theodolite.core.result import Result

CHECK_FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
TERMINATED = 143

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def guarded(command: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """A command whose user errors are one line on stderr with exit code 2, and whose interruption is exit code 130 or 143."""

    @functools.wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        token = ON_COMMAND_LINE.set(True)
        usual, warnings.formatwarning = warnings.formatwarning, _warning_line
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (ValueError, OSError, ImportError, MemoryError) as error:
            if os.environ.get("THEODOLITE_DEBUG", "") not in ("", "0"):
                raise
            say(f"theodolite: {_one_line(error)}", to_stderr=True)
            raise typer.Exit(WRONG_USE) from None
        except KeyboardInterrupt as interruption:
            say(f"theodolite: {_interrupted()}", to_stderr=True)
            raise typer.Exit(exit_code(interruption)) from None
        finally:
            ON_COMMAND_LINE.reset(token)
            warnings.formatwarning = usual

    return run


def _interrupted() -> str:
    from theodolite.core.files import UNFINISHED

    begun = [str(folder) for folder in sorted(UNFINISHED) if folder.exists() and UNFINISHED.isdisjoint(folder.parents)]
    if not begun:
        return "interrupted; no partial files are left behind"
    return f"interrupted; finished work is in {' and '.join(begun)}; run the same command again to continue from it"


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM; it ends as if by Ctrl-C, so that what is being written is cleaned up."""


def exit_code(interruption: KeyboardInterrupt) -> int:
    """The exit code after an interruption, as shells have it: 128 and the number of the signal."""
    return TERMINATED if isinstance(interruption, Terminated) else INTERRUPTED


def end_on_sigterm() -> None:
    """Have SIGTERM, which schedulers and containers send, end the process like Ctrl-C."""
    import signal

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cut the cleaning up short
        raise Terminated

    signal.signal(signal.SIGTERM, stop)


def say(text: str, *, to_stderr: bool = False) -> None:
    """Print lines in which no name from outside can steer the terminal."""
    print("\n".join(map(visible, text.split("\n"))), file=sys.stderr if to_stderr else sys.stdout)


def _warning_line(message: Any, category: type[Warning], *_: Any, **__: Any) -> str:
    """A warning as one line without the code that gave it."""
    kind = "warning" if category.__module__.startswith("theodolite") else category.__name__
    return f"theodolite: {kind}: {' '.join(str(message).split())}\n"


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory; try fewer rows (--sample) or a .npy file, which is read in parts"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    return " ".join(str(error).split()) or type(error).__name__


@dataclass(frozen=True)
class Output:
    """Where a result goes: the terminal or JSON, and the files that were asked for.

    Made before the work, so that a file that could not be written is refused before anything long.
    """

    as_json: bool = False
    output: str | None = None
    report: str | None = None
    text: bool = True
    everything: bool = False

    def __post_init__(self) -> None:
        from theodolite.core.rows import require_rows_file

        if self.output is not None:
            require_rows_file(self.output)
        if self.report is None and not self.text:
            raise ValueError("--no-text leaves texts out of a report; add --report FILE, or leave it out")
        if self.report is not None:
            from theodolite.reports.page import check_target

            check_target(self.report, overwrite=True)

    @classmethod
    def of(cls, context: typer.Context) -> Output:
        """What the options of a command ask for."""
        return cls(**{name: context.params[name] for name in PRINTING if name in context.params})

    def show(self, result: Result) -> None:
        """Print a result, unless JSON was asked for, which comes in one document at the end."""
        if self.as_json:
            return
        try:
            show(result, everything=self.everything)
        except SystemExit:  # what Rich raises where nobody reads on, as in `| head`; files that were asked for are still written
            if self.output is None and self.report is None:
                raise

    def finish(self, result: Result) -> None:
        """Write the files, and print the JSON document or where the files are."""
        written = []
        if self.output is not None:
            result.save(self.output)
            written.append(f"{len(result)} rows written to {self.output}")
        if self.report is not None:
            result.report(self.report, text=self.text)
            written.append(f"report written to {self.report}")
        if self.as_json:
            print_json(result.to_dict())
            return
        for sentence in written:
            say(f"\n{sentence}")


def measure(
    context: typer.Context, verb: Callable[..., Result], *inputs: Any, without: Sequence[str] = (), **arguments: Any
) -> Result:
    """Call a verb with its inputs and the options that were typed, print its result, and write the files that were asked for."""
    output = Output.of(context)
    result = verb(*inputs, **typed_options(context, *without, *PRINTING), **arguments)
    output.show(result)
    output.finish(result)
    return result


def show(result: Result, *, everything: bool = False) -> None:
    """Print a result to the terminal."""
    from theodolite.reports.blocks import print_blocks
    from theodolite.reports.summary import blocks_of

    print_blocks(blocks_of(result, everything=everything), console())


def console() -> Console:
    """Where results go: coloured on a terminal, plain in a pipe."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, soft_wrap=False)


def print_json(document: Any) -> None:
    """Print one JSON document to stdout."""
    import json

    print(plain_json(json.dumps(document, indent=1, ensure_ascii=False)))
