"""The labels' hulls are followed through training: DirectProbe's own distances, of the same rows at every step."""

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
from theodolite.probes.direct import DirectProbe  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import GeometryTracker, tune  # noqa: E402
from theodolite.tuning.label_hulls import MEAN, MOST_ROWS, OF_LABEL, hull_rows  # noqa: E402
from theodolite.tuning.run import settings_of_run  # noqa: E402
from theodolite.tuning.sample import Sample  # noqa: E402
from theodolite.tuning.tracking import read_whole_lines, to_log  # noqa: E402

Quick = Callable[..., Any]


def hulls(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.metric in (MEAN, OF_LABEL)]


def distances(rows: list[Row], layer: int | None = None) -> dict[str, float]:
    return {row.label: row.value for row in rows if row.metric == OF_LABEL and row.layer == layer}


def test_two_squares_and_a_point() -> None:
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [4, 0], [4, 1], [5, 0], [5, 1], [4, 7]], np.float32)
    labels = ("a",) * 4 + ("b",) * 4 + ("c",)
    rows = hull_rows(X, labels, seed=3, about={"layer": 2, "step": 7, "model": "m"})
    assert distances(rows, 2) == pytest.approx({"a": 3, "b": 3, "c": 6}, rel=1e-6)
    (mean,) = [row for row in rows if row.metric == MEAN]
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
    ("X", "labels", "said"),
    [
        (np.eye(4), (), "the sample has no labels"),
        (np.eye(4), ("a",) * 4, "all 4 vectors of the sample have the label a"),
        (np.ones((4, 3)), ("a", "b", "a", "b"), "all 4 rows are the same point"),
    ],
    ids=["no labels", "one label", "no spread"],
)
def test_what_is_not_defined_says_why(X: Any, labels: tuple[str, ...], said: str) -> None:
    (row,) = hull_rows(X, labels, seed=0, about={"layer": 1})
    assert (row.metric, row.layer) == (MEAN, 1)
    assert math.isnan(row.value) and said in row.reason


@pytest.mark.parametrize("kind", ["moods", "tags", "relations"])
def test_the_tracker_gives_what_the_probe_finds_in_each_layer(kind: str, tiny_bert: str, request: pytest.FixtureRequest) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    dev = load_task(request.getfixturevalue(kind), "dev")
    tracker = GeometryTracker(dev, encoder.tokenizer, hulls=True, texts=20)
    found = hulls(tracker.measure(encoder.module, 0))
    sample = Sample.of(dev, Encoder(encoder.module, encoder.tokenizer), unit="mean", size=20, seed=0)
    with torch.no_grad():
        layers = sample.vectors(encoder.module.eval(), None)
    assert {row.layer for row in found} == set(layers) == {0, 1, 2}
    for layer, X in layers.items():
        probe = DirectProbe().fit(X, sample.labels, clusters=sample.labels)
        expected = dict(zip(probe.classes_.tolist(), probe.minimum_distances_.tolist(), strict=True))
        assert distances(found, layer) == pytest.approx(expected, rel=1e-4, abs=1e-5)
        (mean,) = [row.value for row in found if row.metric == MEAN and row.layer == layer]
        assert mean == pytest.approx(np.mean(list(expected.values())), rel=1e-4, abs=1e-5)


def test_without_being_asked_there_are_none_and_the_rest_is_the_same(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    dev = load_task(moods, "dev")
    plain, more = (GeometryTracker(dev, encoder.tokenizer, hulls=asked).measure(encoder.module, 0) for asked in (False, True))
    assert not hulls(plain)
    assert [row for row in more if row not in hulls(more)] == plain


def test_texts_without_labels_have_a_reason_in_every_layer(tiny_bert: str, moods: Any) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    rows = hulls(GeometryTracker(load_task(moods, "dev").texts, encoder.tokenizer, hulls=True).measure(encoder.module, 0))
    assert [(row.layer, row.metric) for row in rows] == [(0, MEAN), (1, MEAN), (2, MEAN)]
    assert all("give examples of a task with labels" in row.reason for row in rows)


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
    assert "geometry/layer_02/mean_minimum_distance" not in to_log(rows)


def test_a_dashboard_gets_the_mean_and_the_smallest() -> None:
    told = {"layer": 3, "metric": OF_LABEL}
    rows = [Row(**told, label="a", value=2.0), Row(**told, label="b", value=0.5), Row(layer=3, metric=MEAN, value=1.25)]
    assert to_log(rows) == {"geometry/layer_03/minimum_distance": 0.5, "geometry/layer_03/mean_minimum_distance": 1.25}


def test_a_run_shows_labels_move_apart_and_does_not_notice(quick: Quick, moods: Any, tmp_path: Path) -> None:
    settings = quick(moods, epochs=4, track="epoch", track_hulls=True, output=str(tmp_path / "tracked"))
    tracked, plain = tune(settings), tune(quick(moods, epochs=4, output=str(tmp_path / "plain")))
    apart = {row.step: row.value for row in tracked.rows if (row.metric, row.layer) == (MEAN, 2)}
    assert list(apart) == [0, 6, 12, 18, 24]
    assert apart[24] > 2 * apart[0]
    assert hulls(list(tracked.rows)) == hulls(read_whole_lines(Path(settings.output) / "geometry.jsonl"))
    one, other = (load_file(run.folder / "model.safetensors") for run in (tracked, plain))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert settings_of_run(settings.output, output=settings.output, task=moods) == settings


def test_settings_say_it_only_where_it_is_asked_for(quick: Quick, moods: Any, alike: Any) -> None:
    assert "track_hulls" not in quick(moods, track="epoch").to_dict()
    assert quick(moods, track="epoch", track_hulls=True).to_dict()["track_hulls"] is True
    with pytest.raises(ValueError, match="set track, such as 'epoch'"):
        quick(moods, track=None, track_hulls=True)
    with pytest.raises(ValueError, match="task 'alike' has scores"):
        quick(alike, track="epoch", track_hulls=True)


def test_the_command_line_passes_it_on(tiny_bert: str, moods: Any, alike: Any, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from theodolite.cli.app import app
    from theodolite.core.rows import read_rows

    def run(task: Any, kind: str, *more: str) -> Any:
        own = [part for split, (file,) in task.splits.items() for part in ("--own", f"{split}={file}")]
        told = ["--kind", kind, "--epochs", "1", "--device", "cpu", "--to", str(tmp_path / kind), "--track-hulls", *more]
        return CliRunner().invoke(app, ["tune", tiny_bert, *own, *told])

    done = run(moods, "classification", "--validation", "0.2")
    assert done.exit_code == 0, done.output
    assert "hulls apart" in done.stdout
    assert {row.step for row in read_rows(tmp_path / "classification" / "rows.parquet") if row.metric == OF_LABEL} > {0}
    refused = run(alike, "similarity", "--score-range", "0,5")
    assert refused.exit_code == 2 and "track_hulls needs labels" in refused.stderr
