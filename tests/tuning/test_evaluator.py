"""The evaluator reports the geometry of what the model encodes, counts broken bounds, and leaves the training as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
sentence_transformers = pytest.importorskip("sentence_transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from theodolite.metrics import iso_score, mean_cosine  # noqa: E402
from theodolite.tuning import GeometryEvaluator  # noqa: E402

TEXTS = [
    f"the {noun} {verb} a {other}."
    for noun in ("dog", "cat", "river")
    for verb in ("sees", "likes")
    for other in ("tree", "song")
]


@pytest.fixture
def model(tiny_bert: str) -> Any:
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    return sentence_transformers.SentenceTransformer(modules=[Transformer(tiny_bert), Pooling(32, "mean")], device="cpu")


def test_the_numbers_are_those_of_the_encoded_texts(model: Any, tmp_path: Path) -> None:
    evaluator = GeometryEvaluator(TEXTS, metrics=["iso_score", "mean_cosine"], bounds={"mean_cosine": {"max": -1, "rise": 9}})
    model.train()
    state = torch.get_rng_state()
    values = evaluator(model, output_path=str(tmp_path / "eval"), epoch=1, steps=20)
    assert model.training and torch.equal(state, torch.get_rng_state())
    model.eval()
    X = model.encode(TEXTS, show_progress_bar=False)
    assert values["geometry_iso_score"] == pytest.approx(iso_score(X), rel=1e-4)
    assert values["geometry_mean_cosine"] == pytest.approx(mean_cosine(X), rel=1e-4)
    assert values["geometry_broken_bounds"] == 1 and "is above the bound -1" in evaluator.breaches[0]
    assert evaluator.primary_metric == "geometry_iso_score" and evaluator.greater_is_better
    (line,) = (tmp_path / "eval" / "geometry_results.jsonl").read_text().splitlines()
    assert json.loads(line) == {"epoch": 1, "steps": 20, **values, "breaches": evaluator.breaches}


def test_drops_are_relative_to_the_first_evaluation(model: Any) -> None:
    evaluator = GeometryEvaluator(TEXTS, bounds={"mean_cosine": {"rise": 0.01}}, name="")
    assert evaluator(model)["broken_bounds"] == 0
    with torch.no_grad():
        model[0].auto_model.encoder.layer[-1].output.LayerNorm.bias += 5
    assert evaluator(model)["broken_bounds"] == 1
    assert "(the baseline has " in evaluator.breaches[0]


def test_it_evaluates_in_a_trainer_and_reaches_the_model_card(model: Any, tmp_path: Path) -> None:
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    data = Dataset.from_dict({"a": TEXTS, "b": TEXTS[::-1], "score": np.linspace(0, 1, len(TEXTS)).tolist()})
    arguments = sentence_transformers.SentenceTransformerTrainingArguments(
        str(tmp_path / "run"), num_train_epochs=1, eval_strategy="epoch", report_to="none", use_cpu=True, disable_tqdm=True
    )
    evaluator = GeometryEvaluator(TEXTS, bounds={"mean_cosine": {"max": 0.5}})
    trainer = sentence_transformers.SentenceTransformerTrainer(
        model, arguments, train_dataset=data, loss=CosineSimilarityLoss(model), evaluator=evaluator
    )
    trainer.train()
    logged = [logs for logs in trainer.state.log_history if "eval_geometry_iso_score" in logs]
    assert len(logged) == 1 and "eval_geometry_broken_bounds" in logged[0]
    assert any("geometry_iso_score" in metrics for metrics in model.model_card_data.eval_results_dict.values())


def test_mistakes_are_named_at_once() -> None:
    with pytest.raises(ValueError, match="at least two"):
        GeometryEvaluator(["one"])
    with pytest.raises(ValueError, match="did you mean 'iso_score'"):
        GeometryEvaluator(TEXTS, metrics=["isoscore"])
    with pytest.raises(ValueError, match="has no 'maks'"):
        GeometryEvaluator(TEXTS, bounds={"mean_cosine": {"maks": 1}})
