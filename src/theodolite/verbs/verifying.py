"""The verb `verify`: are these vectors that model's, and if not, what was done in another way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from theodolite.core.numbers import listed_rows, share_text
from theodolite.core.result import Answer, Command, Result
from theodolite.core.rows import Row
from theodolite.core.sampling import sample_rows
from theodolite.core.spelling import command, option
from theodolite.verbs.comparing import common_rows
from theodolite.verbs.inputs import (
    APPLICABLE,
    FILE_OPTIONS,
    EncoderInput,
    Reading,
    ReadingOptions,
    Texts,
    VectorsInput,
    encoder_name,
    encoding_options,
    input_kind,
    input_name,
    open_input,
    reads_input,
    short_name,
)
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.surveying import cloud_facts, provenance

if TYPE_CHECKING:
    from theodolite.core.vectors import Floats, Indices
    from theodolite.metrics.cloud import Cloud
    from theodolite.metrics.populations import Populations
    from theodolite.models.reencoding import EncodingSetting, Reencoder
    from theodolite.probes.corresponding_rows import Correspondence

ROWS, ROWS_OF_A_MIXTURE, ROWS_OF_FILES = 64, 150, 10_000  # rows that are looked at
SCREENED = 8  # short texts that every setting is first tried on
TRIALS = 3  # settings that are tried on all rows then
MOST_LIMITS = 32  # length limits that are tried one by one
ANOTHER_SETTING, ANOTHER_MODEL = "another setting", "another model"
PASSED = ("identical", "same up to precision", "same up to length")
UNITS = ("text", "mean", "cls", "last", "max")


@reads_input()
def verify(  # type: ignore[misc]  # `layers` is a reading option with a default of its own
    source: Any,
    original: Any = None,
    /,
    *,
    model: Any = None,
    prompt: str | None = None,
    rows: int | None = None,
    seed: int = 0,
    layers: str | int = "last",
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Say whether stored vectors are those of a model, or of another file: re-encode some of the texts and relate the rows.

    If the vectors are not what the model gives, other settings are tried: pooling, prompt and length limit, and other orders of
    the rows. Two files are compared without a model, such as the vectors that a server returned and those of the original.

    Parameters
    ----------
    source
        The stored vectors: an array, a frame, a file, or a space.
    original
        The vectors that they should be, instead of a model.
    model
        The encoder that should have made them (id, folder, `demo`, or loaded). Its texts are `texts`, `task` or `own`, or those
        that a space or a column `text` brings along. Texts and vectors are paired by their ids if both have them, and by their
        order otherwise.
    prompt
        What is put before every text; the model's own prompt, if it has one, by default.
    rows
        Number of rows to look at: 64 with a model, 150 if the file looks like a mixture, and 10,000 for two files by default.
    seed
        Seed of the choice of these rows.
    layers
        Which layer of a space or encoder; the last by default.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.
    **reading
        How the inputs are read: the fields of `theodolite.verbs.inputs.Reading`.

    Returns
    -------
    Result
        Its answer has one of the verdicts of `compare` for paired rows, `another setting` or `another model`; `PASSED` lists
        those that mean that the vectors are the model's. One row per setting that was tried has the median cosine of a stored
        vector with the new one. `provenance["verified"]` has the relation, the setting and the rows that do not fit.

    Raises
    ------
    ValueError
        Vectors and texts cannot be paired, or there is nothing to compare the vectors with.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 8)).astype("float32")
    >>> verify(X.astype("float16"), X).answer.verdict
    'same up to precision'
    """
    options = Reading(**{**reading, "layers": layers})
    if (model is None) == (original is None):
        raise ValueError(
            f"name what the vectors should be: a model with {option('model', 'MODEL')} and {option('texts', 'FILE')}, or a second "
            "file of vectors; one of the two"
        )
    if rows is not None and rows < 1:
        raise ValueError(f"{option('rows', str(rows))} must be at least 1")
    with progress_bars(progress) as bars:
        stored = _Stored.of(source, options, bars, seed)
        if original is not None:
            if prompt is not None:
                raise ValueError(f"{option('prompt', 'TEXT')} is for a model; leave it out for two files of vectors")
            return _files(stored, _Stored.of(original, options, bars, seed), source, original, rows or ROWS_OF_FILES, seed)
        return _model(stored, source, model, prompt, rows, seed, options, bars)


@dataclass(frozen=True, eq=False)
class _Stored:
    """Stored vectors with the ids and texts of their rows, as far as they have any."""

    name: str
    cloud: Cloud
    ids: Sequence[str] | None
    texts: Sequence[str] | None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Any, options: Reading, bars: Progress, seed: int) -> _Stored:
        from theodolite.metrics.cloud import Cloud
        from theodolite.metrics.populations import LOOKED_AT

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
        from theodolite.spaces.space import choose_layers

        layer = choose_layers(options.layers, opened.layers)[-1]
        columns = {name: list(map(str, opened.rows[name])) for name in ("id", "sentence") if name in opened.rows}
        name = short_name(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else opened.origin.model or "space"
        cloud = Cloud(opened[layer], sample=LOOKED_AT, seed=seed)
        return cls(name, cloud, columns.get("id"), columns.get("sentence"))

    def take(self, rows: Indices) -> Floats:
        """Some of the vectors, in any order."""
        different, place = np.unique(rows, return_inverse=True)
        return self.cloud.replay().take(different)[place]

    def nearest(self, vectors: Floats) -> Indices:
        """The number of the stored row that is nearest to each of some vectors by cosine."""
        width = min(self.cloud.d, vectors.shape[1])
        queries = _unit(vectors[:, :width])
        best, number, start = np.full(len(queries), -np.inf), np.zeros(len(queries), np.intp), 0
        for block in self.cloud.replay().blocks():
            cosines = queries @ _unit(block[:, :width]).T
            place = cosines.argmax(axis=1)
            value = cosines[np.arange(len(queries)), place]
            number, best = np.where(value > best, place + start, number), np.maximum(value, best)
            start += len(block)
        return number


def _unit(rows: Any) -> Floats:
    lengths = np.linalg.norm(np.asarray(rows, dtype=np.float64), axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))


def _paired(stored: _Stored, ids: Sequence[str] | None, n: int, what: str) -> tuple[Indices, Indices, str]:
    """Row numbers of the stored vectors and of what they belong to, one for one, and what they were paired by."""
    if stored.ids is not None and ids is not None:
        first, second = common_rows(stored.ids, ids)
        if not len(first):
            raise ValueError(
                f"no id of {stored.name} (such as {stored.ids[0]!r}) is an id of the {what} (such as {ids[0]!r}); give the {what} "
                "of these vectors"
            )
        return first, second, "ids"
    if stored.cloud.n != n:
        why = "" if stored.ids is None and ids is None else "; only one of the two has ids, so that they are paired by their order"
        raise ValueError(
            f"{stored.name} has {stored.cloud.n:,} vectors, and there are {n:,} {what}{why}; give as many, in the same order, or "
            "both with ids"
        )
    return np.arange(n), np.arange(n), "order"


@dataclass(frozen=True, eq=False)
class _Trial:
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
        if verdict == "first dimensions" and "nearly" in self.relation.detail:
            verdict = "nearly the same"
        return order.get(verdict, 0), -self.relation.share

    @property
    def is_exact(self) -> bool:
        return self.rank[0] == 0


def _files(stored: _Stored, other: _Stored, source: Any, original: Any, rows: int, seed: int) -> Result:
    """The answer for two files."""
    from theodolite.probes import correspondence

    left, right, basis = _paired(stored, other.ids, other.cloud.n, f"vectors of {other.name}")
    looked_at = sample_rows(len(left), rows, seed=seed)
    left, right = left[looked_at], right[looked_at]
    expected = other.take(right)
    trial = _Trial(correspondence(expected, stored.take(left), seed=seed), expected.shape[1])
    if trial.relation.verdict == "different":
        trial = _elsewhere(stored, expected, left, seed) or trial
    facts = [cloud_facts(side.cloud, side.name) for side in (stored, other)]
    step = ()
    if all(isinstance(each, (str, os.PathLike)) for each in (source, original)):
        words = command("compare", os.fspath(original), os.fspath(source), paired="")
        step = (Command(words=words, why="see every number"),) if basis == "order" else ()
    report = _Report(stored, f"the vectors of {other.name}", left, basis, [trial], None)
    return report.result(step, facts)


def _model(
    stored: _Stored, source: Any, model: Any, prompt: str | None, rows: int | None, seed: int, options: Reading, bars: Progress
) -> Result:
    """The answer for a model."""
    from theodolite.metrics.populations import two_populations
    from theodolite.models.reencoding import EncodingSetting, Reencoder

    texts, ids = _texts(stored, options, model)
    left, right, basis = _paired(stored, ids, len(texts), "texts")
    unit = replace(options, layers="last" if options.layers == "last" else "all").unit_for(model, one_per_text=True)
    if unit not in UNITS:
        raise ValueError(f"{option('unit', unit)} must be one of {', '.join(UNITS)}: one vector per text")
    groups = two_populations(stored.cloud)
    looked_at = _looked_at(left, groups, rows, seed)
    encoder = options.load_encoder(model)
    passed = encoding_options(options, unit, stored.name, bars)
    passed = {name: passed[name] for name in ("batch_size", "allow_unknown", "progress")}
    pipeline = encoder.pipeline if unit == "text" else None
    own_prompt = "" if pipeline is None else pipeline.prompt
    # An encoder in memory keeps its own limit when it is loaded.
    limit = encoder.max_length if options.max_length is None else options.max_length
    declared = EncodingSetting(unit=unit, prompt=own_prompt if prompt is None else prompt, max_length=limit)
    reader = Reencoder(encoder, [texts[row] for row in right[looked_at]], layer=options.layers, options=passed)
    trials = _trials(stored, left[looked_at], reader, declared, seed)
    best = min(trials, key=lambda trial: trial.rank)
    if best.relation.verdict == "partly re-embedded" and rows is None and len(looked_at) < min(ROWS_OF_A_MIXTURE, len(left)):
        # Some rows are not the model's: more of them are named.
        assert best.setting is not None
        looked_at = sample_rows(len(left), ROWS_OF_A_MIXTURE, seed=seed)
        reader = Reencoder(encoder, [texts[row] for row in right[looked_at]], layer=options.layers, options=passed)
        trials = [_tried(stored, left[looked_at], reader, best.setting, seed), *(each for each in trials if each is not best)]
    name = encoder_name(model)
    report = _Report(stored, name, left[looked_at], basis, trials, declared, groups)
    facts = {"model": name, "unit": unit, "prompt": declared.prompt, "max_length": declared.max_length, "texts": len(looked_at)}
    inputs = [cloud_facts(stored.cloud, stored.name) | {"unit": unit, "encoder": facts}]
    return report.result(tuple(_next_step(report, source, model, options, prompt)), inputs)


def _texts(stored: _Stored, options: Reading, model: Any) -> tuple[Sequence[str], Sequence[str] | None]:
    """The texts of the vectors and their ids: those that were named, or those that the vectors bring along."""
    if not options.has_texts() and stored.texts is not None:
        return stored.texts, stored.ids
    from theodolite.models.tokens import text_inputs

    named = Texts.of(replace(options.only(APPLICABLE["encoder"]), unit="mean"), model)
    inputs = text_inputs(named.texts, "mean")
    if inputs.second is not None:
        raise ValueError(f"{named.name} has two texts per row, and a stored vector is that of one; give {option('texts', 'FILE')}")
    return inputs.texts, named.ids


def _looked_at(left: Indices, groups: Populations | None, rows: int | None, seed: int) -> Indices:
    """Numbers of the pairs to look at: at random, or as many of each population if the file looks like two."""
    if groups is None or rows is not None:
        return sample_rows(len(left), rows or ROWS, seed=seed)
    chosen = []
    for group in (groups.minority, groups.majority):
        members = np.flatnonzero(np.isin(left, group))
        chosen.append(members[sample_rows(len(members), ROWS_OF_A_MIXTURE // 2, seed=seed)])
    both = np.sort(np.concatenate(chosen))
    return both if len(both) else sample_rows(len(left), ROWS, seed=seed)


def _tried(stored: _Stored, rows: Indices, reader: Reencoder, setting: EncodingSetting, seed: int) -> _Trial:
    from theodolite.probes import correspondence

    expected = reader.vectors(setting)
    return _Trial(correspondence(expected, stored.take(rows), seed=seed), expected.shape[1], setting)


def _trials(stored: _Stored, rows: Indices, reader: Reencoder, declared: EncodingSetting, seed: int) -> list[_Trial]:
    """The declared setting, and if it does not give the stored rows, others until one does."""
    from theodolite.probes import correspondence

    expected, vectors = reader.vectors(declared), stored.take(rows)
    trials = [_Trial(correspondence(expected, vectors, seed=seed), expected.shape[1], declared)]
    if not trials[0].is_exact and (moved := _elsewhere(stored, expected, rows, seed, exactly=True)):
        return [*trials, replace(moved, setting=declared)]
    candidates = _screened(vectors, reader, declared) if not trials[0].is_exact else []
    for setting in [declared, *candidates[:TRIALS]]:
        if any(trial.is_exact for trial in trials):
            return trials
        if setting != declared:
            trials.append(_tried(stored, rows, reader, setting, seed))
        limit = _other_limit(vectors, reader, trials[-1])
        if limit is not None:
            trials.append(_tried(stored, rows, reader, replace(setting, max_length=limit), seed))
    if min(trials, key=lambda trial: trial.rank).relation.verdict == "different":
        pooled = reader.poolings(declared.prompt, declared.max_length, np.arange(len(rows)))
        for unit, expected in pooled.items():
            if (moved := _elsewhere(stored, expected, rows, seed)):
                trials.append(replace(moved, setting=replace(declared, unit=unit)))
                break
    return trials


def _screened(vectors: Floats, reader: Reencoder, declared: EncodingSetting) -> list[EncodingSetting]:
    """Settings other than the declared one, the likeliest first, by how a few short texts come out."""
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
    return sorted(scores, key=lambda setting: -scores[setting])


def _agreement(first: Floats, second: Floats) -> float:
    """Median cosine of the same rows in two representations, about their means if there are enough rows for a mean."""
    width = min(first.shape[1], second.shape[1])
    sides = [np.asarray(side[:, :width], dtype=np.float64) for side in (first, second)]
    if len(first) > 2:
        sides = [side - side.mean(axis=0) for side in sides]
    return float(np.median(np.einsum("ij,ij->i", *map(_unit, sides))))


def _other_limit(vectors: Floats, reader: Reencoder, trial: _Trial) -> int | None:
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


def _elsewhere(stored: _Stored, expected: Floats, rows: Indices, seed: int, *, exactly: bool = False) -> _Trial | None:
    """The relation of rows to the stored ones that they are nearest to, if those are other rows and the relation is certain."""
    from theodolite.probes import correspondence

    nearest = stored.nearest(expected)
    if (nearest != rows).mean() < 0.5 or len(np.unique(nearest)) < 0.9 * len(rows):  # rows of another model crowd on a few
        return None
    trial = _Trial(correspondence(expected, stored.take(nearest), seed=seed), expected.shape[1], moved=nearest)
    return trial if trial.rank[0] <= (0 if exactly else 1) and trial.relation.verdict != "turned" else None


@dataclass(frozen=True, eq=False)
class _Report:
    """What was tried, and what the answer says of it."""

    stored: _Stored
    expected: str  # the model, or the vectors of the other file
    rows: Indices
    basis: str
    trials: Sequence[_Trial]
    declared: EncodingSetting | None
    groups: Populations | None = None

    @property
    def best(self) -> _Trial:
        return min(self.trials, key=lambda trial: trial.rank)

    @property
    def verdict(self) -> str:
        verdict, is_model = self.best.relation.verdict, self.declared is not None
        if verdict == "different":
            return ANOTHER_MODEL if is_model else verdict
        is_other = self.best.setting != self.declared and verdict not in ("partly re-embedded", "linear map")
        return ANOTHER_SETTING if is_other or self.best.moved is not None else verdict

    @property
    def misfits(self) -> tuple[int, ...]:
        """Numbers of the stored rows that do not fit."""
        return tuple(int(self.rows[row]) for row in self.best.relation.outliers)

    def result(self, step: tuple[Command, ...], inputs: Sequence[Mapping[str, Any]]) -> Result:
        best, cloud = self.best, self.stored.cloud
        about: dict[str, Any] = {"model": self.expected, "n": len(self.rows), "d": cloud.d}
        rows = [
            Row(metric="median_cosine", value=trial.relation.numbers["median_cosine"], setting=_words(trial), **about)
            for trial in self.trials
            if "median_cosine" in trial.relation.numbers
        ]
        rows.append(Row(metric="share_reproduced", value=best.relation.share, setting=_words(best), **about))
        answer = Answer(verdict=self.verdict, sentence=self._sentence(), reasons=tuple(self._reasons())[:3], next=step)
        verified = {
            **asdict(replace(best.relation, outliers=self.misfits)),
            "declared": None if self.declared is None else asdict(self.declared),
            "setting": None if best.setting is None else asdict(best.setting),
            "looked_at": self.rows.tolist(),
            "moved_to": None if best.moved is None else best.moved.tolist(),
        }
        return Result(
            verb="verify",
            title=f"{self.stored.name} and {self.expected}",
            answer=answer,
            rows=tuple(rows),
            conditions=tuple(self._conditions()),
            notes=self.stored.notes,
            provenance=provenance(*inputs, verified=verified),
        )

    def _sentence(self) -> str:
        best, relation = self.best, self.best.relation
        model, count = self.expected, f"{len(self.rows):,}"
        if self.verdict == ANOTHER_SETTING:
            return self._setting_sentence()
        apart = f" ({listed_rows(self.misfits, len(self.rows))} do not fit)" if self.misfits else ""
        whose = "that the model gives" if self.declared is not None else "of the other file"
        cosine = relation.numbers.get("median_cosine", 0.0)
        setting = f" with {best.setting.changes(self.declared)}" if self.declared and best.setting not in (None, self.declared) else ""
        r2 = max((relation.numbers.get(name, 0.0) for name in ("r2_a_to_b", "r2_b_to_a")), default=0.0)
        first, second = ("the vectors", "theirs") if relation.side == "B" else (model, "the vectors")
        sentences = {
            "identical": f"The vectors are {_possessive(model)}: all {count} rows looked at are identical{apart}.",
            "same up to precision": f"The vectors are {_possessive(model)}, rounded to {relation.detail}{apart}."
            if relation.side == "B"
            else f"{_possessive(model)[:1].upper()}{_possessive(model)[1:]} are the vectors, rounded to {relation.detail}{apart}.",
            "same up to length": f"The vectors are {_possessive(model)} with other row lengths{apart}: cosines are equal, distances "
            "and dot products are not.",
            "nearly the same": f"The vectors are nearly {_possessive(model)}{apart}: the median cosine with those {whose} is "
            f"{cosine:.4f}, as from quantised weights, another runtime or another revision.",
            "first dimensions": f"{first[:1].upper()}{first[1:]} are the {relation.detail} dimensions of "
            f"{_possessive(model) if first == 'the vectors' else second}{apart}.",
            "turned": f"The vectors are {_possessive(model)} after a rotation or reflection{apart}: they cannot be searched with "
            "queries that were not turned in the same way.",
            "linear map": f"The vectors are a linear map of {_possessive(model)}, which explains {share_text(r2)} of unseen rows: "
            "they cannot be searched with queries that did not go through the same map.",
            "partly re-embedded": f"{len(self.misfits):,} of {count} rows looked at are not {_possessive(model)}{setting}; the "
            f"others are {relation.detail}.",
            ANOTHER_MODEL: f"No setting that was tried gives these vectors from {model}: the median cosine of the best is "
            f"{max((trial.relation.numbers.get('median_cosine', 0.0) for trial in self.trials), default=0.0):.2f}.",
            "different": f"The vectors are not {_possessive(model)}: the median cosine of a row with itself is {cosine:.2f}.",
        }
        return sentences[self.verdict]

    def _setting_sentence(self) -> str:
        """What is another way of making the same vectors, or of ordering them."""
        best, model = self.best, self.expected
        changes = [] if best.setting is None or best.setting == self.declared else [best.setting.changes(self.declared)]  # type: ignore[arg-type]
        if best.moved is not None:
            shifts = np.unique(best.moved - self.rows)
            is_shift = len(shifts) == 1
            where = f"{abs(shifts[0])} rows {'later' if shifts[0] > 0 else 'earlier'}" if is_shift else "at other rows"
            changes.append(f"the rows in another order: the vectors of all {len(self.rows)} texts looked at are {where}")
        relation = best.relation
        up_to = "" if relation.verdict == "identical" else f" ({': '.join(filter(None, [relation.verdict, relation.detail]))})"
        return f"The vectors are {_possessive(model)}{up_to}, but with {', and '.join(changes)}."

    def _reasons(self) -> Iterator[str]:
        relation, groups = self.best.relation, self.groups
        if self.verdict == "partly re-embedded":
            yield f"Rows that do not fit: {', '.join(map(str, self.misfits[:10]))}{', …' if len(self.misfits) > 10 else ''}."
        if groups is not None:
            counts = f"{len(groups.minority):,} and {len(groups.majority):,} of the {self.stored.cloud.sample.shape[0]:,} rows sampled"
            wrong = [np.isin(self.misfits, group).sum() for group in (groups.minority, groups.majority)]
            of = [np.isin(self.rows, group).sum() for group in (groups.minority, groups.majority)]
            yield (
                f"The file looks like two populations, {counts}: {wrong[0]} of {of[0]} rows of the smaller one and {wrong[1]} of "
                f"{of[1]} of the larger one are not reproduced."
            )
        if relation.verdict == "different" and self.declared is not None:
            d, made = self.stored.cloud.d, self.best.d
            yield f"{len(self.trials)} settings were tried on all {len(self.rows)} rows, after a screen of pooling, prompt and length limit."
            if made != d:
                yield f"The vectors have {d} dimensions, the model's {made}."
        if relation.verdict == "different" and relation.detail:
            yield f"{relation.detail[:1].upper()}{relation.detail[1:]}."

    def _conditions(self) -> Iterator[str]:
        n = self.stored.cloud.n
        yield f"texts and vectors are paired by their {self.basis}" if self.declared else f"rows are paired by their {self.basis}"
        if len(self.rows) < n:
            yield f"{len(self.rows):,} of {n:,} rows were looked at; {_unseen(len(self.rows))}"


def _unseen(count: int) -> str:
    """What a sample in which every row fits leaves open."""
    return f"rows of another origin stay unnoticed in 5% of samples if they are {share_text(1 - 0.05 ** (1 / count))} of the file"


def _words(trial: _Trial) -> str:
    order = "" if trial.moved is None else "other rows"
    return ", ".join(filter(None, ["" if trial.setting is None else trial.setting.words(), order]))


def _possessive(name: str) -> str:
    return name if name.startswith("the vectors") else f"those of {name}"


def _next_step(report: _Report, source: Any, model: Any, options: Reading, prompt: str | None) -> Iterator[Command]:
    """The same command with the setting that gives these vectors, or with more rows."""
    best, declared = report.best, report.declared
    assert declared is not None
    if report.verdict in PASSED:
        return
    changed: dict[str, Any] = {"prompt": prompt} if prompt is not None else {}
    names = ("unit", "max_length")
    if report.verdict == ANOTHER_SETTING and best.setting is not None and best.setting != declared:
        why = "verify with that setting"
        options = replace(options, **{name: getattr(best.setting, name) for name in names if getattr(best.setting, name) != getattr(declared, name)})
        if best.setting.prompt != declared.prompt:
            changed["prompt"] = best.setting.prompt
    else:
        why, changed["rows"] = "look at more rows", max(500, 2 * len(report.rows))
    files = [source, model, options.texts if options.texts is not None else ""]
    if all(isinstance(each, (str, os.PathLike)) for each in files):
        fields = [name for name in Reading.__dataclass_fields__ if name not in ("tokenizer", "layers")]
        typed: dict[str, Any] = {**options.typed(fields), **{name: str(value) for name, value in changed.items()}}
        if options.layers != "last":
            typed["layers"] = str(options.layers)
        yield Command(words=command("verify", os.fspath(source), model=os.fspath(model), **typed), why=why)
        return
    values = {name: getattr(options, name) for name in names if getattr(options, name) is not None} | changed
    given = "".join(f", {name}={value!r}" for name, value in values.items())
    yield Command(words=f"th.verify(X, model=model, texts=texts{given})", why=why)
