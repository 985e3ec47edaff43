"""One tiny random model of every architecture that the documentation lists, saved as its owners save it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiny_encoders import byte_level, word_piece

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
DECODER = SIZES | {"num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64}
LENGTH = {"max_position_embeddings": 64}
CLIP_TEXT = SIZES | LENGTH | {"eos_token_id": 2, "bos_token_id": 0, "pad_token_id": 1}
CLIP_IMAGE = SIZES | {"image_size": 8, "patch_size": 4}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
BART = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
}

# By name: class of the configuration, class of the model, settings, and the kind of tokenizer.
ARCHITECTURES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "BERT": ("BertConfig", "BertModel", SIZES | LENGTH, "bert"),
    "DistilBERT": ("DistilBertConfig", "DistilBertModel", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}, "bert"),
    "RoBERTa": ("RobertaConfig", "RobertaModel", SIZES | {"max_position_embeddings": 66, "pad_token_id": 1}, "roberta"),
    "RoBERTa with a head": (
        "RobertaConfig",
        "RobertaForMaskedLM",
        SIZES | {"max_position_embeddings": 66, "pad_token_id": 1},
        "roberta",
    ),
    "XLM-R": ("XLMRobertaConfig", "XLMRobertaModel", SIZES | {"max_position_embeddings": 66, "pad_token_id": 1}, "roberta"),
    "DeBERTa-v2/v3": (
        "DebertaV2Config",
        "DebertaV2Model",
        SIZES | LENGTH | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
        "bert",
    ),
    "ELECTRA": ("ElectraConfig", "ElectraModel", SIZES | LENGTH | {"embedding_size": 8}, "bert"),
    "MPNet": ("MPNetConfig", "MPNetModel", SIZES | {"max_position_embeddings": 66, "pad_token_id": 1}, "mpnet"),
    "ModernBERT": ("ModernBertConfig", "ModernBertModel", SIZES | LENGTH | {"pad_token_id": 0}, "bert"),
    "ALBERT": ("AlbertConfig", "AlbertModel", SIZES | LENGTH | {"embedding_size": 8}, "bert"),
    "CLIP text": ("CLIPTextConfig", "CLIPTextModel", CLIP_TEXT, "roberta"),
    "dual CLIP": ("CLIPConfig", "CLIPModel", {"text_config": CLIP_TEXT, "vision_config": CLIP_IMAGE}, "roberta"),
    "Nomic-BERT": ("NomicBertConfig", "NomicBertModel", SIZES | LENGTH, "bert"),
    "BigBird": ("BigBirdConfig", "BigBirdModel", SIZES | LENGTH | {"attention_type": "original_full"}, "bert"),
    "Longformer": (
        "LongformerConfig",
        "LongformerModel",
        SIZES | {"max_position_embeddings": 66, "attention_window": 8, "pad_token_id": 1},
        "roberta",
    ),
    "ESM": ("EsmConfig", "EsmModel", SIZES | {"max_position_embeddings": 66, "pad_token_id": 1, "mask_token_id": 4}, "roberta"),
    "XLNet": ("XLNetConfig", "XLNetModel", {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}, "cls last"),
    "Funnel": (
        "FunnelConfig",
        "FunnelModel",
        {"d_model": 16, "block_sizes": [2, 1], "n_head": 2, "d_head": 8, "d_inner": 32, "num_decoder_layers": 1},
        "bert",
    ),
    "Mamba": ("MambaConfig", "MambaModel", {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}, "gpt2"),
    "T5": ("T5Config", "T5ForConditionalGeneration", T5, "eos last"),
    "T5, encoder alone": ("T5Config", "T5EncoderModel", T5, "eos last"),
    "BART": ("BartConfig", "BartModel", BART, "roberta"),
    "GPT-2": ("GPT2Config", "GPT2Model", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}, "gpt2"),
    "Llama": ("LlamaConfig", "LlamaModel", DECODER, "gpt2"),
    "Qwen2": ("Qwen2Config", "Qwen2Model", SIZES | LENGTH | {"num_key_value_heads": 1}, "gpt2"),
    "Qwen3": ("Qwen3Config", "Qwen3Model", DECODER, "gpt2"),
    "Gemma3": ("Gemma3TextConfig", "Gemma3TextModel", DECODER | {"sliding_window": 16}, "gpt2"),
}


def build_architecture(name: str, folder: Path) -> Path:
    """Write a tiny random model of an architecture, with its tokenizer."""
    import torch
    import transformers

    configuration, model_class, sizes, kind = ARCHITECTURES[name]
    tokenizer = TOKENIZERS[kind]()
    torch.manual_seed(0)
    sizes = {key: dict(value) if isinstance(value, dict) else value for key, value in sizes.items()}
    vocabulary = {"vocab_size": len(tokenizer)}
    if "text_config" in sizes:
        sizes["text_config"] |= vocabulary
    config = getattr(transformers, configuration)(**(sizes if "text_config" in sizes else sizes | vocabulary))
    model = getattr(transformers, model_class)(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _ending(*ending: tuple[str, int], **roles: str) -> Any:
    """A byte-level tokenizer that ends a text with special tokens, as XLNet's and T5's do, and has no length limit."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = ["<pad>", "<unk>", "</s>", "<cls>", "<mask>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [], unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    marks = " ".join(token for token, _ in ending)
    inner.post_processor = processors.TemplateProcessing(
        single=f"$A {marks}", pair=f"$A </s> $B {marks}", special_tokens=[*ending, ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", unk_token="<unk>", eos_token="</s>", **roles)


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "bert": lambda: word_piece("bert"),
    "mpnet": lambda: word_piece("mpnet"),
    "roberta": lambda: byte_level("roberta"),
    "gpt2": lambda: byte_level("gpt2"),
    "cls last": lambda: _ending(("</s>", 2), ("<cls>", 3), cls_token="<cls>", sep_token="</s>"),
    "eos last": lambda: _ending(("</s>", 2)),
}
