"""`theodolite cache`: where, how large, clean."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Show or clear the cache.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("where")
def where_command() -> None:
    """Print the cache folder. The variable THEODOLITE_CACHE names another.

    \b
    Example:
      theodolite cache where
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.spaces.cache import where

    print(where())


@app.command("size")
def size_command() -> None:
    """Print how much the cache holds.

    \b
    Example:
      theodolite cache size
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.core.numbers import bytes_text
    from theodolite.spaces.cache import size

    print(bytes_text(size()))


@app.command("clean")
def clean_command() -> None:
    """Delete everything in the cache. The next survey of a file reads it in full again.

    \b
    Example:
      theodolite cache clean
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.core.numbers import bytes_text
    from theodolite.spaces.cache import clean

    print(f"{bytes_text(clean())} freed")
