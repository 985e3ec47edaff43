"""The verb `probe`: how labels are arranged in a space."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

import numpy as np

from theodolite.core.engines import chosen_engine
from theodolite.core.result import Answer, Command, Result, table_of
from theodolite.core.rows import Row, require_rows_file
from theodolite.core.sampling import hold_out as held_out_rows
from theodolite.core.sampling import sample_by_label
from theodolite.core.spelling import command, option
from theodolite.core.vectors import Floats, array
from theodolite.spaces.readers.label_files import TABLE_ENDINGS, is_label_file
from theodolite.spaces.space import Space, choose_layers
from theodolite.tasks.loading import load_task
from theodolite.verbs.inputs import (
    FILE_OPTIONS,
    EncoderInput,
    Reading,
    ReadingOptions,
    VectorsInput,
    encoder_facts,
    encoding_options,
    open_input,
    reads_input,
)
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.signals import Labels, row_labels
from theodolite.verbs.surveying import provenance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from theodolite.probes.layer_probe import LayerProbe
    from theodolite.probes.separable_pairs import Separability
    from theodolite.tasks.examples import Examples
    from theodolite.tasks.task import Task

# Share of a task's examples that is held out if the task has no second split.
HELD_OUT = 0.2
# Labels that are compared in pairs; with more, time and memory would grow with their square.
MOST_LABELS = 300
CLASSIFIERS = ("none", "linear", "mlp")
SEARCHES = ("full", "race")
LABEL_DISTANCES = ("mean", "minimum")


@reads_input("texts", "score_range", "specials")  # plain texts, scores and special tokens have no labels
def probe(
    source: Any,
    /,
    labels: Labels | None = None,
    *,
    test: Any = None,
    test_labels: Labels | None = None,
    hold_out: float | None = None,
    classifier: Literal["none", "linear", "mlp"] = "none",
    search: Literal["full", "race"] = "full",
    control: int | None = None,
    sample: int | None = None,
    drop_unseen: bool = False,
    label_distance: Literal["mean", "minimum"] = "mean",
    min_cluster_size: int = 1,
    output: str | os.PathLike[str] | None = None,
    budget: float | None = None,
    workers: int | None = None,
    engine: str | None = None,
    seed: int = 0,
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Measure how labels are arranged: linear separability, distances between labels, and the closest pairs.

    The clusters are DirectProbe's (Zhou & Srikumar 2022), with certified distances between their convex hulls. A space and an
    encoder are probed layer by layer. Held-out rows get the label of the nearest hull.

    Parameters
    ----------
    source
        Vectors, a `Space` or its folder, or an encoder together with `task` or `own`.
    labels
        The label of every row: a sequence, a column of the space (`label` by default), or FILE[:COLUMN].
    test, test_labels
        Held-out rows to score on, of the same kind as `source`, and their labels.
    hold_out
        Share of the rows to hold out, stratified by label; 0 holds out none.
    classifier
        Also train a classifier probe, scored on the held-out rows.
    search
        How the grid of "mlp" is searched: "full" trains every cell on every fold, as published; "race" trains 15 times fewer
        networks and loses some accuracy, which the notes state.
    control
        How often to shuffle the labels of each separable layer, to compare its smallest gap with; 0 for never. By default 19
        times if that takes seconds. If set, a classifier of words is also trained on random labels of word types.
    sample
        Fit on a stratified sample of at most this many rows; every label keeps one.
    drop_unseen
        Leave out held-out rows whose label no fitted row has, instead of raising.
    label_distance
        Distance of two labels: mean (published) or minimum over their clusters.
    min_cluster_size
        Leave out smaller clusters (the published analysis: 6).
    output
        A `.parquet`, `.json` or `.jsonl` file that gets the rows after every layer.
    budget
        Seconds for each layer: after them, bounds on the number of clusters are returned instead.
    workers, engine
        Where the work runs: a number of workers on this machine, or the address of a Dask scheduler, such as
        `tcp://10.0.0.1:8786`. What `joblib.parallel_config` says, or all cores of this process, by default.
    seed
        Seed of samples, held-out rows and classifiers.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.
    **reading
        How the input is read: the fields of `theodolite.verbs.inputs.Reading`.

    Returns
    -------
    Result
        Rows per layer, label and pair of labels. The answer is about the last layer: separable, separable by dimension alone (any
        labels would be, or shuffled ones are too), or not separable.
    """
    options = Reading(**reading)
    settings = ProbeSettings(classifier, search, label_distance, min_cluster_size, control, seed, budget, options.device)
    if output is not None:
        require_rows_file(output)
    with chosen_engine(workers, engine), progress_bars(progress) as bars:
        data = _read(source, labels, options, test=test, test_labels=test_labels, hold_out=hold_out, seed=seed, progress=bars)
        data, notes = _prepared(data, sample=sample, hold_out=hold_out, drop_unseen=drop_unseen, seed=seed)
        data = _with_most_labels(data, notes)
        if classifier != "none" and data.test is None:
            ways = f"{option('test', 'PATH')} or {option('hold_out', '0.2')}"
            raise ValueError(f"{option('classifier', classifier)} is scored on held-out rows, but there are none; give {ways}")
        again = _Again(
            source, labels, options, {"test": test, "test_labels": test_labels, "hold_out": hold_out, "sample": sample}
        )
        layers: list[ProbedLayer] = []
        for measured in _probe_layers(data, settings, bars, notes):
            layers.append(measured)
            if output is not None:  # what is done is kept, whatever happens to the next layer
                _result(data, layers, notes, settings, again).save(output)
    return _result(data, layers, notes, settings, again)


@dataclass(frozen=True, eq=False)
class _Labelled:
    """Labelled rows in one or more layers; the layer is None if nothing is known of layers."""

    layers: tuple[int | None, ...]
    take: Callable[[int | None], Floats]
    y: NDArray[Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    words: NDArray[Any] | None = None
    encoder: Mapping[str, Any] = field(default_factory=dict)  # how the texts were encoded, if that is known

    def subset(self, rows: NDArray[Any]) -> _Labelled:
        """The same with only some of the rows."""
        words = None if self.words is None else self.words[rows]
        return replace(self, take=lambda layer: self.take(layer)[rows], y=self.y[rows], words=words)


@dataclass(frozen=True, eq=False)
class ProbeData:
    """What to fit on and what to score on."""

    title: str
    train: _Labelled
    test: _Labelled | None = None

    @property
    def majority(self) -> tuple[str, float]:
        """The most frequent label of the fitted rows, and its share of the held-out rows."""
        assert self.test is not None
        labels, counts = np.unique(self.train.y, return_counts=True)
        label = labels[counts.argmax()]
        return str(label), float(np.mean(self.test.y == label))


@dataclass(frozen=True)
class ProbeSettings:
    """How to probe."""

    classifier: str
    search: str
    label_distance: str
    min_cluster_size: int
    control: int | None
    seed: int
    budget: float | None
    device: str

    def __post_init__(self) -> None:
        for name, choices in (("classifier", CLASSIFIERS), ("search", SEARCHES), ("label_distance", LABEL_DISTANCES)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{option(name, getattr(self, name))} must be one of {', '.join(choices)}")

    @property
    def of_layer(self) -> dict[str, Any]:
        """The settings that the probe of a layer takes under the same names."""
        names = ("classifier", "label_distance", "min_cluster_size", "budget", "seed", "device")
        return {name: getattr(self, name) for name in names}


def _read(
    source: Any,
    labels: Labels | None,
    reading: Reading,
    *,
    test: Any,
    test_labels: Labels | None,
    hold_out: float | None,
    seed: int,
    progress: Progress,
) -> ProbeData:
    """Vectors with their labels, from whatever was given."""
    opened = open_input(source, reading)
    if isinstance(opened, EncoderInput):
        if labels is not None or test is not None or test_labels is not None:
            raise ValueError(
                f"an encoder reads the labels of its task; leave out {option('labels', 'X')}, {option('test', 'X')} and "
                f"{option('test_labels', 'X')}"
            )
        return _encode(opened, hold_out=hold_out, seed=seed, progress=progress)
    if test is None and test_labels is not None:
        raise ValueError(f"{option('test_labels', 'X')} belongs to held-out rows; name them with {option('test', 'PATH')}")
    train = _labelled(opened, labels, reading)
    if test is None:
        return ProbeData(_name(opened, source), train)
    other = open_input(test, reading)
    # A column of the same name is in the held-out space or table too; a file of labels is not theirs.
    own = test_labels if test_labels is not None else labels if _is_column(labels, other) else None
    held_out = _labelled(other, own, reading)
    widths = [side.take(side.layers[0]).shape[1] for side in (train, held_out)]
    if widths[0] != widths[1]:
        mismatch = f"{_name(other, test)} has {widths[1]} dimensions and {_name(opened, source)} has {widths[0]}"
        raise ValueError(f"{mismatch}; held-out rows must be from the same model and layer")
    return ProbeData(_name(opened, source), train, held_out)


def _name(opened: Any, source: Any) -> str:
    if isinstance(opened, VectorsInput):
        return opened.name
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    about = opened.about(-1)
    return ", ".join(filter(None, (str(about.get(name) or "") for name in ("model", "task", "split")))) or "space"


def _is_column(labels: Labels | None, opened: Any) -> bool:
    if not isinstance(labels, str):
        return False
    if not isinstance(opened, VectorsInput):
        return labels in opened.rows or not is_label_file(labels)
    return opened.frame is not None or (opened.path or "").endswith(TABLE_ENDINGS)


def _labelled(opened: VectorsInput | Space | EncoderInput, labels: Labels | None, reading: Reading) -> _Labelled:
    """The rows of vectors or of a space's chosen layers, with the labels of a file, of a column, or those given."""
    from theodolite.models.tokens import counts_line

    if isinstance(opened, EncoderInput):
        raise ValueError("held-out rows of vectors must be vectors too, not an encoder")
    if isinstance(opened, VectorsInput):
        X = array(opened.vectors)
        y = np.array(row_labels(opened, labels, n=len(X)))
        return _Labelled((None,), lambda _: X, y, {"model": opened.name}, "; ".join(opened.notes))
    space = opened
    about = {key: value for key, value in space.about(-1).items() if key != "layer"}
    layers, y = choose_layers(reading.layers, space.layers), np.array(row_labels(space, labels, n=space.n))
    column = next((name for name in ("word", "token") if name in space.rows), None)
    words = None if column is None else np.asarray(space.rows[column])
    note = counts_line(space.origin.counts)
    encoder = encoder_facts(space.origin)
    return _Labelled(layers, lambda layer: space[-1 if layer is None else layer], y, about, note, words, encoder)


def _encode(opened: EncoderInput, *, hold_out: float | None, seed: int, progress: Progress) -> ProbeData:
    """All chosen layers of an encoder: a task's training split to fit on, and what is held out of it to score on."""
    from theodolite.models.extraction import extract_space

    reading = opened.reading
    task = reading.declared_task()
    assert task is not None
    splits = _splits(task, reading, hold_out=hold_out, seed=seed)
    unit = reading.unit_for(opened.model)
    encoder = reading.load_encoder(opened.model)
    sides = []
    for name, examples in splits.items():
        options = encoding_options(reading, unit, f"{task.name} {name}", progress)
        labelled = _labelled(extract_space(encoder, examples, **options), None, Reading())
        sides.append(replace(labelled, about={**labelled.about, "split": name}))
    title = f"{encoder.name}, {task.name} {next(iter(splits))}"
    return ProbeData(title, sides[0], sides[1] if len(sides) > 1 else None)


def _splits(task: Task, reading: Reading, *, hold_out: float | None, seed: int) -> dict[str, Examples]:
    """The examples to fit on, and those held out: another split of the task, or a share of the one there is."""
    if task.kind == "similarity":
        raise ValueError(f"task {task.name!r} has scores, not labels; probe needs a task with labels, such as pos or trec-6")
    first = reading.split or task.train_split
    train = load_task(task, first, reading.data, encoding=reading.encoding)
    if hold_out == 0:
        return {first: train}
    if hold_out is None and task.scored_split != first:
        return {first: train, task.scored_split: load_task(task, task.scored_split, reading.data, encoding=reading.encoding)}
    rest, held = train.divide(1 - (hold_out or HELD_OUT), seed=seed)
    return {first: rest, f"{first}, held out": held}


def _prepared(
    data: ProbeData, *, sample: int | None, hold_out: float | None, drop_unseen: bool, seed: int
) -> tuple[ProbeData, list[str]]:
    """The rows to fit and to score: held out and sampled as asked, with labels that both have."""
    train, test = data.train, data.test
    notes = [train.note] if train.note else []
    labels = np.unique(train.y)
    if len(labels) < 2:
        raise ValueError(f"all {len(train.y):,} rows have the label {labels[0]!s}; there must be at least two labels")
    if hold_out and test is None:
        rows = held_out_rows(train.y, hold_out, seed=seed)
        test = replace(train.subset(rows), about={**train.about, "split": f"{train.about.get('split') or 'rows'}, held out"})
        train = train.subset(np.delete(np.arange(len(train.y)), rows))
    if test is not None:
        test = _with_fitted_labels(train, test, drop_unseen, notes)
    if sample is not None and sample < len(train.y):
        train = train.subset(sample_by_label(train.y, sample, seed=seed))
    return replace(data, train=train, test=test), notes


def _with_most_labels(data: ProbeData, notes: list[str]) -> ProbeData:
    """The rows of the most frequent labels, if there are more labels than can be compared in pairs."""
    labels, counts = np.unique(data.train.y, return_counts=True)
    if len(labels) <= MOST_LABELS:
        return data
    kept = labels[np.argsort(-counts, kind="stable")[:MOST_LABELS]]  # of equally frequent ones, the first in order

    def reduced(side: _Labelled) -> _Labelled:
        return side.subset(np.flatnonzero(np.isin(side.y, kept)))

    train = reduced(data.train)
    pairs = f"{len(labels):,} labels make {len(labels) * (len(labels) - 1) // 2:,} pairs, too many to compare"
    size = f"the {MOST_LABELS} most frequent labels, {len(train.y):,} of {len(data.train.y):,} rows"
    notes.append(f"{pairs}: all numbers are for {size}")
    return replace(data, train=train, test=None if data.test is None else reduced(data.test))


def _with_fitted_labels(train: _Labelled, test: _Labelled, drop_unseen: bool, notes: list[str]) -> _Labelled:
    """The held-out rows, whose labels must be among those that are fitted."""
    from theodolite.probes.label_codes import check_label_sets

    if tuple(test.layers) != tuple(train.layers):
        raise ValueError(
            f"the fitted rows have layers {list(train.layers)} and the held-out rows {list(test.layers)}; both need the same ones"
        )
    usable, unseen = check_label_sets(train.y, test.y, drop_unseen=drop_unseen)
    if not unseen:
        return test
    listed = ", ".join(f"{label} ({count})" for label, count in unseen)
    notes.append(f"{int((~usable).sum()):,} held-out rows with labels unseen in training are left out: {listed}")
    return test.subset(np.flatnonzero(usable))


class ProbedLayer(NamedTuple):
    """One layer with what was measured of it; the layer is None if nothing is known of layers."""

    layer: int | None
    measured: LayerProbe
    separability: Separability
    rows: tuple[Row, ...]


def _probe_layers(data: ProbeData, settings: ProbeSettings, progress: Progress, notes: list[str]) -> Iterator[ProbedLayer]:
    """Each layer in turn; one without any spread, such as the [CLS] vectors of layer 0, is named and left out."""
    from theodolite.probes.direct_probe import NoSpread
    from theodolite.probes.layer_probe import probe_layer
    from theodolite.probes.separable_pairs import separability

    train, test = data.train, data.test
    # A control task trains the classifier once more, so only on request.
    types = None
    if settings.control and test is not None and train.words is not None and test.words is not None:
        types = (train.words, test.words)
    for layer in train.layers:
        suffix = "" if layer is None else f" layer {layer}"
        X = train.take(layer)
        try:
            measured = probe_layer(
                X,
                train.y,
                test=None if test is None else (test.take(layer), test.y),
                test_split=str(test.about.get("split", "")) if test is not None else "",
                types=types,
                grid={"search": settings.search},
                **settings.of_layer,
                about={**train.about, "layer": layer},
                progress=progress.stages(suffix),
            )
        except NoSpread as error:
            if len(train.layers) == 1:
                raise
            notes.append(f"layer {layer} is left out: {error}")
            continue
        if measured.score is not None and measured.score.note:
            notes.append(f"classifier{suffix and f' of{suffix}'}: {measured.score.note}")
        meaning = separability(measured.probe, X, train.y, shuffles=settings.control, seed=settings.seed)
        scored = [row for row in measured.rows if row.metric == "hull_accuracy"]
        common = replace(measured.rows[0], label="", low=None, high=None)
        rows = [replace(common, **fields) for fields in meaning.metrics()]
        rows += [replace(row, metric="majority_accuracy", value=data.majority[1], reason="") for row in scored]
        yield ProbedLayer(layer, measured, meaning, (*measured.rows, *rows))


def _result(
    data: ProbeData, layers: Sequence[ProbedLayer], notes: Sequence[str], settings: ProbeSettings, again: _Again
) -> Result:
    rows = tuple(row for layer in layers for row in layer.rows)
    facts = {"name": data.title, "n": len(data.train.y), "d": rows[0].d if rows else None, **data.train.encoder}
    held = {} if data.test is None else {"held_out": len(data.test.y)}
    search = {"search": settings.search} if settings.classifier == "mlp" else {}
    scores = [
        {"layer": layer.layer, "initialisation": number, "accuracy": accuracy}
        for layer in layers
        if layer.measured.score is not None
        for number, accuracy in enumerate(layer.measured.score.scores)
    ]
    return Result(
        verb="probe",
        title=data.title,
        answer=_answer(data, layers[-1], settings, again) if layers else None,
        rows=rows,
        records={"probe_scores": table_of(scores)} if scores else {},
        notes=tuple(notes),
        provenance=provenance(facts | held, settings={"classifier": settings.classifier, **search, "seed": settings.seed}),
    )


@dataclass(frozen=True)
class _Again:
    """What a caller gave, to name it in the command that comes next."""

    source: Any
    labels: Any
    reading: Reading
    options: Mapping[str, Any]

    def command(self, **more: str) -> str:
        """The same probe with further options: a command, or in Python a call if something has no name there."""
        named = {name: value for name, value in (("labels", self.labels), *self.options.items()) if value is not None}
        values = [self.source, *named.values()]
        if not all(isinstance(value, (str, os.PathLike, int, float)) for value in values):
            extra = "".join(f", {option(name, value)}" for name, value in more.items() if name != "report")
            own = "" if self.labels is None else f", {self.labels!r}" if isinstance(self.labels, str) else ", labels"
            return f"th.probe(X{own}{extra})" + (f".report({more['report']!r})" if "report" in more else "")
        is_encoder = self.reading.has_texts()
        names = [field.name for field in fields(self.reading) if is_encoder or field.name in ("layers", *FILE_OPTIONS)]
        typed: dict[str, Any] = self.reading.typed(names) | {name: str(value) for name, value in named.items()} | more
        return command("probe", model=str(self.source), **typed) if is_encoder else command("probe", str(self.source), **typed)


def _answer(data: ProbeData, layer: ProbedLayer, settings: ProbeSettings, again: _Again) -> Answer:
    """What the last layer shows: held-out accuracy first if there is any, then whether planes separate the labels, and why."""
    meaning, probe = layer.separability, layer.measured.probe
    pairs = "the two labels" if meaning.pairs == 1 else f"all {meaning.pairs:,} pairs of labels"
    reasons = []
    if meaning.overlapping:
        which = "the two labels" if meaning.pairs == 1 else f"{meaning.overlapping:,} of {meaning.pairs:,} pairs of labels"
        conclusion = f"{which} overlap, so planes do not separate the labels"
        pieces = "; ".join(filter(None, [f"{probe.cluster_count()} clusters", probe.pieces()]))
        reasons.append(f"To avoid overlaps, the {len(probe.classes_):,} labels are split into {pieces}.")
    elif meaning.guaranteed == meaning.pairs:
        conclusion = f"planes separate {pairs}, but would separate any labels of so few rows in {meaning.d:,} dimensions"
        rows = f"No pair of labels has more than {meaning.largest:,} rows, and they are affinely independent"
        reasons.append(f"{rows}: a plane separates them however they are labelled.")
    else:
        count = meaning.separable_shuffles
        usual = meaning.verdict != "separable"
        happens = f"{'also ' if usual else ''}happens in {'' if usual or not count else 'only '}{count or 'none'}"
        often = f"{happens} of {len(meaning.shuffled)} shuffles of the labels"
        conclusion = f"planes separate {pairs}" + (f", which {often}" if meaning.shuffled else "")
        if meaning.guaranteed:
            rows = f"{meaning.guaranteed:,} of {meaning.pairs:,} pairs of labels have affinely independent rows"
            reasons.append(f"{rows}: a plane separates these however they are labelled.")
    sentence = "; ".join(filter(None, [_accuracy(data, layer), conclusion]))
    where = "" if layer.layer is None else f"In layer {layer.layer}, "
    if not meaning.overlapping:
        reasons.append(_gap_reason(meaning, settings))
    way, why = {"report": "probe.html"}, "see the distances between all labels on a page"
    if data.test is None:
        way, why = {"hold_out": "0.2"}, "score the labels on held-out rows"
    elif settings.classifier == "none":
        way, why = {"classifier": "linear"}, "see how well a classifier predicts the labels"
    return Answer(
        verdict=meaning.verdict,
        sentence=f"{where}{sentence}." if where else f"{sentence[:1].upper()}{sentence[1:]}.",
        reasons=tuple(reasons),
        next=(Command(words=again.command(**way), why=why),),
    )


def _accuracy(data: ProbeData, layer: ProbedLayer) -> str:
    """The accuracy on held-out rows against that of the most frequent label; empty without held-out rows."""
    from scipy.stats import binomtest

    values = {row.metric: row for row in layer.rows if not row.label}
    row = values.get("probe_accuracy", values.get("hull_accuracy"))
    if row is None or math.isnan(row.value):
        return ""
    (label, share), n = data.majority, row.n or 0
    # By the exact test of a share: an accuracy that chance could give by always answering that label is no better.
    is_better = share < 1 and binomtest(round(row.value * n), n, share, alternative="greater").pvalue <= 0.05
    who = "the classifier" if row.metric == "probe_accuracy" else "the nearest hull"
    usual = f"always answering {label}"
    against = f"; {usual} gets {share:.0%}" if is_better else f", no better than {usual} ({share:.0%})"
    return f"{who} labels {row.value:.0%} of {n:,} held-out rows correctly{against}"


def _gap_reason(meaning: Separability, settings: ProbeSettings) -> str:
    """How the smallest gap compares with those of shuffled labels."""
    gap = f"The smallest gap, between {meaning.closest[0]} and {meaning.closest[1]}, is {meaning.gap:.3g}"
    shuffles = f"{len(meaning.shuffled)} shuffles (seed {settings.seed})"
    if not meaning.shuffled:
        why = "" if settings.control == 0 else f", because that would take long; {option('control', '19')} does it anyway"
        return f"{gap}. It was not compared with shuffled labels{why}."
    if not meaning.separable_shuffles:
        return f"{gap}; labels overlap in all {shuffles}."
    if any(map(math.isnan, meaning.shuffled)):
        return f"{gap}; measuring those of {shuffles} would take long; {option('control', '19')} does it anyway."
    is_above = meaning.beaten == len(meaning.shuffled)
    times = "" if math.isnan(meaning.gap_ratio) else f" and {meaning.gap_ratio:.3g} times their median"
    structure = "the labels have structure" if is_above else "this shows no structure"
    return f"{gap}, above that of {'all' if is_above else f'{meaning.beaten} of'} {shuffles}{times}: {structure}."
