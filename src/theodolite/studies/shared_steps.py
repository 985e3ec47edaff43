"""Steps that several studies share: a fine-tuning, the vectors of a state, a picture of a layer, and its spectrum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from theodolite.core.kmeans import k_means, nearest_centroids
from theodolite.core.moments import Moments
from theodolite.core.pictures import draw_picture
from theodolite.core.rows import Row
from theodolite.core.states import FINE_TUNED, ISOLAYER, PRE_TRAINED, base_state
from theodolite.metrics.cloud import Cloud
from theodolite.metrics.evaluation import REPLICATES, measure
from theodolite.spaces.space import Origin, Space, picture_columns
from theodolite.studies.item_records import DRAW_SEED, DRAWS, Draws, Recorder
from theodolite.studies.steps import Action, Sources, Work
from theodolite.tasks.examples import Examples
from theodolite.tasks.scores import score

if TYPE_CHECKING:
    from theodolite.tuning.runs import Tuned
    from theodolite.tuning.settings import TuneSettings

# Folders inside a step's folder: the fine-tuning, its tracked vectors, and the vectors of a state.
RUN = "run"
TRACKED = "vectors"
SPACE = "space"
# Metrics of the vectors that a head takes, of which records are kept next to those of the score.
SHAPE_METRICS = (
    "iso_score", "iso_score_corrected", "ev_1", "ev_2", "ev_3", "ev_1_centered", "ev_2_centered", "ev_3_centered",
)  # fmt: skip


def _fine_tune(work: Work) -> list[Row]:
    """Train, or continue, or read what is finished; the rows of the scored split, with the method as their state.

    The input `plain` is the run that an Isotropy Layer is put into. With the setting `keep_vectors`, the tracked vectors of every
    measured training step stay in the folder.
    """
    tuning = tuning_settings(work.settings, work.sources, work.folder / RUN)
    run = train_or_read(work, tuning, vectors=work.folder / TRACKED if work.settings["keep_vectors"] else None)
    return tuned_rows(work, tuning, run)


def train_or_read(work: Work, tuning: TuneSettings, *, vectors: Path | None = None) -> Tuned:
    """The run of these settings: trained, continued, or read if it is finished."""
    from theodolite.tuning import fine_tune

    options: dict[str, Any] = {"data": work.sources.data_for(work.settings["task"]), "progress": work.progress}
    options |= {"plain": work.inputs["plain"] / RUN if "plain" in work.inputs else None, "vectors": vectors}
    try:
        return fine_tune(tuning, **options)
    except FileExistsError:  # begun with the same weights in another folder: to the run these are other settings
        return fine_tune(tuning, **options, overwrite=True)


def tuned_rows(work: Work, tuning: TuneSettings, run: Tuned) -> list[Row]:
    """The rows of a run's scored split, with the method as their state; of the score and the shape also records."""
    name, method = work.settings["model"]["name"], work.settings["method"]
    rows = [_renamed(row, method, name) for row in run.rows if _belongs(row, method)]
    return rows if tuning.is_siamese or tuning.declared.on_words else _with_records(work, tuning, rows)


def tuning_settings(settings: Mapping[str, Any], sources: Sources, output: Path) -> TuneSettings:
    """The settings of a fine-tuning, from those of its step."""
    from theodolite.tuning import LayerSettings, preset

    name, task = settings["model"]["name"], settings["task"]
    # Settings of steps are plain values, which know lists and tables only.
    changes: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in settings["changes"].items()
    }
    if "layer" in changes:
        changes["layer"] = LayerSettings(**changes["layer"])
    changes["trust_remote_code"] = sources.trust_remote_code
    if name in sources.revisions:
        changes["revision"] = sources.revisions[name]
    return preset(
        settings["preset"],
        task=sources.tasks.get(task, task),
        model=sources.models[name],
        output=output,
        seed=settings["seed"],
        method=base_state(settings["method"]),
        **changes,
    )


def _with_records(work: Work, tuning: TuneSettings, rows: list[Row]) -> list[Row]:
    """The rows with intervals over the scored examples; the answer to every example, and the draws, are kept."""
    import pyarrow

    from theodolite.tuning import TunedClassifier
    from theodolite.tuning.runs import load_splits

    task, recorder = tuning.declared, Recorder()
    dev = load_splits(tuning, work.sources.data_for(work.settings["task"])).dev
    model, trusted = work.folder / RUN / "model", tuning.trust_remote_code
    classifier = TunedClassifier.from_pretrained(model, device="auto", trust_remote_code=trusted)
    logits, X = classifier.logits(dev.texts, dev.second), classifier.vectors(dev.texts, dev.second)
    truth: Any = dev.unit_scores() if dev.labels is None else np.array(dev.label_ids(classifier.labels))
    answers = logits[:, 0] if dev.labels is None else logits.argmax(-1)
    resamples = np.random.default_rng(DRAW_SEED).integers(0, len(truth), (DRAWS, len(truth)))
    items = {task.score: np.array([score(task.score, truth[at], answers[at])[0] for at in resamples])}
    cloud = Cloud(X, sample=max(2, len(X)), seed=DRAW_SEED)
    items |= {row.metric: row.value + by for row, by in measure(cloud, SHAPE_METRICS, bootstrap=REPLICATES) if by is not None}
    final = [row for row in rows if row.metric in items and row.layer is None and row.state != PRE_TRAINED and row.split]
    recorded = {row: recorder.add(row, Draws(row.value, items[row.metric], len(truth), "examples")) for row in final}
    recorder.write(work)
    fields = {name: getattr(final[0], name) for name in ("model", "state", "task", "split", "seed")} if final else {}
    work.write_records("predictions", pyarrow.table({
        **{name: [value] * len(truth) for name, value in fields.items()},
        "example": np.arange(len(truth)), "truth": truth.astype(np.float64), "answer": answers.astype(np.float64),
    }))  # fmt: skip
    return [recorded.get(row, row) for row in rows]


def _belongs(row: Row, method: str) -> bool:
    """Whether a row says something of the scored split that another step does not say already."""
    if row.split in ("train", "validation"):
        return row.metric == "train_seconds"
    if row.layer is not None and method != "plain":  # the same sample is tracked in the plain run, whose rows have the layers
        return False
    return not (base_state(method) == ISOLAYER and row.state == FINE_TUNED)  # the plain run that the layer is put into


def _renamed(row: Row, method: str, name: str) -> Row:
    """The row with the model's name instead of its folder, and the method as its state."""
    if method == "plain":
        return replace(row, model=name)
    return replace(row, model=name, state=row.state if row.state == PRE_TRAINED else method, setting="")


def _extract_vectors(work: Work) -> list[Row]:
    """Write the space; the input `tuned` is the run whose encoder is used."""
    from theodolite.models.encoder import Encoder
    from theodolite.models.extraction import extract_space

    settings, name, tuned = work.settings, work.settings["model"]["name"], work.inputs.get("tuned")
    location = work.sources.models[name] if tuned is None else str(tuned / RUN / "model")
    state = PRE_TRAINED if tuned is None else FINE_TUNED
    revision = work.sources.revisions.get(name) if tuned is None else None
    extract_space(
        Encoder.load(location, name=name, revision=revision, trust_remote_code=work.sources.trust_remote_code),
        read_examples(work),
        unit=settings["unit"],
        layers=settings["layers"] or "all",
        frequencies=settings["unit"] in ("tokens", "words"),  # a whole text has no word frequency
        to=work.folder / SPACE,
        origin=Origin(model=name, state=state, task=settings["task"], split=settings["split"]),
        progress=work.progress,
    )
    return []


def read_examples(work: Work) -> Examples:
    """The examples of the split, or the first of them if the settings cap their number."""
    return first_examples(work.sources.examples(work.settings["task"], work.settings["split"]), work.settings["examples"])


def first_examples(examples: Examples, most: int | None) -> Examples:
    """The first examples, at most so many; None is all."""
    return examples if most is None or most >= len(examples) else examples.take(range(most))


def open_space(work: Work, role: str = "vectors") -> Space:
    """The space that a step of vectors wrote. The store has compared its files with their hashes: they are not read twice."""
    return Space.open(work.inputs[role] / SPACE, verify=False)


def row_fields(space: Space, layer: int) -> dict[str, Any]:
    """What rows say of a layer of a space: model, revision, state, task, split and layer."""
    fields = space.about(layer)
    return {name: fields[name] for name in ("model", "revision", "state", "task", "split", "layer")}


def _draw_layer(work: Work) -> list[Row]:
    """The layer on its first three directions: a sample of its rows, the same ones in every state."""
    space, settings = open_space(work), work.settings
    X, fields = np.asarray(space[settings["layer"]]), row_fields(space, settings["layer"])
    columns = picture_columns(space, read_examples(work))
    if settings["k"]:
        clusters = nearest_centroids(X, k_means(X, settings["k"], seed=settings["seed"]).centroids)
        columns["cluster"] = [str(cluster) for cluster in clusters]
    work.write_picture(draw_picture(X, columns=columns, about=fields, points=settings["points"], seed=settings["seed"]))
    return []


def _keep_spectrum(work: Work) -> list[Row]:
    """The share of the variance on every principal direction, largest first, as records."""
    import pyarrow

    space, layer = open_space(work), work.settings["layer"]
    # Rounding makes some of the smallest eigenvalues negative.
    variances = np.linalg.eigvalsh(Moments.of(space[layer]).covariance())[::-1].clip(min=0.0)
    shares = variances / max(float(variances.sum()), np.finfo(float).tiny)  # all 0 if the vectors are one point
    fields = {**row_fields(space, layer), "setting": work.settings["setting"], "seed": work.settings["seed"]}
    columns = {name: [fields[name]] * len(shares) for name in ("model", "state", "layer", "setting", "seed")}
    work.write_records("spectra", pyarrow.table({**columns, "k": np.arange(1, len(shares) + 1), "value": shares}))
    return []


TUNE = Action("tune", _fine_tune, version=3, resumable=True)
VECTORS = Action("vectors", _extract_vectors, resumable=True)
PICTURE = Action("picture", _draw_layer)
SPECTRUM = Action("spectrum", _keep_spectrum)
