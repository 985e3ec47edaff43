"""Siamese fine-tuning (RP21): one encoder for both texts, pooled, their cosine regressed on the score with squared error."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.modules import Transformer
from torch import nn
from torch.utils.data import BatchSampler

from theodolite.models.alignment import plan_rows
from theodolite.models.encoder import Encoder, quiet_loading
from theodolite.models.pipeline import around
from theodolite.models.tokens import Ints, text_inputs
from theodolite.tasks.examples import Examples
from theodolite.tuning.runs import Splits
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.trainers import (
    LengthSampler,
    SafeTrainer,
    apply_strategy,
    check_tokens,
    load_encoder,
    trainer_arguments,
    world_size,
)


class SiameseTrainer(SafeTrainer, SentenceTransformerTrainer):
    """Sentence-transformers' trainer, ended by a loss that is not finite; batches are by length if it has `lengths` of pairs."""

    lengths: Ints | None = None

    def get_batch_sampler(self, dataset: Any, batch_size: int, drop_last: bool, **options: Any) -> Any:  # type: ignore[override]
        """The batches of an epoch; the library itself has none by length."""
        if self.lengths is None:
            return super().get_batch_sampler(dataset, batch_size, drop_last, **options)
        return BatchSampler(LengthSampler(self.lengths, batch_size * world_size(), seed=self.args.seed), batch_size, drop_last)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Write no model card, because writing one asks the Hub."""


class SiameseJob:
    """The two tied towers, a SentenceTransformer of encoder and pooling, and their trainer."""

    def __init__(self, settings: TuneSettings, splits: Splits, folder: Path) -> None:
        from datasets import Dataset
        from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
        from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

        self.settings, self.splits = settings, splits
        self.encoder = load_encoder(settings)
        tokens = check_tokens(settings, self.encoder, splits)
        self.model = sentence_model(settings, self.encoder)
        self._make_plain = apply_strategy(self.encoder.module, settings.strategy)
        metric = evaluator = None
        if splits.validation is not None:
            metric = f"eval_{splits.dev.task.score}_cosine"
            options: dict[str, Any] = {"batch_size": 2 * settings.batch_size, "main_similarity": "cosine", "write_csv": False}
            texts, other_texts, scores = _pairs(splits.validation).values()
            evaluator = EmbeddingSimilarityEvaluator(texts, other_texts, scores, **options)
        arguments = trainer_arguments(settings, folder, rows=len(splits.train), metric=metric)
        self.trainer: Any = SiameseTrainer(
            model=self.model,
            args=SentenceTransformerTrainingArguments(**arguments),
            train_dataset=Dataset.from_dict(_pairs(splits.train)),
            loss=CosineSimilarityLoss(self.model, loss_fct=nn.MSELoss()),
            evaluator=evaluator,
        )
        if settings.by_length:  # each side is padded to its own longest text, so the longer text of a pair decides
            self.trainer.lengths = tokens.lengths.reshape(2, -1).max(axis=0)

    def answers(self, examples: Examples) -> tuple[NDArray[Any], NDArray[Any]]:
        """The scores of the pairs on a scale from 0 to 1, and their cosines now."""
        return examples.unit_scores(), cosines(self.model, examples, 2 * self.settings.batch_size)

    def vectors(self, examples: Examples) -> None:
        """There is no head that would take any."""

    def save(self, folder: Path) -> None:
        """Write a folder that both SentenceTransformer and AutoModel load."""
        self._make_plain()
        self.model.save_pretrained(str(folder), create_model_card=False)


def sentence_model(settings: TuneSettings, encoder: Encoder) -> SentenceTransformer:
    """A SentenceTransformer of an encoder and a pooling alone; whatever else a sentence model's folder has is left out."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    module, tokenizer = encoder.saveable, encoder.tokenizer
    if tokenizer.pad_token is None:  # it is masked out, so any token will do
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(encoder.pad_id)
    has_decoder = encoder.whole is not encoder.module and module is encoder.whole
    output = "encoder_last_hidden_state" if has_decoder else "last_hidden_state"
    options: dict[str, Any] = {"trust_remote_code": settings.trust_remote_code}
    with quiet_loading(), TemporaryDirectory() as folder:
        # Configuration and tokenizer are read from files; of a model for texts and images, these are the texts' part only.
        module.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        transformer = around(module)(
            folder,
            modality_config={"text": {"method": "forward", "method_output_name": output}},
            module_output_name="token_embeddings",
            processor_kwargs=dict(options),
            config_kwargs=dict(options),
        )
    transformer.__class__ = Transformer  # the name it is saved under, so that the folder loads without this package
    transformer.processor = tokenizer
    if encoder.max_length is not None:
        transformer.max_seq_length = encoder.max_length
    module.float()
    device = "cpu" if settings.device == "cpu" else None
    modules: list[nn.Module] = [transformer, Pooling(encoder.d, pooling_mode(settings.pooled, encoder))]
    if settings.pooled == "mean":
        modules.insert(1, _without_specials(encoder))
    return SentenceTransformer(modules=modules, device=device)


def _without_specials(encoder: Encoder) -> nn.Module:
    """A module after which the mean leaves out [CLS] and [SEP], as the tokens of RP21 do; it loads without this package."""
    from sentence_transformers.sentence_transformer.modules import WordWeights

    tokenizer: Any = encoder.tokenizer
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    marks = {tokenizer.cls_token, tokenizer.sep_token, tokenizer.bos_token, tokenizer.eos_token} - {None}
    module = WordWeights(tokens, dict.fromkeys(marks, 0.0), 1.0)
    return module.requires_grad_(False)


def pooling_mode(pooling: str, encoder: Encoder) -> Any:
    """The name that sentence-transformers has for a pooling; [CLS] is the last token in some families."""
    if pooling == "cls":
        plan = plan_rows(encoder, text_inputs(["a"], "cls"), "cls")
        pooling = "cls" if plan.runs[0, 0, 0] == 0 else "last"
    return "lasttoken" if pooling == "last" else pooling


def cosines(model: SentenceTransformer, examples: Examples, batch_size: int) -> NDArray[np.float64]:
    """The cosine of each pair, with the model as it is."""
    assert examples.second is not None
    first, second = (
        model.encode(list(side), batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True).astype(np.float64)
        for side in (examples.texts, examples.second)
    )
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / lengths)


def _pairs(examples: Examples) -> dict[str, list[Any]]:
    """What trainer and evaluator read, in their order: both texts, and the score on a scale from 0 to 1."""
    assert examples.second is not None
    return {"text": list(examples.texts), "text_b": list(examples.second), "label": examples.unit_scores().tolist()}
