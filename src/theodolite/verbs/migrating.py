"""The verb `migrate`: what a change of embedding model requires, measured on judged queries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Unpack

from theodolite.advice.migration import (
    BRIDGE,
    FETCHED,
    KEEP,
    MOST_QUERIES,
    NOT_SHOWN,
    REINDEX,
    TWO_STAGE,
    Migration,
    Tier,
    decide,
    tier_scores,
)
from theodolite.advice.scorers import JudgedQueries
from theodolite.core.numbers import interval_text
from theodolite.core.result import Answer, Command, Result, table_of
from theodolite.core.rows import Row, current_versions
from theodolite.core.spelling import command, option
from theodolite.probes import KeptStructure, kept_structure
from theodolite.verbs.inputs import Reading, ReadingOptions, reads_input
from theodolite.verbs.model_change import ChangeSignals, open_change
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.surveying import provenance

if TYPE_CHECKING:
    from theodolite.verbs.signals import SignalInput

TIER, CURVE, SHOWN = "tier", "curve", "shown"
"""The states of rows: the tiers, the bridge over the number of re-embedded documents, and what is never recommended."""
NAIVE = "new queries, old index"
TRANSLATED = 0.01  # the share of random pairs above the cutoff that the answer translates

File = str | os.PathLike[str]


@reads_input("revision")  # two encoders have two
def migrate(  # type: ignore[misc]  # `layers` is a reading option with a default of its own
    old: Any,
    new: Any,
    /,
    *,
    retrieval: File | None = None,
    queries_old: Any = None,
    queries_new: Any = None,
    judgements: Any = None,
    unit_old: str | None = None,
    unit_new: str | None = None,
    query_prompt_old: str | None = None,
    query_prompt_new: str | None = None,
    document_prompt_old: str | None = None,
    document_prompt_new: str | None = None,
    margin: float = 0.02,
    folds: int = 5,
    seed: int = 0,
    layers: str | int = "last",
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Decide what a change of embedding model requires: keep the old index, bridge it, search in two stages, or re-index.

    All four are scored on the same judged queries (nDCG@10). The answer is *keep* if re-indexing gains less than the margin, and
    otherwise the cheapest tier that is shown to lose less than the margin against re-indexing: *bridge* (old documents, mapped
    into the new space by a map fitted on some documents that both models embedded), *two-stage* (the old index fetches 50
    documents, the new model ranks them), or *re-index*. It is *not shown*, with the number of queries that would settle it, if
    the interval of the gain holds both 0 and the margin. Without judged queries, only the share of nearest neighbours that both
    models have in common is reported.

    Parameters
    ----------
    old, new
        The two models. Each is an encoder (id, folder, `demo`, or loaded), which reads the texts of `retrieval`, or its stored
        document vectors: an array, a frame, a file, or a `Space`. Rows are matched by a column `id`, or by their order if neither
        side has one.
    retrieval
        A BEIR folder (`corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv`); `split` names the judgements.
    queries_old, queries_new
        Query vectors from that model, if its documents are stored vectors.
    judgements
        If both sides are vectors and there is no folder: a table of query, document and grade, by ids or row numbers from 0.
    unit_old, unit_new
        Embedding unit for one of the encoders, such as `cls`; `unit` sets both.
    query_prompt_old, query_prompt_new, document_prompt_old, document_prompt_new
        Prompts before queries and documents; by default the model's own query and document prompts.
    margin
        The loss of nDCG@10 that is small enough to accept, and the least gain that is worth a change.
    folds
        Number of folds of queries: which map, and how many documents to embed again for it, is chosen on the others.
    seed
        Random seed for the folds and for the documents that maps are fitted on.
    layers
        Which layer of a space or encoder; the last by default.
    progress
        Whether to show progress bars, and beforehand what will be encoded and how long that takes; by default in a terminal and
        in a notebook.
    **reading
        How the inputs are read: the fields of `theodolite.verbs.inputs.Reading`.

    Returns
    -------
    Result
        The answer; for each tier its score with a 95% interval, its loss against re-indexing, and the documents to embed before
        the switch and per query; the score of the bridge over the number of re-embedded documents. `provenance["migration"]` has
        the map and the number of documents of each tier, `records["thresholds"]` old cutoffs translated.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.standard_normal((200, 8))
    >>> migrate(X, X @ np.linalg.qr(random.standard_normal((8, 8)))[0]).answer.sentence
    'Without judged queries, nothing is recommended; the two models share 100% of nearest neighbours.'
    """
    if not 0 < margin < 1:
        raise ValueError(f"{option('margin', str(margin))} must be above 0 and below 1: it is a difference in nDCG@10")
    if folds < 2:
        raise ValueError(f"{option('folds', str(folds))} must be at least 2: one to score on, one to choose on")
    named = ChangeSignals(
        queries=(queries_old, queries_new),
        judgements=judgements,
        retrieval=retrieval,
        unit=(unit_old, unit_new),
        query_prompt=(query_prompt_old, query_prompt_new),
        document_prompt=(document_prompt_old, document_prompt_new),
    )
    with progress_bars(progress) as bars:
        sides = open_change((old, new), named, Reading(**{**reading, "layers": layers}), bars)
        kept = kept_structure(sides[0].vectors, sides[1].vectors, seed=seed)
        first, second = (side.signal for side in sides)
        found = None
        if isinstance(first, JudgedQueries) and isinstance(second, JudgedQueries):
            measured = tier_scores(first, second, seed=seed, progress=bars.steps("trying maps"))
            found = decide(measured, margin=margin, folds=folds, seed=seed)
    is_typed = isinstance(old, (str, os.PathLike)) and isinstance(new, (str, os.PathLike))
    thresholds = [{"share": share, "old": a, "new": b} for share, a, b in kept.thresholds]
    conditions: tuple[str, ...] = ()
    if found is not None:
        counts = f"{found.queries:,} queries, {found.documents:,} documents"
        conditions = (f"{counts}; maps chosen in {folds} folds; intervals are over queries",)
    return Result(
        verb="migrate",
        title=f"{sides[0].name} to {sides[1].name}",
        answer=_unjudged(kept) if found is None else _answer(found, kept, sides, is_typed),
        rows=tuple(_rows(found, kept, sides, seed)),
        records={"thresholds": table_of(thresholds)} if thresholds else {},
        conditions=conditions,
        notes=tuple(dict.fromkeys(note for side in sides for note in side.notes if note)),
        provenance=provenance(
            *({**side.facts, "name": side.name, "n": len(side.vectors), "d": side.vectors.shape[1]} for side in sides),
            migration=None if found is None else _plain(found),
        ),
    )


def _rows(found: Migration | None, kept: KeptStructure, sides: tuple[SignalInput, SignalInput], seed: int) -> Iterator[Row]:
    shared: dict[str, Any] = {name: sides[1].about.get(name, "") for name in ("model", "task")}
    shared |= {"seed": seed, "versions": current_versions()}
    yield Row(metric="neighbours_kept", value=kept.neighbours, low=kept.low, high=kept.high, n=kept.asking, **shared)
    if found is None:
        return
    shared["n"] = found.queries
    for tier in found.tiers:
        where = shared | {"state": TIER, "setting": tier.name}
        yield Row(metric="ndcg@10", value=tier.value, low=tier.low, high=tier.high, **where)
        yield Row(metric="ndcg@10_loss", value=tier.loss, **where)
        yield Row(metric="ndcg@10_largest_loss", value=tier.most, **where)
        yield Row(metric="documents_to_embed", value=float(tier.documents), **where)
        yield Row(metric="documents_per_query", value=float(tier.per_query), **where)
    yield Row(metric="ndcg@10_gain", value=found.gain, low=found.gain_low, high=found.gain_high, **shared, setting="re-index")
    for point in found.curve:
        where = shared | {"state": CURVE, "setting": point.map, "label": str(point.documents)}
        yield Row(metric="ndcg@10", value=point.value, low=point.low, high=point.high, **where)
    reason = "" if found.naive is not None else "the two models have different numbers of dimensions"
    value = float("nan") if found.naive is None else found.naive
    yield Row(metric="ndcg@10", value=value, reason=reason, **shared, state=SHOWN, setting=NAIVE)


def _answer(found: Migration, kept: KeptStructure, sides: tuple[SignalInput, SignalInput], is_typed: bool) -> Answer:
    reasons = [_rest(found), *_translated(kept)]
    if found.naive is not None:
        reasons.append(f"New queries on the unmapped old index score {found.naive:.3f}; this is shown but never recommended.")
    step = _next_step(found, sides, is_typed)
    return Answer(verdict=found.verdict, sentence=_sentence(found), reasons=tuple(reasons), next=(step,) if step else ())


def _sentence(found: Migration) -> str:
    """The conclusion, with its numbers."""
    old, new, tier = found.tier(KEEP), found.tier(REINDEX), found.verdict
    gain = f"{found.gain:+.3f} {interval_text(found.gain_low, found.gain_high, form='+.3f')}"
    change = f"nDCG@10 {old.value:.3f} → {new.value:.3f}, {gain} on {found.queries:,} queries"
    if not found.is_above_chance:
        return (
            f"Neither model scores above chance ({found.chance:.3f}) on {found.queries:,} queries ({old.value:.3f} and "
            f"{new.value:.3f}), so they cannot be compared."
        )
    if tier == KEEP:
        return f"Keep the old model, since re-indexing gains less than {found.margin:g} ({change})."
    if tier == REINDEX:
        return (
            f"Embed all {found.documents:,} documents again, since nothing cheaper is shown to lose less than {found.margin:g} "
            f"({change})."
        )
    if tier in (BRIDGE, TWO_STAGE):
        chosen = found.tier(tier)
        index = _index(chosen)
        what = f"Send new queries to {index.rstrip(',')}"
        if tier == TWO_STAGE:
            what = f"Let {index} fetch {FETCHED} documents and the new model rank them"
        loss = f"{max(chosen.loss, 0.0):.3f} (at most {chosen.most:.3f})"
        return f"{what}; this scores {loss} below re-indexing ({change})."
    settle = f"about {found.queries + found.more:,} queries would settle it" if found.more is not None else ""
    settle = settle or f"it would take more than {MOST_QUERIES * found.queries:,} queries to settle it"
    return f"Re-indexing may gain nothing, or it may gain {found.margin:g} or more ({change}); {settle}."


def _index(tier: Tier) -> str:
    """The old index, as it is or under a map."""
    variant = tier.variant
    if not variant.map:
        return "the old index"
    name = "Procrustes" if variant.map == "procrustes" else variant.map
    return f"the old index, mapped with a {name} map fitted on {variant.documents:,} re-embedded documents,"


def _rest(found: Migration) -> str:
    """What the other ways would lose against re-indexing."""
    words = []
    for name in (BRIDGE, TWO_STAGE):
        tier = found.tier(name)
        verb = f"loses {tier.loss:.3f}" if tier.loss >= 0 else f"gains {-tier.loss:.3f}"
        cost = f"{tier.documents:,} documents to embed" if tier.documents else "no documents to embed"
        cost += f", {tier.per_query} per query" if tier.per_query else ""
        limit = f"at most {tier.most:.3f}" if tier.loss >= 0 else f"loses at most {tier.most:.3f}"
        words.append(f"{name} {verb} ({limit}; {cost})")
    return f"Compared with re-indexing, {' and '.join(words)}."


def _translated(kept: KeptStructure) -> Iterator[str]:
    row = next((row for row in kept.thresholds if row[0] == TRANSLATED), next(iter(kept.thresholds), None))
    if row is not None:
        yield f"An old cosine cutoff of {row[1]:.3f} becomes {row[2]:.3f}: {row[0]:.1%} of document pairs lie above either."


def _next_step(found: Migration, sides: tuple[SignalInput, SignalInput], is_typed: bool) -> Command | None:
    """What carries the recommendation out."""
    if found.verdict == NOT_SHOWN:
        return None
    chosen = found.tier(found.verdict).variant
    # What an encoder read is written to a folder first.
    inputs = {name: side.typed for name, side in zip(("old", "new"), sides, strict=True)}
    before = [typed.before.replace("--to my-space", f"--to {name}") for name, typed in inputs.items()]
    if chosen.tier == REINDEX and before[1]:
        return Command(words=before[1], why="embed the documents again")
    if not chosen.map:
        return None
    why = "fit the map on documents that both models embedded, and apply it to the old index"
    if not is_typed:
        return Command(words=f"th.repair.fit('bridge', OLD, target=NEW, settings={{'map': {chosen.map!r}}})", why=why)
    old, new = (name if typed.before else typed.path for name, typed in inputs.items())
    options = {name: value for typed in inputs.values() if not typed.before for name, value in typed.options.items()}
    fit = command("repair fit bridge", old, target=new, to="my-bridge", set=f"map={chosen.map}", **options)
    apply = command("repair apply", "my-bridge", old, to="bridged.parquet", **options)
    return Command(words=" && ".join([*filter(None, before), fit, apply]), why=why)


def _unjudged(kept: KeptStructure) -> Answer:
    """Neighbours kept, and the refusal to recommend anything by them."""
    share = f"{kept.neighbours:.0%}"
    if kept.low is not None and kept.low < (kept.high or 0.0):
        share += f" [{kept.low:.0%}, {kept.high:.0%}]"
    ways = [
        f"texts with judgements ({option('retrieval', 'FOLDER')})",
        f"vectors ({option('queries_old', 'FILE')}, {option('queries_new', 'FILE')}, {option('judgements', 'FILE')})",
    ]
    return Answer(
        verdict="not shown",
        sentence=f"Without judged queries, nothing is recommended; the two models share {share} of nearest neighbours.",
        reasons=(
            "Shared neighbours do not show which model finds better documents: a map that keeps more of them can score lower.",
            f"Give judged queries: {', or '.join(ways)}.",
            *_translated(kept),
        ),
    )


def _plain(found: Migration) -> dict[str, Any]:
    """The decision as fields."""
    return {
        "verdict": found.verdict,
        "margin": found.margin,
        "more_queries": found.more,
        "tiers": {
            tier.name: {"map": tier.variant.map, "documents": tier.documents, "per_query": tier.per_query} for tier in found.tiers
        },
    }
