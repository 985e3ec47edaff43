"""The head is linear on means of token vectors, and padding counts for nothing."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")

from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.models.tokens import text_inputs  # noqa: E402
from theodolite.tuning.batches import collate, make_items  # noqa: E402
from theodolite.tuning.heads import IGNORED, LinearHead, truth_and_answers  # noqa: E402


def test_the_head_is_linear_on_the_vector_before_the_pooler(tiny_bert: str) -> None:
    encoder = Encoder.load(tiny_bert, device="cpu")
    model = LinearHead(encoder.module, 3).eval()
    texts = ["the kind dog .", "a cat sees the lovely house ."]
    batch = collate(make_items(encoder, text_inputs(texts, "cls"), "cls", targets=[2, 0]), pad=0)
    with torch.no_grad():
        out = model(**batch)
    states = encoder.hidden_states(batch["input_ids"], batch["attention_mask"])[-1][:, 0].clone()
    expected = (states @ model.head.weight.T + model.head.bias).detach()
    torch.testing.assert_close(out["logits"][:, 0], expected, atol=1e-5, rtol=1e-5)
    by_hand = -torch.log_softmax(expected, -1)[[0, 1], [2, 0]].mean()
    assert float(out["loss"]) == pytest.approx(float(by_hand), abs=1e-5)


def test_padding_counts_for_nothing() -> None:
    labels = np.array([[1, IGNORED], [0, 1]])
    logits = np.array([[[0.0, 1.0], [9.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    truth, answers = truth_and_answers(labels, logits)
    assert truth.tolist() == [1, 0, 1] and answers.tolist() == [1, 1, 1]
