"""The tracked rows are the same at every step; the distances of their labels' hulls are DirectProbe's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402

from theodolite.core.rows import Row  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.probes.direct_probe import DirectProbe  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import GeometryTracker, fine_tune  # noqa: E402
from theodolite.tuning.run_plans import settings_of_run  # noqa: E402
from theodolite.tuning.tracked_sample import (  # noqa: E402
    LABEL_DISTANCE,
    MEAN_DISTANCE,
    MOST_ROWS,
    Sample,
    centroid_rows,
    hull_rows,
    read_steps,
    save_step,
    undisturbed,
)
from theodolite.tuning.tracker import log_values, read_complete_lines  # noqa: E402

Quick = Callable[..., Any]


def test_steps_come_back_in_order_with_the_same_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = ["rare", *(["a", "b"] * 50)]
    first = {0: rng.standard_normal((101, 3)), 2: rng.standard_normal((101, 3))}
    for step in (20, 0, 100):
        save_step(tmp_path, step, {layer: X + step for layer, X in first.items()}, labels, seed=0, most=30)
    steps = read_steps(tmp_path)
    assert [stored.step for stored in steps] == [0, 20, 100]
    assert set(steps[0].labels) == {"rare", "a", "b"}
    assert all((stored.labels == steps[0].labels).all() and len(stored.labels) == 30 for stored in steps)
    for layer in (0, 2):
        assert np.allclose(steps[2].layers[layer] - steps[0].layers[layer], 100, atol=1e-5)


def test_rows_without_labels_are_cut(tmp_path: Path) -> None:
    save_step(tmp_path, 0, {1: np.arange(20.0).reshape(10, 2)}, [], seed=0, most=4)
    (stored,) = read_steps(tmp_path)
    assert stored.layers[1].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert len(stored.labels) == 0


def test_a_step_measured_again_replaces_the_first(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        save_step(tmp_path, 5, {0: np.full((3, 2), value)}, ["a", "b", "a"], seed=0)
    assert [stored.layers[0].max() for stored in read_steps(tmp_path)] == [2.0]
    assert not list(tmp_path.glob(".*"))


def test_states_are_put_back_after_an_error_too() -> None:
    module = torch.nn.Dropout().train()
    state = torch.get_rng_state()

    def fail() -> None:
        with undisturbed(module):
            torch.rand(3)
            assert not module.training and not torch.is_grad_enabled()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert module.training and torch.equal(torch.get_rng_state(), state)


def test_centroids_and_their_distances() -> None:
    X = np.array([[0.0, 0], [0, 2], [3, 1], [3, 1], [0, 5]], np.float32)
    labels = ("a", "a", "b", "b", "c")
    rows = list(centroid_rows(X, labels, about={}))  # of the centroids (0, 1), (3, 1) and (0, 5)
    assert {row.label: row.value for row in rows if row.metric == "label_min_distance"} == {"a": 3, "b": 3, "c": 4}
    pairs = {row.label + row.other_label: row.value for row in rows if row.metric == "centroid_distance"}
    assert pairs == {"ab": 3, "ac": 4, "bc": 5}
    assert next(row.other_label for row in rows if row.label == "c") == "a"
    assert list(centroid_rows(X, ("a",) * 5, about={})) == []


def test_many_labels_give_only_their_nearest() -> None:
    X = np.random.default_rng(0).standard_normal((22, 4))
    rows = list(centroid_rows(X, [f"label {i // 2:02d}" for i in range(22)], about={}))
    assert len(rows) == 11 and {row.metric for row in rows} == {"label_min_distance"}


def hulls(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.metric in (MEAN_DISTANCE, LABEL_DISTANCE)]


def distances(rows: list[Row], layer: int | None = None) -> dict[str, float]:
    return {row.label: row.value for row in rows if row.metric == LABEL_DISTANCE and row.layer == layer}


def test_two_squares_and_a_point() -> None:
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [4, 0], [4, 1], [5, 0], [5, 1], [4, 7]], np.float32)
    labels = ("a",) * 4 + ("b",) * 4 + ("c",)
    rows = hull_rows(X, labels, seed=3, about={"layer": 2, "step": 7, "model": "m"})
    assert distances(rows, 2) == pytest.approx({"a": 3, "b": 3, "c": 6}, rel=1e-6)
    (mean,) = [row for row in rows if row.metric == MEAN_DISTANCE]
    assert mean.value == pytest.approx(4, rel=1e-6)
    assert {(row.model, row.step, row.d, row.seed) for row in rows} == {("m", 7, 2, 3)}
    assert {row.label: row.n for row in rows} == {"": 9, "a": 4, "b": 4, "c": 1}


def test_overlapping_hulls_are_no_distance_apart_and_stay_one_cluster_each() -> None:
    cross = np.array([[1.0, 1], [-1, -1], [1, -1], [-1, 1]])
    rows = hull_rows(cross, ("same", "same", "other", "other"), seed=0, about={})
    assert max(distances(rows).values()) <= 1e-7 * math.sqrt(2)
    assert set(distances(rows)) == {"same", "other"}


def test_the_space_grows_and_the_distances_with_it_but_not_by_turning() -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((60, 80)), [f"label {i % 5}" for i in range(60)]
    turn = np.linalg.qr(rng.standard_normal((80, 80)))[0]
    one, other = (distances(hull_rows(Y, labels, seed=0, about={})) for Y in (X, 3 * X @ turn + 5))
    assert other == pytest.approx({label: 3 * value for label, value in one.items()}, rel=1e-5)


def test_of_many_rows_a_fixed_sample_with_every_label() -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((2 * MOST_ROWS, 3)), ["common"] * (2 * MOST_ROWS - 1) + ["rare"]
    X[-1] += 50
    first, again, other = (hull_rows(X, labels, seed=seed, about={}) for seed in (0, 0, 1))
    assert first == again and first != other
    assert {row.label: row.n for row in first} == {"": MOST_ROWS, "common": MOST_ROWS - 1, "rare": 1}
    # The hull of a sample lies inside the hull of all: no distance is smaller.
    whole = DirectProbe().fit(X, labels, clusters=labels).minimum_distances_[0]
    assert distances(first)["rare"] >= whole * (1 - 1e-5)


@pytest.mark.parametrize(
    ("X", "labels", "reason"),
    [
        (np.eye(4), (), "the sample has no labels"),
        (np.eye(4), ("a",) * 4, "all 4 vectors of the sample have the label a"),
        (np.ones((4, 3)), ("a", "b", "a", "b"), "all 4 rows are the same point"),
    ],
    ids=["no labels", "one label", "no spread"],
)
def test_what_is_not_defined_says_why(X: Any, labels: tuple[str, ...], reason: str) -> None:
    (row,) = hull_rows(X, labels, seed=0, about={"layer": 1})
    assert (row.metric, row.layer) == (MEAN_DISTANCE, 1)
    assert math.isnan(row.value) and reason in row.reason


@pytest.mark.parametrize("kind", ["moods", "tags", "relations"])
def test_the_tracker_gives_what_the_probe_finds_in_each_layer(kind: str, tiny_bert: str, request: pytest.FixtureRequest) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    dev = load_task(request.getfixturevalue(kind), "dev")
    tracker = GeometryTracker(dev, encoder.tokenizer, hulls=True, size=20)
    rows = hulls(tracker.measure(encoder.module, 0))
    sample = Sample.of(dev, Encoder(encoder.module, encoder.tokenizer), unit="mean", size=20, seed=0)
    with torch.no_grad():
        layers = sample.vectors(encoder.module.eval())
    assert {row.layer for row in rows} == set(layers) == {0, 1, 2}
    for layer, X in layers.items():
        probe = DirectProbe().fit(X, sample.labels, clusters=sample.labels)
        expected = dict(zip(probe.classes_.tolist(), probe.minimum_distances_.tolist(), strict=True))
        assert distances(rows, layer) == pytest.approx(expected, rel=1e-4, abs=1e-5)
        (mean,) = [row.value for row in rows if row.metric == MEAN_DISTANCE and row.layer == layer]
        assert mean == pytest.approx(np.mean(list(expected.values())), rel=1e-4, abs=1e-5)


def test_hulls_are_not_measured_by_default_and_change_nothing_else(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    dev = load_task(moods, "dev")
    plain, more = (
        GeometryTracker(dev, encoder.tokenizer, hulls=with_hulls).measure(encoder.module, 0) for with_hulls in (False, True)
    )
    assert not hulls(plain)
    assert [row for row in more if row not in hulls(more)] == plain


def test_texts_without_labels_have_a_reason_in_every_layer(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    rows = hulls(GeometryTracker(load_task(moods, "dev").texts, encoder.tokenizer, hulls=True).measure(encoder.module, 0))
    assert [(row.layer, row.metric) for row in rows] == [(0, MEAN_DISTANCE), (1, MEAN_DISTANCE), (2, MEAN_DISTANCE)]
    assert all("give examples from a task with labels" in row.reason for row in rows)


def test_the_first_layer_of_cls_is_one_point(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    rows = hulls(GeometryTracker(load_task(moods, "dev"), encoder.tokenizer, unit="cls", hulls=True).measure(encoder.module, 0))
    assert ["same point" in row.reason for row in rows if row.layer == 0] == [True]
    assert set(distances(rows, 2)) == {"good", "bad"}


def test_a_training_that_diverged_is_the_reason(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    with torch.no_grad():
        encoder.module.encoder.layer[1].output.LayerNorm.bias.fill_(float("nan"))
    rows = GeometryTracker(load_task(moods, "dev"), encoder.tokenizer, hulls=True).measure(encoder.module, 0)
    (row,) = [row for row in hulls(rows) if row.layer == 2]
    assert math.isnan(row.value) and "diverged" in row.reason
    assert "geometry/layer_02/mean_minimum_distance" not in log_values(rows)


@pytest.mark.slow
def test_a_run_shows_labels_move_apart_and_does_not_notice(quick: Quick, moods: Any, tmp_path: Path) -> None:
    settings = quick(moods, epochs=4, track="epoch", track_hulls=True, output=str(tmp_path / "tracked"))
    tracked, plain = fine_tune(settings), fine_tune(quick(moods, epochs=4, output=str(tmp_path / "plain")))
    apart = {row.step: row.value for row in tracked.rows if (row.metric, row.layer) == (MEAN_DISTANCE, 2)}
    assert list(apart) == [0, 6, 12, 18, 24]
    assert apart[24] > 2 * apart[0]
    assert hulls(list(tracked.rows)) == hulls(read_complete_lines(Path(settings.output) / "geometry.jsonl"))
    one, other = (load_file(run.model_folder / "model.safetensors") for run in (tracked, plain))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert settings_of_run(settings.output, output=settings.output, task=moods) == settings
