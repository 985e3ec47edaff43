"""What a survey says about queries: how they lie among the documents, and what other prompts would do to that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.core.intervals import LEVEL, student_interval
from theodolite.core.result import Command, LateTables, Result
from theodolite.core.sampling import sample_rows
from theodolite.metrics.evaluation import deviation_records
from theodolite.metrics.queries_among_documents import query_measures
from theodolite.verbs.inputs import Reading, encoding_options
from theodolite.verbs.signals import PLURALS, SignalInput, Signals, prompted

if TYPE_CHECKING:
    from theodolite.advice.scorers import JudgedQueries
    from theodolite.core.rows import Row
    from theodolite.core.vectors import Floats, Indices
    from theodolite.metrics.cloud import Cloud
    from theodolite.models.encoder import Encoder
    from theodolite.tasks.retrieval import Judgements
    from theodolite.verbs.progress import Progress

# What many encoders expect before queries and before documents.
USUAL_PROMPTS = ("query: ", "passage: ")
# Queries and documents that prompts are tried on, at most; relevant documents are always among them.
TRIED_QUERIES, TRIED_DOCUMENTS = 200, 1000


def with_queries(
    result: Result, source: Any, data: SignalInput, cloud: Cloud, named: Signals, reading: Reading, progress: Progress
) -> Result:
    """A survey of documents with what it found out about their queries; no finding comes from them."""
    from theodolite.advice.scorers import JudgedQueries

    assert data.queries is not None
    documents, n = result.rows[-1], len(data.queries)
    where: dict[str, Any] = {"n": n, "reason": "", "sample": cloud.sample_size if cloud.is_sampled else None}
    measured: list[tuple[Row, Any]] = []
    measures = query_measures(cloud, data.queries)
    for measure in measures:
        numbers = {name: getattr(measure, name) for name in ("metric", "value", "low", "high", "reason")}
        measured.append((replace(documents, **{**where, **numbers}), measure.deviations))
    if isinstance(data.signal, JudgedQueries):
        items = np.arange(n)
        scores = data.signal.evidence(lambda rows: rows, items, items)
        low, high = student_interval(scores)
        row = replace(documents, metric=data.signal.metric, value=float(scores.mean()), **{**where, "low": low, "high": high})
        measured.append((row, (scores - scores.mean()) / np.sqrt(n)))
    facts: dict[str, Any] = {"n": n, "chance": {measure.metric: measure.chance for measure in measures}}
    more: dict[str, Any] = {"deviations": deviation_records(measured)}
    if data.encoder is not None and data.space is not None:
        trials = try_prompts(data, named, reading, progress, seed=cloud.seed)
        more["prompts"] = [asdict(trial) for trial in trials]
        facts["better_prompt"] = next((asdict(trial) for trial in trials if trial.is_better), None)
    inputs = [{**facts_of_input, **data.facts} for facts_of_input in result.inputs]
    provenance = {**result.provenance, "inputs": inputs, "queries": facts}
    answer = None if result.answer is None else replace(result.answer, next=(_next_step(source, named, reading),))
    rows = (*result.rows, *(row for row, _ in measured))
    assert isinstance(result.records, LateTables)
    tables = result.records.extended({name: lines for name, lines in more.items() if lines})
    return replace(result, answer=answer, rows=rows, records=tables, provenance=provenance, notes=(*result.notes, *data.notes))


def _next_step(source: Any, named: Signals, reading: Reading) -> Command:
    """The command that measures by the judged queries whether a repair helps, or that would if there were judgements."""
    why = "measure whether a repair helps these queries"
    if named.retrieval is None and named.judgements is None:
        named = replace(named, judgements="JUDGEMENTS")
        why += "; JUDGEMENTS is a table with query, document and grade"
    names = ("split", "column", "unit", "max_length", "texts")
    words = named.advise_command(source, reading, names, is_encoder=named.is_collection(reading))
    signals = ("queries", "judgements", "retrieval", "query_prompt", "document_prompt")
    given = [f"{name}={name}" for name in signals if getattr(named, name) is not None]
    return Command(words=words or f"th.advise(source, {', '.join(given)})", why=why)


@dataclass(frozen=True, kw_only=True)
class PromptTrial:
    """What prompts for queries and documents do: to the gap of the means, and to the score if there are judgements.

    `gain` is the score minus that of the prompts in use, on the same queries; its interval allows for the number of trials.
    """

    query_prompt: str
    document_prompt: str
    in_use: bool
    gap: float
    gap_low: float | None
    gap_high: float | None
    metric: str = ""
    score: float | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    is_better: bool = False


def try_prompts(
    data: SignalInput, named: Signals, reading: Reading, progress: Progress, *, seed: int = 0
) -> tuple[PromptTrial, ...]:
    """The prompts in use, none, those the model has, and the usual ones, on a sample of queries and documents; best first."""
    from theodolite.advice.paired_scores import score_difference
    from theodolite.advice.scorers import JudgedQueries
    from theodolite.models.extraction import extract_space
    from theodolite.spaces.cache import VectorCache

    encoder, texts, space = data.encoder, data.texts, data.space
    assert encoder is not None
    assert texts is not None
    assert space is not None
    layers = "last" if reading.layers == "all" else reading.layers
    one_layer = replace(reading, texts=("",), layers=layers, split=None, unit=space.origin.pooling)
    queries, documents = _tried(data, seed)
    sides = {"document": [texts[i] for i in documents], "query": [data.query_texts[i] for i in queries]}
    cache = VectorCache()
    vectors: dict[tuple[str, str], Floats] = {}

    def encoded(role: str, prompt: str) -> Floats:
        if (role, prompt) not in vectors:
            reader, asked, origin = prompted(encoder, one_layer, role, sides[role], prompt)
            options = encoding_options(one_layer, str(one_layer.unit), f"{PLURALS[role]} with {prompt!r}", progress)
            space = extract_space(reader, list(asked), cache=cache, origin=origin, **options)
            vectors[role, prompt] = space[space.layers[-1]]
        return vectors[role, prompt]

    pairs = _candidates(encoder, named, one_layer.unit == "text")
    judged = data.signal if isinstance(data.signal, JudgedQueries) else None
    table = None if judged is None else _judgements_among(judged, queries, documents)
    level = 1 - (1 - LEVEL) / max(1, len(pairs) - 1)  # as many trials as there are, but for the one in use
    trials: list[PromptTrial] = []
    reference: JudgedQueries | None = None
    for asked, told in pairs:
        X, Q = encoded("document", told), encoded("query", asked)
        gap = query_measures(X, Q)[0]
        numbers: dict[str, Any] = {"gap": gap.value, "gap_low": gap.low, "gap_high": gap.high}
        if judged is not None and table is not None:
            signal = JudgedQueries(X, Q, table, metric=judged.metric)
            reference = reference or signal
            found = score_difference(reference, signal, seed=seed, level=level)
            numbers |= {"metric": found.metric, "score": found.after}
            if trials:
                numbers |= {"gain": found.difference, "gain_low": found.low, "gain_high": found.high}
                numbers["is_better"] = found.low is not None and found.low > 0
        trials.append(PromptTrial(query_prompt=asked, document_prompt=told, in_use=not trials, **numbers))
    return tuple(sorted(trials, key=lambda trial: (-(trial.score or 0.0), trial.gap)))


def _candidates(encoder: Encoder, named: Signals, is_text: bool) -> list[tuple[str, str]]:
    """Pairs of prompts for queries and documents, those in use first, each once."""
    from theodolite.models.pipeline import ROLE_PROMPTS

    known: Mapping[str, str] = {}
    if is_text and encoder.pipeline is not None and encoder.pipeline.module is not None:
        known = {name: text for name, text in encoder.pipeline.module.prompts.items() if text}
    own = [next((known[name] for name in ROLE_PROMPTS[role] if name in known), "") for role in ("query", "document")]
    default = encoder.pipeline.prompt if is_text and encoder.pipeline is not None else ""
    given = [named.query_prompt, named.document_prompt]
    used = [text if text is not None else mine or default for text, mine in zip(given, own, strict=True)]
    of_roles = {name for names in ROLE_PROMPTS.values() for name in names}
    others = [(text, used[1]) for name, text in known.items() if name not in of_roles]
    pairs = [(used[0], used[1]), (own[0], own[1]), ("", used[1]), ("", ""), (USUAL_PROMPTS[0], USUAL_PROMPTS[1]), *others]
    return list(dict.fromkeys(pairs))


def _tried(data: SignalInput, seed: int) -> tuple[Indices, Indices]:
    """Numbers of the queries and of the documents that prompts are tried on."""
    from theodolite.advice.scorers import JudgedQueries
    from theodolite.tasks.retrieval import NOWHERE

    queries = sample_rows(len(data.query_texts), TRIED_QUERIES, seed=seed)
    relevant = np.empty(0, np.intp)
    if isinstance(data.signal, JudgedQueries):
        judged = data.signal.judgements
        relevant = np.unique(judged.document[np.isin(judged.query, queries) & (judged.document != NOWHERE)])
    others = np.setdiff1d(np.arange(len(data.vectors)), relevant)
    others = others[sample_rows(len(others), max(1, TRIED_DOCUMENTS - len(relevant)), seed=seed)] if len(others) else others
    return queries, np.sort(np.concatenate([relevant, others]))


def _judgements_among(signal: JudgedQueries, queries: Indices, documents: Indices) -> Judgements:
    """The judgements of some queries, with the numbers of documents among those that are tried."""
    from theodolite.tasks.retrieval import NOWHERE, Judgements

    taken = signal.take(queries).judgements
    number = np.searchsorted(documents, taken.document).clip(0, len(documents) - 1)
    return Judgements(taken.query, np.where(taken.document == NOWHERE, NOWHERE, number), taken.grade)
