"""Tiny random encoders and toy tasks that can be learnt, all made here: nothing is downloaded."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GOOD = ("fine", "lovely", "bright", "kind")
BAD = ("awful", "grim", "cold", "mean")
NOUNS = ("dog", "cat", "house", "river", "book", "song", "tree", "road")
VERBS = ("sees", "likes", "finds", "keeps")
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of two layers and 32 dimensions, with dropout, over the toy words; `##s` makes plurals of two pieces."""
    torch = pytest.importorskip("torch", reason="the extra models is not installed")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("encoders") / "bert"
    words = (*SPECIALS, *GOOD, *BAD, *NOUNS, *VERBS, "the", "a", ".", "##s")
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
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A RoBERTa of two layers that reads bytes: every word has as many pieces as letters."""
    torch = pytest.importorskip("torch", reason="the extra models is not installed")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    folder = tmp_path_factory.mktemp("encoders") / "roberta"
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [], unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=126,
    )
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(names),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        type_vocab_size=1,
    )
    RobertaModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def sentence(rng: np.random.Generator, mood: str) -> str:
    word = rng.choice(GOOD if mood == "good" else BAD)
    return f"the {word} {rng.choice(NOUNS)} {rng.choice(VERBS)} a {rng.choice(NOUNS)}s ."


def write_csv(path: Path, head: list[str], rows: list[list[Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


@pytest.fixture(scope="session")
def moods(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Classification: is the adjective a good one?"""
    from theodolite.tasks import own_task

    folder, rng = tmp_path_factory.mktemp("moods"), np.random.default_rng(0)
    for split, count in (("train", 96), ("dev", 48)):
        rows = [[sentence(rng, mood), mood] for mood in ("good", "bad") for _ in range(count // 2)]
        write_csv(folder / f"{split}.csv", ["text", "label"], rows)
    return own_task({s: folder / f"{s}.csv" for s in ("train", "dev")}, "classification", name="moods")


@pytest.fixture(scope="session")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Similarity from 0 to 5: do both adjectives have the same mood?"""
    from theodolite.tasks import own_task

    folder, rng = tmp_path_factory.mktemp("alike"), np.random.default_rng(1)
    for split, count in (("train", 96), ("dev", 48)):
        rows = []
        for _ in range(count):
            moods = rng.choice(["good", "bad"], 2)
            rows.append([sentence(rng, moods[0]), sentence(rng, moods[1]), 5 if moods[0] == moods[1] else 1])
        write_csv(folder / f"{split}.csv", ["text", "text_b", "score"], rows)
    return own_task({s: folder / f"{s}.csv" for s in ("train", "dev")}, "similarity", name="alike", score_range=(0, 5))


@pytest.fixture(scope="session")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Pair classification: does the second text have the mood of the first, which is always good?"""
    from theodolite.tasks import own_task

    folder, rng = tmp_path_factory.mktemp("followed"), np.random.default_rng(2)
    for split in ("train", "dev"):
        answers = {"good": "yes", "bad": "no"}
        rows = [[sentence(rng, "good"), sentence(rng, mood), answers[mood]] for mood in rng.choice(["good", "bad"], 96)]
        write_csv(folder / f"{split}.csv", ["text", "text_b", "label"], rows)
    return own_task({s: folder / f"{s}.csv" for s in ("train", "dev")}, "pair_classification", name="followed")


@pytest.fixture(scope="session")
def rated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Scores from 0 to 5 of pairs that one sequence can learn: how good is the second text?"""
    from theodolite.tasks import own_task

    folder, rng = tmp_path_factory.mktemp("rated"), np.random.default_rng(4)
    for split in ("train", "dev"):
        points = {"good": 5, "bad": 0}
        rows = [[sentence(rng, "good"), sentence(rng, mood), points[mood]] for mood in rng.choice(["good", "bad"], 96)]
        write_csv(folder / f"{split}.csv", ["text", "text_b", "score"], rows)
    return own_task({s: folder / f"{s}.csv" for s in ("train", "dev")}, "similarity", name="rated", score_range=(0, 5))


TAGS = {"the": "DET", "a": "DET", ".": "PUNCT", **dict.fromkeys(GOOD + BAD, "ADJ"), **dict.fromkeys(VERBS, "VERB")}

RELATIONS = {"VERB": "root", "DET": "det", "ADJ": "amod", "PUNCT": "punct"}


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences with tags, and with relations that follow from the tags."""
    folder, rng = tmp_path_factory.mktemp("treebank"), np.random.default_rng(3)
    heads = {"the": 3, "a": 6, ".": 4}
    for split, count in (("train", 40), ("dev", 20)):
        lines = []
        for _ in range(count):
            words = sentence(rng, "good").split()
            for number, word in enumerate(words, 1):
                tag = TAGS.get(word, "NOUN")
                head = {"VERB": 0, "ADJ": 3, "NOUN": 4}.get(tag, heads.get(word, 0))
                relation = RELATIONS.get(tag, "nsubj" if number == 3 else "obj")
                lines.append(f"{number}\t{word}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_")
            lines.append("")
        (folder / f"{split}.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def tags(treebank: Path) -> Any:
    from theodolite.tasks import own_task

    return own_task({s: treebank / f"{s}.conllu" for s in ("train", "dev")}, "tagging", name="tags")


@pytest.fixture(scope="session")
def relations(treebank: Path) -> Any:
    from theodolite.tasks import own_task

    return own_task({s: treebank / f"{s}.conllu" for s in ("train", "dev")}, "word_pairs", name="relations")


@pytest.fixture
def quick(tmp_path: Path, tiny_bert: str) -> Callable[..., Any]:
    """Settings of a run of seconds, in a folder of its own."""
    from theodolite.tuning import TuneSettings

    def make(task: Any, **changes: Any) -> TuneSettings:
        usual: dict[str, Any] = {
            "model": tiny_bert,
            "output": str(tmp_path / "run"),
            "epochs": 2,
            "batch_size": 16,
            "learning_rate": 5e-3,
            "device": "cpu",
            "track": None,
        }
        return TuneSettings(task=task, **{**usual, **changes})

    return make


@pytest.fixture(scope="session")
def plain_run(tmp_path_factory: pytest.TempPathFactory, tiny_bert: str, moods: Any) -> Path:
    """The folder of a finished plain run with held-out rows."""
    from theodolite.tuning import TuneSettings, fine_tune

    folder = tmp_path_factory.mktemp("plain") / "run"
    options: dict[str, Any] = {"epochs": 3, "batch_size": 16, "learning_rate": 3e-3, "validation": 0.3}
    fine_tune(TuneSettings(task=moods, model=tiny_bert, output=str(folder), device="cpu", track=None, **options))
    return folder
