"""A whole run with an Isotropy Layer: a plain run, its vectors once, the layer, and what the saved model gives."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402

from theodolite.metrics import explained_variance, iso_score  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.models.tokens import text_inputs  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import LayerSettings, TunedClassifier, fine_tune  # noqa: E402
from theodolite.tuning.heads import Features, TextDataset  # noqa: E402
from theodolite.tuning.run_plans import settings_of_run  # noqa: E402
from theodolite.tuning.runs import Run  # noqa: E402
from theodolite.tuning.trainers import Diverged  # noqa: E402
from theodolite.tuning.training import cached_features, features_key  # noqa: E402

Quick = Callable[..., Any]
SHORT = LayerSettings(learning_rate=1e-2, batch_size=16, epochs=3)


def layered(plain: Path, output: Path, task: Any, **changes: Any) -> Any:
    return settings_of_run(plain, output=output, task=task, method="isolayer", layer=replace(SHORT, **changes))


def rows_of(tuned: Any, metric: str, state: str) -> list[float]:
    return [row.value for row in tuned.rows if row.metric == metric and row.state == state and row.split == "dev"]


def test_before_is_the_plain_runs_own_score_and_after_is_what_the_saved_model_gives(
    plain_run: Path, tmp_path: Path, moods: Any
) -> None:
    tuned = fine_tune(layered(plain_run, tmp_path / "run", moods), plain=plain_run)
    assert tuned.before == Run(plain_run).tuned().after == rows_of(tuned, "accuracy", "fine-tuned")[0]
    loaded = TunedClassifier.from_pretrained(tuned.model_folder)
    dev = load_task(moods, "dev")
    assert np.mean(np.array(loaded.predict(dev.texts)) == np.array(dev.labels)) == tuned.after
    assert iso_score(loaded.vectors(dev.texts)) == pytest.approx(rows_of(tuned, "iso_score", "isolayer")[0], rel=1e-4)
    curve = [rows_of(tuned, f"ev_{k}", "isolayer")[0] for k in range(1, 21)]
    assert curve == sorted(curve) and curve[0] > 0 and curve[-1] <= 1 + 1e-9
    centred = rows_of(tuned, "ev_3_centered", "isolayer")[0]
    assert centred == pytest.approx(explained_variance(loaded.vectors(dev.texts), 3, centered=True), rel=1e-4)
    for name in ("model", "head"):
        first, second = (load_file(folder / f"{name}.safetensors") for folder in (plain_run / "model", tuned.model_folder))
        assert all(torch.equal(first[key], second[key]) for key in first)
    card = (tuned.model_folder / "README.md").read_text()
    assert f"| accuracy | {tuned.before:.4f} | {tuned.after:.4f} |" in card and "Seed 0" in card and "torch" in card


def test_the_folder_is_an_encoder_of_isotropic_vectors_for_sentence_transformers(
    plain_run: Path, tmp_path: Path, moods: Any
) -> None:
    library = pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
    tuned = fine_tune(layered(plain_run, tmp_path / "run", moods, depth=2), plain=plain_run)
    dev = load_task(moods, "dev")
    vectors = library.SentenceTransformer(str(tuned.model_folder), device="cpu").encode(list(dev.texts), show_progress_bar=False)
    np.testing.assert_allclose(
        vectors, TunedClassifier.from_pretrained(tuned.model_folder).vectors(dev.texts), rtol=1e-4, atol=1e-5
    )
    nonlinear = fine_tune(layered(plain_run, tmp_path / "nonlinear", moods, activation="gelu"), plain=plain_run)
    assert not (nonlinear.model_folder / "modules.json").exists()


def test_the_plain_run_is_made_inside_if_none_is_named_and_features_are_kept(quick: Quick, rated: Any, tmp_path: Path) -> None:
    settings = quick(rated, siamese=False, method="isolayer", layer=SHORT, validation=0.3, epochs=2)
    tuned = fine_tune(settings)
    folder = Path(settings.output)
    assert {path.name for path in folder.iterdir()} == {"settings.json", "result.json", "rows.parquet", "model", "plain"}
    assert (folder / "plain" / "features.safetensors").exists()
    assert fine_tune(settings).rows == tuned.rows
    assert tuned.before == Run(folder / "plain").tuned().after
    assert isinstance(TunedClassifier.from_pretrained(tuned.model_folder).predict(["a"], ["b"]), np.ndarray)


def test_a_folder_without_a_finished_plain_run_with_these_settings_is_refused(
    plain_run: Path, tmp_path: Path, moods: Any
) -> None:
    settings = layered(plain_run, tmp_path / "run", moods)
    with pytest.raises(FileNotFoundError, match="does not have a finished run"):
        fine_tune(settings, plain=tmp_path)
    with pytest.raises(FileExistsError, match="epochs=3, not 4"):
        fine_tune(replace(settings, epochs=4), plain=plain_run)
    with pytest.raises(ValueError, match="isolayer"):
        fine_tune(replace(settings, method="plain", layer=None), plain=plain_run)
    headless = tmp_path / "headless"
    shutil.copytree(plain_run, headless)
    (headless / "model" / "head.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"no head\.safetensors"):
        fine_tune(settings, plain=headless)
    assert not (tmp_path / "run").exists()


def test_a_diverging_layer_leaves_no_model(plain_run: Path, tmp_path: Path, moods: Any) -> None:
    with pytest.raises(Diverged, match="lower learning rate"):
        fine_tune(layered(plain_run, tmp_path / "run", moods, learning_rate=2e37), plain=plain_run)
    assert not (tmp_path / "run" / "model").exists() and not Run(tmp_path / "run").finished


def test_the_rows_of_a_layers_training_say_what_trained(plain_run: Path, tmp_path: Path, moods: Any) -> None:
    tuned = fine_tune(layered(plain_run, tmp_path / "run", moods, trains="joint"), plain=plain_run)
    passes = [row for row in tuned.rows if row.split in ("train", "validation") and row.metric != "train_seconds"]
    assert {(row.state, row.setting) for row in passes} == {("fine-tuning", "isolayer: training layer and head")}
    assert len(passes) == 4 * 3 and {row.step for row in passes} == {1, 2, 3}
    after = next(row for row in tuned.rows if row.state == "isolayer" and row.metric == "accuracy")
    assert after.setting == "isolayer trains=joint learning_rate=0.01 batch_size=16 epochs=3"
    assert tuned.result.title == f"Fine-tuning bert on moods, {after.setting}"


def features(seed: int = 0, n: int = 5) -> dict[str, Features]:
    random = torch.Generator().manual_seed(seed)
    return {"train": Features(torch.randn(n, 4, generator=random), torch.arange(n).unsqueeze(1))}


def test_cached_features_come_back_to_the_bit_and_are_made_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> dict[str, Features]:
        calls.append(1)
        return features()

    first, second = (cached_features(tmp_path / "f.safetensors", "key", make)["train"] for _ in range(2))
    assert calls == [1]
    assert torch.equal(first.vectors, second.vectors) and torch.equal(first.labels, second.labels)
    assert [path.name for path in tmp_path.iterdir()] == ["f.safetensors"]


def test_another_key_or_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    cached_features(path, "one", lambda: features(0))
    other = cached_features(path, "two", lambda: features(1))["train"]
    assert torch.equal(other.vectors, features(1)["train"].vectors)
    path.write_bytes(path.read_bytes()[:50])
    again = cached_features(path, "two", lambda: features(2))["train"]
    assert torch.equal(again.vectors, features(2)["train"].vectors)


def test_a_failure_while_embedding_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        cached_features(tmp_path / "f.safetensors", "key", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    assert list(tmp_path.iterdir()) == []


def test_the_key_depends_on_weights_texts_targets_and_splits(tiny_bert: str, moods: Any) -> None:
    encoder, texts = Encoder.load(tiny_bert, device="cpu"), load_task(moods, "dev").texts

    def dataset(texts: Any, targets: Any = None) -> TextDataset:
        return TextDataset.of(encoder, text_inputs(texts, "cls"), "cls", targets=targets)

    def key(**datasets: TextDataset) -> str:
        return features_key(encoder.fingerprint(), datasets)

    first = key(train=dataset(texts))
    assert first == key(train=dataset(list(texts)))
    others = [
        key(train=dataset(texts, np.eye(len(texts), dtype=int)[3])),
        key(dev=dataset(texts)),
        key(train=dataset(texts[:-1])),
        key(train=dataset(["the dog .", *texts[1:]])),
    ]
    with torch.no_grad():
        next(encoder.module.parameters()).view(-1)[0] += 1
    others.append(key(train=dataset(texts)))
    assert len({first, *others}) == 6
    assert all(len(digest) == 64 for digest in others)
