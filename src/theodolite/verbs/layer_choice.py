"""The layers and poolings that `advise` may choose among: one signal at each of them, from one pass of the encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from theodolite.advice.changes import Place
from theodolite.advice.scorers import JudgedQueries, Signal
from theodolite.core.spelling import TypedInput, option
from theodolite.spaces.cache import VectorCache
from theodolite.spaces.space import Origin, Space, choose_layers
from theodolite.verbs.inputs import EncoderInput, Reading, encoder_name, encoding_options, input_kind, open_input
from theodolite.verbs.signals import PLURALS, SignalInput, Signals, open_signal, read_collection

if TYPE_CHECKING:
    from theodolite.models.encoder import Encoder
    from theodolite.tasks.retrieval import Collection
    from theodolite.tasks.task import Unit
    from theodolite.verbs.progress import Progress

POOLED: tuple[Unit, ...] = ("mean", "cls", "max", "last")
"""Units that pool the tokens of a whole text."""


@dataclass(frozen=True, eq=False)
class PlacedSignals:
    """One signal at several layers and poolings; the first place is the one in use, which `data` describes.

    `signal_at` gives the signal with the vectors of a place, `typed_at` how a command would name those.
    """

    data: SignalInput
    places: tuple[Place, ...]
    signal_at: Callable[[Place], Signal]
    typed_at: Callable[[Place], TypedInput]


def names_several(layers: str | int | Sequence[int], units: str | Sequence[str] | None) -> bool:
    """Whether the options leave a choice of layers or units."""
    if isinstance(layers, str):
        return units is not None or layers == "all" or "," in layers
    return units is not None or (isinstance(layers, Sequence) and len(layers) > 1)


def open_places(
    source: Any, named: Signals, reading: Reading, units: str | Sequence[str] | None, progress: Progress
) -> PlacedSignals | None:
    """The signal at every layer and unit that the options name; None if that leaves nothing to choose."""
    wanted = _checked_units(units, reading)
    kind = "encoder" if named.is_collection(reading) else input_kind(source, reading)
    if kind == "encoder":
        return _of_encoder(source, named, reading, wanted, progress)
    if wanted:
        what = "a space has been pooled already" if kind == "space" else "these are vectors, which have no tokens left to pool"
        raise ValueError(f"{option('units', ','.join(wanted))} is for an encoder, but {what}; leave it out")
    return _of_space(source, named, reading, progress) if kind == "space" else None


def _checked_units(units: str | Sequence[str] | None, reading: Reading) -> tuple[Unit, ...]:
    names = units.split(",") if isinstance(units, str) else units or ()
    wanted = tuple(dict.fromkeys(name.strip() for name in names))
    if units is not None and reading.unit is not None:
        both = f"{option('unit', reading.unit)} and {option('units', ','.join(wanted))}"
        raise ValueError(f"{both} both choose how texts are pooled; give only one")
    wrong = next((name for name in wanted if name not in POOLED), None)
    if wrong is not None or (units is not None and not wanted):
        raise ValueError(f"{option('units', wrong or 'X')} must be one or several of {', '.join(POOLED)}, separated by commas")
    return tuple(name for name in POOLED if name in wanted)


def _of_space(source: Any, named: Signals, reading: Reading, progress: Progress) -> PlacedSignals | None:
    """The layers of a space; its last one is in use."""
    opened = open_input(source, reading)
    assert isinstance(opened, Space)
    layers = choose_layers(reading.layers, opened.layers)
    if set(layers) <= {opened.layers[-1]}:
        return None
    data = open_signal(source, named, replace(reading, layers="last"), progress)
    _require_signal(data)
    queries = None if named.queries is None else open_input(named.queries, replace(reading, layers="all"))
    again = replace(named, queries=queries if isinstance(queries, Space) else named.queries)

    def signal_at(place: Place) -> Signal:
        return _require_signal(open_signal(opened, again, replace(reading, layers=place.layer), progress))

    def typed_at(place: Place) -> TypedInput:
        return replace(data.typed, options={**data.typed.options, "layers": str(place.layer)})

    return PlacedSignals(data, _places(layers, (opened.unit,), opened.layers[-1], opened.unit), signal_at, typed_at)


def _of_encoder(
    source: Any, named: Signals, reading: Reading, wanted: Sequence[Unit], progress: Progress
) -> PlacedSignals | None:
    """The layers and units of an encoder; what it returns by itself is in use, or the mean of its last layer."""
    if reading.unit == "text":
        return None
    collection = None
    if named.is_collection(reading):
        collection, reading = read_collection(source, named, reading)
    else:
        named.refuse("an encoder with texts")
    # Texts are read before an encoder is loaded for them: a fault in a file must not cost the loading of an encoder.
    opened = EncoderInput(source, replace(reading, layers="last"))
    title = collection.name if collection is not None else opened.texts.name
    encoder, cache = reading.load_encoder(source), VectorCache()
    last = encoder.n_layers - 1
    in_use = _unit_in_use(encoder, opened, {"document": named.document_prompt, "query": named.query_prompt} if collection else {})
    if wanted and in_use not in ("text", *POOLED):
        raise ValueError(
            f"{option('units', ','.join(wanted))} pools whole texts, and these vectors are of {in_use}; leave it out"
        )
    units = wanted or (("mean",) if in_use == "text" else (in_use,))
    places = _places(choose_layers(reading.layers, range(last + 1)), units, last, in_use)
    if len(places) < 2:
        more = option("units", "mean,cls,last")
        raise ValueError(
            f"{encoder.name} leaves nothing to choose: {places[0]} is all that the options name; name more, for example {more}"
        )
    options = encoding_options(replace(reading, layers=sorted({place.layer for place in places})), "", title, progress)
    options |= {"cache": cache, "units": tuple(dict.fromkeys(place.unit for place in places))}

    def typed_at(place: Place) -> TypedInput:
        layer = "last" if place.layer == last else place.layer
        return EncoderInput(source, replace(reading, unit=place.unit, layers=layer)).typed()

    if collection is None:
        read_at = _task_reader(encoder, opened, named, options, progress)
    else:
        read_at = _collection_reader(encoder, collection, named, options, progress)
    data = read_at(places[0])
    _require_signal(data)
    notes = (*data.notes, cache.note)
    if in_use == "text":
        notes = (
            *notes,
            "the model's own vectors were encoded in a separate pass, with its prompts; pooled layers use no prompt",
        )
    data = replace(data, name=f"{encoder_name(source)}, {title}", typed=typed_at(places[0]), notes=notes, encoder=encoder)
    return PlacedSignals(data, places, lambda place: _require_signal(read_at(place)), typed_at)


def _unit_in_use(encoder: Encoder, opened: EncoderInput, prompts: Mapping[str, str | None]) -> Unit:
    """The unit of the vectors that the encoder gives now: its own pooling, or "text" if its pipeline does more than pool."""
    from theodolite.models.pipeline import own_pooling

    unit: Any = opened.reading.unit_for(opened.model, one_per_text=True)
    if unit != "text":
        return unit  # type: ignore[no-any-return]
    readers = [encoder.for_role(role, prompt) for role, prompt in prompts.items()] or [encoder]
    own = {own_pooling(reader.pipeline) for reader in readers}
    return (own.pop() if len(own) == 1 else None) or "text"


def _task_reader(
    encoder: Encoder, opened: EncoderInput, named: Signals, options: Mapping[str, Any], progress: Progress
) -> Callable[[Place], SignalInput]:
    """A function that gives the labels or scored pairs of texts with the vectors of a place."""
    spaces = _spaces(encoder, opened.texts.texts, **options)
    return lambda place: open_signal(spaces[place.unit], named, Reading(layers=place.layer), progress)


def _collection_reader(
    encoder: Encoder, collection: Collection, named: Signals, options: Mapping[str, Any], progress: Progress
) -> Callable[[Place], SignalInput]:
    """A function that gives judged queries with the vectors of a place."""
    sides = []
    for role, texts, prompt in (
        ("document", collection.documents, named.document_prompt),
        ("query", collection.queries, named.query_prompt),
    ):
        steps = {**options, "progress": progress.steps(f"encoding {PLURALS[role]}")}
        sides.append(_spaces(encoder, texts, role=role, prompt=prompt, **steps))

    def read_at(place: Place) -> SignalInput:
        documents, queries = (side[place.unit] for side in sides)
        data = open_signal(documents, Signals(), Reading(layers=place.layer), progress)
        signal = JudgedQueries(data.vectors, queries[place.layer], collection.judgements, metric=named.metric)
        return replace(data, signal=signal, notes=collection.notes, about=data.about | {"task": collection.name})

    return read_at


def _spaces(
    encoder: Encoder, texts: Any, *, units: Sequence[Unit], role: str = "", prompt: str | None = None, **options: Any
) -> dict[str, Space]:
    """A space for each unit: pooled ones from one pass, what the model itself returns or words from one of their own."""
    from theodolite.models.extraction import extract_space, extract_units

    del options["unit"], options["specials"]
    spaces: dict[str, Space] = {}
    for unit in units:
        if unit not in POOLED:
            reader = encoder.for_role(role, prompt) if role and unit == "text" else encoder
            layers = "last" if unit == "text" else options["layers"]
            spaces[unit] = extract_space(reader, texts, unit=unit, **{**options, "layers": layers})
    pooled = [unit for unit in units if unit in POOLED]
    if pooled:
        if prompt:  # without a pipeline, a prompt is the beginning of the text
            texts = tuple(prompt + text for text in texts)
        spaces |= extract_units(encoder, texts, units=pooled, origin=Origin(prompt=prompt or ""), **options)
    return spaces


def _places(layers: Sequence[int], units: Sequence[str], last: int, in_use: str) -> tuple[Place, ...]:
    """The place in use, then all others, late layers first, so that of equals the one that changes least is chosen."""
    places = [Place(layer=layer, unit=unit) for layer in sorted(layers, reverse=True) for unit in units]
    return tuple(dict.fromkeys([Place(layer=last, unit=in_use), *places]))


def _require_signal(data: SignalInput) -> Signal:
    if data.signal is None:
        ways = f"{option('labels', 'FILE')}, {option('task', 'NAME')} or {option('retrieval', 'FOLDER')}"
        raise ValueError(f"choosing a layer needs labels, scored pairs or judged queries, but {data.name} has none; give {ways}")
    return data.signal
