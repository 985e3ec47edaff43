"""Training a layer on kept vectors is training it through the frozen model; what is frozen stays, to the bit."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402

from theodolite.metrics.isoscore import iso_score  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import LayerSettings, TunedClassifier, tune  # noqa: E402
from theodolite.tuning.batches import text_items  # noqa: E402
from theodolite.tuning.frozen_features import Features, embed  # noqa: E402
from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.insert import Inserted, insert  # noqa: E402
from theodolite.tuning.isoscore_loss import CeilingWarning  # noqa: E402
from theodolite.tuning.isotropy_layer import IsotropyLayer  # noqa: E402
from theodolite.tuning.train_layer import Kept, Through, in_batches, train_layer  # noqa: E402
from theodolite.tuning.trainers import Diverged  # noqa: E402

Quick = Callable[..., Any]
SHORT = LayerSettings(learning_rate=1e-2, batch_size=16, epochs=3)


def accuracy(labels: torch.Tensor, logits: torch.Tensor) -> float:
    return float((logits[:, 0].argmax(-1) == labels[:, 0]).float().mean())


def error(labels: torch.Tensor, logits: torch.Tensor) -> float:
    return -float((logits[:, 0, 0] - labels[:, 0]).square().mean())


class Bench:
    """A random encoder and head with a layer, and the toy task's rows both as texts and as vectors."""

    def __init__(self, folder: str, moods: Any, layer: IsotropyLayer | None = None, *, regression: bool = False) -> None:
        torch.manual_seed(3)
        encoder = Encoder.load(folder, device="cpu")
        self.model = LinearHead(encoder.module, 1 if regression else 2, regression=regression)
        torch.nn.init.normal_(self.model.head.weight)
        self.put: Inserted = insert(self.model, layer or IsotropyLayer(32), tokenizer=encoder.tokenizer)
        train = load_task(moods, "train")
        self.pad, self.regression = encoder.pad_id, regression
        targets = train.label_ids(["bad", "good"]).tolist()
        self.items = text_items(train.texts, None, targets, encoder.tokenizer, unit="cls", max_length=64)
        self.features = embed(self.put, self.items, pad=self.pad, regression=regression)

    def train(self, settings: LayerSettings, *, through: bool = False, seed: int = 5) -> Any:
        source = Through(self.put, self.items, self.pad, self.regression) if through else Kept(self.put, self.features)
        return train_layer(self.put, source, self.features, error if self.regression else accuracy, settings, seed=seed)


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("trains", ["layer", "alternate", "joint"])
def test_training_on_kept_vectors_is_training_through_the_frozen_model(
    tiny_bert: str, moods: Any, trains: Any, regression: bool
) -> None:
    benches = [Bench(tiny_bert, moods, regression=regression) for _ in range(2)]
    settings = replace(SHORT, trains=trains, epochs=2)
    kept, through = (bench.train(settings, through=through) for bench, through in zip(benches, (False, True), strict=True))
    assert kept.steps == through.steps >= 12
    first, second = (bench.model.state_dict() for bench in benches)
    for name in first:
        torch.testing.assert_close(first[name], second[name], atol=1e-5, rtol=1e-5)
    assert [e.loss for e in kept.epochs] == pytest.approx([e.loss for e in through.epochs], abs=1e-5)
    moved = (benches[0].put.layer.affine()[0] - torch.eye(32)).abs().max()  # type: ignore[operator]
    assert moved > 1e-2


@pytest.mark.parametrize("trains", ["layer", "alternate", "joint"])
def test_what_is_frozen_stays_to_the_bit(tiny_bert: str, moods: Any, trains: Any) -> None:
    bench = Bench(tiny_bert, moods)
    before = copy.deepcopy(bench.model.state_dict())
    bench.train(replace(SHORT, trains=trains))
    changed = {name for name, tensor in bench.model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert {name for name in changed if ".inserted." in name} == {"head.inserted.layers.0.weight", "head.inserted.layers.0.bias"}
    rest = {name for name in changed if ".inserted." not in name}
    # Alternating keeps what was best, which may be from before the head learnt.
    assert rest == (set() if trains == "layer" else {"head.weight", "head.bias"}) or (trains == "alternate" and not rest)


def test_the_same_seed_gives_the_same_layer_and_another_does_not(tiny_bert: str, moods: Any) -> None:
    found = []
    for seed in (1, 1, 2):
        bench = Bench(tiny_bert, moods)
        torch.manual_seed(len(found))  # the global state has no say
        bench.train(SHORT, seed=seed)
        found.append(bench.put.layer.affine()[0])  # type: ignore[operator]
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_isotropy_alone_raises_iso_score_and_the_task_alone_does_not_ask_for_it(tiny_bert: str, moods: Any) -> None:
    scores = {}
    for alpha in (0.0, 1.0):
        bench = Bench(tiny_bert, moods)
        start = iso_score(bench.features.vectors.numpy())
        bench.train(replace(SHORT, alpha=alpha, epochs=20, patience=20, balanced=False))
        scores[alpha] = iso_score(bench.put.layer(bench.features.vectors).detach().numpy())
    assert scores[0.0] > 1.5 * start
    assert scores[1.0] < scores[0.0]


def test_the_best_pass_on_the_validation_rows_is_kept(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    told = iter([0.5, 0.9, 0.9, 0.7, 0.7, 0.7])
    weights: list[Any] = []

    def score(_: torch.Tensor, __: torch.Tensor) -> float:
        weights.append(bench.put.layer.affine()[0])  # type: ignore[operator]
        return next(told)

    settings = replace(SHORT, epochs=50, patience=3)
    trained = train_layer(bench.put, Kept(bench.put, bench.features), bench.features, score, settings)
    # Of the two equal ones that with the higher IsoScore; the second is more isotropic after one more pass.
    assert [epoch.score for epoch in trained.epochs] == [0.5, 0.9, 0.9, 0.7, 0.7]
    assert trained.best.number == max((2, 3), key=lambda n: trained.epochs[n - 1].iso_score)
    assert torch.equal(bench.put.layer.affine()[0], weights[trained.best.number - 1])  # type: ignore[operator]


def test_alternating_ends_when_neither_finds_a_better_score(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    trained = bench.train(replace(SHORT, trains="alternate", epochs=4, patience=2))
    parts = [epoch.trained for epoch in trained.epochs]
    rounds = 1 + sum(1 for before, after in pairwise(parts) if (before, after) == ("head", "layer"))
    assert rounds >= 2 and parts[0] == "layer" and parts[-1] == "head"
    assert trained.best.score == max(epoch.score for epoch in trained.epochs)
    last = [epoch.score for epoch in trained.epochs[len(parts) - 1 - parts[::-1].index("layer") :]]
    assert max(last) <= trained.best.score


def test_all_rows_are_in_batches_once_and_none_is_short() -> None:
    for n, size in ((100, 32), (97, 32), (64, 32), (33, 32), (48, 32), (5, 5)):
        batches = list(in_batches(n, size, torch.Generator().manual_seed(0)))
        assert sorted(torch.cat(batches).tolist()) == list(range(n))
        assert all(size / 2 <= len(rows) < 1.5 * size for rows in batches)


def test_a_small_batch_without_correction_is_warned_of_with_its_ceiling(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    with pytest.warns(CeilingWarning, match="16 rows in 32 dimensions"):
        bench.train(replace(SHORT, corrected=False, epochs=1))


def test_a_loss_that_is_no_number_is_said_so(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    broken = Features(torch.where(torch.arange(32) == 3, torch.nan, bench.features.vectors), bench.features.labels)
    with pytest.raises(Diverged, match=r"step 1 with learning rate 0\.01"):
        train_layer(bench.put, Kept(bench.put, broken), bench.features, accuracy, SHORT)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"batch_size": 1}, "at least 3"),
        ({"batch_size": 1, "corrected": False}, "at least 2"),
        ({"alpha": 1.5}, "alpha=1.5"),
        ({"trains": "head"}, "alternate"),
        ({"epochs": 0}, "epochs=0"),
        ({"learning_rate": 0.0}, "above 0"),
    ],
)
def test_settings_of_a_layer_that_make_no_sense(told: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LayerSettings(**told)


def test_fewer_rows_than_a_batch(tiny_bert: str, moods: Any) -> None:
    bench = Bench(tiny_bert, moods)
    with pytest.raises(ValueError, match="96 rows"):
        bench.train(replace(SHORT, batch_size=128))


# The whole run: a plain one, then the layer.


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, tiny_bert: str, moods: Any) -> Path:
    """A finished plain run with rows held out."""
    from theodolite.tuning import TuneSettings

    folder = tmp_path_factory.mktemp("plain") / "run"
    tune(told(TuneSettings, moods, tiny_bert, output=str(folder)))
    return folder


def told(kind: Any, task: Any, model: str, **changes: Any) -> Any:
    usual = {"epochs": 3, "batch_size": 16, "learning_rate": 3e-3, "validation": 0.3, "device": "cpu", "track": None}
    return kind(task=task, model=model, **{**usual, **changes})


def layered(plain: Path, output: Path, task: Any, **changes: Any) -> Any:
    from theodolite.tuning.run import settings_of_run

    layer = replace(SHORT, **changes)
    return settings_of_run(plain, output=output, task=task, method="isolayer", layer=layer)


def rows_of(tuned: Any, metric: str, state: str) -> list[float]:
    return [row.value for row in tuned.rows if row.metric == metric and row.state == state and row.split == "dev"]


def test_before_is_the_plain_runs_own_score_and_after_is_what_the_saved_model_gives(
    plain: Path, tmp_path: Path, moods: Any
) -> None:
    tuned = tune(layered(plain, tmp_path / "run", moods), plain=plain)
    done = json.loads((plain / "done.json").read_text())
    assert tuned.before == done["after"] == rows_of(tuned, "accuracy", "fine-tuned")[0]
    loaded = TunedClassifier.from_pretrained(tuned.folder)
    dev = load_task(moods, "dev")
    assert np.mean(np.array(loaded.predict(dev.texts)) == np.array(dev.labels)) == tuned.after
    assert iso_score(loaded.vectors(dev.texts)) == pytest.approx(rows_of(tuned, "iso_score", "isotropy layer")[0], rel=1e-4)
    curve = [rows_of(tuned, f"ev_{k}", "isotropy layer")[0] for k in range(1, 21)]
    assert curve == sorted(curve) and curve[0] > 0 and curve[-1] <= 1 + 1e-9
    for name in ("model", "head"):
        first, second = (load_file(folder / f"{name}.safetensors") for folder in (plain / "model", tuned.folder))
        assert all(torch.equal(first[key], second[key]) for key in first)
    card = (tuned.folder / "README.md").read_text()
    assert f"| accuracy | {tuned.before:.4f} | {tuned.after:.4f} |" in card and "Seed 0" in card and "torch" in card


def test_the_folder_is_an_encoder_of_isotropic_vectors_for_sentence_transformers(plain: Path, tmp_path: Path, moods: Any) -> None:
    library = pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
    tuned = tune(layered(plain, tmp_path / "run", moods, depth=2), plain=plain)
    dev = load_task(moods, "dev")
    found = library.SentenceTransformer(str(tuned.folder), device="cpu").encode(list(dev.texts), show_progress_bar=False)
    np.testing.assert_allclose(found, TunedClassifier.from_pretrained(tuned.folder).vectors(dev.texts), rtol=1e-4, atol=1e-5)
    bent = tune(layered(plain, tmp_path / "bent", moods, activation="gelu"), plain=plain)
    assert not (bent.folder / "modules.json").exists()


def test_an_untrained_layer_gives_the_plain_models_logits(plain: Path, moods: Any) -> None:
    loaded, dev = TunedClassifier.from_pretrained(plain / "model"), load_task(moods, "dev")
    logits = loaded.logits(dev.texts)
    loaded.insert(IsotropyLayer(32))
    assert np.array_equal(loaded.logits(dev.texts), logits)


def test_a_saved_layer_loads_to_the_same_outputs(plain: Path, moods: Any, tmp_path: Path) -> None:
    dev = load_task(moods, "dev")
    for layer in (IsotropyLayer(32, depth=2), IsotropyLayer(32, activation="gelu"), IsotropyLayer(32, orthogonal=True)):
        loaded = TunedClassifier.from_pretrained(plain / "model")
        for parameter in layer.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
        loaded.insert(layer)
        loaded.save_pretrained(tmp_path / "saved")
        again = TunedClassifier.from_pretrained(tmp_path / "saved")
        assert np.array_equal(again.logits(dev.texts), loaded.logits(dev.texts))
        assert np.array_equal(again.vectors(dev.texts), loaded.vectors(dev.texts))
        assert "inserted" not in "".join(load_file(tmp_path / "saved" / "head.safetensors"))


def test_the_plain_run_is_made_inside_where_none_is_given_and_shared_features_are_kept(
    quick: Quick, rated: Any, tmp_path: Path
) -> None:
    settings = quick(rated, siamese=False, method="isolayer", layer=SHORT, validation=0.3, epochs=2)
    tuned = tune(settings)
    folder = Path(settings.output)
    assert {path.name for path in folder.iterdir()} == {"settings.json", "done.json", "rows.parquet", "model", "plain"}
    assert (folder / "plain" / "features.safetensors").exists()
    assert tune(settings).rows == tuned.rows
    assert tuned.before == json.loads((folder / "plain" / "done.json").read_text())["after"]
    assert isinstance(TunedClassifier.from_pretrained(tuned.folder).predict(["a"], ["b"]), np.ndarray)


def test_what_is_no_finished_plain_run_with_these_settings_is_refused(plain: Path, tmp_path: Path, moods: Any) -> None:
    settings = layered(plain, tmp_path / "run", moods)
    with pytest.raises(FileNotFoundError, match="no finished run"):
        tune(settings, plain=tmp_path)
    with pytest.raises(FileExistsError, match="epochs=3, not 4"):
        tune(replace(settings, epochs=4), plain=plain)
    with pytest.raises(ValueError, match="isolayer"):
        tune(replace(settings, method="plain", layer=None), plain=plain)
    headless = tmp_path / "headless"
    shutil.copytree(plain, headless)
    (headless / "model" / "head.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"no head\.safetensors"):
        tune(settings, plain=headless)
    assert not (tmp_path / "run").exists()


def test_a_diverging_layer_leaves_no_model(plain: Path, tmp_path: Path, moods: Any) -> None:
    with pytest.raises(Diverged, match="lower learning rate"):
        tune(layered(plain, tmp_path / "run", moods, learning_rate=2e37), plain=plain)
    assert not (tmp_path / "run" / "model").exists() and not (tmp_path / "run" / "done.json").exists()
