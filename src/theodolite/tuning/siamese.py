"""Siamese fine-tuning (RP21): one encoder for both texts, pooled, their cosine regressed on the score with squared error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch import nn

from theodolite.models.extra import quietly
from theodolite.models.locate import find
from theodolite.tasks.examples import Examples
from theodolite.tasks.scores import score
from theodolite.tuning.encoders import load_encoder
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.splits import Splits
from theodolite.tuning.strategies import apply_strategy
from theodolite.tuning.trainers import FiniteLoss, arguments


class SiameseTrainer(FiniteLoss, SentenceTransformerTrainer):
    """Sentence-transformers' trainer, with checkpoints of plain weights: these load back whatever the strategy put inside."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """No model card: writing one asks the hub."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ARG002  # theirs
        from safetensors.torch import save_file

        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: tensor.contiguous() for name, tensor in self.model.state_dict().items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:  # noqa: ARG002  # theirs
        from safetensors.torch import load_file

        self.model.load_state_dict(load_file(Path(resume_from_checkpoint) / "model.safetensors"))


class Siamese:
    """The two tied towers: a SentenceTransformer of encoder and pooling."""

    def __init__(self, settings: TuneSettings, splits: Splits, folder: Path) -> None:
        self.settings = settings
        self.model = sentence_model(settings)
        words: Any = self.model[0]
        self.encoder: nn.Module = words.auto_model
        self.tokenizer = self.model.tokenizer
        self._plain = apply_strategy(self.encoder, settings.strategy)
        self.trainer: Any = self._trainer(splits, folder)

    def _trainer(self, splits: Splits, folder: Path) -> SiameseTrainer:
        from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

        metric = f"eval_{splits.dev.task.score}_cosine" if splits.validation is not None else None
        told = arguments(self.settings, folder, rows=len(splits.train), metric=metric)
        return SiameseTrainer(
            model=self.model,
            args=SentenceTransformerTrainingArguments(**told),
            train_dataset=pairs(splits.train),
            loss=CosineSimilarityLoss(self.model, loss_fct=nn.MSELoss()),
            evaluator=None if splits.validation is None else evaluator(splits.validation, 2 * self.settings.batch_size),
        )

    def score(self, examples: Examples) -> tuple[float, str]:
        """Rank (or other) correlation of the cosines with the scores."""
        return score(examples.task.score, examples.unit_scores(), cosines(self.model, examples, 2 * self.settings.batch_size))

    def vectors(self, examples: Examples) -> None:
        """There is no head that would take any."""

    def save(self, folder: Path) -> None:
        """A folder that SentenceTransformer and AutoModel load alike."""
        self._plain()
        self.model.save_pretrained(str(folder), create_model_card=False)


def sentence_model(settings: TuneSettings) -> SentenceTransformer:
    """Encoder and pooling alone: whatever else a sentence model's folder has on top is left away."""
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    location = find(settings.model, revision=settings.revision)
    length = load_encoder(settings).max_length  # complains where files or positions are missing
    shared: dict[str, Any] = {"trust_remote_code": settings.trust_remote_code, "subfolder": location.subfolder}
    if location.revision is not None:
        shared["revision"] = location.revision
    with quietly():
        words = Transformer(location.place, model_kwargs=dict(shared), processor_kwargs=dict(shared), config_kwargs=dict(shared))
    words.max_seq_length = length
    words.auto_model.float()
    model = SentenceTransformer(
        modules=[words, Pooling(words.auto_model.config.hidden_size, settings.pooled)],
        device="cpu" if settings.device == "cpu" else None,
    )
    assert isinstance(model, SentenceTransformer)
    return model


def pairs(examples: Examples) -> Any:
    """The columns that the trainer reads: both texts, and the score on a scale from 0 to 1."""
    from datasets import Dataset

    assert examples.second is not None
    columns = {"text": list(examples.texts), "text_b": list(examples.second), "label": examples.unit_scores().tolist()}
    return Dataset.from_dict(columns)


def evaluator(examples: Examples, batch_size: int) -> Any:
    """Sentence-transformers' own: Pearson and Spearman of the cosines."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    assert examples.second is not None
    return EmbeddingSimilarityEvaluator(
        list(examples.texts),
        list(examples.second),
        examples.unit_scores().tolist(),
        batch_size=batch_size,
        main_similarity="cosine",
        write_csv=False,
    )


def cosines(model: SentenceTransformer, examples: Examples, batch_size: int) -> NDArray[np.float64]:
    """The cosine of each pair, with the model as it is."""
    assert examples.second is not None
    left, right = (
        model.encode(list(side), batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True).astype(np.float64)
        for side in (examples.texts, examples.second)
    )
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.asarray((left * right).sum(axis=1) / lengths)
