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

import theodolite as th  # noqa: E402
from theodolite.models import export  # noqa: E402
from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.models.export import check_dense, write_dense  # noqa: E402
from theodolite.models.extraction import extract_space  # noqa: E402
from theodolite.models.location import EncoderError  # noqa: E402
from theodolite.repairs import RemoveDirections, Whiten  # noqa: E402
from theodolite.repairs.base import FittingPath, fold_affine  # noqa: E402

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


NORMALIZED = FittingPath(normalized=True)


def kinds_of(folder: Path) -> list[str]:
    modules = json.loads((folder / "modules.json").read_text())
    assert all(module["type"].startswith("sentence_transformers.models.") for module in modules)
    return [module["type"].rpartition(".")[2] for module in modules]


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
    written = write_dense(source, M, b, tmp_path / "out", path=NORMALIZED)
    expected = encode(source) @ M + b
    np.testing.assert_allclose(encode(written), expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)
    assert kinds_of(written) == ["Transformer", "Pooling", "Normalize", "Dense", "Normalize"]
    assert check_dense(written) < 1e-6


def test_a_map_fitted_on_normalised_vectors_brings_its_normalize(pipeline: Any, tmp_path: Path) -> None:
    source, (M, b) = pipeline(normalize=False), map_of()
    written = write_dense(source, M, b, tmp_path / "out", path=NORMALIZED)
    X = encode(source)
    np.testing.assert_allclose(encode(written), X / np.linalg.norm(X, axis=1, keepdims=True) @ M + b, atol=1e-5)
    assert kinds_of(written) == ["Transformer", "Pooling", "Normalize", "Dense"]


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "last"])
def test_a_plain_encoder_gets_a_pipeline(tiny: Tiny, tmp_path: Path, pooling: Any) -> None:
    source = tiny("bert")
    M, b = map_of()
    written = write_dense(source, M, b, tmp_path / "out", path=FittingPath(unit=pooling))
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
        (np.eye(5), np.zeros(5), "takes 5 dimensions but model gives 16"),
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
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("all of it")
    with pytest.raises(FileExistsError, match="overwrite"):
        write_dense(source, *map_of(), tmp_path / "mine")
    with pytest.raises(ValueError, match="inside"):
        write_dense(source, *map_of(), source / "out")
    with pytest.raises(ValueError, match=r"plain encoder without pooling; .* unit='mean'"):
        write_dense(tiny("bert"), *map_of(), tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="self_test"):
        check_dense(source)


def test_only_an_exported_folder_is_replaced(pipeline: Any, tmp_path: Path) -> None:
    source = Path(pipeline(normalize=False))
    files = sorted(source.parent.rglob("*"))
    with pytest.raises(ValueError, match=r"cannot be replaced, because .* in it is still needed"):
        write_dense(source, *map_of(), source.parent, overwrite=True)
    assert sorted(source.parent.rglob("*")) == files
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    with pytest.raises(FileExistsError, match=r"does not contain a theodolite\.json of the verb export"):
        write_dense(source, *map_of(), tmp_path / "mine", overwrite=True)
    write_dense(source, *map_of(), tmp_path / "out")
    write_dense(source, *map_of(seed=1), tmp_path / "out", overwrite=True)


def test_a_failed_self_test_leaves_what_was_there(pipeline: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = pipeline(normalize=False)
    written = write_dense(source, *map_of(), tmp_path / "out")
    before = encode(written)
    monkeypatch.setattr(export, "AGREEMENT", -1.0)
    with pytest.raises(EncoderError, match="vectors differ from the map"):
        write_dense(source, *map_of(seed=1), tmp_path / "out", overwrite=True)
    assert np.array_equal(encode(written), before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


def examples_of(folder: Path, *, normalize: bool) -> tuple[list[str], Any]:
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    if not normalize and len(model) == 3:
        del model[-1]
    return TEXTS[:2], model.encode(TEXTS[:2], show_progress_bar=False).astype(np.float64)


@pytest.mark.parametrize("normalized", [True, False])
def test_vectors_of_another_place_in_the_pipeline_are_refused(pipeline: Any, tmp_path: Path, normalized: bool) -> None:
    source = pipeline(normalize=True)
    texts, vectors = examples_of(source, normalize=normalized)
    path = FittingPath(normalized=normalized)
    write_dense(source, *map_of(), tmp_path / "right", path=path, examples=(texts, vectors))
    wrong = FittingPath(normalized=not normalized)
    with pytest.raises(ValueError, match="gives other vectors for the texts of the fit"):
        write_dense(source, *map_of(), tmp_path / "wrong", path=wrong, examples=(texts, vectors))
    with pytest.raises(ValueError, match="gives other vectors"):
        write_dense(source, *map_of(), tmp_path / "wrong", path=path, examples=(texts[::-1], vectors))
    assert not (tmp_path / "wrong").exists()


def test_half_precision_is_still_the_same_path(pipeline: Any, tmp_path: Path) -> None:
    source = pipeline(normalize=True)
    texts, vectors = examples_of(source, normalize=True)
    write_dense(source, *map_of(), tmp_path / "out", path=NORMALIZED, examples=(texts, vectors.astype(np.float16).astype(float)))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (FittingPath(unit="tokens"), "fitted on vectors of tokens, .* unit='text'"),
        (FittingPath(unit="cls"), "fitted on cls vectors, but model pools by mean"),
        (FittingPath(unit="mean", layer=1), "fitted on layer 1, but model returns its last one, 3; fit it on layers='last'"),
    ],
)
def test_a_map_of_another_unit_or_layer_is_refused(pipeline: Any, tmp_path: Path, path: FittingPath, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        write_dense(pipeline(normalize=False), *map_of(), tmp_path / "out", path=path)
    assert not (tmp_path / "out").exists()


def test_the_prompt_of_the_fit_is_the_prompt_of_the_test(pipeline: Any, tmp_path: Path) -> None:
    source = pipeline(normalize=False)
    model = sentence_transformers.SentenceTransformer(str(source), device="cpu")
    vectors = model.encode(TEXTS, prompt="river: ", show_progress_bar=False).astype(np.float64)
    path = FittingPath(unit="text", prompt="river: ")
    written = write_dense(source, *map_of(), tmp_path / "out", path=path, examples=(TEXTS, vectors))
    assert json.loads((written / "2_Dense" / "self_test.json").read_text())["prompt"] == "river: "
    assert check_dense(written) < 1e-6
    with pytest.raises(ValueError, match="prompt it was fitted on"):
        write_dense(source, *map_of(), tmp_path / "none", path=FittingPath(unit="mean"), examples=(TEXTS, vectors))


def test_settings_get_the_names_that_old_releases_read(pipeline: Any, tmp_path: Path) -> None:
    written = write_dense(pipeline(normalize=True), *map_of(), tmp_path / "out")
    pooling = json.loads((written / "1_Pooling" / "config.json").read_text())
    assert pooling["word_embedding_dimension"] == 16 and pooling["pooling_mode_mean_tokens"] is True
    assert pooling["pooling_mode_cls_token"] is False and "pooling_mode" not in pooling
    assert set(json.loads((written / "sentence_bert_config.json").read_text())) == {"max_seq_length", "do_lower_case"}


def test_the_length_limit_of_the_fit_goes_with_the_repair(pipeline: Any, tmp_path: Path) -> None:
    source = pipeline(normalize=True)
    texts = [f"{word} {' '.join(WORDS)}." for word in WORDS]  # which the limit cuts
    space = th.extract(source, texts=texts, unit="text", max_length=6)
    repair = th.repair.fit("zero-mean", space)
    assert repair.fitted_on_.max_length == 6
    th.repair.fit("zero-mean", space, to=tmp_path / "repair")
    result = th.repair.export(tmp_path / "repair", source, to=tmp_path / "out")
    assert "texts are cut after 6 tokens, as in the fit" in result.notes
    written = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert written.max_seq_length == 6
    repaired = repair.transform(np.asarray(space[space.layers[-1]], np.float64))
    expected = repaired / np.linalg.norm(repaired, axis=1, keepdims=True)
    np.testing.assert_allclose(written.encode(texts, show_progress_bar=False), expected, atol=1e-5)
    # Vectors from elsewhere do not carry it: the message names the limit, and the option sets it.
    plain = th.repair.fit("zero-mean", np.asarray(space[space.layers[-1]]))
    with pytest.raises(ValueError, match=r"its own length limit; if the fit used another one, name it with max_length=N"):
        th.repair.export(plain, source, to=tmp_path / "other", texts=texts)
    th.repair.export(plain, source, to=tmp_path / "other", texts=texts, max_length=6)
    with pytest.raises(ValueError, match=r"the length limit of the fit, 8 tokens\) than"):
        th.repair.export(plain, source, to=tmp_path / "third", texts=texts, max_length=8)
