"""Tiny random encoders of every family, saved as real ones are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-éüñ猫犬"
WORDS = ("the", "cat", "sat", "on", "mat", "un", "believ", "##able", "##ing", "##s", "dog", "a", "bank", "river")
SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
SPECIALS = {"bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "mpnet": ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")}


def build(family: str, folder: Path) -> Path:
    import torch
    import transformers

    torch.manual_seed(0)
    tokenizer = word_piece("mpnet" if family == "mpnet" else "bert")
    if family in ("roberta", "gpt2"):
        tokenizer = byte_level(family)
    make, sizes = {
        "bert": ("Bert", SIZES | {"max_position_embeddings": 64}),
        "roberta": ("Roberta", SIZES | {"max_position_embeddings": 66, "pad_token_id": 1}),
        "distilbert": ("DistilBert", {"dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 64}),
        "gpt2": ("GPT2", {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 64}),
        "albert": ("Albert", SIZES | {"embedding_size": 8, "max_position_embeddings": 64}),
        "electra": ("Electra", SIZES | {"embedding_size": 8, "max_position_embeddings": 64}),
        "mpnet": ("MPNet", SIZES | {"max_position_embeddings": 66, "pad_token_id": 1}),
        "modernbert": ("ModernBert", SIZES | {"max_position_embeddings": 64, "pad_token_id": 0}),
    }[family]
    config = getattr(transformers, f"{make}Config")(vocab_size=len(tokenizer), **sizes)
    model = getattr(transformers, f"{make}Model")(config)
    for parameter in model.parameters():  # the usual initial weights are so small that layers hardly differ
        parameter.data.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def word_piece(kind: str) -> Any:
    from transformers import BertTokenizer

    specials = SPECIALS[kind]
    names = [*specials, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    vocab = {name: index for index, name in enumerate(dict.fromkeys(names))}
    roles = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    if kind == "mpnet":
        roles = {"pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    return BertTokenizer(vocab=vocab, **roles)


def byte_level(family: str) -> Any:
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import GPT2Tokenizer, RobertaTokenizer

    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("c", "a"), ("ca", "t"), ("Ġ", "cat"), ("s", "a")]
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if family == "roberta" else ["<|endoftext|>"]
    names = [*specials, *sorted(ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    vocab = {name: index for index, name in enumerate(names)}
    return (RobertaTokenizer if family == "roberta" else GPT2Tokenizer)(vocab=vocab, merges=merges)
