"""IL23's choice of hyper-parameters: on the validation rows of seed 0, resumable, and without a look at the scored split."""

import json
from types import SimpleNamespace

import pytest

from theodolite.core.rows import Row
from theodolite.core.states import ISOLAYER
from theodolite.studies.il23 import plan as il23
from theodolite.studies.requests import Request, identify_models
from theodolite.studies.spec import load_spec
from theodolite.studies.steps import Store, Work, in_order

SMALL = {"tuning.epochs": 1, "methods": ["plain", ISOLAYER]}


def request(model, data, **changes):
    spec = load_spec("il23")
    return Request(spec, identify_models(model, spec), data, tasks=["cola"], seeds=[0, 1], changes={**SMALL, **changes})


def rows_by_metric(rows):
    return {(row.metric, row.setting): row.value for row in rows}


@pytest.fixture
def trainings(monkeypatch):
    """What each candidate reaches, by learning rate, instead of a training; the list of those that were trained."""
    trained = []
    scores = {2e-5: (0.70, 4), 5e-5: (0.75, 3), 1e-4: (0.75, 2), 3e-4: (float("nan"), 1)}

    def train(work, tuning):
        trained.append(tuning.learning_rate)
        (work.folder / tuning.output).mkdir()
        score, epoch = scores[tuning.learning_rate]
        rows = [Row(metric="matthews", value=score, reason="" if score == score else "one class", state="fine-tuned")]
        return SimpleNamespace(after=score, best_epoch=epoch, rows=rows)

    monkeypatch.setattr(il23, "train_or_read", train)
    return trained


def choice_of(model, data):
    asked = request(model, data)
    return in_order(il23.steps(asked))[0], asked.sources


def test_the_best_candidate_on_the_validation_rows_is_chosen(study_bert, releases, tmp_path, trainings):
    choose, sources = choice_of(study_bert, releases)
    rows = rows_by_metric(il23._choose(Work(choose.settings, {}, tmp_path, sources)))
    assert trainings == [2e-5, 5e-5, 1e-4, 3e-4]
    assert rows["chosen_learning_rate", ""] == 5e-5 and rows["chosen_epochs", ""] == 3, "of equal ones the first"
    assert rows["validation_score", "learning_rate=2e-05"] == 0.70 and rows["best_epoch", "learning_rate=0.0001"] == 2
    assert rows["validation_score", "learning_rate=0.0003"] != rows["validation_score", "learning_rate=0.0003"]
    choice = json.loads((tmp_path / "choice.json").read_text())
    assert (choice["learning_rate"], choice["epochs"]) == (5e-5, 3)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()], "weights of candidates are removed"


def test_candidates_that_are_known_are_not_trained_again(study_bert, releases, tmp_path, trainings, monkeypatch):
    choose, sources = choice_of(study_bert, releases)
    whole = tmp_path / "whole"
    whole.mkdir()
    unbroken = il23._choose(Work(choose.settings, {}, whole, sources))
    train, broken = il23.train_or_read, tmp_path / "broken"
    broken.mkdir()

    def killed(work, tuning):
        if tuning.learning_rate == 1e-4:
            raise KeyboardInterrupt
        return train(work, tuning)

    with monkeypatch.context() as patch:
        patch.setattr(il23, "train_or_read", killed)
        with pytest.raises(KeyboardInterrupt):
            il23._choose(Work(choose.settings, {}, broken, sources))
    trainings.clear()
    resumed = il23._choose(Work(choose.settings, {}, broken, sources))
    assert trainings == [1e-4, 3e-4]
    assert list(map(repr, resumed)) == list(map(repr, unbroken))


def test_a_choice_without_any_score_is_an_error(study_bert, releases, tmp_path, trainings):
    choose, sources = choice_of(study_bert, releases)
    with pytest.raises(ValueError, match="no candidate has a score on the validation rows: one class"):
        il23._choose(Work({**choose.settings, "candidates": [3e-4]}, {}, tmp_path, sources))


@pytest.mark.slow
def test_what_is_chosen_is_used_by_every_seed_and_method_and_the_scored_split_is_not_read(
    study_bert, releases, tmp_path, monkeypatch
):
    """A real run, killed in the second candidate: the choice reads the training split alone, and all tunings follow it."""
    from theodolite.tuning import runs

    splits = []
    load = runs.load_task
    monkeypatch.setattr(runs, "load_task", lambda task, split, data: splits.append(split) or load(task, split, data))

    def run(folder, broken=False):
        asked = request(study_bert, releases, **{"tuning.epochs": 2, "choose.learning_rate": [1e-5, 5e-3]})
        store, rows = Store(folder), {}
        for step in in_order(il23.steps(asked)):
            splits.clear()
            if broken and not step.needs:
                with pytest.raises(KeyboardInterrupt):
                    store.do(step, asked.sources, progress=interrupt_at(30))
            store.do(step, asked.sources)
            assert (set(splits) == {"train"}) == (step.action.kind == "choose"), step.title
            rows |= {(step.title, number): row for number, row in enumerate(store.rows(step))}
        return rows, store, asked

    rows, store, asked = run(tmp_path / "whole")
    resumed, *_ = run(tmp_path / "resumed", broken=True)
    assert timeless(resumed) == timeless(rows)
    chosen = {row.metric: row.value for row in rows.values() if row.metric.startswith("chosen")}
    for step in in_order(il23.steps(asked)):
        if step.action.kind == "tune-chosen":
            settings = json.loads((store.path(step) / "run" / "settings.json").read_text())
            assert settings["learning_rate"] == chosen["chosen_learning_rate"]
            assert (settings["epochs"], settings["patience"]) == (chosen["chosen_epochs"], None)
            if step.settings["method"] == ISOLAYER:
                assert settings["layer"]["learning_rate"] == chosen["chosen_layer_learning_rate"]


def timeless(rows):
    """Everything the rows say, as text, but not how long a training took."""
    return {place: repr(row) for place, row in rows.items() if row.metric != "train_seconds"}


def interrupt_at(calls):
    """A progress function that raises KeyboardInterrupt when it is called for the Nth time."""
    counted = []

    def progress(done, total):
        counted.append(done)
        if len(counted) == calls:
            raise KeyboardInterrupt

    return progress
