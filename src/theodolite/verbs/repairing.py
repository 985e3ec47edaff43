"""The verb `repair`: fit a repair on some vectors, apply it to others, export it into a model, and check what was exported."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from theodolite.core.engines import chosen_engine
from theodolite.core.files import atomic_file, require_free_folder
from theodolite.core.moments import Moments
from theodolite.core.numbers import number_text
from theodolite.core.result import Answer, Finding, Result
from theodolite.core.rows import Row, current_versions
from theodolite.core.spelling import command, option
from theodolite.core.states import AFTER, BEFORE
from theodolite.core.vectors import Floats, Source, array
from theodolite.core.vectors import source as open_vectors
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.registry import METRICS, label_of
from theodolite.spaces.space import Space, choose_layers
from theodolite.verbs.inputs import FileOptions, Reading, VectorsInput, input_name, open_input, reads_file, unchanged_files
from theodolite.verbs.model_change import shared_rows
from theodolite.verbs.progress import Progress, progress_bars
from theodolite.verbs.surveying import provenance

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.pipeline import Pipeline

    from theodolite.repairs.base import Affine, Repair
    from theodolite.spaces.writers import OtherColumns

# What is reported of a repair: the two numbers it is most often fitted for.
CHANGE = ("mean_cosine", "iso_score")
# A row is nearly zero if it is shorter than this share of the longest row: of its direction only rounding is left.
NEARLY_ZERO = 1e-5
# Name of the row with the largest difference in a self-test.
SELF_TEST = "self_test_difference"
# Rows that a note names at most.
NAMED_ROWS = 10
# Rows for each dimension below which dividing by variances is warned of. With two, those of an isotropic cloud come out
# between 0.09 and 2.9 of what they are (Marchenko & Pastur); with one, down to 0.
ROWS_PER_DIMENSION = 2


@reads_file
def fit(
    name: str,
    source: Any,
    /,
    *,
    to: str | os.PathLike[str] | None = None,
    directions: int | None = None,
    clusters: int | None = None,
    components: int | None = None,
    settings: dict[str, Any] | None = None,
    pairs: Any = None,
    scores: Any = None,
    target: Any = None,
    seed: int = 0,
    layers: str | int | Sequence[int] = "last",
    workers: int | None = None,
    engine: str | None = None,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
    **reading: Unpack[FileOptions],
) -> Repair:
    """Learn a repair from vectors, and save it to a folder if one is named.

    Parameters
    ----------
    name
        Which repair: a name from `REPAIRS`, such as `zero-mean`, `global` or `whitening`.
    source
        Vectors, a file, or a space, of which one layer is taken.
    to
        Folder to save the fitted repair to.
    directions, clusters, components
        Number of principal directions to remove, of clusters, of dimensions to keep, if the repair has that setting.
    settings
        Any other settings of the repair.
    pairs, scores
        For `weighted`: the other side of scored pairs, row by row with `source`, and one score per pair (array or file).
    target
        For `bridge`: vectors of the other model, whose space `source` is mapped into. Rows are matched by a column `id`, and
        `source` may have more of them than `target`; without ids, row i of both is the same text.
    seed
        Seed of k-means, if the repair uses it.
    key, columns, delimiter, header, decimal
        Where in a file the vectors are, as `theodolite.verbs.inputs.Reading` describes them.
    layers
        Which layer of a space; the last by default.
    workers, engine
        Where the work runs: a number of workers on this machine, or the address of a Dask scheduler, such as
        `tcp://10.0.0.1:8786`. What `joblib.parallel_config` says, or this process, by default.
    overwrite
        Whether a repair that is in the folder may be replaced.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.

    Returns
    -------
    Repair
        A fitted scikit-learn transformer.
    """
    from theodolite.repairs import make_repair, save_repair
    from theodolite.repairs.catalogue import MARKER
    from theodolite.spaces.readers.label_files import read_scores

    repair = make_repair(name, directions=directions, clusters=clusters, components=components, seed=seed, **(settings or {}))
    if (pairs is None) != (scores is None) or (pairs is not None and not hasattr(repair, "fit_pairs")):
        raise ValueError(
            f"{option('pairs', 'FILE')} and {option('scores', 'FILE')} go together, and only with the repair 'weighted'"
        )
    if (target is not None) != hasattr(repair, "fit_to"):
        raise ValueError(f"the repair 'bridge', and no other, needs vectors of the model to map to: {option('target', 'FILE')}")
    if to is not None:
        require_free_folder(to, overwrite=overwrite, marker=MARKER)
    options = Reading(**reading)
    with chosen_engine(workers, engine), progress_bars(progress) as bars, unchanged_files():
        vectors = _vectors(source, options, layers)
        watched = vectors.watched(bars.rows("fitting", vectors.n))
        if pairs is not None:
            values = read_scores(scores) if isinstance(scores, (str, os.PathLike)) else scores
            repair.fit_pairs(watched, array(_vectors(pairs, options, layers)), values)
        elif target is not None:
            repair.fit_to(*shared_rows(source, target, replace(options, layers=layers)))
        else:
            repair.fit(watched)
    _warn_of_few_rows(name, repair, vectors.n)
    space = _space(source)
    if space is not None:
        repair.fitted_on_ = _fitting_path(space, _one_layer(space, layers), repair)
    if to is not None:
        save_repair(repair, to, overwrite=overwrite)
    return repair


def _warn_of_few_rows(name: str, repair: Repair, n: int | None) -> None:
    """Warn if a repair divides by variances that its rows cannot estimate."""
    settings = repair.get_params()
    # Shrinkage keeps small variances away from 0, and p = 0 divides by nothing.
    if n is None or not repair.inverts_variances or settings.get("shrinkage") or settings.get("power") == 0:
        return
    d, k = repair.n_features_in_, settings.get("n_components") or repair.n_features_in_
    if n < ROWS_PER_DIMENSION * k:
        kept = "" if k == d else f", of which it keeps {k:,},"
        warnings.warn(
            f"{name} divides by the variances of {d:,} dimensions{kept} and was fitted on {n:,} rows, which are too few to "
            f"estimate them, so it scales up noise: fit it on at least {ROWS_PER_DIMENSION * k:,} rows, or use a repair that "
            "does not scale, such as zero-mean, global or pca",
            stacklevel=4,  # past `reads_file` to the caller of `fit`
        )


@reads_file
def apply(
    repair: Repair | str | os.PathLike[str],
    source: Any,
    /,
    *,
    to: str | os.PathLike[str],
    layers: str | int | Sequence[int] = "last",
    overwrite: bool = False,
    progress: bool | Progress | None = None,
    **reading: Unpack[FileOptions],
) -> Result:
    """Apply a fitted repair to vectors of any size, and write the result to a new file.

    A table keeps all its other columns, in order, and a space what it knows of its rows. In memory, `repair.transform(X)` does
    the same to the vectors.

    Parameters
    ----------
    repair
        A fitted repair, or the folder it was saved to.
    source
        Vectors, a file, or a space, of which one layer is taken.
    to
        File to write: `.parquet`, `.csv`, `.tsv` or `.jsonl`, which keep other columns, or `.npy` or `.safetensors`, which hold
        vectors alone.
    key, columns, delimiter, header, decimal
        Where in a file the vectors are, as `theodolite.verbs.inputs.Reading` describes them.
    layers
        Which layer of a space; the last by default.
    overwrite
        Whether the file may be replaced.
    progress
        Whether to show progress bars; by default in a terminal and in a notebook.

    Returns
    -------
    Result
        Mean cosine and IsoScore before and after, and the number of rows that the repair brought to (nearly) zero length.
    """
    from theodolite.repairs import load_repair
    from theodolite.spaces import write_vectors
    from theodolite.spaces.writers import TABLES, require_vectors_file

    target = require_vectors_file(to, overwrite=overwrite)
    fitted = load_repair(repair) if isinstance(repair, (str, os.PathLike)) else repair
    options = Reading(**reading)
    with progress_bars(progress) as bars, unchanged_files() as check:
        vectors = _vectors(source, options, layers)
        if vectors.d != fitted.n_features_in_:
            mismatch = f"{input_name(source)} has {vectors.d} dimensions, but the repair was fitted on {fitted.n_features_in_}"
            raise ValueError(f"{mismatch}; apply it to vectors of the model and layer that it was fitted on")
        beside = _beside(source, options)
        repaired = _Repaired(fitted, at_end=check)
        blocks = repaired.watch(fitted.transform_blocks(vectors.watched(bars.rows("repairing", vectors.n))))
        rows = write_vectors(blocks, to, n=vectors.n, dtype=None, beside=beside, overwrite=overwrite)
        before = _moments(source, vectors, options)
    notes = list(vectors.notes)
    if beside is not None and beside.others and target.suffix.lower() not in TABLES:
        ways = f"to keep them, write a table ({', '.join(TABLES)})"
        notes.append(f"{target.name} stores vectors only and leaves out {', '.join(beside.others)}; {ways}")
    return _change(before, repaired, to, rows, notes)


@reads_file
def quantize(
    source: Any,
    /,
    *,
    code: str,
    to: str | os.PathLike[str] | None = None,
    layers: str | int | Sequence[int] = "last",
    overwrite: bool = False,
    **reading: Unpack[FileOptions],
) -> NDArray[Any]:
    """Store vectors in fewer bytes, as `advise` measures it: as half floats, integers from -127 to 127, or one bit per dimension.

    Parameters
    ----------
    source
        Vectors, a file, or a space, of which one layer is taken.
    code
        `float16`; `int8`, with one scale for the file, its largest magnitude, which no cosine depends on; or `binary`, one bit
        for each dimension, set if it is above 0, packed into bytes as FAISS's binary indexes take them.
    to
        A `.npy` file to write.
    key, columns, delimiter, header, decimal
        Where in a file the vectors are, as `theodolite.verbs.inputs.Reading` describes them.
    layers
        Which layer of a space; the last by default.
    overwrite
        Whether the file may be replaced.

    Returns
    -------
    numpy.ndarray
        The stored vectors: float16 or int8 of the same shape, or uint8 of an eighth of the width.
    """
    from theodolite.advice.changes import CODES, fit_code
    from theodolite.spaces.writers import require_vectors_file

    if code not in CODES:
        raise ValueError(f"{option('code', code)} must be one of {', '.join(CODES)}")
    if to is not None and require_vectors_file(to, overwrite=overwrite).suffix.lower() != ".npy":
        raise ValueError(f"{os.fspath(to)!r} must end in .npy: whole numbers and bits are written as an array")
    options = Reading(**reading)
    with unchanged_files():
        vectors = _vectors(source, options, layers)
        stored = fit_code(code, vectors)
        blocks = (stored(block) for block in vectors.blocks())
        rows = [np.packbits(block > 0, axis=1) if code == "binary" else block.astype(code) for block in blocks]
    result: NDArray[Any] = np.concatenate(rows)
    if to is not None:
        with atomic_file(Path(to), overwrite=overwrite) as unfinished, unfinished.open("wb") as file:
            np.save(file, result)
    return result


def export(
    repair: Repair | Pipeline | Sequence[Repair] | str | os.PathLike[str],
    model: Any = None,
    /,
    *,
    to: str | os.PathLike[str],
    texts: str | os.PathLike[str] | Sequence[str] | None = None,
    prompt: str | None = None,
    max_length: int | None = None,
    revision: str | None = None,
    overwrite: bool = False,
) -> Result:
    """Write an affine repair in a form that other programs read: inside a model's folder, for FAISS, as ONNX, or as arrays.

    With `model`, a copy of its folder gets the repair as one more module, at the place where it was fitted: vectors of length 1
    come after the model's Normalize, others before it. The copy loads in sentence-transformers, old and new, without this
    package and without trusting remote code.

    Parameters
    ----------
    repair
        A fitted repair, the folder it was saved to, or several repairs in order: a sequence, or a scikit-learn pipeline.
    model
        A sentence-transformers model or plain encoder: a folder, a Hub id, `demo`, or a loaded `SentenceTransformer`. Without it
        the map alone is written.
    to
        Folder for the model. Without one: `NAME.faiss` (a `LinearTransform`), `NAME.onnx` (one Gemm), or a folder that gets
        `matrix.npy` and `bias.npy`, with which x @ matrix + bias is the repaired x.
    texts
        The texts that the repair was fitted on, row by row with its vectors: a sequence, or a file with one text per line. The
        first of them are encoded, and must give the vectors of the fit. A repair fitted on a space of texts knows its own.
    prompt
        The text that was put before every text of the fit, if it was not the model's default prompt.
    max_length
        The tokens after which texts of the fit were cut, if that is not the model's own limit; the exported model gets it. A
        repair fitted on a space knows it.
    revision
        Revision of the model on the Hub.
    overwrite
        Whether a file or folder of that name may be replaced.

    Returns
    -------
    Result
        The largest difference in the self-test, as a share of the largest value.

    Raises
    ------
    ValueError
        The repair was fitted on other vectors than the model gives, or moves each cluster in its own way, which no matrix does.
    """
    from theodolite.repairs import fold_affine, load_repair
    from theodolite.repairs.affine_files import require_target, write_affine

    fitted = load_repair(repair) if isinstance(repair, (str, os.PathLike)) else repair
    other = next((step for step in _steps(fitted) if not step.is_affine), None)
    if other is not None:
        folder = os.fspath(repair) if isinstance(repair, (str, os.PathLike)) else "FOLDER"
        raise ValueError(
            f"{type(other).__name__} {other.not_affine_because}, so neither a Dense nor FAISS's LinearTransform, an ONNX Gemm or "
            f"an SQL expression can represent it; apply it with {command('repair apply', folder, 'FILE', to='FILE')}, or fit an "
            "affine repair such as global"
        )
    matrix, bias = fold_affine(fitted)
    how = {"texts": texts, "prompt": prompt, "max_length": max_length, "revision": revision}
    if model is not None:
        return _export_model(_steps(fitted)[0], (matrix, bias), model, how, to=to, overwrite=overwrite)
    for name, value in how.items():
        if value is not None:
            raise ValueError(f"{option(name, 'X')} applies to a model; name the model, or leave it out")
    require_target(to, overwrite=overwrite)
    difference = write_affine(matrix, bias, to, overwrite=overwrite)
    title = f"the repair as x @ matrix + bias, {len(matrix)} → {len(bias)} dimensions, written to {os.fspath(to)}"
    is_unit = _steps(fitted)[0].fitted_on_.normalized
    return _tested(title, difference, *(["it expects vectors of length 1, like those it was fitted on"] if is_unit else []))


def check(folder: str | os.PathLike[str], /) -> Result:
    """Repeat the self-test of a model that `export` wrote: its vectors must be those of the path the repair was fitted on.

    Parameters
    ----------
    folder
        The folder of the model.

    Returns
    -------
    Result
        The largest difference from the stored vectors, as a share of the largest value; its finding is bad if it is too large.
    """
    from theodolite.models.export import AGREEMENT, check_dense

    difference = check_dense(folder)
    is_same = difference <= AGREEMENT
    finding = Finding(
        topic="self-test",
        verdict="good" if is_same else "bad",
        value=difference,
        metric=SELF_TEST,
        healthy=f"at most {AGREEMENT:g}",
        source="rounding in single precision",
        meaning="the model gives the same vectors as at export" if is_same else "the model's vectors differ from those at export",
        action="" if is_same else "export it again",
    )
    result = _tested(f"{os.fspath(folder)}: {finding.meaning}", difference, passed=is_same)
    return replace(result, findings=(finding,))


def _export_model(
    first: Repair, affine: Affine, model: Any, how: Mapping[str, Any], *, to: str | os.PathLike[str], overwrite: bool
) -> Result:
    """The repair inside a copy of the model; the first step of the chain saw the vectors as they were, `how` they were made."""
    from contextlib import nullcontext
    from tempfile import TemporaryDirectory

    from theodolite.models.export import check_dense, write_dense
    from theodolite.models.location import DEMO, demo_folder, local_folder, model_name
    from theodolite.spaces.readers.text_files import read_texts

    require_free_folder(to, overwrite=overwrite)
    path, rows, texts = first.fitted_on_, getattr(first, "examples_", np.empty((0, len(affine[0])))), how["texts"]
    if texts is not None:
        lines = read_texts(texts) if isinstance(texts, (str, os.PathLike)) else list(texts)
        if len(lines) < len(rows):
            raise ValueError(
                f"there are only {len(lines)} texts, but the repair was fitted on more; give the texts of the fit, in order"
            )
        path = replace(path, texts=tuple(lines[: len(rows)]))
    path = replace(path, prompt=how["prompt"] or path.prompt, max_length=how["max_length"] or path.max_length)
    examples = (path.texts, rows[: len(path.texts)]) if path.texts else None
    in_memory = not isinstance(model, (str, os.PathLike))
    with TemporaryDirectory() if in_memory else nullcontext("") as temporary:
        if in_memory:
            model.save_pretrained(temporary)
            folder, name = Path(temporary), "the model"
        else:
            name = model_name(model)
            folder = demo_folder() if model == DEMO else local_folder(model, revision=how["revision"])
        write_dense(folder, *affine, to, path=path, examples=examples, name=name, overwrite=overwrite)
    position = "after vectors are scaled to length 1" if path.normalized else "before vectors are scaled to length 1, if they are"
    notes = [f"the repair is a Dense module, {position}"]
    if path.max_length is not None:
        notes.append(f"texts are cut after {path.max_length:,} tokens, as in the fit")
    if examples is None:
        hint = f"name them with {option('texts', 'FILE')}"
        notes.append(f"the texts of the fit are not known, so the model was not compared with the vectors of the fit: {hint}")
    return _tested(f"model written to {os.fspath(to)}", check_dense(to), *notes)


def _steps(fitted: Any) -> list[Repair]:
    """The repairs of a chain, in order."""
    from theodolite.repairs import Repair

    steps = [step for _, step in fitted.steps] if hasattr(fitted, "steps") else fitted
    return [step for step in ([steps] if isinstance(steps, Repair) else steps) if isinstance(step, Repair)]


def _tested(title: str, difference: float, *notes: str, passed: bool = True) -> Result:
    row = Row(metric=SELF_TEST, value=difference, versions=current_versions())
    verdict = "self-test passed" if passed else "self-test failed"
    sentence = f"The vectors differ by at most {difference:.1g} of the largest value."
    answer = Answer(verdict=verdict, sentence=sentence)
    return Result(verb="repair", title=title, answer=answer, rows=(row,), notes=notes, provenance=provenance())


def _space(source: Any) -> Space | None:
    """The space that a source is, if it is one."""
    from theodolite.spaces import Space, is_space

    if isinstance(source, Space):
        return source
    return Space.open(source, verify=False) if isinstance(source, (str, os.PathLike)) and is_space(source) else None


def _fitting_path(space: Space, layer: int, repair: Repair) -> Any:
    """What a repair fitted on a layer of a space remembers of it."""
    sentences = [] if space.unit in ("tokens", "words", "pairs") else space.rows.get("sentence", [])
    return replace(
        repair.fitted_on_,
        model=space.origin.model,
        revision=space.origin.revision,
        unit=space.unit,
        layer=layer,
        description=space.origin.description,
        max_length=space.origin.max_length,
        texts=tuple(map(str, sentences[: len(repair.examples_)])),
    )


def _beside(source: Any, reading: Reading) -> OtherColumns | None:
    """What a file or space has next to its vectors."""
    from theodolite.spaces.writers import OtherColumns

    space = _space(source)
    if space is not None:
        return OtherColumns.of_rows(space.rows)
    return reading.columns_beside(source) if isinstance(source, (str, os.PathLike)) else None


class _Repaired:
    """The moments and lengths of repaired rows, gathered while they are written."""

    def __init__(self, repair: Repair, *, at_end: Callable[[], None]) -> None:
        self.moments: Moments | None = None
        self._at_end = at_end
        self._lengths: list[Any] = []
        self._rounding = 0.0
        # Whitening may shrink all rows, which is not a loss of direction.
        self._gain = min(1.0, float(np.abs(repair.affine()[0]).max())) if repair.is_affine else 1.0

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        for block in blocks:
            moments = Moments.of(block)
            self.moments = moments if self.moments is None else self.moments | moments
            self._lengths.append(np.linalg.norm(block.astype(np.float64), axis=1))  # squares may overflow float32
            self._rounding = float(np.finfo(block.dtype).eps)
            yield block
        self._at_end()  # before the file gets its name

    def nearly_zero(self, before: Moments) -> list[int]:
        """The rows of (nearly) zero length: of the longest, or of what they were, only rounding is left."""
        lengths = np.concatenate(self._lengths)
        rounding = 8 * self._rounding * before.mean_norm * self._gain
        return [int(row) for row in np.flatnonzero(lengths <= max(NEARLY_ZERO * lengths.max(), rounding))]


def _vectors(source: Any, reading: Reading, layers: str | int | Sequence[int]) -> Source:
    opened = open_input(source, reading)
    if isinstance(opened, VectorsInput):
        return opened.vectors.source if isinstance(opened.vectors, Cloud) else opened.vectors
    assert isinstance(opened, Space)
    return open_vectors(opened[_one_layer(opened, layers)])


def _one_layer(space: Space, layers: str | int | Sequence[int]) -> int:
    chosen = choose_layers(layers, space.layers)
    if len(chosen) != 1:
        raise ValueError(f"a repair belongs to one layer; {option('layers', str(layers))} names {len(chosen)}")
    return chosen[0]


def _moments(source: Any, vectors: Source, reading: Reading) -> Moments:
    from theodolite.spaces.cache import cached_moments

    if isinstance(source, (str, os.PathLike)) and Path(source).is_file():
        return cached_moments(source, data=vectors, **reading.of_file())[0] or Moments.of(vectors)
    return Moments.of(vectors)


def _change(before: Moments, repaired: _Repaired, to: str | os.PathLike[str], count: int, notes: Sequence[str]) -> Result:
    assert repaired.moments is not None
    rows = []
    for state, moments in ((BEFORE, before), (AFTER, repaired.moments)):
        shared: dict[str, Any] = {"state": state, "n": moments.n, "d": moments.d, "versions": current_versions()}
        for name in CHANGE:
            value, reason = METRICS[name].value(moments)
            rows.append(Row(metric=name, value=value, reason=reason, **shared))
    zero = repaired.nearly_zero(before)
    rows.append(Row(metric="nearly_zero_rows", value=float(len(zero)), **shared))
    result = Result(verb="repair", title=f"{count:,} vectors written to {os.fspath(to)}", rows=tuple(rows))
    changes = ", ".join(
        f"{label_of(name)} {number_text(result.value(name, state=BEFORE))} → {number_text(result.value(name, state=AFTER))}"
        for name in CHANGE
    )
    if zero:
        named = ", ".join(map(str, zero[:NAMED_ROWS])) + (", …" if len(zero) > NAMED_ROWS else "")
        notes = [f"{len(zero):,} of {count:,} rows now have (nearly) zero length and so no direction: rows {named}", *notes]
    answer = Answer(verdict="written", sentence=changes)
    return replace(result, answer=answer, notes=tuple(notes), provenance=provenance())
