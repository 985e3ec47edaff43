"""The verb `compare`: how the metrics differ between two spaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from theodolite.core.engines import chosen_engine, in_parallel
from theodolite.core.result import Result
from theodolite.core.spelling import option
from theodolite.core.states import AFTER, BEFORE, DIFFERENCE
from theodolite.verbs.inputs import (
    APPLICABLE,
    DESCRIPTIONS,
    EncoderInput,
    Input,
    Reading,
    ReadingOptions,
    VectorsInput,
    encoder_facts,
    encoder_name,
    input_kind,
    open_input,
    reads_input,
    short_name,
)
from theodolite.verbs.progress import Progress, progress_bars
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
)

if TYPE_CHECKING:
    from theodolite.core.pictures import Picture
    from theodolite.core.rows import Row
    from theodolite.metrics.cloud import Cloud
    from theodolite.metrics.evaluation import Comparison
    from theodolite.spaces.space import Space

# Times that the rows of one side may be longer than those of the other for both clouds to be drawn in one frame.
MOST_LONGER = 5.0


@reads_input("revision")  # two encoders have two
def compare(
    before: Any,
    after: Any,
    /,
    *,
    metrics: Sequence[str] | None = None,
    paired: bool | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
    bootstrap: int | None = None,
    cache: bool = True,
    workers: int | None = None,
    engine: str | None = None,
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Result:
    """Show how the metrics differ between two spaces: A, B, and B minus A.

    Vectors are compared once, with 95 % intervals of the differences; two spaces or encoders, layer by layer.

    Parameters
    ----------
    before, after
        The two inputs, each as `survey` takes it. Both encoders read the same texts.
    metrics
        Names from `METRICS`; for vectors all that need no second input, for layers a few, by default.
    paired
        Whether row i of both is the same text; by default if both have equally many rows.
    sample
        Rows for metrics that compare rows with rows.
    seed
        Seed of that sample and of the half-samples.
    bootstrap
        Number of half-samples for the intervals; by default 40 for vectors and 0, which leaves them out, for layers.
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
        Three rows per metric and layer: state `before`, `after` and `difference`, the last with its interval.
    """
    from theodolite.metrics.evaluation import REPLICATES, compare_clouds
    from theodolite.metrics.registry import LAYER_METRICS, check_metrics, default_metrics

    options = Reading(**reading)
    if all(input_kind(each, options) == "encoder" for each in (before, after)) and options.has_texts():
        options = replace(options, unit=options.unit_for(before, after))  # one unit for both
    names = check_metrics(metrics) if metrics is not None else None
    inputs = [open_input(each, part) for each, part in zip((before, after), _options_for(before, after, options), strict=True)]
    _require_same_kind(inputs, options)
    titles = [_title(each, source) for each, source in zip(inputs, (before, after), strict=True)]
    with chosen_engine(workers, engine), progress_bars(progress) as bars:
        sides = [
            _Side(each, title, options, sample=sample, seed=seed, cache=cache, progress=bars)
            for each, title in zip(inputs, titles, strict=True)
        ]
        layers = _common_layers(*sides)
        layered = layers != (None,)
        # Layers are many, so they get no intervals unless asked for.
        count = bootstrap if bootstrap is not None else 0 if layered else REPLICATES
        chosen = names or (list(LAYER_METRICS) if layered else default_metrics())
        rows: list[Row] = []
        advance = bars.steps("comparing layers") if layered else bars.steps("half-samples")
        report = None if layered else advance

        def compared(task: tuple[Callable[[], Cloud], Callable[[], Cloud], dict[str, Any], dict[str, Any]]) -> list[Comparison]:
            clouds, about = (task[0](), task[1]()), (task[2], task[3])
            return compare_clouds(*clouds, chosen, paired=paired, bootstrap=count, about=about, progress=report)

        tasks = [
            (sides[0].opener(layer), sides[1].opener(layer), sides[0].about(layer), sides[1].about(layer)) for layer in layers
        ]
        by_layer = in_parallel(compared, tasks, prefer="processes", progress=advance) if layered else map(compared, tasks)
        for comparisons in by_layer:
            rows += _rows(comparisons)
        pictures, records = _drawn(sides, layers[-1], chosen)
    notes = [f"{name}: {note}" for name, side in zip("AB", sides, strict=True) for note in side.notes]
    is_paired = comparisons[0].paired if comparisons else bool(paired)
    if count:
        notes.append(f"* the interval of the difference excludes 0 ({'paired' if is_paired else 'independent'} rows)")
    return Result(
        verb="compare",
        title=f"{short_name(titles[0])} and {short_name(titles[1])}",
        rows=tuple(rows),
        pictures=pictures,
        records=records,
        notes=tuple(notes),
        provenance=provenance(*(side.facts(layers[-1]) for side in sides), paired=is_paired),
    )


class _Side:
    """One of the two inputs, opened: its clouds by layer, and what rows say of them."""

    def __init__(
        self, opened: Input, name: str, reading: Reading, *, sample: int, seed: int, cache: bool, progress: Progress
    ) -> None:
        from theodolite.spaces.space import choose_layers

        self.name, self._sample, self._seed = name, sample, seed
        self._texts = opened.texts.texts if isinstance(opened, EncoderInput) else None
        self._space: Space | None = None
        self._cloud: Cloud | None = None
        if isinstance(opened, VectorsInput):
            self._cloud = opened.cloud(progress, sample=sample, seed=seed, cache=cache)
            self.layers: tuple[int | None, ...] = (None,)
        else:
            self._space = opened.space(progress) if isinstance(opened, EncoderInput) else opened
            self.layers = choose_layers(reading.layers, self._space.layers)

    def cloud(self, layer: int | None) -> Cloud:
        """The cloud of a layer; a space of one layer stands for vectors without layers."""
        return self.opener(layer)()

    def opener(self, layer: int | None) -> Callable[[], Cloud]:
        """A function that gives that cloud; that of a layer can be sent to a worker."""
        from theodolite.metrics.cloud import Cloud

        if self._cloud is not None:
            cloud = self._cloud
            return lambda: cloud
        assert self._space is not None
        number = self.layers[-1] if layer is None else layer
        vectors, sample, seed = self._space.opener(-1 if number is None else number), self._sample, self._seed
        return lambda: Cloud(vectors(), sample=sample, seed=seed)

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
        if self._space is not None:
            number = self.layers[-1] if layer is None else layer
            assert number is not None
            return space_picture(self._space, number, self._texts, seed=self._seed, state=state, frame=frame)
        return cloud_picture(self.cloud(layer), {"model": short_name(self.name), "state": state}, frame=frame)

    def similarities(self, layer: int | None, state: str, metrics: Sequence[str]) -> list[dict[str, Any]]:
        """How similar its rows are, for the report."""
        number = self.layers[-1] if layer is None else layer
        about = {"model": short_name(self.name), "state": state, "layer": number}
        given = None if self._space is None or number is None else given_pairs(self._space, number)
        return similarity_lines(self.cloud(layer), metrics, about, given=given)


def _drawn(sides: Sequence[_Side], layer: int | None, metrics: Sequence[str]) -> tuple[tuple[Picture, ...], Mapping[str, Any]]:
    """Both clouds in one frame, so that what moved can be seen, and how similar the rows of each are."""
    from theodolite.core.pictures import common_frame

    clouds = [side.cloud(layer) for side in sides]
    lengths = [cloud.moments.mean_norm or 1.0 for cloud in clouds]
    # Clouds of very different size share no view in which both can be read.
    is_common = clouds[0].d == clouds[1].d and max(lengths) <= MOST_LONGER * min(lengths)
    frame = common_frame([cloud.sample for cloud in clouds]) if is_common else None
    # Of layers only a few metrics are measured; random pairs are cheap next to an encoder.
    looked_at = metrics if layer is None else [*metrics, "pair_cosine_median"]
    pictures: list[Picture] = []
    lines: list[dict[str, Any]] = []
    for side, state in zip(sides, (BEFORE, AFTER), strict=True):
        pictures += side.picture(layer, state, frame)
        lines += side.similarities(layer, state, looked_at)
    return tuple(pictures), similarities(lines)


def _options_for(before: Any, after: Any, reading: Reading) -> list[Reading]:
    """The options for each input: of two different kinds, each takes those that apply to it."""
    kinds = [input_kind(each, reading) for each in (before, after)]
    if kinds[0] == kinds[1]:
        return [reading, reading]
    either = {*APPLICABLE[kinds[0]], *APPLICABLE[kinds[1]]}
    reading.refuse(" or ".join(DESCRIPTIONS[kind] for kind in kinds), but=tuple(either))
    return [reading.only(APPLICABLE[kind]) for kind in kinds]


def _common_layers(first: _Side, second: _Side) -> tuple[int | None, ...]:
    """The layers to compare; the only layer of a space is compared with vectors without layers, or with any other only layer."""
    if first.layers == second.layers:
        return first.layers
    if None in (*first.layers, *second.layers) or len(first.layers) == len(second.layers) == 1:
        return (None,)
    common = tuple(layer for layer in first.layers if layer in second.layers)
    if not common:
        raise ValueError(
            f"{first.name} has layers {list(first.layers)}, {second.name} has {list(second.layers)}; none is in both"
        )
    return common


def _require_same_kind(inputs: Sequence[Input], reading: Reading) -> None:
    """A space of several layers can be compared with vectors only by one of its layers."""
    kinds = [isinstance(each, VectorsInput) for each in inputs]
    if kinds[0] == kinds[1] or reading.layers == "last" or isinstance(reading.layers, int):
        return
    if not isinstance(reading.layers, str) and len(reading.layers) == 1:
        return
    layered = inputs[kinds.index(False)]
    if isinstance(layered, VectorsInput) or (not isinstance(layered, EncoderInput) and len(layered.layers) == 1):
        return
    raise ValueError(
        f"one input has several layers, the other is vectors without layers; choose one layer with {option('layers', 'last')}"
    )


def _title(opened: Input, source: Any) -> str:
    if isinstance(opened, EncoderInput):
        return encoder_name(opened.model)
    if isinstance(opened, VectorsInput):
        return opened.name
    return str(source) if isinstance(source, str) else opened.origin.model or "space"


def _rows(comparisons: Sequence[Comparison]) -> Iterator[Row]:
    for each in comparisons:
        before, after = each.before, each.after
        yield replace(before, state=before.state or BEFORE)
        yield replace(after, state=after.state or AFTER)
        reason = before.reason or after.reason
        yield replace(after, state=DIFFERENCE, value=each.difference, low=each.low, high=each.high, reason=reason)
