"""The verb `verify`: whether a model made these vectors, and if not, which setting differs."""

from __future__ import annotations

import math
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
from theodolite.metrics.populations import Populations, two_populations
from theodolite.probes import correspondence
from theodolite.verbs.inputs import (
    APPLICABLE,
    Reading,
    ReadingOptions,
    Texts,
    encoder_name,
    encoding_options,
    reads_input,
)
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.setting_trials import SettingTrial, VerifiedVectors, found_elsewhere, one_trial, paired_rows, try_settings
from theodolite.verbs.surveying import cloud_facts, provenance

if TYPE_CHECKING:
    from theodolite.core.vectors import Indices
    from theodolite.models.reencoding import EncodingSetting

ROWS, ROWS_OF_A_MIXTURE, ROWS_OF_FILES = 64, 150, 10_000  # rows that are checked
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
    """Check whether a model made the stored vectors, or whether they equal another file's: re-encode some texts, relate the rows.

    If the vectors differ from the model's, other settings are tried: pooling, prompt, length limit, and the order of the rows.
    Without a model, two files are compared, such as the vectors that a server returned and those of the original model.

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
        Prompt before each text; by default the model's own, if it has one.
    rows
        Number of rows to check; by default 64 with a model, 150 if the file looks like a mixture, and 10,000 for two files.
    seed
        Random seed for choosing these rows.
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
        those that mean that the vectors are the model's. For each setting tried, one row has the median cosine between stored
        and new vectors. `provenance["verified"]` has the relation, the setting and the rows that do not fit.

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
            f"give either a model ({option('model', 'MODEL')} and {option('texts', 'FILE')}) or a second file of vectors to "
            "compare with"
        )
    if rows is not None and rows < 1:
        raise ValueError(f"{option('rows', str(rows))} must be at least 1")
    with progress_bars(progress) as bars:
        stored = VerifiedVectors.of(source, options, bars, seed)
        if original is not None:
            if prompt is not None:
                raise ValueError(f"{option('prompt', 'TEXT')} is for a model; leave it out for two files of vectors")
            return _files(
                stored, VerifiedVectors.of(original, options, bars, seed), source, original, rows or ROWS_OF_FILES, seed
            )
        return _model(stored, source, model, prompt, rows, seed, options, bars)


def _files(stored: VerifiedVectors, other: VerifiedVectors, source: Any, original: Any, rows: int, seed: int) -> Result:
    """The answer for two files."""
    left, right, basis = paired_rows(stored, other.ids, other.cloud.n, f"vectors of {other.name}")
    looked_at = sample_rows(len(left), rows, seed=seed)
    left, right = left[looked_at], right[looked_at]
    expected = other.take(right)
    trial = SettingTrial(correspondence(expected, stored.take(left), seed=seed), expected.shape[1])
    if trial.relation.verdict == "different":
        few = sample_rows(len(left), ROWS, seed=seed)
        if moved := found_elsewhere(stored, expected[few], left[few], seed):
            trial, left = moved, left[few]
    facts = [cloud_facts(side.cloud, side.name) for side in (stored, other)]
    step: tuple[Command, ...] = ()
    if basis == "order" and isinstance(source, (str, os.PathLike)) and isinstance(original, (str, os.PathLike)):
        words = command("compare", os.fspath(original), os.fspath(source), paired="")
        step = (Command(words=words, why="see every number"),)
    report = _Report(stored, other.name, left, basis, [trial], None)
    return report.result(step, facts)


def _model(
    stored: VerifiedVectors,
    source: Any,
    model: Any,
    prompt: str | None,
    rows: int | None,
    seed: int,
    options: Reading,
    bars: Progress,
) -> Result:
    """The answer for a model."""
    from theodolite.models.reencoding import EncodingSetting, Reencoder

    texts, ids = _texts(stored, options, model)
    left, right, basis = paired_rows(stored, ids, len(texts), "texts")
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
    trials = try_settings(stored, left[looked_at], reader, declared, seed)
    best = min(trials, key=lambda trial: trial.rank)
    if best.relation.verdict == "partly re-embedded" and rows is None and len(looked_at) < min(ROWS_OF_A_MIXTURE, len(left)):
        # Some rows are not the model's: more of them are named.
        assert best.setting is not None
        looked_at = sample_rows(len(left), ROWS_OF_A_MIXTURE, seed=seed)
        reader = Reencoder(encoder, [texts[row] for row in right[looked_at]], layer=options.layers, options=passed)
        trials.remove(best)
        trials = [one_trial(stored, left[looked_at], reader, best.setting, seed), *trials]
    name = encoder_name(model)
    report = _Report(stored, name, left[looked_at], basis, trials, declared, groups)
    facts = {"model": name, "unit": unit, "prompt": declared.prompt, "max_length": declared.max_length, "texts": len(looked_at)}
    inputs = [cloud_facts(stored.cloud, stored.name) | {"unit": unit, "encoder": facts}]
    return report.result(tuple(_next_step(report, source, model, options, prompt)), inputs)


def _texts(stored: VerifiedVectors, options: Reading, model: Any) -> tuple[Sequence[str], Sequence[str] | None]:
    """The texts of the vectors and their ids: those that were named, or those that the vectors bring along."""
    if not options.has_texts() and stored.texts is not None:
        return stored.texts, stored.ids
    from theodolite.models.tokens import text_inputs

    named = Texts.of(replace(options.only(APPLICABLE["encoder"]), unit="mean"), model)
    inputs = text_inputs(named.texts, "mean")
    if inputs.second is not None:
        raise ValueError(f"{named.name} has two texts per row, but a vector belongs to one text; give {option('texts', 'FILE')}")
    return inputs.texts, named.ids


def _looked_at(left: Indices, groups: Populations | None, rows: int | None, seed: int) -> Indices:
    """Numbers of the pairs to check: at random, or as many of each population if the file looks like two."""
    if groups is None or rows is not None:
        return sample_rows(len(left), rows or ROWS, seed=seed)
    chosen = []
    for group in (groups.minority, groups.majority):
        members = np.flatnonzero(np.isin(left, group))
        chosen.append(members[sample_rows(len(members), ROWS_OF_A_MIXTURE // 2, seed=seed)])
    both = np.sort(np.concatenate(chosen))
    return both if len(both) else sample_rows(len(left), ROWS, seed=seed)


@dataclass(frozen=True, eq=False)
class _Report:
    """What was tried, and what the answer says about it."""

    stored: VerifiedVectors
    expected: str  # the model, or the vectors of the other file
    rows: Indices
    basis: str
    trials: Sequence[SettingTrial]
    declared: EncodingSetting | None
    groups: Populations | None = None

    @property
    def best(self) -> SettingTrial:
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
        shared: dict[str, Any] = {"model": self.expected, "n": len(self.rows), "d": cloud.d}
        rows = [
            Row(metric="median_cosine", value=trial.relation.numbers["median_cosine"], setting=trial.words, **shared)
            for trial in self.trials
            if "median_cosine" in trial.relation.numbers
        ]
        rows.append(Row(metric="share_reproduced", value=best.relation.share, setting=best.words, **shared))
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
        """The conclusion for the verdict."""
        relation, those = self.best.relation, f"those of {self.expected}"
        apart = f" ({listed_rows(self.misfits, len(self.rows))} do not fit)" if self.misfits else ""
        is_stored = relation.side != "A"  # whether the stored vectors were made from the others
        cosine = relation.numbers.get("median_cosine")
        close = "" if cosine is None else f": the median cosine between corresponding rows is {cosine:.2f}"
        r2 = max((relation.numbers.get(name, 0.0) for name in ("r2_a_to_b", "r2_b_to_a")), default=0.0)
        before = "" if is_stored else "before they were "
        sentences = {
            "identical": f"The vectors are {those}: all {len(self.rows):,} rows checked are identical{apart}.",
            "same up to precision": f"The vectors are {those} {before}rounded to {relation.detail}{apart}."
            if relation.side
            else f"The vectors are {those} up to {relation.detail}{apart}.",
            "same up to length": f"The vectors are {those} with different row lengths{apart}: cosines are equal, distances and "
            "dot products are not.",
            "nearly the same": f"The vectors are nearly {those}{apart}: the median cosine between corresponding rows is "
            f"{cosine or 1:.4f}, as from quantised weights, another runtime or another revision.",
            "first dimensions": f"The vectors are {those} {before}cut to the {relation.detail}{apart}.",
            "turned": f"The vectors are {those} after a rotation or reflection{apart}: queries that were not rotated in the same "
            "way cannot search them.",
            "linear map": f"The vectors are a linear map of {those}, which explains {share_text(r2)} of unseen rows: queries "
            "that did not go through the same map cannot search them.",
            "partly re-embedded": f"{len(self.misfits):,} of {len(self.rows):,} rows checked are not "
            f"{those}{self._changes(' with ')}; the others are {relation.detail}.",
            "different": f"The vectors are not {those}{close}.",
            ANOTHER_MODEL: f"None of the settings tried gives these vectors from {self.expected}{close}.",
            ANOTHER_SETTING: f"The vectors are {those}{self._up_to()}, but with {self._changes()}{self._order()}.",
        }
        return sentences[self.verdict]

    def _changes(self, before: str = "") -> str:
        """What the setting that fits does in another way than the declared one; empty if it is the declared one."""
        setting = self.best.setting
        return "" if setting is None or self.declared in (None, setting) else before + setting.changes(self.declared)

    def _up_to(self) -> str:
        """How the vectors differ from those of the setting that fits, in brackets; empty if they do not."""
        relation = self.best.relation
        words = ": ".join(filter(None, [relation.verdict, relation.detail]))
        return "" if relation.verdict == "identical" else f" ({words})"

    def _order(self) -> str:
        """Where the rows are that are not where they belong; empty if they are."""
        if self.best.moved is None:
            return ""
        n = self.stored.cloud.n
        shifts = np.unique((self.best.moved - self.rows) % n)  # the last rows may have come round to the beginning
        count = min(int(shifts[0]), n - int(shifts[0]))
        side = "later" if count == shifts[0] else "earlier"
        where = f"{count} row{'s' * (count > 1)} {side}" if len(shifts) == 1 else "elsewhere"
        joint = ", and with " if self._changes() else ""
        return f"{joint}the rows in another order: all {len(self.rows):,} rows checked are found {where}"

    def _reasons(self) -> Iterator[str]:
        relation, groups = self.best.relation, self.groups
        if self.verdict == "partly re-embedded":
            yield f"Rows that do not fit: {', '.join(map(str, self.misfits[:10]))}{', …' if len(self.misfits) > 10 else ''}."
        if groups is not None:
            both = (groups.minority, groups.majority)
            wrong = [f"{np.isin(self.misfits, group).sum()} of {np.isin(self.rows, group).sum()}" for group in both]
            yield (
                f"The file looks like two populations, of {len(both[0]):,} and {len(both[1]):,} rows: {wrong[0]} rows checked "
                f"in the smaller one and {wrong[1]} in the larger one do not fit."
            )
        if relation.verdict == "different" and self.best.d != self.stored.cloud.d:
            yield f"The vectors have {self.stored.cloud.d:,} dimensions, and those of {self.expected} have {self.best.d:,}."
        if relation.verdict == "different" and relation.detail:
            yield f"{relation.detail[:1].upper()}{relation.detail[1:]}."

    def _conditions(self) -> Iterator[str]:
        n = self.stored.cloud.n
        yield f"texts and vectors are paired by their {self.basis}" if self.declared else f"rows are paired by their {self.basis}"
        if len(self.rows) < n:
            share = share_text(1 - 0.05 ** (1 / len(self.rows)))  # which a sample in which every row fits leaves open
            unseen = f"if {share} of the file came from elsewhere, 5% of such samples would miss it"
            yield f"{len(self.rows):,} of {n:,} rows were checked; {unseen}"


def _next_step(report: _Report, source: Any, model: Any, options: Reading, prompt: str | None) -> Iterator[Command]:
    """The same command with the setting that gives these vectors, or with more rows; none if neither would help."""
    setting, declared = report.best.setting, report.declared
    assert declared is not None
    changed: dict[str, Any] = {} if prompt is None else {"prompt": prompt}
    if report.verdict == ANOTHER_SETTING and setting is not None and setting != declared:
        why, own, new = "verify with that setting", asdict(declared), asdict(setting)
        changed |= {name: value for name, value in new.items() if value != own[name]}
    else:
        # A linear map takes more rows than dimensions.
        rows = max(500, math.ceil(1.7 * (report.stored.cloud.d + 1)))
        if report.verdict in PASSED or report.best.moved is not None or rows > report.stored.cloud.n:
            return
        why, changed["rows"] = "check more rows", rows
    texts = options.texts or ""
    if all(isinstance(value, (str, os.PathLike)) for value in (source, model, texts)):
        layer = {} if options.layers == "last" else {"layers": str(options.layers)}
        names = [name for name in Reading.__dataclass_fields__ if name not in ("tokenizer", "layers")]
        typed: dict[str, Any] = {**options.typed(names), **layer, **{name: str(value) for name, value in changed.items()}}
        yield Command(words=command("verify", os.fspath(source), model=os.fspath(model), **typed), why=why)
        return
    given = "".join(f", {name}={value!r}" for name, value in changed.items())
    yield Command(words=f"th.verify(X, model=model, texts=texts{given})", why=why)
