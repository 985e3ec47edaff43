"""The geometry is measured correctly, at the right steps, without effect on the training; a trainer logs it and can stop."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402
from transformers import TrainerCallback  # noqa: E402

from theodolite.core.rows import Row, read_rows  # noqa: E402
from theodolite.metrics import iso_score, mean_cosine  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import Alarm, CollapseWarning, GeometryCallback, GeometryTracker, fine_tune  # noqa: E402
from theodolite.tuning.classifier import ClassifierJob  # noqa: E402
from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.runs import load_splits  # noqa: E402
from theodolite.tuning.tracked_sample import LABEL_DISTANCE, MEAN_DISTANCE  # noqa: E402
from theodolite.tuning.tracker import log_values, read_complete_lines  # noqa: E402

Quick = Callable[..., Any]


def value(rows: list[Row], metric: str, layer: int) -> float:
    return next(row.value for row in rows if (row.metric, row.layer) == (metric, layer))


@pytest.mark.parametrize("family", ["tiny_bert", "tiny_roberta"])
def test_it_measures_what_the_encoder_gives(family: str, moods: Any, request: pytest.FixtureRequest) -> None:
    encoder = Encoder.load(request.getfixturevalue(family), device="cpu")
    texts = list(load_task(moods, "dev").texts)
    rows = GeometryTracker(texts, encoder.tokenizer).measure(encoder.module, 0)
    assert {row.layer for row in rows} == {0, 1, 2}
    for layer in range(3):
        X = []
        for text in texts:
            coded = encoder.tokenizer(text, return_tensors="pt")
            X.append(encoder.hidden_states(coded["input_ids"], coded["attention_mask"])[layer][0].mean(0).numpy())
        assert value(rows, "mean_cosine", layer) == pytest.approx(mean_cosine(np.array(X)), abs=1e-4)
        assert value(rows, "iso_score", layer) == pytest.approx(iso_score(np.array(X)), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moods", "alike", "tags", "relations"])
def test_weights_are_bit_identical_with_it_and_without(
    kind: str, quick: Quick, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    task = request.getfixturevalue(kind)
    tracked = fine_tune(quick(task, track=2, output=str(tmp_path / "tracked")))
    plain = fine_tune(quick(task, track=None, output=str(tmp_path / "plain")))
    files = ["model.safetensors"] + (["head.safetensors"] if kind != "alike" else [])
    for file in files:
        one, other = load_file(tracked.model_folder / file), load_file(plain.model_folder / file)
        assert all(torch.equal(one[name], other[name]) for name in one), file
    assert (tracked.before, tracked.after) == (plain.before, plain.after)
    assert any(row.layer is not None for row in tracked.rows) and not any(row.layer is not None for row in plain.rows)


@pytest.mark.parametrize(
    ("track", "steps"), [("epoch", [0, 6, 12]), (5, [0, 5, 10]), ((0, 1, 7), [0, 1, 7])], ids=["epoch", "every 5", "named"]
)
def test_it_measures_at_the_steps_that_were_chosen(quick: Quick, moods: Any, track: Any, steps: list[int]) -> None:
    settings = quick(moods, track=track)
    tuned = fine_tune(settings)
    rows = [row for row in tuned.rows if row.metric == "mean_cosine"]
    assert [(row.step, row.layer) for row in rows] == [(step, layer) for step in steps for layer in range(3)]
    assert {row.state for row in rows if row.step == 0} == {"pre-trained"}
    assert {(row.task, row.split, row.n, row.d) for row in rows} == {("moods", "dev", 32, 32)}
    written = read_rows(Path(settings.output) / "geometry.jsonl")
    assert [row for row in tuned.rows if row.layer is not None] == written


def test_labels_move_apart_in_training(quick: Quick, moods: Any) -> None:
    tuned = fine_tune(quick(moods, epochs=4, track="epoch"))
    last = [row for row in tuned.rows if (row.metric, row.layer, row.label) == ("label_min_distance", 2, "good")]
    apart = {row.step: row.value for row in last}
    assert apart[24] > 2 * apart[0]


def test_words_are_sampled_with_their_labels(tiny_bert: str, tags: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    rows = GeometryTracker(load_task(tags, "dev"), encoder.tokenizer, size=5).measure(encoder.module, 0)
    assert {row.n for row in rows} == {35}
    assert {row.label for row in rows if row.metric == "label_min_distance"} == {"ADJ", "DET", "NOUN", "PUNCT", "VERB"}
    # Before any layer mixes, a determiner is nearer to its like than to a full stop.
    embedded = {row.label: row.value for row in rows if row.layer == 0 and row.metric == "label_min_distance"}
    assert min(embedded.values()) > 0


def test_nothing_is_left_behind(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    model = LinearHead(encoder.module, 2).train()
    model.encoder.embeddings.eval()  # a part that someone keeps in evaluation mode
    modes = [part.training for part in model.modules()]
    tracker = GeometryTracker(load_task(moods, "dev"), encoder.tokenizer)
    states = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # noqa: NPY002
    tracker.measure(model, 0)
    assert [part.training for part in model.modules()] == modes
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == states  # noqa: NPY002
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_same_sample_every_time(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    dev = load_task(moods, "dev")
    first, second, other = (
        GeometryTracker(dev, encoder.tokenizer, size=16, seed=seed).measure(encoder.module, 0) for seed in (0, 0, 1)
    )
    assert [row.value for row in first] == [row.value for row in second]
    assert [row.value for row in first] != [row.value for row in other]


def collapse(module: Any) -> None:
    """Make the last layer give the same vector for everything."""
    with torch.no_grad():
        norm = module.encoder.layer[-1].output.LayerNorm
        norm.weight.mul_(1e-3)
        norm.bias.fill_(1.0)


def test_a_collapse_warns_and_a_plain_loop_can_stop(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    tracker = GeometryTracker(load_task(moods, "dev"), encoder.tokenizer, stop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracker.measure(encoder.module, 0)
    assert not tracker.collapsed
    collapse(encoder.module)
    with pytest.warns(CollapseWarning, match="layer 2 has collapsed at step 7"):
        tracker.measure(encoder.module, 7)
    assert tracker.collapsed


def test_vectors_that_are_not_finite_have_a_reason(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    with torch.no_grad():
        encoder.module.encoder.layer[1].output.LayerNorm.bias.fill_(float("nan"))
    rows = GeometryTracker(load_task(moods, "dev"), encoder.tokenizer).measure(encoder.module, 0)
    assert all("diverged" in row.reason for row in rows if row.layer == 2)
    assert not any(np.isnan(value(rows, "iso_score", layer)) for layer in (0, 1))
    assert not any(name.startswith("geometry/layer_02") for name in log_values(rows))


def test_a_torn_last_line_is_left_out(tmp_path: Path, tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    path = tmp_path / "geometry.jsonl"
    tracker = GeometryTracker(load_task(moods, "dev"), encoder.tokenizer, path=path)
    tracker.measure(encoder.module, 0)
    tracker.measure(encoder.module, 4)
    whole = read_complete_lines(path)
    with open(path, "ab") as file:
        file.write(b'{"metric": "iso_sc')
    assert read_complete_lines(path) == whole == tracker.rows
    again = GeometryTracker(load_task(moods, "dev"), encoder.tokenizer, path=path)
    again.resume(2)
    assert {row.step for row in again.rows} == {0} and read_complete_lines(path) == again.rows


def test_an_unknown_layer_is_an_error(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    with pytest.raises(ValueError, match="layer 3"):
        GeometryTracker(load_task(moods, "dev"), encoder.tokenizer, layers=[3]).measure(encoder.module, 0)
    rows = GeometryTracker(load_task(moods, "dev"), encoder.tokenizer, layers=[-1]).measure(encoder.module, 0)
    assert {row.layer for row in rows} == {2}


def row(metric: str, value: float, step: int, layer: int = 3) -> Row:
    return Row(metric=metric, value=value, step=step, layer=layer, n=101, d=768)


def test_the_alarm_names_layer_step_value_and_bound() -> None:
    sentences = Alarm().crossings([row("mean_cosine", 0.5, 0)], [row("mean_cosine", 0.97, 40)])
    assert sentences == [
        "layer 3 has collapsed at step 40: its mean cosine is 0.9700, above the bound 0.95; its vectors point one way"
    ]
    (sentence,) = Alarm(rank_share=0.1).crossings([row("effective_rank", 50, 0)], [row("effective_rank", 5, 40)])
    assert "effective rank is 5.0 of 100 possible" in sentence and "share of 0.0500, below the bound 0.1" in sentence


def test_the_alarm_judges_the_crossing() -> None:
    alarm, start = Alarm(), [row("mean_cosine", 0.5, 0)]
    assert alarm.crossings([], [row("mean_cosine", 0.99, 0)]) == []
    assert len(alarm.crossings([], [row("mean_cosine", 0.99, 20)])) == 1
    beyond = [*start, row("mean_cosine", 0.96, 10)]
    assert alarm.crossings(beyond, [row("mean_cosine", 0.99, 20)]) == []  # sentences once
    assert alarm.crossings([*start, row("mean_cosine", 0.2, 10)], [row("mean_cosine", 0.94, 20)]) == []
    assert Alarm(mean_cosine=None).crossings(start, [row("mean_cosine", 0.99, 20)]) == []
    assert alarm.crossings(start, [Row(metric="mean_cosine", value=float("nan"), reason="no spread", step=9, layer=3)]) == []


def test_a_layer_that_began_beyond_a_bound_is_judged_by_its_own_start() -> None:
    alarm, start = Alarm(), [row("mean_cosine", 0.98, 0), row("effective_rank", 0.9, 0)]
    assert alarm.crossings(start, [row("mean_cosine", 0.995, 10), row("effective_rank", 0.1, 10)]) == []
    assert "above the bound 0.998" in alarm.crossings(start, [row("mean_cosine", 0.999, 10)])[0]
    assert "below the bound 0.0009" in alarm.crossings(start, [row("effective_rank", 0.08, 10)])[0]
    assert alarm.crossings([row("mean_cosine", 1 - 1e-7, 0)], [row("mean_cosine", 1 + 1e-9, 10)]) == []


def test_it_logs_through_the_trainer(quick: Quick, moods: Any) -> None:
    logged: list[dict[str, float]] = []

    class Dashboard(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            logged.append(dict(logs))

    settings = quick(moods, epochs=1)
    splits = load_splits(settings, None)
    job = ClassifierJob(settings, splits, Path(settings.output))
    job.trainer.add_callback(Dashboard())
    GeometryCallback(GeometryTracker(splits.dev, job.encoder.tokenizer)).attach(job.trainer)
    job.trainer.train()
    geometry = [logs for logs in logged if "geometry/layer_02/mean_cosine" in logs]
    assert len(geometry) == 2
    assert {"geometry/layer_00/iso_score", "geometry/layer_02/label_min_distance"} <= set(geometry[0])


def test_what_the_trainer_reports_to_gets_the_scalars(quick: Quick, moods: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import integration_utils

    logged: list[dict[str, float]] = []

    class TensorBoard(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            logged.append(dict(logs))

    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "tensorboard", TensorBoard)

    def train(attach: bool) -> None:
        settings = quick(moods, epochs=1, report_to=("tensorboard",), output=str(quick(moods).output) + str(attach))
        splits = load_splits(settings, None)
        job = ClassifierJob(settings, splits, Path(settings.output))
        callback = GeometryCallback(GeometryTracker(splits.dev, job.encoder.tokenizer))
        if attach:
            callback.attach(job.trainer)
        else:
            job.trainer.add_callback(callback)
        job.trainer.train()

    train(attach=True)
    assert sum("geometry/layer_02/mean_cosine" in logs for logs in logged) == 2
    logged.clear()
    with pytest.warns(UserWarning, match=r"cannot log to tensorboard from callbacks=\[\.\.\.\]; use .*attach\(trainer\)"):
        train(attach=False)
    assert not any("geometry/layer_02/mean_cosine" in logs for logs in logged)


def test_a_collapse_stops_the_trainer_cleanly(quick: Quick, moods: Any) -> None:
    settings = quick(moods, epochs=3)
    splits = load_splits(settings, None)
    job = ClassifierJob(settings, splits, Path(settings.output))
    tracker = GeometryTracker(splits.dev, job.encoder.tokenizer, every=2, stop=True)
    callback = GeometryCallback(tracker).attach(job.trainer)

    class Collapse(type(callback).__base__):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 3:
                collapse(job.encoder.module)

    job.trainer.add_callback(Collapse())
    with pytest.warns(CollapseWarning, match="at step 4"):
        job.trainer.train()
    assert job.trainer.state.global_step == 4


def test_a_dashboard_gets_the_mean_and_the_smallest() -> None:
    fields = {"layer": 3, "metric": LABEL_DISTANCE}
    rows = [
        Row(**fields, label="a", value=2.0),
        Row(**fields, label="b", value=0.5),
        Row(layer=3, metric=MEAN_DISTANCE, value=1.25),
    ]
    assert log_values(rows) == {"geometry/layer_03/minimum_distance": 0.5, "geometry/layer_03/mean_minimum_distance": 1.25}
