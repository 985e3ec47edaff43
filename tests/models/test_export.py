"""An affine map inside sentence-transformers' pipeline gives what the map gives, wherever the folder came from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra models is not installed")
sentence_transformers = pytest.importorskip("sentence_transformers", reason="the extra models is not installed")

from theodolite.models import export  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.models.export import check_dense, write_dense  # noqa: E402
from theodolite.models.extraction import extract_space  # noqa: E402
from theodolite.models.location import EncoderError  # noqa: E402
from theodolite.repairs import RemoveDirections, Whiten  # noqa: E402
from theodolite.repairs.base import fold_affine  # noqa: E402

Tiny = Callable[[str], Path]
TEXTS = ["the cat sat on the mat.", "a dog", "unbelievable dogs, the banks!", "river river"]
WORDS = ("the", "cat", "sat", "on", "mat", "un", "dog", "a", "bank", "river")


def encode(folder: Path, texts: list[str] = TEXTS) -> Any:
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(texts, show_progress_bar=False)


@pytest.fixture
def pipeline(tiny: Tiny, tmp_path: Path) -> Callable[..., Path]:
    """A saved pipeline of a tiny encoder, its pooling and perhaps a Normalize."""
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    def make(*, normalize: bool) -> Path:
        modules = [Transformer(str(tiny("bert"))), Pooling(16, "mean"), *([Normalize()] if normalize else [])]
        model = sentence_transformers.SentenceTransformer(modules=modules, device="cpu")
        model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
        return tmp_path / "model"

    return make


def map_of(d: int = 16, e: int = 16, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((d, e)), rng.standard_normal(e)


@pytest.mark.parametrize("e", [16, 5])
def test_the_written_model_gives_the_maps_vectors(pipeline: Any, tmp_path: Path, e: int) -> None:
    source, (M, b) = pipeline(normalize=False), map_of(e=e)
    written = write_dense(source, M, b, tmp_path / "out")
    np.testing.assert_allclose(encode(written), encode(source) @ M + b, rtol=1e-4, atol=1e-5)
    assert check_dense(written) < 1e-6


def test_a_final_normalize_stays_the_last(pipeline: Any, tmp_path: Path) -> None:
    source, (M, b) = pipeline(normalize=True), map_of()
    bare = sentence_transformers.SentenceTransformer(str(source), device="cpu")
    raw = sentence_transformers.SentenceTransformer(modules=list(bare)[:-1], device="cpu").encode(TEXTS, show_progress_bar=False)
    written = write_dense(source, M, b, tmp_path / "out")
    expected = raw @ M + b
    np.testing.assert_allclose(encode(written), expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)
    modules = json.loads((written / "modules.json").read_text())
    assert [module["type"].rpartition(".")[2] for module in modules] == ["Transformer", "Pooling", "Dense", "Normalize"]
    assert [module["idx"] for module in modules] == [0, 1, 2, 3] and len({module["path"] for module in modules}) == 4
    assert modules[2]["type"] == "sentence_transformers.models.Dense"


def test_a_map_fitted_on_normalised_vectors_goes_after_normalize(pipeline: Any, tmp_path: Path) -> None:
    source, (M, b) = pipeline(normalize=True), map_of()
    written = write_dense(source, M, b, tmp_path / "out", after_normalize=True)
    expected = encode(source) @ M + b
    np.testing.assert_allclose(encode(written), expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)
    modules = json.loads((written / "modules.json").read_text())
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    assert kinds == ["Transformer", "Pooling", "Normalize", "Dense", "Normalize"]
    assert check_dense(written) < 1e-6


def test_after_normalize_needs_a_normalize(pipeline: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not end with a Normalize, so the map cannot come after one"):
        write_dense(pipeline(normalize=False), *map_of(), tmp_path / "out", after_normalize=True)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_plain_encoder_gets_a_pipeline(tiny: Tiny, tmp_path: Path, pooling: Any) -> None:
    source = tiny("bert")
    M, b = map_of()
    written = write_dense(source, M, b, tmp_path / "out", pooling=pooling)
    X = extract_space(Encoder.load(source, device="cpu"), TEXTS, unit=pooling, layers="last")[-1]
    np.testing.assert_allclose(encode(written), X @ M + b, rtol=1e-4, atol=1e-4)


def test_repairs_fold_into_it_and_maps_stack(pipeline: Any, tmp_path: Path) -> None:
    source = pipeline(normalize=False)
    X = encode(source, [f"the cat {word}" for word in WORDS] + TEXTS)
    first = RemoveDirections(n_directions=2).fit(X)
    second = Whiten(n_components=4).fit(first.transform(X))
    written = write_dense(source, *fold_affine([first, second]), tmp_path / "out")
    np.testing.assert_allclose(encode(written), second.transform(first.transform(encode(source))), rtol=1e-3, atol=1e-3)
    again = write_dense(written, *map_of(4, 3), tmp_path / "twice")
    M, b = map_of(4, 3)
    np.testing.assert_allclose(encode(again), encode(written) @ M + b, rtol=1e-3, atol=1e-3)
    assert check_dense(again) < 1e-5


def test_the_original_is_left_as_it_was(pipeline: Any, tmp_path: Path) -> None:
    source = pipeline(normalize=True)
    before = {path.name: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    write_dense(source, *map_of(), tmp_path / "out")
    assert before == {path.name: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before["model.safetensors"]


def test_the_self_test_notices_other_weights(pipeline: Any, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    written = write_dense(pipeline(normalize=False), *map_of(), tmp_path / "out")
    path = written / "2_Dense" / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, "linear.bias": weights["linear.bias"] + 0.1}, path)
    assert check_dense(written) > 1e-3


@pytest.mark.parametrize(
    ("matrix", "bias", "said"),
    [
        (np.eye(16), np.zeros(3), r"\(16, 16\) and bias of shape \(3,\)"),
        (np.eye(5), np.zeros(5), "takes 5 dimensions and the model gives 16"),
        (np.eye(16) * np.nan, np.zeros(16), "not finite"),
    ],
)
def test_a_map_that_does_not_fit_leaves_nothing(pipeline: Any, tmp_path: Path, matrix: Any, bias: Any, said: str) -> None:
    source = pipeline(normalize=False)
    with pytest.raises(ValueError, match=said):
        write_dense(source, matrix, bias, tmp_path / "new" / "out")
    assert list((tmp_path / "new").iterdir()) == []


def test_folders_that_cannot_be_read_or_written(pipeline: Any, tiny: Tiny, tmp_path: Path) -> None:
    source = pipeline(normalize=False)
    with pytest.raises(EncoderError, match="no folder"):
        write_dense(tmp_path / "none", *map_of(), tmp_path / "out")
    with pytest.raises(FileExistsError, match="overwrite"):
        write_dense(source, *map_of(), tmp_path)
    with pytest.raises(ValueError, match="inside"):
        write_dense(source, *map_of(), source / "out")
    with pytest.raises(ValueError, match="pooling='cls' or 'mean'"):
        write_dense(tiny("bert"), *map_of(), tmp_path / "out")
    with pytest.raises(ValueError, match="pooling of its own; leave pooling='cls' out"):
        write_dense(source, *map_of(), tmp_path / "out", pooling="cls")
    with pytest.raises(FileNotFoundError, match="self_test"):
        check_dense(source)


def test_a_failed_self_test_leaves_what_was_there(pipeline: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = pipeline(normalize=False)
    written = write_dense(source, *map_of(), tmp_path / "out")
    before = encode(written)
    monkeypatch.setattr(export, "AGREEMENT", -1.0)
    with pytest.raises(EncoderError, match="other vectors"):
        write_dense(source, *map_of(seed=1), tmp_path / "out", overwrite=True)
    assert np.array_equal(encode(written), before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]
