"""The verb `compare`: how two spaces are related, row by row if their rows correspond, and how their metrics differ."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from theodolite.core.engines import chosen_engine, in_parallel
from theodolite.core.numbers import listed_rows, share_text
from theodolite.core.pictures import Picture, common_frame
from theodolite.core.result import Answer, Command, Result
from theodolite.core.rows import Row, current_versions
from theodolite.core.sampling import sample_rows
from theodolite.core.spelling import command, option
from theodolite.core.states import AFTER, BEFORE, DIFFERENCE
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import REPLICATES, Comparison, compare_clouds
from theodolite.metrics.registry import LAYER_METRICS, check_metrics, default_metrics
from theodolite.spaces.space import Space, choose_layers
from theodolite.verbs.inputs import (
    APPLICABLE,
    EncoderInput,
    Input,
    Reading,
    ReadingOptions,
    VectorsInput,
    encoder_facts,
    encoder_name,
    input_kind,
    open_input,
    readings_for,
    reads_input,
    short_name,
)
from theodolite.verbs.own_scores import OwnItems, leading, named_signals, open_own_items, typed_signals
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.signals import Labels
from theodolite.verbs.surveying import (
    SAMPLE,
    cloud_facts,
    cloud_picture,
    given_pairs,
    provenance,
    similarities,
    similarity_lines,
    space_notes,
    space_picture,
    spectrum_lines,
    text_groups,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from theodolite.core.vectors import Floats, Indices
    from theodolite.probes import Correspondence, KeptStructure, Shift

# Times that the rows of one side may be longer, and further apart, than those of the other for both to be drawn in one frame.
MOST_LONGER, MOST_WIDER = 5.0, 2.0
# Columns that name a row, best first, and what the answer calls them.
KEYS = {"id": "ids", "_id": "ids", "sentence": "texts", "text": "texts", "token": "tokens", "word": "words"}
FEWEST_COMMON = 10  # rows with a common id or text, from which on two sides are compared by them
# Ratio of effective dimensions from which on the answer leads with them, and from which on it speaks of a collapse.
OTHER_RANK, COLLAPSE = 1.25, 2.0


@reads_input("revision")  # two encoders have two
def compare(
    before: Any,
    after: Any,
    /,
    *,
    metrics: Sequence[str] | None = None,
    paired: bool | None = None,
    pairs: Any = None,
    scores: Any = None,
    labels: Labels | None = None,
    queries: Any = None,
    judgements: Any = None,
    retrieval: str | os.PathLike[str] | None = None,
    metric: str | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
    bootstrap: int | None = None,
    cache: bool = True,
    workers: int | None = None,
    engine: str | None = None,
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Show how two spaces are related, and how their metrics differ: A, B, and B minus A, with 95% intervals.

    If rows correspond, the answer is the first relation that holds: identical, rounded, scaled, turned, mapped, partly
    re-embedded or different, with the nearest neighbours that are kept. Otherwise a test tells whether B is a shifted sample.
    With labels, scored pairs or judged queries, the answer opens with which of the two scores higher on them.

    Parameters
    ----------
    before, after
        The two inputs, each as `survey` takes it. Both encoders read the same texts.
    metrics
        Names from `METRICS`; for vectors all that need no second input, for layers a few, by default.
    paired
        Whether row i of both is the same text. By default, rows are paired if both sides have the same ids or texts, or if the
        vectors are related in a way that chance cannot give; equal numbers of rows alone are not enough.
    pairs, scores
        The other side of scored pairs, row by row with A and B, and one score per pair. A tuple has the other side of A and of B.
    labels
        The label of every row, which is the same text in A and in B: a sequence, a column, or FILE[:COLUMN].
    queries, judgements
        Queries, and a table of query, document and grade. A tuple has the queries of A and of B, which are vectors if these are;
        two encoders with `texts` read the same queries. Without judgements, only how the queries lie is compared.
    retrieval
        A BEIR folder, which two encoders read, each with its own pooling and prompts.
    metric
        What to score by, as for `advise`; if it is named without a signal, spaces and tasks bring their own.
    sample
        Rows for metrics that compare rows with rows, and for the relation between the rows; most items to score.
    seed
        Seed of that sample and of the half-samples.
    bootstrap
        Number of half-samples for the intervals, 0 for none; by default 40, for layers on the last one only.
    cache
        Whether a file's moments are read from, and kept in, the cache folder.
    workers, engine
        Where the work runs: a number of workers on this machine, or the address of a Dask scheduler, such as
        `tcp://10.0.0.1:8786`. What `joblib.parallel_config` says, or this process, by default.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.
    **reading
        How the inputs are read: the fields of `theodolite.verbs.inputs.Reading`.

    Returns
    -------
    Result
        Three rows per metric and layer: state `before`, `after` and `difference`, the last with its interval; so for the score
        and the measures of queries. Of several layers on both sides, `layer_cka` has a row for each pair (`label` is the layer
        of A, `other_label` that of B). `answer` has the relation; `provenance` has its numbers as `correspondence` and `kept`,
        or as `shift`, and the largest CKA as `layer_cka`.
    """
    options = Reading(**reading)
    kinds = [input_kind(source, options) for source in (before, after)]
    if kinds == ["encoder", "encoder"] and options.has_texts():
        options = replace(options, unit=options.unit_for(before, after))  # one unit for both
    names = check_metrics(metrics) if metrics is not None else None
    given = {"pairs": pairs, "scores": scores, "labels": labels, "queries": queries, "judgements": judgements}
    given |= {"retrieval": retrieval, "metric": metric}
    named = named_signals(**given)
    is_collection = named[0].is_collection(options)
    readings = [options, options] if is_collection else readings_for(kinds, options)
    inputs: list[Input] = []
    if not is_collection:
        inputs = [open_input(source, reading) for source, reading in zip((before, after), readings, strict=True)]
        _require_same_kind(inputs, options)
    own: OwnItems | None = None
    with chosen_engine(workers, engine), progress_bars(progress) as bars:
        if named[0].names or metric is not None:
            own = open_own_items((before, after), named, readings, sample=sample, seed=seed, progress=bars)
        if own is not None and is_collection:  # what the encoders read for the score is what is compared
            inputs = [side.space for side in own.sides if side.space is not None]
        titles = [_title(opened, source) for opened, source in zip(inputs, (before, after), strict=True)]
        sides = [
            _Side(opened, title, options, sample=sample, seed=seed, cache=cache, progress=bars)
            for opened, title in zip(inputs, titles, strict=True)
        ]
        layers = _common_layers(*sides)
        layered = layers != (None,)
        chosen = names or (list(LAYER_METRICS) if layered else default_metrics())
        relation = _related(sides, layers[-1], paired, seed)
        rows: list[Row] = []
        advance = bars.steps("comparing layers") if layered else bars.steps("half-samples")
        report = None if layered else advance
        groups = sides[0].groups, sides[1].groups

        def compared(
            task: tuple[Callable[[], Cloud], Callable[[], Cloud], dict[str, Any], dict[str, Any], int],
        ) -> list[Comparison]:
            clouds, facts = (task[0](), task[1]()), (task[2], task[3])
            settings: dict[str, Any] = {"paired": relation.is_paired, "groups": groups, "progress": report}
            return compare_clouds(*clouds, chosen, bootstrap=task[4], about=facts, **settings)

        def count(layer: int | None) -> int:
            # Of layers, which are many, the last is the one that is shipped.
            return bootstrap if bootstrap is not None else REPLICATES if layer == layers[-1] else 0

        tasks = [
            (sides[0].opener(layer), sides[1].opener(layer), sides[0].about(layer), sides[1].about(layer), count(layer))
            for layer in layers
        ]
        by_layer = in_parallel(compared, tasks, prefer="processes", progress=advance) if layered else map(compared, tasks)
        for comparisons in by_layer:
            rows += _rows(comparisons)
        pictures, records = _drawn(sides, layers[-1], chosen)
        alike, most_alike = _layer_similarities(sides, relation, seed)
    clear = [comparison.metric for comparison in comparisons if comparison.is_clear]
    tested = sum(comparison.low is not None for comparison in comparisons)
    typed = _typed(before, after, options, given, paired)
    answer = _answer(relation, comparisons, "The last layer" if layered else "B", typed)
    if own is not None:
        answer = replace(answer, sentence=leading(answer.sentence, own.sentence))
        rows += own.rows()
    return Result(
        verb="compare",
        title=f"{short_name(titles[0])} and {short_name(titles[1])}",
        answer=answer,
        rows=(*rows, *alike),
        pictures=pictures,
        records=records,
        conditions=(*(() if own is None else own.conditions), *_conditions(relation, sides, layered and bootstrap is None)),
        notes=tuple(f"{name}: {note}" for name, side in zip("AB", sides, strict=True) for note in side.notes),
        provenance=provenance(
            *(side.facts(layers[-1]) for side in sides),
            paired=relation.is_paired,
            paired_by=relation.basis,
            stars={"clear": clear, "tested": tested, "by_chance": round(0.05 * tested, 2)},
            **relation.plain(),
            **({} if most_alike is None else {"layer_cka": most_alike}),
            **({} if own is None or own.score is None else {"score": asdict(own.score)}),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _Relation:
    """What is known of two sides as a whole: how their rows were paired, and what follows from it."""

    basis: str = ""  # "ids", "texts", ..., "declared" or "vectors"; empty if the rows are not paired
    left_out: tuple[int, int] = (0, 0)  # rows of each side that the other one does not have
    correspondence: Correspondence | None = None
    kept: KeptStructure | None = None
    shift: Shift | None = None
    untested: str = ""  # why two samples could not be tested
    is_declared: bool = False  # whether the caller says that rows are independent
    could_be_paired: bool = False
    n: int = 0  # rows of each side, if they are paired
    looked_at: int = 0

    @property
    def is_paired(self) -> bool:
        return bool(self.basis)

    def plain(self) -> dict[str, Any]:
        """The numbers for the provenance."""
        found = {name: getattr(self, name) for name in ("correspondence", "kept", "shift")}
        return {name: asdict(value) for name, value in found.items() if value is not None}


def _related(sides: Sequence[_Side], layer: int | None, paired: bool | None, seed: int) -> _Relation:
    """Pair the rows if ids, texts, the caller or the vectors say so, and relate them; otherwise compare two samples."""
    from theodolite.probes import correspondence, kept_structure, two_sample_shift
    from theodolite.probes.corresponding_rows import CERTAIN

    counts = [side.n for side in sides]
    if paired and counts[0] != counts[1]:
        sizes = f"A has {counts[0]:,} rows and B {counts[1]:,}"
        raise ValueError(f"{sizes}, and pairs need equal numbers; leave out {option('paired')} to compare two samples")
    basis, left_out = ("declared", (0, 0)) if paired else _paired_by_name(sides) if paired is None else ("", (0, 0))
    clouds = [side.cloud(layer) for side in sides]
    is_open = not basis and paired is None and counts[0] == counts[1] and _same_sample(clouds)
    if basis or is_open:
        found = correspondence(clouds[0].sample, clouds[1].sample, seed=seed)
        if clouds[0].is_sampled:
            found = replace(found, outliers=tuple(int(clouds[0].sample_index[row]) for row in found.outliers))
        if basis or found.verdict in CERTAIN:
            kept = kept_structure(clouds[0].sample, clouds[1].sample, seed=seed) if clouds[0].n > 2 else None
            return _Relation(
                basis=basis or "vectors",
                left_out=left_out,
                correspondence=found,
                kept=kept,
                n=clouds[0].n,
                looked_at=len(clouds[0].sample),
            )
    shift, untested = None, ""
    groups = [None if side.groups is None else side.groups[cloud.sample_index] for side, cloud in zip(sides, clouds, strict=True)]
    both = None if groups[0] is None or groups[1] is None else (groups[0], groups[1])
    try:
        shift = two_sample_shift(clouds[0].sample, clouds[1].sample, groups=both, seed=seed)
    except ValueError as error:  # other dimensions, or too few rows
        untested = str(error)
    return _Relation(shift=shift, untested=untested, is_declared=paired is False, could_be_paired=is_open)


def _same_sample(clouds: Sequence[Cloud]) -> bool:
    return (clouds[0].sample_size, clouds[0].seed) == (clouds[1].sample_size, clouds[1].seed)


def _paired_by_name(sides: Sequence[_Side]) -> tuple[str, tuple[int, int]]:
    """Bring rows with the same id or text into one order; what they were paired by, and the number left out of each side."""
    for name, basis in KEYS.items():
        first, second = (side.keys(name) for side in sides)
        if first is None or second is None:
            continue
        if first == second:
            return basis, (0, 0)
        if name in ("token", "word"):  # other tokens are other rows
            return "", (0, 0)
        common = common_rows(first, second)
        if common.shape[1] >= FEWEST_COMMON:
            for side, index in zip(sides, common, strict=True):
                side.select(index)
            return basis, (len(first) - common.shape[1], len(second) - common.shape[1])
    return "", (0, 0)


def common_rows(first: Sequence[Hashable], second: Sequence[Hashable]) -> Indices:
    """(2, m) row numbers of the keys that both sides have, in the order of the first."""
    position = {key: row for row, key in enumerate(second)}
    common = [(row, position[key]) for row, key in enumerate(first) if key in position]
    return np.array(common, dtype=np.intp).reshape(-1, 2).T


class _Side:
    """One of the two inputs, opened: its clouds by layer, and what rows say of them."""

    def __init__(
        self, opened: Input, name: str, reading: Reading, *, sample: int, seed: int, cache: bool, progress: Progress
    ) -> None:
        self.name, self._sample, self._seed = name, sample, seed
        self._opened = opened
        self._texts = opened.texts.texts if isinstance(opened, EncoderInput) else None
        self._space: Space | None = None
        self._cloud: Cloud | None = None
        self._index: Indices | None = None
        if isinstance(opened, VectorsInput):
            self._cloud = opened.cloud(progress, sample=sample, seed=seed, cache=cache)
            self.layers: tuple[int | None, ...] = (None,)
        else:
            self._space = opened.space(progress) if isinstance(opened, EncoderInput) else opened
            self.layers = choose_layers(reading.layers, self._space.layers)

    @property
    def n(self) -> int:
        """Number of rows, before any are left out."""
        if self._space is not None:
            return self._space.n
        assert self._cloud is not None
        return self._cloud.n

    @property
    def groups(self) -> NDArray[Any] | None:
        """The text of each row, if rows are tokens or words of texts; None if each row stands for itself."""
        groups = None if self._space is None else text_groups(self._space)
        if groups is None:
            return None
        return np.asarray(groups if self._index is None else groups[self._index])

    def keys(self, name: str) -> list[tuple[Hashable, ...]] | None:
        """What a column says each row is, a repeated value with its number; None if there is no such column of ids or texts."""
        values = self._column(name)
        if values is None or (name == "text" and not all(isinstance(value, str) for value in values)):
            return None  # the column `text` of an extracted space counts its texts
        columns: list[Sequence[Any]] = [values]
        if self._space is not None and name in ("token", "word"):
            columns += [self._space.rows[other] for other in ("text", "position") if other in self._space.rows]
        seen: Counter[tuple[Hashable, ...]] = Counter()
        keys = []
        for cells in zip(*columns, strict=True):
            key = tuple(cell.item() if isinstance(cell, np.generic) else cell for cell in cells)
            seen[key] += 1
            keys.append((*key, seen[key]))
        return keys

    def _column(self, name: str) -> Sequence[Any] | None:
        if self._space is not None:
            return list(self._space.rows[name]) if name in self._space.rows else None
        opened = self._opened
        assert isinstance(opened, VectorsInput)
        with suppress(ValueError, OSError):  # a file without such a column, or with gaps in it, names no rows
            return opened.labels(name, n=self.n) if name in opened.other_columns else None
        return None

    def select(self, index: Indices) -> None:
        """Keep these rows, in this order."""
        self._index = index
        if self._cloud is not None:
            order = np.argsort(index)  # rows of a file are read in ascending order
            taken = self._cloud.replay().take(index[order])
            self._cloud = Cloud(taken[np.argsort(order)], sample=self._sample, seed=self._seed)

    def cloud(self, layer: int | None) -> Cloud:
        """The cloud of a layer; a space of one layer stands for vectors without layers."""
        return self.opener(layer)()

    def opener(self, layer: int | None) -> Callable[[], Cloud]:
        """A function that gives that cloud; that of a layer can be sent to a worker."""
        if self._cloud is not None:
            cloud = self._cloud
            return lambda: cloud
        assert self._space is not None
        number = self.layers[-1] if layer is None else layer
        vectors = self._space.opener(-1 if number is None else number)
        return partial(_layer_cloud, vectors, self._index, sample=self._sample, seed=self._seed)

    def about(self, layer: int | None) -> dict[str, Any]:
        """The fields of a row that say where a number comes from."""
        if self._space is None or layer is None:
            return {"model": self.name}
        return self._space.about(layer)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is known of the texts that an encoder read, or of how a file was read."""
        if self._space is not None:
            return space_notes(self._space)
        return () if self._cloud is None else self._cloud.source.notes

    def facts(self, layer: int | None) -> dict[str, Any]:
        """What the result says of this input."""
        unit = {} if self._space is None else {"unit": self._space.origin.pooling, **encoder_facts(self._space.origin)}
        return cloud_facts(self.cloud(layer), self.name) | unit

    def picture(self, layer: int | None, state: str, frame: Any) -> tuple[Picture, ...]:
        """The layer for the report."""
        if self._space is None:
            return cloud_picture(self.cloud(layer), {"model": short_name(self.name), "state": state}, frame=frame)
        number = self.record_fields(layer, state)["layer"]
        return space_picture(self._space, number, self._texts, seed=self._seed, state=state, frame=frame)

    def similarities(self, layer: int | None, state: str, metrics: Sequence[str]) -> list[dict[str, Any]]:
        """How similar its rows are, for the report."""
        fields = self.record_fields(layer, state)
        given = None if self._space is None else given_pairs(self._space, fields["layer"])
        return similarity_lines(self.cloud(layer), metrics, fields, given=given)

    def record_fields(self, layer: int | None, state: str) -> dict[str, Any]:
        """What the report's records say of it."""
        return {"model": short_name(self.name), "state": state, "layer": self.layers[-1] if layer is None else layer}


def _layer_cloud(vectors: Callable[[], Floats], index: Indices | None, *, sample: int, seed: int) -> Cloud:
    return Cloud(vectors() if index is None else vectors()[index], sample=sample, seed=seed)


def _layer_similarities(sides: Sequence[_Side], relation: _Relation, seed: int) -> tuple[tuple[Row, ...], dict[str, Any] | None]:
    """Calibrated CKA of every layer of A with every layer of B as rows, and the largest; nothing if a side has one layer."""
    from theodolite.probes.corresponding_rows import CKA_ROWS
    from theodolite.probes.similarity import cka_of_layers

    if not relation.is_paired or min(len(side.layers) for side in sides) < 2:
        return (), None
    first, second = ([side.cloud(layer).sample for layer in side.layers] for side in sides)
    chosen = sample_rows(len(first[0]), CKA_ROWS, seed=seed)
    table = cka_of_layers([rows[chosen] for rows in first], [rows[chosen] for rows in second], seed=seed)
    cells = [(a, b, table[i][j]) for i, a in enumerate(sides[0].layers) for j, b in enumerate(sides[1].layers)]
    shared: dict[str, Any] = {"metric": "layer_cka", "n": len(chosen), "seed": seed, "versions": current_versions()}
    reasons = {True: "a layer has no spread", False: ""}
    rows = tuple(
        Row(value=cell.calibrated, reason=reasons[math.isnan(cell.value)], label=str(a), other_label=str(b), **shared)
        for a, b, cell in cells
    )
    defined = [(a, b, cell) for a, b, cell in cells if math.isfinite(cell.calibrated)]
    if not defined:
        return rows, None
    a, b, cell = max(defined, key=lambda entry: entry[2].calibrated)
    return rows, {"layer_a": a, "layer_b": b, "pairs": len(cells), **asdict(cell)}


def _answer(relation: _Relation, comparisons: Sequence[Comparison], subject: str, typed: Callable[..., str]) -> Answer:
    """The conclusion: how the rows are related, or whether the samples differ."""
    step = Command(words=typed(), why="show both spaces and every number on a page")
    if relation.could_be_paired:
        step = Command(words=typed("paired"), why="if row i of both is the same text")
    shift = relation.shift
    if relation.correspondence is not None:
        verdict, sentence = relation.correspondence.verdict, _related_sentence(relation, comparisons, subject)
    elif shift is None:
        verdict = "different"
        sentence = f"The rows are not paired, and no shift could be tested: {relation.untested}."
    elif not shift.is_shifted:
        verdict, numbers = "no shift found", f"AUC {shift.auc:.2f}, p = {shift.p:.2g}"
        sentence = f"No shift of the mean found between A and B ({numbers}): a linear classifier cannot tell their rows apart."
    else:
        verdict, numbers = "shifted", f"AUC {shift.auc:.2f}, p = {shift.p:.2g}"
        sentence = f"B is shifted from A ({numbers}): the means are {shift.mean_shift:.2f} spreads apart, "
        sentence += f"against {shift.mean_shift_chance:.2f} by chance."
    return Answer(verdict=verdict, sentence=sentence, reasons=_reasons(relation, comparisons), next=(step,))


def _related_sentence(relation: _Relation, comparisons: Sequence[Comparison], subject: str) -> str:
    """One sentence for rows that correspond."""
    found, kept = relation.correspondence, relation.kept
    assert found is not None
    made, other = ("A", "B") if found.side == "A" else ("B", "A")
    neighbours = "" if kept is None else f"{share_text(kept.neighbours)} of nearest neighbours are kept"
    if kept is not None and kept.neighbours <= 2 * kept.chance:
        neighbours += f", against {share_text(kept.chance)} by chance"
    apart = "" if not found.outliers else f" ({listed_rows(found.outliers, found.n)} do not fit)"
    change = _rank_change(comparisons)
    r2 = max((found.numbers.get(name, 0.0) for name in ("r2_a_to_b", "r2_b_to_a")), default=0.0)
    rest = f"{found.n - len(found.outliers):,}"
    unknown = f" ({found.detail})" if found.detail else ""
    sentences = {
        "identical": f"A and B are identical in all {found.n:,} rows{apart}.",
        "same up to precision": f"{made} is {other} {'rounded' if found.side else 'up'} to {found.detail}{apart}; {neighbours}.",
        "same up to length": f"B is A with different row lengths{apart}: cosines are equal, distances and dot products are not.",
        "nearly the same": f"B is nearly A{apart}: the median cosine between corresponding rows is "
        f"{found.numbers.get('median_cosine', 1.0):.4f}, as from another runtime or quantised weights; {neighbours}.",
        "first dimensions": f"{made} is {other} cut to the {found.detail}{apart}; {neighbours}.",
        "turned": f"B is A {_turned_words(found)}{apart}: {_equal_words(found)}, but the two still cannot be searched together.",
        "linear map": f"A linear map {found.detail} explains {share_text(r2)} of unseen rows; {neighbours}, but the two cannot "
        "be searched together.",
        "partly re-embedded": f"{share_text(1 - found.share)} of the rows were re-embedded "
        f"({listed_rows(found.outliers, found.n)}); the other {rest} are {found.detail}.",
        "different": f"{subject} {change or 'is a different embedding'}{unknown}; {neighbours}.",
    }
    return sentences[found.verdict]


def _turned_words(found: Correspondence) -> str:
    """What was done to rows that are turned: rotated, scaled, shifted, and up to what."""
    shift = "shifted" if found.is_rotated else "shifted by one vector"
    steps = ["rotated"] * found.is_rotated + [f"scaled by {found.scale:.3g}"] * (found.scale != 1) + [shift] * found.is_shifted
    return " ".join([" and ".join(filter(None, [", ".join(steps[:-1]), steps[-1]])), *found.up_to])


def _equal_words(found: Correspondence) -> str:
    """What is equal between rows that are turned, and what is not."""
    scaled = f"distances are {found.scale:.3g} times as large" if found.scale != 1 else ""
    if found.is_shifted:
        distances = f"distances {'at unit length ' * ('up to length' in found.up_to)}are equal"
        return f"{scaled}, and cosines differ" if scaled else f"{distances}, cosines are not"
    if "up to length" in found.up_to:
        return "cosines are equal, distances are not"
    return f"cosines are equal, {scaled}" if scaled else "every rotation-invariant number is equal"


def _rank_change(comparisons: Sequence[Comparison]) -> str:
    """What became of the effective dimensions, if that is beyond doubt and large; empty otherwise."""
    ranks = next((comparison for comparison in comparisons if comparison.metric == "effective_rank"), None)
    if ranks is None or (ranks.low is not None and not ranks.is_clear):
        return ""
    old, new = ranks.before.value, ranks.after.value
    if not old > 0 or not new > 0 or max(old / new, new / old) < OTHER_RANK:
        return ""
    verb = "widened" if new > old else "collapsed" if old / new >= COLLAPSE else "narrowed"
    return f"{verb} from {old:.0f} to {new:.0f} effective dimensions"


def _reasons(relation: _Relation, comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """At most three sentences with the numbers behind the answer."""
    reasons = []
    kept, shift = relation.kept, relation.shift
    if kept is not None:
        interval = "" if kept.low is None or kept.high is None else f" [{share_text(kept.low)}, {share_text(kept.high)}]"
        cka = kept.cka
        words = f"Nearest neighbours kept: {share_text(kept.neighbours)}{interval}, by chance {share_text(kept.chance)}"
        reasons.append(f"{words}; debiased CKA {cka.value:.2f}, {cka.calibrated:.2f} above chance (p = {cka.p:.2g}).")
        translated = next((row for row in kept.thresholds if row[0] == 0.01), next(iter(kept.thresholds), None))
        if translated is not None:
            share, a, b = translated
            reasons.append(f"A cosine cutoff of {a:.3f} in A corresponds to {b:.3f} in B: {share:.1%} of pairs lie above either.")
    if shift is not None:
        spectrum = f"variance profiles differ by {shift.spectrum_shift:.2f} (by chance {shift.spectrum_shift_chance:.2f})"
        if shift.is_shifted:
            reasons.append(
                f"Most unlike A: {listed_rows(shift.unlike_b, 0)} of B; most unlike B: {listed_rows(shift.unlike_a, 0)} of A."
            )
            reasons.append(f"The {spectrum}.")
        else:
            means = f"the means are {shift.mean_shift:.2f} spreads apart (by chance {shift.mean_shift_chance:.2f})"
            reasons.append(f"{means[:1].upper()}{means[1:]}, and the {spectrum}.")
    tested = [comparison for comparison in comparisons if comparison.low is not None]
    if tested:
        clear = sum(comparison.is_clear for comparison in tested)
        chance = f"{0.05 * len(tested):.1f}".removesuffix(".0")
        reasons.append(f"{clear} of {len(tested)} metrics differ (*); about {chance} would differ by chance alone.")
    return tuple(reasons)


def _conditions(relation: _Relation, sides: Sequence[_Side], only_last: bool) -> Iterator[str]:
    """What the comparison stands on: pairing, samples, groups."""
    bases = {"vectors": "in order: unrelated rows could not give this relation", "declared": "in order, as declared"}
    if relation.basis:
        yield f"rows are paired {bases.get(relation.basis, f'by their {relation.basis}')}"
    else:
        why = "as declared" if relation.is_declared else "because nothing shows that row i of both is the same text"
        yield f"A and B are compared as independent rows, {why}"
    for name, count in zip("AB", relation.left_out, strict=True):
        if count:
            yield f"{count:,} rows that only {name} has are left out"
    if relation.is_paired and relation.looked_at < relation.n:
        yield f"the relation was determined on a sample of {relation.looked_at:,} of {relation.n:,} rows"
    if relation.kept is not None and relation.kept.asking < relation.n:
        yield f"neighbours of {relation.kept.asking:,} rows among {relation.kept.searched:,}; CKA on {relation.kept.cka.n:,} rows"
    if relation.shift is not None:
        yield f"the shift was tested on {relation.shift.n_a:,} rows of A and {relation.shift.n_b:,} of B"
    groups = sides[0].groups
    texts = "" if groups is None else f"intervals resample whole texts ({len(np.unique(groups)):,} in all)"
    yield texts or "intervals treat rows as independent"
    if only_last:
        yield f"only the last layer has intervals; {option('bootstrap', '40')} computes them for every layer"


def _typed(before: Any, after: Any, reading: Reading, given: Mapping[str, Any], paired: bool | None) -> Callable[..., str]:
    """A function that writes this comparison again: with a report, or with the rows declared as paired."""
    declared = "" if paired is None else f", paired={paired}"
    fields = sorted({*APPLICABLE["file"], *APPLICABLE["encoder"]} - {"tokenizer", "revision", "texts"})

    signals = typed_signals(given)

    def typed(more: str = "report") -> str:
        if signals is None or not all(isinstance(source, (str, os.PathLike)) for source in (before, after)):
            return "th.compare(A, B, paired=True)" if more == "paired" else f"th.compare(A, B{declared}).report('compare.html')"
        options = reading.typed(fields)
        if isinstance(reading.texts, (str, os.PathLike)):
            options["texts"] = os.fspath(reading.texts)
        options |= signals
        if declared and more == "report":  # without it the answer could be another one
            options["paired" if paired else "independent"] = ""
        return command(
            "compare", os.fspath(before), os.fspath(after), **options, **{more: "compare.html" if more == "report" else ""}
        )

    return typed


def _drawn(sides: Sequence[_Side], layer: int | None, metrics: Sequence[str]) -> tuple[tuple[Picture, ...], Mapping[str, Any]]:
    """Both clouds in one frame, so that what moved can be seen, and how similar the rows of each are."""
    clouds = [side.cloud(layer) for side in sides]
    lengths = [cloud.moments.mean_norm or 1.0 for cloud in clouds]
    widths = [(cloud.moments.trace / cloud.n) ** 0.5 or 1.0 for cloud in clouds]
    # Clouds of very different size share no view in which both can be read.
    is_similar = max(lengths) <= MOST_LONGER * min(lengths) and max(widths) <= MOST_WIDER * min(widths)
    is_common = clouds[0].d == clouds[1].d and is_similar
    frame = common_frame([cloud.sample for cloud in clouds]) if is_common else None
    # Of layers only a few metrics are measured; random pairs are cheap next to an encoder.
    looked_at = metrics if layer is None else [*metrics, "pair_cosine_median"]
    pictures: list[Picture] = []
    lines: list[dict[str, Any]] = []
    spectra: list[dict[str, Any]] = []
    for side, cloud, state in zip(sides, clouds, (BEFORE, AFTER), strict=True):
        pictures += side.picture(layer, state, frame)
        lines += side.similarities(layer, state, looked_at)
        spectra += spectrum_lines(cloud, side.record_fields(layer, state))
    return tuple(pictures), similarities(lines, spectra=spectra)


def _common_layers(first: _Side, second: _Side) -> tuple[int | None, ...]:
    """The layers to compare; the only layer of a space is compared with vectors without layers, or with any other only layer."""
    if first.layers == second.layers:
        return first.layers
    if None in (*first.layers, *second.layers) or len(first.layers) == len(second.layers) == 1:
        return (None,)
    common = tuple(layer for layer in first.layers if layer in second.layers)
    if not common:
        raise ValueError(
            f"{first.name} has layers {list(first.layers)} and {second.name} {list(second.layers)}; they need a common layer"
        )
    return common


def _require_same_kind(inputs: Sequence[Input], reading: Reading) -> None:
    """A space of several layers can be compared with vectors only by one of its layers."""
    layered = [opened for opened in inputs if not isinstance(opened, VectorsInput)]
    layers = reading.layers
    is_one = layers == "last" or isinstance(layers, int) or (not isinstance(layers, str) and len(layers) == 1)
    if len(layered) != 1 or is_one or (not isinstance(layered[0], EncoderInput) and len(layered[0].layers) == 1):
        return
    rule = "one input has several layers, and the other has vectors without layers"
    raise ValueError(f"{rule}; choose one layer with {option('layers', 'last')}")


def _title(opened: Input, source: Any) -> str:
    if isinstance(opened, EncoderInput):
        return encoder_name(opened.model)
    if isinstance(opened, VectorsInput):
        return opened.name
    return str(source) if isinstance(source, str) else opened.origin.model or "space"


def _rows(comparisons: Sequence[Comparison]) -> Iterator[Row]:
    for comparison in comparisons:
        before, after = comparison.before, comparison.after
        yield replace(before, state=before.state or BEFORE)
        yield replace(after, state=after.state or AFTER)
        change: dict[str, Any] = {"value": comparison.difference, "low": comparison.low, "high": comparison.high}
        yield replace(after, state=DIFFERENCE, reason=before.reason or after.reason, **change)
