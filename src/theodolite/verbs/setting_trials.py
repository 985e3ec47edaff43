"""What stored vectors are compared with: their rows, paired with texts or other vectors, under one setting after another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.metrics.cloud import Cloud
from theodolite.metrics.populations import LOOKED_AT
from theodolite.probes import Correspondence, correspondence
from theodolite.spaces.space import choose_layers
from theodolite.verbs.comparing import common_rows
from theodolite.verbs.inputs import (
    APPLICABLE,
    FILE_OPTIONS,
    EncoderInput,
    Reading,
    VectorsInput,
    input_kind,
    input_name,
    open_input,
    short_name,
)

if TYPE_CHECKING:
    from theodolite.core.vectors import Floats, Indices
    from theodolite.models.reencoding import EncodingSetting, Reencoder
    from theodolite.verbs.progress import Progress

SCREENED = 8  # short texts that every setting is first tried on
TRIALS = 3  # settings that are tried on all rows then
PROMISING = 0.6  # agreement on the short texts that a setting must reach for it; binary vectors of the right one have 0.8
MOST_LIMITS = 32  # length limits that are tried one by one


@dataclass(frozen=True, eq=False)
class VerifiedVectors:
    """Stored vectors with the ids and texts of their rows, as far as they have any."""

    name: str
    cloud: Cloud
    ids: Sequence[str] | None
    texts: Sequence[str] | None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Any, options: Reading, bars: Progress, seed: int) -> VerifiedVectors:
        of_vectors = replace(options.only(FILE_OPTIONS), columns=options.columns)
        kind = input_kind(source, of_vectors)
        if kind == "encoder":
            raise ValueError(f"{input_name(source)} is an encoder; name the stored vectors first, and the encoder as the model")
        opened = open_input(source, Reading() if kind == "space" else of_vectors.only(APPLICABLE[kind]))
        assert not isinstance(opened, EncoderInput)
        if isinstance(opened, VectorsInput):
            cloud = opened.cloud(bars, sample=LOOKED_AT, seed=seed, cache=False)
            names = opened.other_columns
            column = next((name for name in ("sentence", "text") if name in names), None)
            texts = None if column is None else opened.labels(column, n=cloud.n)
            return cls(short_name(opened.name), cloud, opened.ids(n=cloud.n), texts, opened.notes)

        layer = choose_layers(options.layers, opened.layers)[-1]
        columns = {name: list(map(str, opened.rows[name])) for name in ("id", "sentence") if name in opened.rows}
        name = short_name(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else opened.origin.model or "space"
        cloud = Cloud(opened[layer], sample=LOOKED_AT, seed=seed)
        return cls(name, cloud, columns.get("id"), columns.get("sentence"))

    def take(self, rows: Indices) -> Floats:
        """Some of the vectors, in any order."""
        different, position = np.unique(rows, return_inverse=True)
        return self.cloud.replay().take(different)[position]

    def nearest(self, vectors: Floats) -> Indices:
        """The number of the stored row that is nearest to each of some vectors by cosine."""
        width = min(self.cloud.d, vectors.shape[1])
        queries = _unit(vectors[:, :width])
        best, number, start = np.full(len(queries), -np.inf), np.zeros(len(queries), np.intp), 0
        for block in self.cloud.replay().blocks():
            cosines = queries @ _unit(block[:, :width]).T
            nearest, value = cosines.argmax(axis=1), cosines.max(axis=1)
            number, best = np.where(value > best, nearest + start, number), np.maximum(value, best)
            start += len(block)
        return number


def _unit(rows: Any) -> Floats:
    lengths = np.linalg.norm(np.asarray(rows, dtype=np.float64), axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


def paired_rows(stored: VerifiedVectors, ids: Sequence[str] | None, n: int, what: str) -> tuple[Indices, Indices, str]:
    """Row numbers of the stored vectors and of what they belong to, one for one, and what they were paired by."""
    if stored.ids is not None and ids is not None:
        first, second = common_rows(stored.ids, ids)
        if not len(first):
            raise ValueError(
                f"no id of {stored.name} (such as {stored.ids[0]!r}) is an id of the {what} (such as {ids[0]!r}); give the "
                f"{what} of these vectors"
            )
        return first, second, "ids"
    if stored.cloud.n != n:
        why = "" if stored.ids is None and ids is None else "; only one of the two has ids, so they are paired by their order"
        raise ValueError(
            f"{stored.name} has {stored.cloud.n:,} vectors, but there are {n:,} {what}{why}; give equal numbers in the same "
            "order, or both with ids"
        )
    return np.arange(n), np.arange(n), "order"


@dataclass(frozen=True, eq=False)
class SettingTrial:
    """How some stored rows are related to the rows that a setting gives, or to those of another file."""

    relation: Correspondence
    d: int  # dimensions of the vectors that were expected
    setting: EncodingSetting | None = None
    moved: Indices | None = None  # where the rows were found, if not where they belong

    @property
    def rank(self) -> tuple[int, float]:
        """The better the smaller: a relation that holds exactly for all rows, one that nearly does, or for some rows, or none."""
        verdict = self.relation.verdict
        order = {"nearly the same": 1, "partly re-embedded": 2, "linear map": 3, "different": 4}
        if verdict == "first dimensions":
            verdict = self.relation.within
        return order.get(verdict, 0), -self.relation.share

    @property
    def words(self) -> str:
        """The setting, and that rows were found elsewhere, for a row of the result."""
        order = "" if self.moved is None else "other rows"
        return ", ".join(filter(None, ["" if self.setting is None else self.setting.words(), order]))

    @property
    def is_exact(self) -> bool:
        return self.rank[0] == 0


def one_trial(stored: VerifiedVectors, rows: Indices, reader: Reencoder, setting: EncodingSetting, seed: int) -> SettingTrial:
    """How the stored rows are related to those that one setting gives."""
    expected = reader.vectors(setting)
    return SettingTrial(correspondence(expected, stored.take(rows), seed=seed), expected.shape[1], setting)


def try_settings(
    stored: VerifiedVectors, rows: Indices, reader: Reencoder, declared: EncodingSetting, seed: int
) -> list[SettingTrial]:
    """The declared setting, and if it does not give the stored rows, others until one does."""
    expected, vectors = reader.vectors(declared), stored.take(rows)
    trials = [SettingTrial(correspondence(expected, vectors, seed=seed), expected.shape[1], declared)]
    if trials[0].is_exact:
        return trials
    if moved := found_elsewhere(stored, expected, rows, seed, exactly=True):
        return [*trials, replace(moved, setting=declared)]
    for setting in chain([declared], _screened(vectors, reader, declared)):
        if setting != declared:
            trials.append(one_trial(stored, rows, reader, setting, seed))
        limit = _other_limit(vectors, reader, trials[-1])
        if limit is not None:
            trials.append(one_trial(stored, rows, reader, replace(setting, max_length=limit), seed))
        if any(trial.is_exact for trial in trials):
            return trials
    if min(trials, key=lambda trial: trial.rank).relation.verdict == "different":
        few = np.arange(min(len(rows), 2 * SCREENED))
        for unit, encoded in reader.poolings(declared.prompt, declared.max_length, few).items():
            setting = replace(declared, unit=unit)
            if found_elsewhere(stored, encoded, rows[few], seed) and (
                moved := found_elsewhere(stored, reader.vectors(setting), rows, seed)
            ):
                return [*trials, replace(moved, setting=setting)]
    return trials


def _screened(vectors: Floats, reader: Reencoder, declared: EncodingSetting) -> Iterator[EncodingSetting]:
    """A few settings other than the declared one that may give the vectors, the likeliest first, by how short texts come out."""
    prompts = dict.fromkeys([declared.prompt, *reader.prompts])
    lengths = reader.lengths("")
    short = np.argsort(np.where(lengths > 0, lengths, lengths.max() + 1), kind="stable")[:SCREENED]
    scores: dict[EncodingSetting, float] = {}
    for prompt in prompts:
        longest = int(reader.lengths(prompt)[short].max())
        within = [limit for limit in reader.limits(1, longest - 1) if limit != declared.max_length]
        is_cut = declared.max_length is not None and longest > declared.max_length
        for limit in [declared.max_length, *within, *(reader.limits(longest, None)[:1] if is_cut else [])]:
            pooled = reader.poolings(prompt, limit, short)
            for unit, encoded in pooled.items():
                # The pooling of a sentence model gives what its own encode does, up to length.
                if unit == "text" or "text" not in pooled or _agreement(encoded, pooled["text"]) < 1 - 1e-6:
                    setting = replace(declared, unit=unit, prompt=prompt, max_length=limit)
                    scores[setting] = _agreement(vectors[short], encoded)
    scores.pop(declared, None)
    promising = (setting for setting, score in scores.items() if score >= PROMISING)
    yield from sorted(promising, key=lambda setting: -scores[setting])[:TRIALS]


def _agreement(first: Floats, second: Floats) -> float:
    """Upper quartile of the cosines of the same rows in two representations, about their means if there are enough rows.

    Not the median, since only some of the rows may be of the setting that is looked for.
    """
    width = min(first.shape[1], second.shape[1])
    sides = [np.asarray(side[:, :width], dtype=np.float64) for side in (first, second)]
    if len(first) > 2:
        sides = [side - side.mean(axis=0) for side in sides]
    return float(np.quantile(np.einsum("ij,ij->i", *map(_unit, sides)), 0.75))


def _other_limit(vectors: Floats, reader: Reencoder, trial: SettingTrial) -> int | None:
    """The length limit under which the rows that do not fit a setting were made, if these are the long ones."""
    setting, misfits = trial.setting, np.array(trial.relation.outliers, dtype=np.intp)
    if trial.relation.verdict != "partly re-embedded" or setting is None or setting.max_length is None:
        return None
    lengths = reader.lengths(setting.prompt)
    fitting = int(np.delete(lengths, misfits).max())
    shortest = int(lengths[misfits].min())
    if fitting >= shortest:
        return None
    limits = reader.limits(fitting, shortest - 1)
    if shortest - fitting <= MOST_LIMITS and shortest <= setting.max_length:
        limits = [*limits, *(limit for limit in range(fitting, shortest) if limit not in limits)]
    if shortest > setting.max_length:
        limits = reader.limits(setting.max_length + 1, None)
    few = misfits[np.argsort(lengths[misfits], kind="stable")[:2]]
    scores = {
        limit: float(np.mean(np.einsum("ij,ij->i", *(_unit(side[:, : vectors.shape[1]]) for side in (encoded, vectors[few])))))
        for limit in limits
        if limit != setting.max_length
        for encoded in [reader.vectors(replace(setting, max_length=limit), few)]
        if encoded.shape[1] >= vectors.shape[1]
    }
    return max(scores, key=scores.__getitem__) if scores else None


def found_elsewhere(
    stored: VerifiedVectors, expected: Floats, rows: Indices, seed: int, *, exactly: bool = False
) -> SettingTrial | None:
    """The relation of rows to the stored ones that they are nearest to, if those are other rows and the relation is certain."""
    nearest = stored.nearest(expected)
    if (nearest != rows).mean() < 0.5 or len(np.unique(nearest)) < 0.9 * len(rows):  # rows of another model crowd on a few
        return None
    trial = SettingTrial(correspondence(expected, stored.take(nearest), seed=seed), expected.shape[1], moved=nearest)
    return trial if trial.rank[0] <= (0 if exactly else 1) and trial.relation.verdict != "turned" else None
