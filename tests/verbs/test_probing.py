"""`probe`: labels of every kind of input, held-out rows, files, and refusals before the work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import theodolite as th
from theodolite.spaces import Space

RANDOM = np.random.default_rng(0)
X = np.concatenate([RANDOM.standard_normal((40, 5)) + shift for shift in (0, 8, 16)]).astype(np.float32)
LABELS = [name for name in "abc" for _ in range(40)]
SPACE = Space.of({0: X, 2: X * 2}, rows={"label": LABELS, "other": ["x", "y"] * 60})


def test_labels_come_as_a_sequence_a_column_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n")
    np.save(tmp_path / "v.npy", X)
    for result in (
        th.probe(X, LABELS),
        th.probe(SPACE, layers=0),
        th.probe(tmp_path / "v.npy", str(tmp_path / "labels.txt")),
        th.probe(Space.of({0: X}), LABELS),
        th.probe(Space.of({0: X}), tmp_path / "labels.txt"),
        th.probe(Space.of({0: X}), str(tmp_path / "labels.txt"), test=Space.of({0: X}, rows={"label": LABELS})),
    ):
        assert result.value("clusters") == 3 and result.value("is_linear") == 1
    assert th.probe(SPACE, labels="other", layers=[0]).value("is_linear") == 0


def test_every_layer_is_probed_and_scale_shows() -> None:
    result = th.probe(SPACE)
    first, second = (result.value("mean_minimum_distance", layer=layer) for layer in (0, 2))
    assert second == pytest.approx(2 * first, rel=1e-5)
    assert result.answer is not None and result.answer.verdict == "separable" and not result.notes
    assert result.answer.sentence.startswith("In layer 2, planes separate all 3 pairs of labels, which happens in none of 19")
    assert "closest labels" in repr(result) and "nearest" in repr(th.probe(SPACE, layers="last"))


def test_held_out_rows_are_scored() -> None:
    result = th.probe(X, LABELS, hold_out=0.25, classifier="linear")
    assert result.value("hull_accuracy") == 1.0 and result.value("probe_accuracy") == 1.0
    assert th.probe(X, LABELS, test=X[:10], test_labels=LABELS[:10]).value("hull_accuracy") == 1.0


def test_the_next_command_names_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", X)
    Path("labels.txt").write_text("\n".join(LABELS) + "\n")
    SPACE.save("space")
    calls: dict[str, dict[str, Any]] = {
        "th.probe(X, labels, hold_out=0.2)": {"source": X, "labels": LABELS},
        "th.probe(X, hold_out=0.2)": {"source": SPACE},
        "th.probe(X, labels, classifier='linear')": {"source": X, "labels": LABELS, "hold_out": 0.2},
        "th.probe(X, labels).report('probe.html')": {"source": X, "labels": LABELS, "hold_out": 0.2, "classifier": "linear"},
        "theodolite probe v.npy --labels labels.txt --hold-out 0.2": {"source": "v.npy", "labels": "labels.txt"},
        "theodolite probe space --layers 2 --labels other --hold-out 0.2": {"source": "space", "labels": "other", "layers": [2]},
    }
    for words, options in calls.items():
        answer = th.probe(options.pop("source"), **options).answer
        assert answer is not None and [command.words for command in answer.next] == [words]


def test_accuracy_and_smallest_gap_are_drawn_by_layer_and_one_state_is_not_before_and_after() -> None:
    from theodolite.reports.figures import displays_of

    result = th.probe(SPACE, hold_out=0.25)
    figure = result.plot("probe-by-layer")
    lines = {trace.name: dict(zip(trace.x, trace.y, strict=True)) for trace in figure.data}
    for name, metric in (
        ("nearest hull", "hull_accuracy"),
        ("most frequent label", "majority_accuracy"),
        ("labels", "smallest_gap"),
    ):
        assert lines[name] == {layer: result.value(metric, layer=layer) for layer in (0, 2)}
    assert not [display.title for display in displays_of(result) if "before" in display.title]
    two = [replace(row, state=state) for state in ("before", "after") for row in result.rows]
    titles = [display.title for display in displays_of(replace(result, rows=tuple(two)))]
    assert "Clusters before and after" in titles and "What probes score before and after" in titles


def test_a_control_task_of_words_shows_what_a_classifier_could_have_memorised() -> None:
    """Labels of word types are a control task themselves; labels that the context carries are not."""
    rng = np.random.default_rng(0)
    types, context = rng.integers(0, 250, 600), rng.integers(0, 2, 600)
    vectors = rng.standard_normal((250, 24))[types] + 0.05 * rng.standard_normal((600, 24))
    vectors[:, 0] = 6 * context
    rows = {"word": [f"w{i}" for i in types], "label": ["x" if i else "y" for i in context], "type": ["xy"[i % 2] for i in types]}
    space = Space.of({0: vectors}, rows=rows)
    options: dict[str, Any] = {"hold_out": 0.3, "classifier": "linear", "control": 1}
    memorised, read = th.probe(space, "type", **options), th.probe(space, "label", **options)
    for result in (memorised, read):
        difference = result.value("probe_accuracy") - result.value("control_accuracy")
        assert result.value("selectivity") == pytest.approx(difference)
    assert abs(memorised.value("selectivity")) < 0.15
    assert read.value("probe_accuracy") == 1 and read.value("selectivity") > 0.3
    assert not th.probe(space, "label", hold_out=0.3, classifier="linear").where(metric="selectivity").rows


def test_labels_that_were_not_shuffled_are_said_to_be_not_compared() -> None:
    answer = th.probe(X, LABELS, control=0).answer
    assert answer is not None and answer.verdict == "separable"
    assert answer.reasons[0].endswith("It was not compared with shuffled labels.")
    assert th.probe(X, LABELS, control=3).answer.sentence.endswith("happens in none of 3 shuffles of the labels.")  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("search", ["full", "race"])
def test_the_notes_say_what_a_race_loses(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("theodolite.probes.classifiers.networks._TOLERANCE", 1e9)  # networks stop after two epochs
    monkeypatch.setattr("theodolite.probes.classifiers.networks._PATIENCE", 0)
    result = th.probe(SPACE, layers=[0], hold_out=0.25, classifier="mlp", search=search)
    assert any("lost 0.3 points of accuracy on average" in note for note in result.notes) is (search == "race")
    assert result.provenance["settings"]["search"] == search


def test_mistakes_are_named_before_the_work() -> None:
    with pytest.raises(ValueError, match="classifier='mlp' is scored on held-out rows"):
        th.probe(X, LABELS, classifier="mlp")
    with pytest.raises(ValueError, match="must be one of none, linear, mlp"):
        th.probe(X, LABELS, classifier="forest")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="search='quick' must be one of full, race"):
        th.probe(X, LABELS, search="quick")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least two labels"):
        th.probe(X, ["a"] * len(X))
    with pytest.raises(ValueError, match="119 labels for the 120 rows"):
        th.probe(X, LABELS[:-1])
    with pytest.raises(ValueError, match="has vectors but no labels"):
        th.probe(X)
    with pytest.raises(ValueError, match="no column 'pos' of labels; it has label, other"):
        th.probe(SPACE, labels="pos")
    with pytest.raises(ValueError, match="unseen"):
        th.probe(X, LABELS, test=X[:2], test_labels=["a", "z"])


def test_unseen_labels_may_be_dropped_with_a_note() -> None:
    result = th.probe(X, LABELS, test=X[:2], test_labels=["a", "z"], drop_unseen=True)
    assert any("z (1)" in note for note in result.notes)


def test_rows_of_finished_layers_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from theodolite.core.rows import read_rows
    from theodolite.probes import layer_probe

    real, calls = layer_probe.probe_layer, []

    def fail_on_the_second(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(layer_probe, "probe_layer", fail_on_the_second)
    with pytest.raises(KeyboardInterrupt):
        th.probe(SPACE, output=tmp_path / "rows.json")
    assert {row.layer for row in read_rows(tmp_path / "rows.json")} == {0}


def test_an_encoder_is_probed_on_a_task_of_ones_own(tiny: Any, tmp_path: Path) -> None:
    lines = [f"{'the cat' if i % 2 else 'a dog'} {i},{'x' if i % 2 else 'y'}" for i in range(40)]
    (tmp_path / "mine.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    own = {"train": str(tmp_path / "mine.csv")}
    result = th.probe(tiny("bert"), own=own, kind="classification", layers="last")
    assert result.value("clusters") >= 2 and result.value("hull_accuracy") >= 0.5
    with pytest.raises(ValueError, match="leave out labels="):
        th.probe(tiny("bert"), "x", own=own, kind="classification")


def test_of_too_many_labels_the_most_frequent_are_measured_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from theodolite.verbs import probing

    monkeypatch.setattr(probing, "MOST_LABELS", 3)
    rng = np.random.default_rng(0)
    y = np.repeat(["e", "d", "c", "b", "a"], [9, 8, 7, 7, 7])
    X = rng.standard_normal((38, 4)) + 50 * rng.standard_normal((5, 4))[np.unique(y, return_inverse=True)[1]]
    result = th.probe(X, y)
    labels = {part for row in result for part in row.label.replace(" ", "").replace(",", "") if part in "abcde"}
    assert labels <= {"e", "d", "a"} and "e" in labels
    assert any("5 labels make 10 pairs" in note and "the 3 most frequent labels, 24 of 38 rows" in note for note in result.notes)
    kept = np.isin(y, ["e", "d", "a"])
    assert result.value("clusters") == th.probe(X[kept], y[kept]).value("clusters")
