"""A tiny random encoder and toy releases of tasks, all made here: nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

NOUNS = ("dog", "cat", "house", "river", "book", "song", "tree", "road")
VERBS = ("sees", "likes", "finds", "keeps")
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def sentence(rng: np.random.Generator) -> str:
    return f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} a {rng.choice(NOUNS)} ."


@pytest.fixture(scope="session")
def study_bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT with two layers and 32 dimensions, over the toy words."""
    torch = pytest.importorskip("torch", reason="the extra models is not installed")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("encoders") / "bert"
    words = (*SPECIALS, *NOUNS, *VERBS, "the", "a", ".")
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, model_max_length=64)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of stsb, cola and trec, in their releases' formats."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("releases")
    for name in ("stsb", "cola", "trec"):
        (folder / name).mkdir()
    for split, count in (("train", 48), ("dev", 40), ("test", 20)):
        lines = [f"main\tx\t2017\t{i}\t{rng.integers(0, 6)}.0\t{sentence(rng)}\t{sentence(rng)}" for i in range(count)]
        (folder / "stsb" / f"sts-{split}.csv").write_text("\n".join(lines) + "\n")
    for split, count in (("in_domain_train", 260), ("in_domain_dev", 20), ("out_of_domain_dev", 20)):
        lines = [f"gj04\t{i % 2}\t\t{sentence(rng)}" for i in range(count)]
        (folder / "cola" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    for split, count in (("train_5500", 60), ("TREC_10", 24)):
        lines = [f"{('DESC:def', 'HUM:ind', 'NUM:date')[i % 3]} {sentence(rng)}" for i in range(count)]
        (folder / "trec" / f"{split}.label").write_text("\n".join(lines) + "\n", encoding="latin-1")
    return folder


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scored pairs as files of the user's own: train.csv and test.csv with the columns left, right and score."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("pairs")
    for split, count in (("train", 48), ("test", 40)):
        lines = [f"{sentence(rng)},{sentence(rng)},{rng.integers(0, 11)}" for _ in range(count)]
        (folder / f"{split}.csv").write_text("\n".join(["left,right,score", *lines]) + "\n")
    return folder


@pytest.fixture(scope="session")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled texts as files of the user's own: train.csv and test.csv with the columns text and label."""
    rng, folder = np.random.default_rng(2), tmp_path_factory.mktemp("topics")
    for split, count in (("train", 240), ("test", 24)):
        lines = [f"{sentence(rng)},{'abc'[i % 3]}" for i in range(count)]
        (folder / f"{split}.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    return folder
