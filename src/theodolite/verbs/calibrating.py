"""The verb `calibrate`: from which cosine on two texts are more alike than unrelated ones, and how probable a match is."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from theodolite.advice.folds import row_names
from theodolite.advice.scorers import JudgedQueries, ScoredPairs
from theodolite.advice.thresholds import FEWEST_ABOVE, QUANTILES, LabelledPairs, UnrelatedPairs
from theodolite.core.moments import row_cosines
from theodolite.core.numbers import interval_text, number_text
from theodolite.core.result import Answer, Command, Result, table_of
from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_rows
from theodolite.core.spelling import command, option
from theodolite.core.vectors import Floats, array
from theodolite.metrics.cosine_histograms import histogram_records
from theodolite.tasks.loading import canonical_sentences
from theodolite.verbs.inputs import (
    Reading,
    ReadingOptions,
    VectorsInput,
    encoder_facts,
    encoder_name,
    encoding_options,
    input_kind,
    looks_like_a_model,
    open_input,
    reads_input,
)
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.signals import SignalInput, Signals, open_signal
from theodolite.verbs.surveying import provenance

if TYPE_CHECKING:
    from theodolite.models.encoder import Encoder

RATE = 0.01
OWN_TEXTS = 400
"""Own texts whose pairs are compared: 80,000 pairs, enough for a cutoff at 0.1%."""
CANONICAL, OWN, NON_MATCHES, PASSAGES = "canonical sentences", "own texts", "own non-matches", "other documents"
"""The lines of the result: the rows' `setting`."""


@reads_input()
def calibrate(  # type: ignore[misc]  # `layers` is a reading option with a default of its own
    source: Any,
    /,
    *,
    canonical: Any = None,
    pairs: Any = None,
    scores: Any = None,
    match: float | None = None,
    queries: Any = None,
    judgements: Any = None,
    retrieval: str | os.PathLike[str] | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    false_positive_rate: float = RATE,
    seed: int = 0,
    layers: str | int = "last",
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Calibrate a similarity threshold: a cutoff with its interval, and how probable a match is at each cosine.

    Pairs of your own that are known to match or not give your cutoff, or the answer that no threshold separates them; queries
    with judged documents give one for questions and passages. Without them, unrelated pairs come from 250 sentences of 25 domains
    that are part of the package. Their cutoff holds across domains, not inside one.

    Parameters
    ----------
    source
        An encoder (id, folder, `demo`, or loaded), alone or with `task`, `own`, `texts` or `retrieval`; or vectors of your own
        texts (array, file), or a space.
    canonical
        For vectors and spaces: the vectors of the package's sentences from the same encoder, in their order
        (`theodolite.tasks.canonical_sentences()`).
    pairs, scores
        The other side of scored pairs, row by row with `source`, and one score per pair (array or file). A space or task of
        scored pairs brings its own.
    match
        Pairs of at least this score are matches; the higher one if there are only two scores.
    queries, judgements
        Queries, as vectors if `source` is vectors or as texts if it is an encoder, and a table of query, document and grade.
        Both are named by their ids, or by row numbers from 0 if they have none.
    retrieval
        A BEIR folder (`corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv`), which an encoder reads; `split` names the judgements.
    query_prompt, document_prompt
        What an encoder puts before queries and documents; the model's own prompts of these names by default.
    false_positive_rate
        The share of pairs that do not match that may be above the cutoff.
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
        Its answer is `separates`, `does not separate` or `cutoff only`. The rows have cutoffs with intervals for each kind of
        pairs (the rows' `setting`), quantiles of unrelated cosines, the separation (AUC) and the shares above each cutoff;
        `records["probability"]` is the map, `records["cutoffs"]` the cutoffs for a figure.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 16))
    >>> result = calibrate(X)
    >>> result.answer.verdict, 0.4 < result.value("cutoff", setting="own texts") < 0.7
    ('cutoff only', True)
    """
    named = Signals(
        pairs=pairs,
        scores=scores,
        queries=queries,
        judgements=judgements,
        retrieval=retrieval,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
    )
    options = Reading(**{**reading, "layers": layers})
    with progress_bars(progress) as bars:
        data = _opened(source, named, canonical, match, options, bars, seed)
    lines: dict[str, UnrelatedPairs] = {}
    if data.canonical is not None:
        lines[CANONICAL] = UnrelatedPairs.of(*data.canonical)
    if data.own is not None:
        lines[OWN] = _own_pairs(*data.own, seed=seed)
    return _result(data, lines, false_positive_rate, seed)


@dataclass(frozen=True, eq=False)
class _CalibrationInput:
    """The vectors of each line, as far as there are any; `setting` names the pairs that do not match."""

    name: str
    canonical: tuple[Floats, Sequence[str]] | None = None
    own: tuple[Floats, Sequence[Hashable]] | None = None
    labelled: LabelledPairs | None = None
    setting: str = NON_MATCHES
    facts: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    advise: str = ""
    """The command that measures whether a repair would separate the pairs; empty if it cannot be typed."""
    with_pairs: str = ""
    """The command that calibrates with scored pairs; empty if it cannot be typed."""


def _opened(
    source: Any, named: Signals, canonical: Any, match: float | None, options: Reading, bars: Progress, seed: int
) -> _CalibrationInput:
    is_encoder = input_kind(source, options) == "encoder" or (
        isinstance(source, (str, os.PathLike)) and looks_like_a_model(source)
    )
    if is_encoder and canonical is not None:
        raise ValueError(f"{option('canonical', 'FILE')} is for vectors; an encoder reads the package's sentences itself")
    if is_encoder and not options.has_texts() and not named.names:
        data, encoder = _CalibrationInput(encoder_name(source)), cast("Encoder | None", options.load_encoder(source))
    else:
        opened = open_signal(source, named, options, bars)
        encoder, data = opened.encoder, _of_signal(opened, named, match, seed)
        names = ("texts", "task", "split", "data", "own", "kind", "column", "score_range", "unit", "max_length")
        of_encoder = input_kind(source, options) == "encoder"
        data = replace(data, advise=named.advise_command(source, options, names, is_encoder=of_encoder))
    if isinstance(source, (str, os.PathLike)):
        own = {"own": "dev=pairs.csv", "kind": "similarity", "match": "4"}
        path, others = os.fspath(source), {"pairs": "others.npy", "scores": "scores.txt"}
        words = command("calibrate", model=path, **own) if is_encoder else command("calibrate", path, **others)
        data = replace(data, with_pairs=words)
    if match is not None and (data.labelled is None or data.setting == PASSAGES):
        raise ValueError(f"{option('match', f'{match:g}')} is for scored pairs; give {option('pairs', 'FILE')} with their scores")
    if encoder is None:
        vectors = None if canonical is None else _canonical(canonical, data.own[0].shape[1] if data.own else None)
        return replace(data, canonical=vectors)
    from theodolite.models.extraction import extract_space

    texts, domains = canonical_sentences()
    unit = Reading(unit=options.unit, layers=options.layers, revision=options.revision).unit_for(encoder, one_per_text=True)
    space = extract_space(encoder, texts, **encoding_options(options, unit, CANONICAL, bars))
    facts = data.facts or encoder_facts(space.origin)
    return replace(data, canonical=(space[space.layers[-1]], domains), facts=facts)


def _of_signal(opened: SignalInput, named: Signals, match: float | None, seed: int) -> _CalibrationInput:
    """The user's own texts, and their pairs that match or not, if there are any."""
    X = opened.signal.rows if named.pairs is not None and opened.signal is not None else opened.vectors
    own = (X, opened.texts if opened.texts is not None else row_names(X))
    data = _CalibrationInput(opened.name, own=own, facts=dict(opened.facts), notes=opened.notes)
    if isinstance(opened.signal, ScoredPairs):
        return replace(data, labelled=_labelled(opened.signal, match))
    if isinstance(opened.signal, JudgedQueries):
        return replace(data, labelled=LabelledPairs.of_queries(opened.signal, seed=seed), setting=PASSAGES)
    return data


def _canonical(source: Any, d: int | None) -> tuple[Floats, Sequence[str]]:
    opened = open_input(source, Reading())
    assert isinstance(opened, VectorsInput)
    X, (texts, domains) = array(opened.vectors), canonical_sentences()
    if len(X) != len(texts) or (d is not None and X.shape[1] != d):
        rule = f"one vector of {d} dimensions for each of the {len(texts)} sentences"
        raise ValueError(f"{option('canonical', 'FILE')} has shape {X.shape}; it must be {rule}, from the same encoder")
    return X, domains


def _labelled(pairs: ScoredPairs, match: float | None) -> LabelledPairs:
    kinds = np.unique(pairs.scores)
    if match is None and len(kinds) > 2:
        raise ValueError(
            f"scores range from {kinds[0]:g} to {kinds[-1]:g}; give the lowest score of a match, such as "
            f"{option('match', f'{kinds[3 * len(kinds) // 4]:.3g}')}"
        )
    bound = kinds[-1] if match is None else match
    return LabelledPairs(row_cosines(pairs.first, pairs.second), pairs.scores >= bound, pairs.groups)


def _own_pairs(X: Floats, names: Sequence[Hashable], *, seed: int) -> UnrelatedPairs:
    """Pairs of a sample of different texts."""
    different = np.array(sorted({name: row for row, name in reversed(list(enumerate(names)))}.values()))
    return UnrelatedPairs.of(X[different[sample_rows(len(different), OWN_TEXTS, seed=seed)]])


def _result(data: _CalibrationInput, lines: dict[str, UnrelatedPairs], rate: float, seed: int) -> Result:
    about: dict[str, Any] = {"model": data.name, "seed": seed, "versions": current_versions()}
    rows: list[Row] = []
    cutoffs: dict[str, Row] = {}
    conditions: list[str] = []
    labelled, records = data.labelled, {}
    kinds = {f"unrelated: {label}": pairs.cosines for label, pairs in lines.items()}
    if labelled is not None:
        value, (low, high) = labelled.cutoff(rate)
        n = int((~labelled.matches).sum())
        cutoffs[data.setting] = Row(metric="cutoff", value=value, low=low, high=high, setting=data.setting, n=n, **about)
        auc, (low, high) = labelled.separation(seed=seed)
        n = len(labelled.cosines)
        rows.append(Row(metric="separation", value=auc, low=low, high=high, setting="own pairs", n=n, **about))
        records["probability"] = table_of(labelled.probabilities(seed=seed))
        kinds = {"matches": labelled.cosines[labelled.matches], data.setting: labelled.cosines[~labelled.matches], **kinds}
    for label, pairs in lines.items():
        where = {**about, "setting": label, "n": len(pairs.cosines)}
        rows += [Row(metric=f"unrelated_cosine_{share:.0%}", value=pairs.quantile(share), **where) for share in QUANTILES]
        if label == OWN and len(kinds) > 1 and rate * len(pairs.cosines) < FEWEST_ABOVE:
            conditions.append(f"{len(pairs.cosines):,} pairs of your own texts are too few for a cutoff at {100 * rate:.3g}%")
            continue
        value, (low, high) = pairs.cutoff(rate, seed=seed)
        cutoffs[label] = Row(metric="cutoff", value=value, low=low, high=high, **where)
    where = {"model": data.name, "state": "", "layer": -1}
    bins = [line for kind, cosines in kinds.items() for line in histogram_records(cosines, {**where, "pairs": kind})]
    records["similarities"] = table_of(bins)
    rows += [row for cutoff in cutoffs.values() for row in _shares_above(data, lines, cutoff, about)]
    rows += cutoffs.values()
    fields = {"pairs": "setting", "cutoff": "value", "low": "low", "high": "high"}
    records["cutoffs"] = table_of([{name: getattr(row, field) for name, field in fields.items()} for row in cutoffs.values()])
    values = {(row.metric, row.setting): row.value for row in rows}
    if labelled is None:
        answer = _answer(data, values, cutoffs, rate)
    else:
        own = cutoffs[data.setting]
        answer = _answer_of_pairs(data, values, cutoffs, next(row for row in rows if row.metric == "separation"), rate)
        if own.high == 1.0 and own.value < 1:
            conditions.append(f"{own.n:,} pairs that do not match are too few for an upper limit of a {100 * rate:.3g}% cutoff")
    facts: dict[str, Any] = {"name": data.name, **(data.facts or {})}
    if data.own is not None and "encoder" not in facts:
        facts |= {"n": len(data.own[0]), "d": data.own[0].shape[1], "unit": "vectors"}
    return Result(
        verb="calibrate",
        title=data.name,
        answer=answer,
        rows=tuple(rows),
        conditions=tuple(conditions),
        notes=data.notes,
        records=records,
        provenance=provenance(facts, false_positive_rate=rate),
    )


def _shares_above(data: _CalibrationInput, lines: dict[str, UnrelatedPairs], cutoff: Row, about: dict[str, Any]) -> list[Row]:
    """How many pairs of each other kind are above a cutoff."""
    rows = []
    if data.labelled is not None:
        for metric, of_matches in (("matches_above", True), ("non_matches_above", False)):
            share, (low, high), n = data.labelled.share_above(cutoff.value, of_matches=of_matches)
            rows.append(Row(metric=metric, value=share, low=low, high=high, n=n, setting=cutoff.setting, **about))
    if cutoff.setting == CANONICAL:
        others = {"same_domain_above": lines[CANONICAL].inside}
        others |= {"own_texts_above": lines[OWN].cosines} if OWN in lines else {}
        for metric, cosines in others.items():
            share = float((cosines > cutoff.value).mean())
            rows.append(Row(metric=metric, value=share, n=len(cosines), setting=CANONICAL, **about))
    return rows


def _answer(data: _CalibrationInput, values: Mapping[tuple[str, str], float], cutoffs: Mapping[str, Row], rate: float) -> Answer:
    """The conclusion without pairs that are known to match: a cutoff, and what it holds for."""
    canonical, share = cutoffs.get(CANONICAL), f"{100 * rate:.3g}%"
    if canonical is None:
        return Answer(
            verdict="cutoff only",
            sentence=f"The cutoff is {_text(cutoffs[OWN])}: {share} of random pairs of your own texts have a larger cosine.",
            reasons=(
                "Texts of one domain are more alike than unrelated ones, so a cutoff from them rejects genuine matches.",
                f"Encode the package's sentences too, and give their vectors: {option('canonical', 'FILE')}.",
            ),
            next=(Command(words=command("calibrate --list-sentences"), why="print the sentences, to encode them"),),
        )
    limits = f"{values['same_domain_above', CANONICAL]:.0%} of sentence pairs of one domain exceed it"
    if ("own_texts_above", CANONICAL) in values:
        limits += f", and {values['own_texts_above', CANONICAL]:.1%} of random pairs of your own texts"
    return Answer(
        verdict="cutoff only",
        sentence=f"The cutoff is {_text(canonical)}: {share} of sentence pairs from different domains have a larger cosine.",
        reasons=(f"The cutoff applies across domains, not within one: {limits}.",),
        next=(Command(words=data.with_pairs, why="get a cutoff of your own from scored pairs"),) if data.with_pairs else (),
    )


def _answer_of_pairs(
    data: _CalibrationInput, values: Mapping[tuple[str, str], float], cutoffs: Mapping[str, Row], auc: Row, rate: float
) -> Answer:
    """The conclusion from pairs that are known to match or not."""
    row, canonical, of_queries = cutoffs[data.setting], cutoffs.get(CANONICAL), data.setting == PASSAGES
    match, matches, others = (
        ("relevant document", "relevant documents", "other documents") if of_queries else ("match", "matches", "non-matches")
    )
    n = row.n or 0
    count, numbers = (auc.n or 0) - n, f"AUC {auc.value:.3f} {interval_text(auc.low, auc.high)}"
    if auc.low is None or auc.low <= 0.5:
        chance = f"a {match} has the larger cosine no more often than by chance ({numbers})"
        return Answer(
            verdict="does not separate",
            sentence=f"No threshold separates {count:,} {matches} from {n:,} {others}: {chance}.",
            next=(Command(words=data.advise, why="measure whether a repair would separate them"),) if data.advise else (),
        )
    reasons = [f"A {match} has a larger cosine than one of the {others} in {auc.value:.0%} of comparisons ({numbers})."]
    if of_queries:
        reasons.append("Unjudged documents count as not relevant. Intervals resample the queries and keep the documents fixed.")
    if canonical is not None:
        across = f"For unrelated sentences, {_text(canonical)} would be enough, but only across domains, not within one"
        reasons.append(f"{across}: {values['non_matches_above', CANONICAL]:.1%} of your {others} exceed it.")
    whose = "queries and documents" if of_queries else "your own pairs"
    kept = f"{values['matches_above', data.setting]:.0%} of {count:,} {matches} lie above it"
    return Answer(
        verdict="separates",
        sentence=f"The cutoff from {whose} is {_text(row)}: {kept}, and {100 * rate:.3g}% of {n:,} {others}.",
        reasons=tuple(reasons),
    )


def _text(row: Row) -> str:
    return f"{number_text(row.value)} {interval_text(row.low, row.high)}".rstrip()
