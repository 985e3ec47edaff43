"""The verb `extract`: vectors of every layer of an encoder, in memory or in a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, overload

from theodolite.core.engines import chosen_engine
from theodolite.core.files import require_free_folder
from theodolite.core.result import Result
from theodolite.verbs.inputs import EncoderInput, Reading, ReadingOptions, reads_input
from theodolite.verbs.progress import Progress, progress_bars

if TYPE_CHECKING:
    from theodolite.spaces.space import Space

TextSource: TypeAlias = str | os.PathLike[str] | Sequence[str] | None


class ExtractOptions(ReadingOptions, total=False):
    """The keyword options of `extract`, but for `dry_run`, which decides what it returns."""

    to: str | os.PathLike[str] | None
    frequencies: bool
    store_dtype: str
    workers: int | None
    engine: str | None
    overwrite: bool
    progress: bool | Progress | None


@overload
def extract(
    model: Any, texts: TextSource = None, /, *, dry_run: Literal[False] = False, **options: Unpack[ExtractOptions]
) -> Space: ...
@overload
def extract(model: Any, texts: TextSource = None, /, *, dry_run: bool, **options: Unpack[ExtractOptions]) -> Space | Result: ...
@reads_input("key", "columns")
def extract(
    model: Any,
    texts: str | os.PathLike[str] | Sequence[str] | None = None,
    /,
    *,
    to: str | os.PathLike[str] | None = None,
    frequencies: bool = False,
    store_dtype: str = "float32",
    workers: int | None = None,
    engine: str | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> Space | Result:
    """Extract the vectors of every layer of an encoder, in one pass over the texts.

    With `to`, they are written to a folder part by part, and an interrupted run continues when it is called again.

    Parameters
    ----------
    model
        An encoder: a Hub id, a folder, `demo`, a `SentenceTransformer`, or a `PreTrainedModel` with `tokenizer`.
    texts
        Texts for the encoder: a sequence, or a file with one text per line; `task` or `own` instead of it. Also as `texts=`.
    to
        Folder that gets the space; kept in memory without it.
    frequencies
        Whether to keep how common each token or word is in English (Zipf scale).
    store_dtype
        What the vectors are kept as: float32, or float16 for half the size. `dtype` is what the encoder computes in.
    workers, engine
        Where the work runs: a number of workers on this machine, or the address of a Dask scheduler, such as
        `tcp://10.0.0.1:8786`. What `joblib.parallel_config` says, or this process, by default.
    dry_run
        Whether to encode a few batches only, and return a `Result` with the time, memory, disk and download that all would take.
    overwrite
        Whether a space that is in the folder may be replaced.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.
    **reading
        Which texts are read, and how: the fields of `theodolite.verbs.inputs.Reading`.

    Returns
    -------
    Space
        One (n, d) array per layer, with what is known of each row. With `dry_run`, a `Result` that says what would be done.
    """
    from theodolite.models.extraction import extract_space
    from theodolite.spaces import is_space
    from theodolite.spaces.folder import MARKER

    options = Reading(**({**reading, "texts": texts} if texts is not None else reading))
    if to is not None and not is_space(to):
        require_free_folder(to, overwrite=overwrite, marker=MARKER)
    source = EncoderInput(model, options)
    if dry_run:
        return _dry_run(source, to=to, store_dtype=store_dtype)
    with chosen_engine(workers, engine), progress_bars(progress) as bars:
        texts_read = source.texts.texts
        return extract_space(
            options.load_encoder(model),
            texts_read,
            ids=source.texts.ids,
            frequencies=frequencies,
            store_dtype=store_dtype,
            to=to,
            overwrite=overwrite,
            **source.encoding_options(bars),
        )


def _dry_run(source: EncoderInput, *, to: str | os.PathLike[str] | None, store_dtype: str) -> Result:
    """What would be encoded, where it would be kept, and what would be downloaded."""
    from theodolite.models.location import download_of

    options, model, texts = source.reading, source.model, source.texts
    target = "memory" if to is None else os.fspath(to)
    notes = [f"{len(texts.texts):,} texts, unit {texts.unit}, layers {options.layers}, to be stored in {target} as {store_dtype}"]
    name = str(getattr(model, "name", "the encoder"))
    if isinstance(model, (str, os.PathLike)):
        download = download_of(model, revision=options.revision)
        name = download.name
        notes.append(str(download))
    return Result(verb="dry run", title=f"Dry run: encoding {texts.name} with {name}", notes=tuple(notes))
