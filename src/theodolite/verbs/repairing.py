"""The verb `repair`: fit a repair on some vectors, apply it to others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from theodolite.core.files import require_free_folder
from theodolite.core.numbers import number_text
from theodolite.core.options import option
from theodolite.core.result import Result
from theodolite.core.states import AFTER, BEFORE
from theodolite.verbs.inputs import Reading, VectorsInput, input_name, open_input
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.surveying import provenance

if TYPE_CHECKING:
    from theodolite.core.moments import Moments
    from theodolite.core.vectors import Source
    from theodolite.repairs.base import Repair

# What is reported of a repair: the two numbers it is most often fitted for.
CHANGE = ("mean_cosine", "iso_score")


def fit(
    name: str,
    source: Any,
    /,
    *,
    to: str | os.PathLike[str] | None = None,
    directions: int | None = None,
    clusters: int | None = None,
    components: int | None = None,
    settings: dict[str, Any] | None = None,
    pairs: Any = None,
    scores: Any = None,
    seed: int = 0,
    key: str | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    layers: str | int | Sequence[int] = "last",
    overwrite: bool = False,
    progress: bool | Progress | None = None,
) -> Repair:
    """Learn a repair from vectors, and save it to a folder if one is named.

    Parameters
    ----------
    name
        Which repair: a name from `REPAIRS`, such as `zero-mean`, `global` or `whitening`.
    source
        Vectors, a file, or a space, of which one layer is taken.
    to
        Folder to save the fitted repair to.
    directions, clusters, components
        Number of principal directions to remove, of clusters, of dimensions to keep, if the repair has that setting.
    settings
        Any other settings of the repair.
    pairs, scores
        For `weighted`: the other side of scored pairs, row by row with `source`, and one score per pair (array or file).
    seed
        Seed of k-means, if the repair uses it.
    key, columns, delimiter, header
        Where in a file the vectors are, as `theodolite.verbs.inputs.Reading` describes them.
    layers
        Which layer of a space; the last by default.
    overwrite
        Whether a repair that is in the folder may be replaced.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.

    Returns
    -------
    Repair
        A fitted scikit-learn transformer.
    """
    from theodolite.core.vectors import array
    from theodolite.repairs import make_repair, save_repair
    from theodolite.spaces.readers.labels import read_scores

    repair = make_repair(name, directions=directions, clusters=clusters, components=components, seed=seed, **(settings or {}))
    if (pairs is None) != (scores is None) or (pairs is not None and not hasattr(repair, "fit_pairs")):
        raise ValueError(
            f"{option('pairs', 'FILE')} and {option('scores', 'FILE')} go together, and only with the repair 'weighted'"
        )
    if to is not None:
        require_free_folder(to, overwrite=overwrite)
    reading = Reading(key=key, columns=columns, delimiter=delimiter, header=header)
    vectors = _vectors(source, reading, layers)
    with progress_bars(progress) as bars:
        watched = vectors.watched(bars.rows("fitting", vectors.n))
        if pairs is not None:
            values = read_scores(scores) if isinstance(scores, (str, os.PathLike)) else scores
            repair.fit_pairs(watched, array(_vectors(pairs, reading, layers)), values)
        else:
            repair.fit(watched)
    if to is not None:
        save_repair(repair, to, overwrite=overwrite)
    return repair


def apply(
    repair: Repair | str | os.PathLike[str],
    source: Any,
    /,
    *,
    to: str | os.PathLike[str],
    key: str | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    layers: str | int | Sequence[int] = "last",
    overwrite: bool = False,
    progress: bool | Progress | None = None,
) -> Result:
    """Apply a fitted repair to vectors of any size, and write the result to a new file.

    In memory, `repair.transform(X)` does the same.

    Parameters
    ----------
    repair
        A fitted repair, or the folder it was saved to.
    source
        Vectors, a file, or a space, of which one layer is taken.
    to
        File to write: `.npy`, `.safetensors` or `.parquet`.
    key, columns, delimiter, header
        Where in a file the vectors are, as `theodolite.verbs.inputs.Reading` describes them.
    layers
        Which layer of a space; the last by default.
    overwrite
        Whether the file may be replaced.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.

    Returns
    -------
    Result
        Mean cosine and IsoScore before and after.
    """
    from theodolite.core.moments import Moments
    from theodolite.repairs import load_repair
    from theodolite.spaces import read, write_vectors
    from theodolite.spaces.writers import require_vectors_file

    require_vectors_file(to, overwrite=overwrite)
    fitted = load_repair(repair) if isinstance(repair, (str, os.PathLike)) else repair
    reading = Reading(key=key, columns=columns, delimiter=delimiter, header=header)
    vectors = _vectors(source, reading, layers)
    if vectors.d != fitted.n_features_in_:
        fault = f"{input_name(source)} has {vectors.d} dimensions, the repair was fitted on {fitted.n_features_in_}"
        raise ValueError(f"{fault}; apply it to vectors of the model and layer that it was fitted on")
    with progress_bars(progress) as bars:
        blocks = fitted.transform_blocks(vectors.watched(bars.rows("repairing", vectors.n)))
        rows = write_vectors(blocks, to, n=vectors.n, dtype=None, overwrite=overwrite)
        written = read(to)
        after = Moments.of(written.watched(bars.rows("measuring", written.n)))
        before = _moments(source, vectors, reading)
    return _change(before, after, to, rows)


def _vectors(source: Any, reading: Reading, layers: str | int | Sequence[int]) -> Source:
    from theodolite.core.vectors import source as open_vectors
    from theodolite.metrics.cloud import Cloud
    from theodolite.spaces.space import Space, choose_layers

    opened = open_input(source, reading)
    if isinstance(opened, VectorsInput):
        return opened.vectors.source if isinstance(opened.vectors, Cloud) else opened.vectors
    assert isinstance(opened, Space)
    chosen = choose_layers(layers, opened.layers)
    if len(chosen) != 1:
        raise ValueError(f"a repair belongs to one layer; {option('layers', str(layers))} names {len(chosen)}")
    return open_vectors(opened[chosen[0]])


def _moments(source: Any, vectors: Source, reading: Reading) -> Moments:
    from pathlib import Path

    from theodolite.core.moments import Moments
    from theodolite.spaces.cache import cached_moments

    if isinstance(source, (str, os.PathLike)) and Path(source).is_file():
        return cached_moments(source, data=vectors, **reading.of_file())
    return Moments.of(vectors)


def _change(before: Moments, after: Moments, to: str | os.PathLike[str], count: int) -> Result:
    from theodolite.core.rows import Row, current_versions
    from theodolite.metrics.registry import METRICS, label_of

    rows = []
    for state, moments in ((BEFORE, before), (AFTER, after)):
        about: dict[str, Any] = {"state": state, "n": moments.n, "d": moments.d, "versions": current_versions()}
        for name in CHANGE:
            value, reason = METRICS[name].value(moments)
            rows.append(Row(metric=name, value=value, reason=reason, **about))
    result = Result(verb="repair", title=f"{count:,} vectors written to {os.fspath(to)}", rows=tuple(rows))
    changes = [
        f"{label_of(name)} {number_text(result.value(name, state=BEFORE))} → {number_text(result.value(name, state=AFTER))}"
        for name in CHANGE
    ]
    return replace(result, notes=(", ".join(changes),), provenance=provenance())
