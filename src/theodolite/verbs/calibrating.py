"""The verb `calibrate`: from which cosine on two texts are more alike than unrelated ones, and how probable a match is."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from theodolite.core.numbers import interval_text, number_text
from theodolite.core.result import Result, table_of
from theodolite.core.spelling import option
from theodolite.verbs.inputs import (
    EncoderInput,
    Reading,
    ReadingOptions,
    VectorsInput,
    encoder_name,
    encoding_options,
    input_kind,
    input_name,
    looks_like_a_model,
    open_input,
    reads_input,
    short_name,
)
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.surveying import provenance

if TYPE_CHECKING:
    from theodolite.advice.thresholds import LabelledPairs, UnrelatedPairs
    from theodolite.core.rows import Row
    from theodolite.core.vectors import Floats
    from theodolite.spaces.space import Space

RATE = 0.01
OWN_TEXTS = 400
"""Own texts whose pairs are compared: 80,000 pairs, enough for a cutoff at 0.1 %."""
CANONICAL, OWN, NON_MATCHES = "canonical sentences", "own texts", "own non-matches"
"""The lines of the result."""


@reads_input()
def calibrate(  # type: ignore[misc]  # `layers` is a reading option with a default of its own
    source: Any,
    /,
    *,
    canonical: Any = None,
    pairs: Any = None,
    scores: Any = None,
    match: float | None = None,
    false_positive_rate: float = RATE,
    seed: int = 0,
    layers: str | int = "last",
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Find a similarity threshold that holds: how unrelated texts score, a cutoff with its interval, and how probable a match is.

    Unrelated pairs come from 250 sentences of 25 domains that are part of the package: pairs of a user's own texts, which are
    often of one domain, are too similar, and a cutoff from them would reject genuine matches. Own texts are a second line,
    labelled as such. Pairs that are known to match or not add a map from cosine to probability, or the answer that no threshold
    separates them.

    Parameters
    ----------
    source
        An encoder (id, folder, `demo`, or loaded), alone or with `task`, `own` or `texts`; or vectors of your own texts (array,
        file), or a space.
    canonical
        For vectors and spaces: the vectors of the package's sentences from the same encoder, in their order
        (`theodolite.tasks.canonical_sentences()`).
    pairs, scores
        The other side of scored pairs, row by row with `source`, and one score per pair (array or file). A space or task of
        scored pairs brings its own.
    match
        Pairs of at least this score are matches; the higher one if there are only two scores.
    false_positive_rate
        The share of unrelated pairs that may be above the cutoff.
    seed
        Seed of samples and intervals.
    layers
        Which layer of a space or encoder; the last by default.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.
    **reading
        How the input is read: the fields of `theodolite.verbs.inputs.Reading`.

    Returns
    -------
    Result
        Quantiles of unrelated cosines and cutoffs, one line for each kind of pairs (the rows' `setting`); with matches also the
        separation (AUC), the shares above each cutoff, and `records["probability"]`, the map. The first note is the answer.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> 0.4 < calibrate(X).value("cutoff", setting="own texts") < 0.7
    True
    """
    from theodolite.advice.thresholds import UnrelatedPairs

    if (pairs is None) != (scores is None):
        raise ValueError(f"{option('pairs', 'FILE')} and {option('scores', 'FILE')} go together; give both, or neither")
    options = Reading(**{**reading, "layers": layers})
    with progress_bars(progress) as bars:
        data = _opened(source, canonical, pairs, scores, match, options, bars)
    lines: dict[str, UnrelatedPairs] = {}
    if data.canonical is not None:
        lines[CANONICAL] = UnrelatedPairs.of(*data.canonical)
    if data.own is not None:
        lines[OWN] = _own_pairs(*data.own, seed=seed)
    return _result(data, lines, false_positive_rate, seed)


@dataclass(frozen=True, eq=False)
class _CalibrationInput:
    """The vectors of each line, as far as they are given."""

    name: str
    canonical: tuple[Floats, Sequence[str]] | None = None
    own: tuple[Floats, Sequence[Hashable]] | None = None
    labelled: LabelledPairs | None = None


def _opened(
    source: Any, canonical: Any, pairs: Any, scores: Any, match: float | None, options: Reading, bars: Progress
) -> _CalibrationInput:
    from theodolite.advice.folds import row_names
    from theodolite.core.vectors import array
    from theodolite.spaces.readers.label_files import read_scores

    kind = input_kind(source, options)
    is_name = isinstance(source, (str, os.PathLike)) and looks_like_a_model(source)
    if kind == "encoder" or is_name:
        for name, value in (("canonical", canonical), ("pairs", pairs)):
            if value is not None:
                raise ValueError(f"{option(name, 'FILE')} is for vectors; an encoder reads the sentences, and a task has pairs")
        return _encoded(source, match, options, bars)
    if kind in ("file", "memory") and options.layers == "last":
        options = replace(options, layers="all")  # vectors have no layers, and the default says nothing about them
    opened = open_input(source, options)
    if isinstance(opened, VectorsInput):
        X = array(opened.vectors)
        data = _CalibrationInput(short_name(opened.name), own=(X, row_names(X)))
        if pairs is not None:
            other = open_input(pairs, options)
            assert isinstance(other, VectorsInput)
            values = read_scores(scores) if isinstance(scores, (str, os.PathLike)) else scores
            second = array(other.vectors)
            sides = (X, second), (row_names(X), row_names(second))
            both = array([X, second])
            data = replace(data, own=(both, row_names(both)), labelled=_labelled(*sides, values, match))
    else:
        assert not isinstance(opened, EncoderInput)
        data = _of_space(opened, short_name(input_name(source)), options.layers, match)
    if match is not None and data.labelled is None:
        raise ValueError(f"{option('match', f'{match:g}')} is for scored pairs; give {option('pairs', 'FILE')} with their scores")
    if canonical is not None:
        data = replace(data, canonical=_canonical(canonical, data.own[0].shape[1] if data.own else None))
    return data


def _canonical(source: Any, d: int | None) -> tuple[Floats, Sequence[str]]:
    from theodolite.core.vectors import array
    from theodolite.tasks.loading import canonical_sentences

    opened = open_input(source, Reading())
    assert isinstance(opened, VectorsInput)
    X, (texts, domains) = array(opened.vectors), canonical_sentences()
    if len(X) != len(texts) or (d is not None and X.shape[1] != d):
        rule = f"one vector of {d} dimensions for each of the {len(texts)} sentences"
        raise ValueError(f"{option('canonical', 'FILE')} has shape {X.shape}; it must be {rule}, from the same encoder")
    return X, domains


def _encoded(source: Any, match: float | None, options: Reading, bars: Progress) -> _CalibrationInput:
    """The package's sentences and, if there are any, the user's texts, read by an encoder."""
    from theodolite.models.extraction import extract_space
    from theodolite.tasks.loading import canonical_sentences
    from theodolite.tasks.task import TEXT_UNIT

    task = options.declared_task()
    if task is not None and options.unit is None and not task.on_words:
        options = replace(options, unit=TEXT_UNIT)
    data = _CalibrationInput(encoder_name(source))
    opened = EncoderInput(source, options) if options.has_texts() else None
    if opened is not None:
        _ = opened.texts  # a fault in a file must not cost the loading of an encoder
    elif match is not None:
        raise ValueError(f"{option('match', f'{match:g}')} is for scored pairs; give a task that has them")
    encoder = options.load_encoder(source)
    if opened is not None:
        space = EncoderInput(encoder, options).space(bars, frequencies=False)
        data = _of_space(space, f"{data.name}, {opened.texts.name}", "last", match)
    texts, domains = canonical_sentences()
    unit = options.unit or TEXT_UNIT
    space = extract_space(encoder, texts, **encoding_options(options, unit, CANONICAL, bars))
    return replace(data, canonical=(space[space.layers[-1]], domains))


def _of_space(space: Space, name: str, layers: Any, match: float | None) -> _CalibrationInput:
    import numpy as np

    from theodolite.advice.folds import row_names
    from theodolite.core.vectors import array
    from theodolite.spaces.space import choose_layers

    chosen = choose_layers(layers, space.layers)
    if len(chosen) != 1:
        raise ValueError(f"a threshold belongs to one layer; {option('layers', str(layers))} names {len(chosen)}")
    X = array(space[chosen[0]])
    texts: Sequence[Hashable] = list(space.rows["sentence"]) if "sentence" in space.rows else row_names(X)
    data = _CalibrationInput(name, own=(X, texts))
    if "side" not in space.rows or "score" not in space.rows:
        return data
    left, right = (np.flatnonzero(np.asarray(space.rows["side"]) == side) for side in (0, 1))
    names = [texts[int(i)] for i in left], [texts[int(i)] for i in right]
    scores = np.asarray(space.rows["score"])[left]
    return replace(data, labelled=_labelled((X[left], X[right]), names, scores, match))


def _labelled(
    sides: tuple[Floats, Floats], names: tuple[Sequence[Hashable], Sequence[Hashable]], scores: Any, match: float | None
) -> LabelledPairs:
    import numpy as np

    from theodolite.advice.pair_scores import row_cosines
    from theodolite.advice.scorers import ScoredPairs
    from theodolite.advice.thresholds import LabelledPairs

    pairs = ScoredPairs(*sides, scores, names=names)  # which checks them
    kinds = np.unique(pairs.scores)
    if match is None and len(kinds) > 2:
        raise ValueError(
            f"scores run from {kinds[0]:g} to {kinds[-1]:g}; say from which one on two texts match, such as "
            f"{option('match', f'{kinds[3 * len(kinds) // 4]:.3g}')}"
        )
    bound = kinds[-1] if match is None else match
    return LabelledPairs(row_cosines(*sides), pairs.scores >= bound, pairs.groups)


def _own_pairs(X: Floats, names: Sequence[Hashable], *, seed: int) -> UnrelatedPairs:
    """Pairs of a sample of different texts."""
    import numpy as np

    from theodolite.advice.thresholds import UnrelatedPairs
    from theodolite.core.sampling import sample_rows

    different = np.array(sorted({name: row for row, name in reversed(list(enumerate(names)))}.values()))
    return UnrelatedPairs.of(X[different[sample_rows(len(different), OWN_TEXTS, seed=seed)]])


def _result(data: _CalibrationInput, lines: dict[str, UnrelatedPairs], rate: float, seed: int) -> Result:
    import numpy as np

    from theodolite.advice.thresholds import QUANTILES
    from theodolite.core.rows import Row, current_versions
    from theodolite.metrics.similarities import histogram_records

    about: dict[str, Any] = {"model": data.name, "seed": seed, "versions": current_versions()}
    rows: list[Row] = []
    cutoffs: dict[str, Row] = {}
    for label, pairs in lines.items():
        where = {**about, "setting": label, "n": len(pairs.cosines)}
        rows += [Row(metric=f"unrelated_cosine_{share:.0%}", value=pairs.quantile(share), **where) for share in QUANTILES]
        value, (low, high) = pairs.cutoff(rate, seed=seed)
        cutoffs[label] = Row(metric="cutoff", value=value, low=low, high=high, **where)
    labelled, records = data.labelled, {}
    kinds = {f"unrelated: {label}": pairs.cosines for label, pairs in lines.items()}
    if labelled is not None:
        kinds |= {"matches": labelled.cosines[labelled.matches], NON_MATCHES: labelled.cosines[~labelled.matches]}
    where = {"model": data.name, "state": "", "layer": -1}
    bins = [line for kind, cosines in kinds.items() for line in histogram_records(cosines, {**where, "pairs": kind})]
    records["similarities"] = table_of(bins)
    notes = [_answer(cutoffs, rate)]
    if labelled is not None:
        from theodolite.core.intervals import quantile_interval

        auc, (low, high) = labelled.separation(seed=seed)
        rows.append(
            Row(metric="separation", value=auc, low=low, high=high, setting="own pairs", n=len(labelled.cosines), **about)
        )
        others = np.sort(labelled.cosines[~labelled.matches])
        value = float(np.quantile(others, 1 - rate, method="higher"))
        low, high = quantile_interval(others, 1 - rate)
        where = {**about, "setting": NON_MATCHES, "n": len(others)}
        cutoffs[NON_MATCHES] = Row(metric="cutoff", value=value, low=low, high=high, **where)
        rows += [row for cutoff in cutoffs.values() for row in _shares_above(labelled, cutoff, about)]
        records["probability"] = table_of(labelled.probabilities(seed=seed))
        separates, note = _separation_note(labelled, rows)
        notes.insert(len(notes) if separates else 0, note)  # that no threshold does is the answer
    rows += cutoffs.values()
    return Result(
        verb="calibrate",
        title=data.name,
        rows=tuple(rows),
        notes=(*notes, *_warnings(cutoffs)),
        records=records,
        provenance=provenance(
            {"name": data.name, "n": sum(len(pairs.cosines) for pairs in lines.values()), "unit": "pairs"},
            false_positive_rate=rate,
        ),
    )


def _shares_above(labelled: LabelledPairs, cutoff: Row, about: dict[str, Any]) -> list[Row]:
    """How many of the matches, and of the others, are above a cutoff."""
    from theodolite.core.intervals import share_interval
    from theodolite.core.rows import Row

    rows = []
    for metric, side in (("matches_above", labelled.matches), ("non_matches_above", ~labelled.matches)):
        count, n = int((labelled.cosines[side] > cutoff.value).sum()), int(side.sum())
        low, high = share_interval(count, n)
        rows.append(Row(metric=metric, value=count / n, low=low, high=high, n=n, setting=cutoff.setting, **about))
    return rows


def _answer(cutoffs: dict[str, Row], rate: float) -> str:
    row = cutoffs.get(CANONICAL) or next(iter(cutoffs.values()))
    text = f"{number_text(row.value)} {interval_text(row.low, row.high)}".rstrip()
    whose = "unrelated pairs of the canonical sentences" if row.setting == CANONICAL else f"pairs of {row.setting}"
    return f"Cutoff {text}: {100 * rate:.3g} % of {whose} have a larger cosine"


def _separation_note(labelled: LabelledPairs, rows: Sequence[Row]) -> tuple[bool, str]:
    """Whether matches have larger cosines than other pairs, and how certain that is."""
    row = next(row for row in rows if row.metric == "separation")
    numbers = f"AUC {row.value:.3f} {interval_text(row.low, row.high)}"
    sizes = f"{int(labelled.matches.sum()):,} matches and {int((~labelled.matches).sum()):,} other pairs"
    if row.low is None or row.low <= 0.5:
        chance = f"of {sizes}, a match has the larger cosine no more often than by chance ({numbers})"
        return False, f"No threshold separates these: {chance}"
    return True, f"A match has a larger cosine than another pair in {row.value:.0%} of all couples: {numbers}, {sizes}"


def _warnings(cutoffs: dict[str, Row]) -> list[str]:
    if OWN not in cutoffs:
        return []
    caution = (
        "the line of own texts is random pairs of them: texts of one domain are more alike than unrelated ones, so that a cutoff "
        "from them rejects genuine matches"
    )
    if CANONICAL in cutoffs:
        return [caution]
    where = "theodolite.tasks.canonical_sentences() in Python, `theodolite calibrate --list-sentences` in a shell"
    return [f"{caution}; encode the package's sentences ({where}) and give their vectors: {option('canonical', 'FILE')}"]
