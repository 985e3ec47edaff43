"""What a user has becomes what a verb measures: vectors, a space, or an encoder together with the texts it reads."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar

from theodolite.core.spelling import TypedInput, command, option, suggestion, with_options

if TYPE_CHECKING:
    from theodolite.core.moments import Moments
    from theodolite.core.vectors import Source
    from theodolite.metrics.cloud import Cloud
    from theodolite.models.encoder import Encoder
    from theodolite.spaces.cache import FileState, VectorCache
    from theodolite.spaces.space import Origin, Space
    from theodolite.spaces.writers import OtherColumns
    from theodolite.tasks.examples import Examples
    from theodolite.tasks.task import Task
    from theodolite.verbs.progress import Progress

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

# Files that were opened inside `unchanged_files`.
_OPENED: ContextVar[list[tuple[str, FileState | None]]] = ContextVar("_OPENED")

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class FileOptions(TypedDict, total=False):
    """The keyword options that say where in a file the vectors are; `Reading` describes them."""

    key: str | None
    columns: Sequence[str] | None
    delimiter: str | None
    header: bool | None
    decimal: str | None


class ReadingOptions(FileOptions, total=False):
    """The keyword options of every verb that reads vectors or texts; `Reading` describes them."""

    texts: str | os.PathLike[str] | Sequence[str] | None
    task: str | Task | None
    split: str | None
    data: str | os.PathLike[str] | None
    own: Mapping[str, Paths] | None
    kind: str | None
    column: Mapping[str, str] | None
    score_range: tuple[float, float] | None
    encoding: str | None
    unit: str | None
    layers: str | int | Sequence[int]
    specials: bool
    batch_size: int | None
    device: str
    dtype: str
    max_length: int | None
    revision: str | None
    trust_remote_code: bool
    tokenizer: Any
    allow_unknown: bool


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How an input is read: where in a file the vectors are, which texts an encoder reads, and what gets a vector."""

    key: str | None = None
    columns: Sequence[str] | None = None
    delimiter: str | None = None
    header: bool | None = None
    decimal: str | None = None
    texts: str | os.PathLike[str] | Sequence[str] | None = None
    task: str | Task | None = None
    split: str | None = None
    data: str | os.PathLike[str] | None = None
    own: Mapping[str, Paths] | None = None
    kind: str | None = None
    column: Mapping[str, str] | None = None
    score_range: tuple[float, float] | None = None
    encoding: str | None = None
    unit: str | None = None
    layers: str | int | Sequence[int] = "all"
    specials: bool = False
    batch_size: int | None = None
    device: str = "auto"
    dtype: str = "float32"
    max_length: int | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    tokenizer: Any = None
    allow_unknown: bool = False

    def has_texts(self) -> bool:
        """Whether the options name texts for an encoder to read."""
        return self.texts is not None or self.task is not None or self.own is not None

    def refuse(self, what: str, *, but: Sequence[str] = ()) -> None:
        """Raise if an option was given that does not apply to this kind of input."""
        for declared in fields(self):
            if declared.name not in but and getattr(self, declared.name) != declared.default:
                value = getattr(self, declared.name)
                text = "" if value is True else str(value) if isinstance(value, (str, int, float)) else "X"
                raise ValueError(f"{option(declared.name, text)} does not apply to {what}; leave it out")

    def of_file(self) -> dict[str, Any]:
        """The options that `theodolite.read` takes."""
        return {name: getattr(self, name) for name in FILE_OPTIONS}

    def columns_beside(self, path: str | os.PathLike[str]) -> OtherColumns | None:
        """The columns that a table has next to its vectors; None for a file that holds vectors alone."""
        from theodolite.spaces.opening import other_columns

        return other_columns(path, **{name: getattr(self, name) for name in FILE_OPTIONS if name != "key"})

    def typed(self, names: Sequence[str]) -> dict[str, str | list[str]]:
        """Some of the options as they are typed on the command line; those that have their default are left out."""
        values = {name: getattr(self, name) for name in names}
        defaults = {declared.name: declared.default for declared in fields(self)}
        return dict(typed_option(name, value) for name, value in values.items() if value != defaults[name])

    def only(self, names: Sequence[str]) -> Reading:
        """The same with every other option at its default."""
        return Reading(**{name: getattr(self, name) for name in names})

    def declared_task(self) -> Task | None:
        """The task that the options name: a declared one, or one made of the user's own files."""
        from theodolite.tasks.declarations import find_task
        from theodolite.tasks.own import own_task

        if not self.own:
            of_texts = () if self.texts is None else ("column", "delimiter", "header")
            for name in ("kind", "column", "score_range", "delimiter", "header"):
                if getattr(self, name) not in (None, {}) and name not in of_texts:
                    raise ValueError(
                        f"{option(name, 'X')} describes your own files; name them with {option('own', 'train=FILE')}"
                    )
            return None if self.task is None else find_task(self.task)
        if self.task:
            raise ValueError(f"{option('task', 'NAME')} and {option('own', 'train=FILE')} name two tasks; give only one")
        if not self.kind:
            kinds = "similarity, classification, pair_classification, tagging or word_pairs"
            raise ValueError(f"{option('own', 'train=FILE')} needs {option('kind', 'KIND')}: {kinds}")
        return own_task(
            self.own,
            self.kind,  # type: ignore[arg-type]  # own_task checks it, with a message
            columns=self.column or {},
            score_range=self.score_range,
            delimiter=self.delimiter,
            header=self.header is not False,
            encoding=self.encoding or "utf-8",
        )

    def require_texts(self) -> Task | None:
        """The task, or None for plain texts; an error if the options name no texts, or two sources of them."""
        task = self.declared_task()
        if (task is None) == (self.texts is None):
            own = f"{option('own', 'dev=FILE')} with {option('kind', 'KIND')}"
            ways = f"{option('task', 'NAME')}, {own}, or {option('texts', 'FILE')}"
            raise ValueError(f"give the texts that the encoder should read: {ways}")
        return task

    def unit_for(self, *models: Any, one_per_text: bool = False) -> str:
        """What gets a vector: the unit that was chosen, or else the default for these models, one for all of them.

        A sentence model's own vectors come first. If there are none, or one of the models has none, it is the task's unit, or
        with `one_per_text` the mean of a text's tokens where that unit would be [CLS], which few encoders are shipped with.
        """
        from theodolite.tasks.task import TEXT_UNIT

        if self.unit is not None:
            return self.unit
        task = self.declared_task()
        # A sentence model has its own vector for a text, but none for a word or for two texts in one sequence, and one layer.
        if task is not None and (task.on_words or task.kind == "pair_classification"):
            return task.unit
        if models and self.layers in ("all", "last") and all(is_sentence_source(model, self.revision) for model in models):
            return "text"
        return TEXT_UNIT if task is None or one_per_text else task.unit

    def load_encoder(self, model: Any) -> Encoder:
        """The encoder of an id, a folder, `demo`, or a model in memory."""
        from theodolite.models.encoder import Encoder

        return Encoder.load(
            model,
            tokenizer=self.tokenizer,
            revision=self.revision,
            device=self.device,
            dtype=self.dtype,  # type: ignore[arg-type]  # checked there, with a message
            max_length=self.max_length,
            trust_remote_code=self.trust_remote_code,
        )


Kind: TypeAlias = Literal["space", "encoder", "file", "memory"]

# Which reading options each kind of input has a use for.
DESCRIPTIONS: dict[Kind, str] = {
    "space": "a space, whose vectors exist already",
    "encoder": "an encoder",
    "file": "a file of vectors",
    "memory": "vectors in memory",
}
FILE_OPTIONS = ("key", "columns", "delimiter", "header", "decimal")
APPLICABLE: dict[Kind, tuple[str, ...]] = {
    "space": ("layers",),
    "encoder": tuple(declared.name for declared in fields(Reading) if declared.name not in ("key", "columns", "decimal")),
    "file": FILE_OPTIONS,
    "memory": ("columns",),
}


def typed_option(name: str, value: Any) -> tuple[str, str | list[str]]:
    """An option and its value as the command line takes them; the parsers are in `theodolite.cli.options`."""
    if isinstance(value, bool):
        return (name if value else f"no_{name}"), ""
    if isinstance(value, Mapping):
        parts = [(key, entry if isinstance(entry, list | tuple) else [entry]) for key, entry in value.items()]
        return name, [f"{key}={json.dumps(one) if isinstance(one, bool) else one}" for key, ones in parts for one in ones]
    if isinstance(value, str | os.PathLike):
        return name, os.fspath(value)
    return name, ",".join(map(str, value)) if isinstance(value, Sequence) else str(getattr(value, "name", value))


def reads_input(
    *without: str, only: Sequence[str] = (), before: Sequence[str] = ()
) -> Callable[[Callable[Arguments, Returned]], Callable[Arguments, Returned]]:
    """Show a verb's reading options in its signature, and answer a misspelt option with the one that was meant.

    A file that changed while the verb read it, often in several passes, is an error.
    """

    def decorate(verb: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        own = inspect.signature(verb)
        left = {each.name: (each.type, each.default) for each in fields(Reading) if each.name not in (*without, *own.parameters)}
        shown = with_options(own, {name: left[name] for name in only or left}, before=before)
        names = shown.parameters

        @functools.wraps(verb)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
            unknown = next((name for name in kwargs if name not in names), None)
            if unknown is not None:
                raise TypeError(f"{verb.__name__}() has no option {unknown!r}; {suggestion(unknown, sorted(names))}")
            with unchanged_files():
                return verb(*args, **kwargs)

        checked.__signature__ = shown  # type: ignore[attr-defined]
        return checked

    return decorate


def reads_file(verb: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """The same for a verb on vectors alone, of one layer: it shows the options of files, before that of the layer."""
    return reads_input(only=FILE_OPTIONS, before=("layers",))(verb)


@contextmanager
def unchanged_files() -> Iterator[Callable[[], None]]:
    """Raise an error at the end, or when the function that this yields is called, if a file opened inside has changed since."""
    opened: list[tuple[str, FileState | None]] = []

    def check() -> None:
        if opened:
            from theodolite.spaces.cache import require_unchanged

            for path, state in opened:
                require_unchanged(path, state)

    token = _OPENED.set(opened)
    try:
        yield check
    finally:
        _OPENED.reset(token)
    check()


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts for an encoder to read: plain strings, or the examples of a task's split."""

    texts: Sequence[str] | Examples
    unit: str
    name: str
    ids: Sequence[str] | None = None

    @classmethod
    def of(cls, reading: Reading, model: Any = None) -> Texts:
        """The texts that the options name, with the unit that fits the model."""
        task = reading.require_texts()
        if task is None:
            assert reading.texts is not None
            return cls._plain(reading.texts, reading, model)
        from theodolite.tasks.loading import load_task

        split = reading.split or task.scored_split
        examples = load_task(task, split, reading.data, encoding=reading.encoding)
        return cls(examples, reading.unit_for(model), f"{task.name} {split}")

    @classmethod
    def _plain(cls, texts: str | os.PathLike[str] | Sequence[str], reading: Reading, model: Any) -> Texts:
        from theodolite.tasks.retrieval import read_text_records

        for name in ("split", "data"):
            if getattr(reading, name) is not None:
                raise ValueError(f"{option(name, 'X')} belongs to a task; leave it out with {option('texts', 'FILE')}")
        unit = reading.unit_for(model)
        if isinstance(texts, (str, os.PathLike)):
            options = {name: getattr(reading, name) for name in ("encoding", "delimiter", "header")}
            records = read_text_records(texts, reading.column, **options)
            return cls(list(records.texts), unit, os.fspath(texts), records.ids)
        return cls(list(texts), unit, f"{len(texts):,} texts")


@dataclass(frozen=True, eq=False)
class EncoderInput:
    """An encoder and the texts it is to read; nothing is read, loaded or encoded before it is asked for."""

    model: Any
    reading: Reading

    @functools.cached_property
    def texts(self) -> Texts:
        """The texts, read when they are first asked for."""
        return Texts.of(self.reading, self.model)

    @property
    def name(self) -> str:
        """What to call it in a table."""
        return f"{encoder_name(self.model)}, {self.texts.name}"

    def typed(self) -> TypedInput:
        """How a command names the vectors: a space, after the command that writes it; the last layer is enough for a repair."""
        reading = self.reading
        if not isinstance(self.model, (str, os.PathLike)) or not isinstance(reading.texts or "", (str, os.PathLike)):
            return TypedInput("")
        others = ("key", "columns", "decimal", "tokenizer", "unit", "layers")
        names = [declared.name for declared in fields(reading) if declared.name not in others]
        layers = "last" if reading.layers == "all" else typed_option("layers", reading.layers)[1]
        options = {**reading.typed(names), "unit": self.texts.unit, "layers": layers, "to": "my-space"}
        model = input_name(self.model)
        is_shippable = layers == "last" and self.texts.unit in ("text", "mean", "cls", "max", "last")
        return TypedInput("my-space", before=command("extract", model, **options), model=model if is_shippable else "")

    def space(self, progress: Progress, *, frequencies: bool = True, cache: VectorCache | None = None) -> Space:
        """The vectors of every chosen layer, in memory; tokens and words with how common they are in English."""
        from theodolite.models.extraction import extract_space

        texts = self.texts.texts  # a fault in a file must not cost the loading of an encoder
        return extract_space(
            self.reading.load_encoder(self.model),
            texts,
            ids=self.texts.ids,
            cache=cache,
            frequencies=frequencies and self.texts.unit in ("tokens", "words"),
            **self.encoding_options(progress),
        )

    def encoding_options(self, progress: Progress) -> dict[str, Any]:
        """What extraction and streaming take alike."""
        return encoding_options(self.reading, self.texts.unit, self.texts.name, progress)


def encoding_options(reading: Reading, unit: str, name: str, progress: Progress) -> dict[str, Any]:
    """The options of extraction that reading options decide, with a progress bar for the texts of that name."""
    return {
        "unit": unit,
        "layers": reading.layers,
        "specials": reading.specials,
        "batch_size": reading.batch_size or "auto",
        "allow_unknown": reading.allow_unknown,
        "progress": progress.steps(f"encoding {name}"),
    }


def encoder_facts(origin: Origin) -> dict[str, Any]:
    """How vectors were encoded, for the provenance of a result; nothing for vectors whose texts are not known."""
    if not origin.counts:
        return {}
    about = {"model": origin.model, "unit": origin.pooling, "prompt": origin.prompt}
    return {"encoder": {**about, "max_length": origin.max_length, "texts": origin.counts.get("texts", 0)}}


@dataclass(frozen=True, eq=False)
class VectorsInput:
    """Vectors without layers: an array, a frame, a tensor, a file, a folder of shards, or a cloud."""

    name: str
    vectors: Source | Cloud
    path: str | None
    reading: Reading
    frame: Any = None
    """The frame that the vectors are from, with its other columns."""
    state: FileState | None = None
    """What the file held when it was opened."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a result must say of how the vectors were read."""
        source: Any = getattr(self.vectors, "source", self.vectors)  # that of a cloud
        return tuple(source.notes)

    def labels(self, name: str, *, n: int) -> list[str]:
        """The labels of a file, or of a column of the table or frame that the n vectors are from."""
        from theodolite.core.frames import column_names, frame_column
        from theodolite.spaces.readers.label_files import checked_label, labels_for

        if self.frame is not None and name in column_names(self.frame):
            return [checked_label(f"row {row}", value) for row, value in enumerate(frame_column(self.frame, name))]
        return labels_for(self.path or "", name, n=n, delimiter=self.reading.delimiter, header=self.reading.header)

    @property
    def other_columns(self) -> list[str]:
        """Names of the columns of the table or frame, but for those of a file that hold the vectors."""
        from theodolite.core.frames import column_names

        if self.frame is not None:
            return column_names(self.frame)
        others = None if self.path is None else self.reading.columns_beside(self.path)
        return [] if others is None else list(others.others)

    def ids(self, *, n: int) -> tuple[str, ...] | None:
        """The id of each of the n vectors, from a column `id` or `_id` of their table or frame; None if it has none."""
        from theodolite.tasks.retrieval import ID_COLUMNS, unique_ids

        names = self.other_columns
        column = next((name for name in ID_COLUMNS if name in names), None)
        return None if column is None else unique_ids(self.labels(column, n=n), self.name)

    def cloud(self, progress: Progress, *, sample: int, seed: int, cache: bool) -> Cloud:
        """The vectors as a cloud; a file's moments come from the cache if they are there."""
        from theodolite.metrics.cloud import Cloud

        if isinstance(self.vectors, Cloud):
            return self.vectors
        if self.vectors.is_one_block:
            return Cloud(self.vectors, sample=sample, seed=seed)
        label = f"reading {short_name(self.name)}"
        cloud = Cloud(self.vectors.watched(progress.rows(label, self.vectors.n)), sample=sample, seed=seed)
        if cache and self.state is not None:
            cloud.stored_moments = partial(self._stored_moments, cloud)
        return cloud

    def _stored_moments(self, cloud: Cloud, compute: bool) -> Moments | None:
        from theodolite.spaces.cache import cached_moments

        assert self.path is not None
        options = {**self.reading.of_file(), "data": cloud.source, "state": self.state, "compute": compute}
        moments, is_cached = cached_moments(self.path, **options)
        cloud.moments_are_cached = is_cached and self.state is not None and self.state.is_sampled
        return moments


Input: TypeAlias = "VectorsInput | Space | EncoderInput"


def typed_input(source: Any, opened: Input) -> TypedInput:
    """How a command would name an input again: by its path, or after the command that writes its vectors."""
    if isinstance(opened, EncoderInput):
        return opened.typed()
    if not isinstance(source, (str, os.PathLike)):
        return TypedInput("")
    options = opened.reading.typed(FILE_OPTIONS) if isinstance(opened, VectorsInput) else {}
    return TypedInput(os.fspath(source), options)


def open_input(source: Any, reading: Reading) -> Input:
    """Find out what the user gave, refuse options that do not apply to it, and open it as far as that is cheap."""
    from theodolite.core.frames import frame_vectors, is_frame
    from theodolite.core.vectors import source as open_vectors
    from theodolite.metrics.cloud import Cloud
    from theodolite.spaces import Space, read

    kind = input_kind(source, reading)
    if kind == "file" and isinstance(source, (str, os.PathLike)) and looks_like_a_model(source):
        ways = f"{option('task', 'NAME')} or {option('texts', 'FILE')}"
        raise FileNotFoundError(f"there is no file {source}; if it is an encoder, give the texts that it should read: {ways}")
    reading.refuse(DESCRIPTIONS[kind], but=APPLICABLE[kind])
    if kind == "space":
        return source if isinstance(source, Space) else Space.open(source)
    if kind == "encoder":
        reading.require_texts()
        return EncoderInput(source, reading)
    if kind == "file":
        path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else None
        vectors = read(source, **reading.of_file())
        # What is in memory as a whole cannot change while it is measured, and is measured in less time than a cache takes.
        state = None
        if path is not None and not vectors.is_one_block:
            from theodolite.spaces.cache import FileState

            state = FileState.of(path)
            _OPENED.get([]).append((path, state))
        return VectorsInput(path or input_name(source), vectors, path, reading, state=state)
    if is_frame(source):
        vectors = open_vectors(frame_vectors(source, reading.columns))
        return VectorsInput(input_name(source), vectors, None, reading, frame=source)
    reading.refuse(f"{DESCRIPTIONS[kind]} without columns")
    return VectorsInput(input_name(source), source if isinstance(source, Cloud) else open_vectors(source), None, reading)


def input_kind(source: Any, reading: Reading) -> Kind:
    """What a source is: a space, an encoder (a model in memory, its folder, or a name with texts to read), a file, or vectors."""
    from theodolite.spaces import Space, is_space

    if not isinstance(source, (str, os.PathLike)):
        homes = {ancestor.__module__.partition(".")[0] for ancestor in type(source).__mro__}
        if homes & {"transformers", "sentence_transformers", "model2vec", "wordllama"} or type(source).__name__ == "Encoder":
            return "encoder"
        if isinstance(source, (list, tuple)) and source and all(isinstance(path, (str, os.PathLike)) for path in source):
            return "file"
        return "space" if isinstance(source, Space) else "memory"
    if is_space(source):
        return "space"
    path = Path(source)
    if path.is_dir():
        marks = ("config.json", "modules.json", "config_sentence_transformers.json")
        return "encoder" if any((path / name).is_file() for name in marks) else "file"
    return "encoder" if not path.exists() and reading.has_texts() else "file"


def readings_for(kinds: Sequence[Kind], reading: Reading, *, also: Sequence[str] = ()) -> list[Reading]:
    """The options for each of two inputs: of different kinds, each takes those that apply to it; `also` applies to both."""
    either = {*APPLICABLE[kinds[0]], *APPLICABLE[kinds[1]], *also}
    reading.refuse(" or ".join(DESCRIPTIONS[kind] for kind in dict.fromkeys(kinds)), but=tuple(either))
    return [reading.only((*APPLICABLE[kind], *also)) for kind in kinds]


def is_sentence_source(model: Any, revision: str | None = None) -> bool:
    """Whether a model has its own vector for a whole text: a sentence-transformers folder, id or object, or static vectors."""
    from theodolite.models.location import is_sentence_location
    from theodolite.models.pipeline import is_sentence_model, is_static_model

    if isinstance(model, (str, os.PathLike)):
        return is_sentence_location(model, revision=revision)
    return bool(getattr(model, "module_names", ())) or is_sentence_model(model) or is_static_model(model)


def looks_like_a_model(source: str | os.PathLike[str]) -> bool:
    """Whether a name that is not there could be a model of the Hub: no ending of a file, no URL."""
    path = Path(source)
    return not path.exists() and "://" not in os.fspath(source) and not path.suffix


def input_name(source: Any) -> str:
    """What to call an input in a table: its path or id, a model's own name, or its type and shape."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, os.PathLike)):
        return f"{short_name(os.fspath(source[0]))} and {len(source) - 1} more"
    name = getattr(source, "name", None) or getattr(getattr(source, "config", None), "name_or_path", None)
    if isinstance(name, str) and name:
        return name
    shape = getattr(source, "shape", None)
    return f"{type(source).__name__} {' × '.join(map(str, shape))}" if shape is not None else type(source).__name__


def encoder_name(model: Any) -> str:
    """What a result calls an encoder: as its rows do, or an encoder in memory by its own name."""
    from theodolite.models.location import model_name

    return model_name(model) if isinstance(model, (str, os.PathLike)) else input_name(model)


def short_name(name: str) -> str:
    """The last part of a path, which is how a table calls a file."""
    return os.path.basename(name.rstrip("/")) or name  # noqa: PTH119  # a URL is not a path
