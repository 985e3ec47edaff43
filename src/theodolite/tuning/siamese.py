"""Siamese fine-tuning (RP21): one encoder for both texts, pooled, their cosine regressed on the score with squared error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.modules import Transformer
from torch import nn

from theodolite.models.encoder import Encoder, quiet_loading
from theodolite.tasks.examples import Examples
from theodolite.tasks.scores import score
from theodolite.tuning.runs import Splits
from theodolite.tuning.settings import TuneSettings
from theodolite.tuning.trainers import FiniteLoss, apply_strategy, load_encoder, trainer_arguments


class SiameseTrainer(FiniteLoss, SentenceTransformerTrainer):
    """Sentence-transformers' trainer, with checkpoints of plain weights: they load back whatever a strategy put inside."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Write no model card, because writing one asks the Hub."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:  # noqa: ARG002  # their signature
        from safetensors.torch import save_file

        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        # Their own checkpoints are folders of modules, which do not load back into an encoder with LoRA layers.
        weights = {name: tensor.contiguous() for name, tensor in self.model.state_dict().items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:  # noqa: ARG002  # their signature
        from safetensors.torch import load_file

        self.model.load_state_dict(load_file(Path(resume_from_checkpoint) / "model.safetensors"))


class SiameseJob:
    """The two tied towers, a SentenceTransformer of encoder and pooling, and their trainer.

    Parameters
    ----------
    settings
        The run's settings.
    splits
        The examples.
    folder
        Where checkpoints go.
    """

    def __init__(self, settings: TuneSettings, splits: Splits, folder: Path) -> None:
        from datasets import Dataset
        from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
        from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

        self.settings, self.splits = settings, splits
        self.encoder = load_encoder(settings)
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

    def score(self, examples: Examples) -> tuple[float, str]:
        """Rank (or other) correlation of the cosines with the scores, or nan and the reason.

        Parameters
        ----------
        examples
            Examples of the run's task.
        """
        return score(examples.task.score, examples.unit_scores(), cosines(self.model, examples, 2 * self.settings.batch_size))

    def vectors(self, examples: Examples) -> None:
        """There is no head that would take any."""

    def save(self, folder: Path) -> None:
        """Write a folder that both SentenceTransformer and AutoModel load.

        Parameters
        ----------
        folder
            The folder to write into.
        """
        self._make_plain()
        self.model.save_pretrained(str(folder), create_model_card=False)


def sentence_model(settings: TuneSettings, encoder: Encoder) -> SentenceTransformer:
    """A SentenceTransformer of an encoder and a pooling alone; whatever else a sentence model's folder has is left out.

    Parameters
    ----------
    settings
        The run's settings.
    encoder
        The encoder they name. Its module is not copied: what trains is the encoder itself.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling

    location = encoder.location
    assert location is not None
    options = location.loading_options(trust_remote_code=settings.trust_remote_code)

    class LoadedTransformer(Transformer):
        """Their module around weights that are in memory already, which its constructor would read a second time."""

        def _load_model(self, *args: Any, **kwargs: Any) -> Any:
            config = args[2]
            if getattr(config, "is_encoder_decoder", False):  # they have classes of their own for the encoder alone
                return super()._load_model(*args, **kwargs)
            if hasattr(config, "use_cache"):  # they switch it off, and it is saved with the model
                encoder.module.config.use_cache = config.use_cache
            return encoder.module

    with quiet_loading():
        transformer = LoadedTransformer(
            location.place, model_kwargs=dict(options), processor_kwargs=dict(options), config_kwargs=dict(options)
        )
    transformer.__class__ = Transformer  # the name it is saved under, so that the folder loads without this package
    transformer.max_seq_length = encoder.max_length
    encoder.module = transformer.auto_model.float()
    device = "cpu" if settings.device == "cpu" else None
    modules: list[nn.Module] = [transformer, Pooling(encoder.d, settings.pooled)]
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


def cosines(model: SentenceTransformer, examples: Examples, batch_size: int) -> NDArray[np.float64]:
    """The cosine of each pair, with the model as it is.

    Parameters
    ----------
    model
        The model.
    examples
        Pairs of texts.
    batch_size
        Texts per batch.
    """
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
