"""What all verbs share: errors in one line, exit codes, progress bars, and where output goes."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from theodolite.core.rows import Row

WRONG_USE = 2
INTERRUPTED = 130

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

Key = Annotated[
    str | None, typer.Option(help="Array to read from an .npz or .safetensors file that holds several.", metavar="NAME")
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Vector columns of a table, with commas: names, first:last, patterns (dim_*), or one list column.", metavar="LIST"
    ),
]
Metrics = Annotated[str | None, typer.Option(help="Metrics to measure, with commas; see survey --list-metrics.", metavar="LIST")]
Sample = Annotated[int, typer.Option(help="Rows for metrics that compare rows with rows.", min=2, metavar="N")]
Seed = Annotated[int, typer.Option(help="Seed of the sample and the resampling.", metavar="N")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Output = Annotated[str | None, typer.Option(help="Also write the rows to this .parquet, .json or .jsonl file.", metavar="FILE")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Read the file anew, and keep nothing in the cache.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")]


def guarded(verb: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """A verb whose user errors are one line on stderr with exit code 2, and whose interruption is exit code 130."""

    @functools.wraps(verb)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        try:
            return verb(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (ValueError, OSError, ImportError, MemoryError) as error:
            if os.environ.get("THEODOLITE_DEBUG", "") not in ("", "0"):
                raise
            print(f"theodolite: {_one_line(error)}", file=sys.stderr)
            raise typer.Exit(WRONG_USE) from None
        except KeyboardInterrupt:
            print("theodolite: interrupted; nothing half-written is left behind", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None

    return run


def stdout() -> Console:
    """Where results go: coloured on a terminal, plain in a pipe."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, soft_wrap=False)


class Progress:
    """Bars on stderr while something long runs; silent where stderr is not a terminal."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars

    def rows(self, label: str, total: int | None) -> Callable[[int], None]:
        """A function that takes the number of rows just read; starts over when a further pass begins."""
        if self._bars is None:
            return lambda _: None
        task = self._bars.add_task(label, total=total)
        seen = 0

        def advance(count: int) -> None:
            nonlocal seen
            seen = count if total is not None and seen >= total else seen + count
            self._bars.update(task, completed=seen)

        return advance

    def steps(self, label: str) -> Callable[[int, int], None]:
        """A function that takes (done, total)."""
        if self._bars is None:
            return lambda _, __: None
        task = self._bars.add_task(label, total=None, visible=False)
        return lambda done, total: self._bars.update(task, completed=done, total=total, visible=True)


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress bars that vanish when the work is done."""
    if not sys.stderr.isatty():
        yield Progress(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        yield Progress(bars)


def print_json(document: Any) -> None:
    """One JSON document on stdout, with null for what is not a finite number."""
    import json

    print(json.dumps(_finite(document), indent=1, ensure_ascii=False))


def split(text: str | None) -> list[str] | None:
    """The parts of a comma-separated option."""
    return [part.strip() for part in text.split(",") if part.strip()] if text is not None else None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; try fewer rows (--sample) or a .npy file, which is read in parts"
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    return " ".join(str(error).split()) or type(error).__name__


def check_output(output: str | None) -> None:
    """Refuse a name that could not be written, before the work rather than after it."""
    from pathlib import Path

    if output is None:
        return
    path = Path(output)
    if path.suffix not in (".parquet", ".json", ".jsonl"):
        raise ValueError(f"{output!r} has no known ending for rows; use .parquet, .json or .jsonl")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first")


def save_rows(rows: list[Row], output: str | None, *, quiet: bool) -> None:
    """Write the rows where asked, and say so on the terminal."""
    if output is None:
        return
    from theodolite.core.rows import write_rows

    write_rows(rows, output)
    if not quiet:
        print(f"\n{len(rows)} rows written to {output}")
