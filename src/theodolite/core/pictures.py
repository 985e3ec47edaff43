"""Pictures of clouds: a seeded sample of the rows on the first three principal directions, with facts about each row."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from theodolite.core.files import atomic_file, parse_json, reading
from theodolite.core.moments import centred
from theodolite.core.sampling import sample_rows
from theodolite.core.spectrum import fixed_signs
from theodolite.core.vectors import array

POINTS = 10_000  # default number of points in a picture
AXES = ("x", "y", "z")
COMMON = "common"  # what `about` says of the frame of a picture that is drawn from the origin
EXACT = 2048  # dimensions up to which all directions are computed to find three
_OWN_COLUMNS = {*AXES, "row"}


@dataclass(frozen=True, eq=False)
class Picture:
    """Points of a cloud on its first three principal directions.

    Parameters
    ----------
    points
        Coordinates (n, 3), centred.
    explained
        Share of the variance on each of the three directions.
    rows
        The points' row numbers in the cloud.
    about
        Model, state, layer and task, as the fields of a row.
    columns
        One value per point under each name, such as `token`, `text`, `label`, `pos`, `cluster` and `frequency` (on the Zipf
        scale: log10 of the occurrences per thousand million words, about 0 to 8).
    """

    points: NDArray[np.float32]
    explained: tuple[float, ...]
    rows: NDArray[np.intp]
    about: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.points)

    def thinned(self, points: int, *, without: Sequence[str] = ()) -> Picture:
        """The picture with fewer points, evenly spread over its rows, and without some of its columns.

        Parameters
        ----------
        points
            The largest number of points to keep.
        without
            Names of the columns to leave out.
        """
        kept = np.linspace(0, self.n - 1, min(points, self.n)).round().astype(np.intp)
        columns = {name: [column[i] for i in kept] for name, column in self.columns.items() if name not in without}
        return Picture(self.points[kept], self.explained, self.rows[kept], self.about, columns)


def draw_picture(
    X: ArrayLike,
    *,
    columns: Mapping[str, Sequence[Any]] | None = None,
    about: Mapping[str, Any] | None = None,
    points: int = POINTS,
    seed: int = 0,
    frame: NDArray[np.float64] | None = None,
) -> Picture:
    """Project a cloud onto its first three principal directions, centred, or onto a given frame; a direction it lacks is 0.

    The directions come from all rows. Which rows are shown depends on n, `points` and `seed` alone, so that two states of one
    model show the same ones. The sign of a direction is such that its entry of largest magnitude is positive.
    """
    whole = array(X)
    mean = whole.mean(axis=0, dtype=np.float64)
    deviations, about = centred(whole, mean), dict(about or {})
    if frame is None:
        basis, start = _main_directions([deviations]), mean
    else:
        basis, start, about["frame"] = frame, np.zeros_like(mean), COMMON
    variances = np.square(deviations @ basis).sum(axis=0)
    total = float(np.einsum("ij,ij->", deviations, deviations, dtype=np.float64))
    rows = sample_rows(len(whole), points, seed=seed)
    coordinates = np.zeros((len(rows), len(AXES)), np.float32)
    coordinates[:, : basis.shape[1]] = (whole[rows] - start) @ basis
    shares = [float(value) / total if total > 0 else 0.0 for value in variances]
    shares += [0.0] * (len(AXES) - len(shares))
    facts = {name: [column[i] for i in rows.tolist()] for name, column in (columns or {}).items()}
    return Picture(coordinates, tuple(shares), rows, about, facts)


def common_frame(clouds: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """The three directions, from the origin, on which all of these clouds together are longest: (d, at most 3), orthonormal.

    They are in the order of the variance on them, as those of a single cloud are.
    """
    rows = [np.asarray(array(cloud), np.float64) for cloud in clouds]
    frame = _main_directions([entry / np.sqrt(len(entry)) for entry in rows])
    variances = sum((entry @ frame).var(axis=0) for entry in rows)
    return frame[:, np.argsort(-variances, kind="stable")]


def _main_directions(parts: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """The directions, (d, at most 3), on which the rows of all parts together are longest."""
    d = parts[0].shape[1]
    if d <= EXACT:
        _, directions = np.linalg.eigh(sum(np.asarray(entry, np.float64).T @ entry for entry in parts))
        return fixed_signs(directions[:, ::-1][:, : len(AXES)])
    # Subspace iteration: a picture needs three directions of thousands, and no more digits than a point on a screen has.
    basis = np.random.default_rng(0).standard_normal((d, 16)).astype(parts[0].dtype)
    for _ in range(8):
        basis = np.linalg.qr(sum(entry.T @ (entry @ basis) for entry in parts))[0]
    rotation = np.linalg.svd(np.concatenate([entry @ basis for entry in parts]), full_matrices=False)[2]
    return fixed_signs((basis @ rotation.T).astype(np.float64)[:, : len(AXES)])


def write_picture(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write a picture to a `.parquet` file, whole or not at all."""
    import pyarrow
    import pyarrow.parquet as parquet

    axes = {name: picture.points[:, i] for i, name in enumerate(AXES)}
    facts = {name: list(column) for name, column in picture.columns.items() if name not in _OWN_COLUMNS}
    table = pyarrow.table({**axes, "row": picture.rows, **facts})
    metadata = json.dumps({"about": dict(picture.about), "explained": picture.explained})
    with atomic_file(path) as partial:
        parquet.write_table(table.replace_schema_metadata({"theodolite": metadata}), partial)


def read_picture(path: str | os.PathLike[str]) -> Picture:
    """Read what `write_picture` wrote."""
    import pyarrow.parquet as parquet

    with reading(Path(path), "a picture of a cloud"):
        table = parquet.read_table(path)
        metadata = (table.schema.metadata or {}).get(b"theodolite")
        if metadata is None or not set(table.column_names) >= _OWN_COLUMNS:
            raise ValueError("it lacks the columns x, y, z, row or a description")
        description = parse_json(metadata)
        points = np.stack([table[name].to_numpy() for name in AXES], axis=1).astype(np.float32, copy=False)
        columns = {name: table[name].to_pylist() for name in table.column_names if name not in _OWN_COLUMNS}
        rows = table["row"].to_numpy().astype(np.intp)
        return Picture(points, tuple(description["explained"]), rows, dict(description["about"]), columns)
