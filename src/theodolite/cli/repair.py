"""`theodolite repair`: fit a repair on one file, apply it to others."""

from __future__ import annotations

import difflib
import inspect
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.frame import Columns, Key, Overwrite, guarded, progress, split, stdout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

app = typer.Typer(
    help="Fit a repair on vectors, and apply it to others.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="Folder a repair was saved to.")]
Vectors = Annotated[str, typer.Argument(metavar="PATH", help="File or folder of vectors.")]


@app.command("list")
@guarded
def list_command() -> None:
    """List the repairs and what each of them does.

    \b
    Example:
      theodolite repair list
    """  # noqa: D301  # \b keeps the lines of the example apart
    from rich.padding import Padding
    from rich.text import Text

    from theodolite.repairs import REPAIRS

    console = stdout()
    for name, kind in REPAIRS.items():
        console.print(Text(name, style="bold"))
        summary = (kind.__doc__ or "").strip().partition("\n")[0]
        settings = ", ".join(f"{key}={value!r}" for key, value in accepted(kind).items())
        console.print(Padding(Text(summary), (0, 0, 0, 4), expand=False))
        if settings:
            console.print(Padding(Text(settings, style="dim"), (0, 0, 0, 4), expand=False))


@app.command("fit")
@guarded
def fit_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which repair; see repair list.")],
    path: Vectors,
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Folder to save the fitted repair to.")],
    directions: Annotated[int | None, typer.Option(help="Principal directions to remove.", min=0, metavar="N")] = None,
    clusters: Annotated[int | None, typer.Option(help="Clusters to repair one by one.", min=1, metavar="N")] = None,
    components: Annotated[int | None, typer.Option(help="Dimensions to keep.", min=1, metavar="N")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Any other setting of the repair; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(help="For weighted: the other side of scored pairs, row by row with PATH.", metavar="FILE")
    ] = None,
    scores: Annotated[
        str | None, typer.Option(help="For weighted: one score a pair, a line each or .npy.", metavar="FILE")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of k-means, where the repair has one.")] = 0,
    key: Key = None,
    columns: Columns = None,
    overwrite: Overwrite = False,
) -> None:
    """Learn a repair from vectors, and save it to a folder.

    \b
    Examples:
      theodolite repair fit global vectors.npy --to my-repair --directions 12
      theodolite repair fit cluster-based vectors.npy --to my-repair --clusters 27
      theodolite repair fit weighted a.npy --pairs b.npy --scores s.txt --to r
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.repairs import save_repair
    from theodolite.spaces import read

    kind = repair_named(name)
    asked = {"directions": directions, "clusters": clusters, "components": components}
    repair = kind(**settings_of(kind, {key: value for key, value in asked.items() if value is not None}, option or [], seed))
    if bool(pairs) != bool(scores) or (pairs and not hasattr(repair, "fit_pairs")):
        raise ValueError("--pairs and --scores go together, and only with the repair 'weighted'")
    refuse_existing(to, overwrite=overwrite)
    opened = read(path, key=key, columns=split(columns))
    with progress() as bars:
        watched = opened.watched(bars.rows("fitting", opened.n))
        if pairs and scores:
            repair.fit_pairs(watched, read(pairs, key=key, columns=split(columns)), read_scores(scores))
        else:
            repair.fit(watched)
    save_repair(repair, to, overwrite=overwrite)
    print(f"{name} fitted on {path} and saved to {to}")
    if pairs:
        print(f"Pearson of cosines with scores {repair.pearson_before_:.4f} → {repair.pearson_:.4f} on these pairs")
    elif hasattr(repair, "fit_pairs"):
        print("its weights are all 1, which removes whole directions: --pairs and --scores let it learn them")
    print(f"apply it with: theodolite repair apply {to} {path} --to repaired.npy")


@app.command("apply")
@guarded
def apply_command(
    folder: Folder,
    path: Vectors,
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="File to write: .npy, .safetensors or .parquet.")],
    key: Key = None,
    columns: Columns = None,
    overwrite: Overwrite = False,
) -> None:
    """Apply a fitted repair to vectors, and write the result to a new file.

    \b
    Example:
      theodolite repair apply my-repair vectors.npy --to repaired.npy
    """  # noqa: D301  # \b keeps the lines of the example apart
    from theodolite.core.moments import Moments
    from theodolite.repairs import load_repair
    from theodolite.spaces import read
    from theodolite.spaces.cache import cached_moments

    repair = load_repair(folder)
    opened = read(path, key=key, columns=split(columns))
    with progress() as bars:
        rows = write_repaired(repair, opened.watched(bars.rows("repairing", opened.n)), to, overwrite=overwrite)
        written = read(to)
        after = Moments.of(written.watched(bars.rows("measuring", written.n)))
        before = cached_moments(path, key=key, columns=split(columns), data=opened)
    print(f"{rows:,} vectors written to {to}: {change(before, after)}")


def read_scores(path: str) -> Any:
    """One number a pair, from a text file with one a line or from an array."""
    import numpy as np

    from theodolite.core.vectors import array
    from theodolite.spaces import read

    values = np.load(path, allow_pickle=False) if path.endswith(".npy") else array(read(path))
    if values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 1):
        raise ValueError(f"{path} has shape {values.shape}; scores are one number a pair")
    return values.ravel()


def write_repaired(repair: Any, data: Any, to: str | Path, *, overwrite: bool) -> int:
    """Write the repaired blocks; their width is known once the first has come."""
    from itertools import chain

    from theodolite.spaces import write_vectors
    from theodolite.spaces.write import check_target

    check_target(to, overwrite=overwrite)
    blocks: Iterator[NDArray[Any]] = iter(repair.transform_blocks(data))
    first = next(blocks)
    return write_vectors(chain([first], blocks), to, n=data.n, d=first.shape[1], dtype=first.dtype, overwrite=overwrite)


def change(before: Any, after: Any) -> str:
    """Mean cosine and IsoScore, before → after."""
    import warnings

    from theodolite.cli.numbers import number
    from theodolite.metrics.cosine import mean_cosine
    from theodolite.metrics.isoscore import iso_score
    from theodolite.metrics.registry import UndefinedMetricWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        cosine, score = [(number(measure(before)), number(measure(after))) for measure in (mean_cosine, iso_score)]
    return f"mean cosine {cosine[0]} → {cosine[1]}, IsoScore {score[0]} → {score[1]}"


def repair_named(name: str) -> Any:
    """The repair of that name, or an error that suggests one."""
    from theodolite.repairs import REPAIRS

    for known, kind in REPAIRS.items():
        if known.replace("-", "_").lower() == name.replace("-", "_").lower():
            return kind
    close = difflib.get_close_matches(name, REPAIRS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(REPAIRS)}"
    raise ValueError(f"there is no repair {name!r}; {hint}")


def accepted(kind: Any) -> dict[str, Any]:
    """The settings a repair's constructor takes, with their defaults."""
    parameters = inspect.signature(kind).parameters.values()
    gathering = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {parameter.name: parameter.default for parameter in parameters if parameter.kind not in gathering}


def settings_of(kind: Any, asked: dict[str, Any], options: list[str], seed: int) -> dict[str, Any]:
    """Settings for the constructor from the options given; a setting it does not have is an error that lists those it has."""
    known = accepted(kind)
    given = dict(asked)
    for text in options:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--option {text!r} must read KEY=VALUE")
        given[key] = parsed(value)
    settings = {}
    for key, value in given.items():
        name = next((name for name in (key, f"n_{key}") if name in known), None)
        if name is None:
            raise ValueError(f"{kind.__name__} has no setting {key!r}; it has {', '.join(known) or 'none'}")
        settings[name] = value
    return settings | {name: seed for name in ("seed", "random_state") if name in known and name not in settings}


def parsed(text: str) -> Any:
    """A value as JSON reads it (numbers, true, null, lists), or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def refuse_existing(folder: str, *, overwrite: bool) -> None:
    """An existing folder is an error before the work rather than after it."""
    from pathlib import Path

    if Path(folder).exists() and not overwrite:
        raise FileExistsError(f"{folder} exists already; choose another folder, or say --overwrite")
