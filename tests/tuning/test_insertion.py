"""A layer in a classifier of transformers: in the right place in every family, saved with it, refused if it cannot work."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
transformers = pytest.importorskip("transformers", reason="the extra models is not installed")

from torch import nn  # noqa: E402

from theodolite.tuning import IsotropyLayer, insert_layer, load_with_layer, save_with_layer  # noqa: E402
from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.regularisers import IsoBN, JointLoss  # noqa: E402

# DeBERTa scripts functions when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")

D = 16
SIZES = {"vocab_size": 40, "max_position_embeddings": 64, "pad_token_id": 0}
USUAL = SIZES | {"hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", USUAL),
    "roberta": ("Roberta", USUAL | {"pad_token_id": 1}),
    "distilbert": ("DistilBert", SIZES | {"dim": D, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}),
    "electra": ("Electra", USUAL | {"embedding_size": 8}),
    "albert": ("Albert", USUAL | {"embedding_size": 8}),
    "mpnet": ("MPNet", USUAL | {"pad_token_id": 1}),
    "deberta": ("DebertaV2", USUAL),
    "modernbert": ("ModernBert", USUAL),
}
# What the layer stands on: the encoder's [CLS], and what the family makes of it before its last linear map.
PLACES = {
    "bert": ("before bert.pooler", "after bert.pooler"),
    "roberta": ("before classifier", "before classifier.out_proj"),
    "distilbert": ("before pre_classifier", "before dropout"),
    "electra": ("before classifier", "before classifier.out_proj"),
    "albert": ("before albert.pooler", "after albert.pooler_activation"),
    "mpnet": ("before classifier", "before classifier.out_proj"),
    "deberta": ("before pooler", "after pooler"),
    "modernbert": ("before head", "after head"),
}


def classifier(family: str, labels: int = 3) -> Any:
    name, sizes = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes, num_labels=labels)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    for parameter in model.parameters():  # the usual initial weights are so small that nothing stands out
        parameter.data.add_(0.2 * torch.randn(parameter.shape))
    return model.eval()


def batch_of(n: int = 6) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    batch = {"input_ids": torch.randint(5, 40, (n, 7), generator=random), "attention_mask": torch.ones(n, 7, dtype=torch.long)}
    batch["labels"] = torch.arange(n) % 3
    batch["attention_mask"][1, 4:] = 0
    return batch


def shaken(layer: nn.Module) -> nn.Module:
    """Far from the identity."""
    random = torch.Generator().manual_seed(2)
    for parameter in layer.parameters():
        parameter.data.add_(0.5 * torch.randn(parameter.shape, generator=random))
    return layer


@pytest.mark.parametrize("family", FAMILIES)
def test_the_place_is_the_familys_own(family: str) -> None:
    for at, place in zip(("before_pooler", "after_pooler"), PLACES[family], strict=True):
        assert insert_layer(classifier(family), nn.Identity(), at=at).place == place


@pytest.mark.parametrize("family", FAMILIES)
def test_before_the_pooler_the_layer_sees_the_encoders_own_vectors(family: str) -> None:
    model, batch = classifier(family), batch_of()
    inserted = insert_layer(model, nn.Identity())
    hidden = model.base_model(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    with inserted.outputs() as outputs:
        model(**batch)
    [vectors] = outputs
    torch.testing.assert_close(vectors, hidden[:, 0])


@pytest.mark.parametrize("family", FAMILIES)
def test_after_the_pooler_the_layer_sees_what_the_last_linear_map_gets(family: str) -> None:
    model = classifier(family)
    inserted = insert_layer(model, nn.Identity(), at="after_pooler")
    last = [part for part in model.modules() if isinstance(part, nn.Linear)][-1]
    with inserted.outputs() as outputs:
        logits = model(**batch_of()).logits
    torch.testing.assert_close(last(outputs[0]), logits)


@pytest.mark.parametrize("at", ["before_pooler", "after_pooler"])
@pytest.mark.parametrize("kind", [{}, {"orthogonal": True}, {"activation": "gelu", "depth": 2}])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_identity_layer_changes_nothing_and_any_other_does(family: str, kind: dict[str, Any], at: Any) -> None:
    model, batch = classifier(family), batch_of()
    with torch.no_grad():
        before = model(**batch)
        keys = set(model.state_dict())
        inserted = insert_layer(model, IsotropyLayer(D, **kind), at=at)
        torch.testing.assert_close(model(**batch)["logits"], before["logits"], rtol=0, atol=1e-6)
        shaken(inserted.layer)
        assert (model(**batch)["logits"] - before["logits"]).abs().max() > 1e-3
        assert {key for key in model.state_dict() if ".inserted." not in key} == keys
        assert inserted.remove() is inserted.layer
        assert torch.equal(model(**batch)["logits"], before["logits"])
        assert set(model.state_dict()) == keys


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_the_layer_alone_trains_in_a_frozen_model(family: str) -> None:
    model, batch = classifier(family), batch_of(24)
    inserted = insert_layer(model, IsotropyLayer(D))
    model.requires_grad_(False)
    inserted.layer.requires_grad_(True)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    joint, losses = JointLoss(corrected=True), []
    # Weight decay would move whatever is not frozen, with or without a gradient.
    descent = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01, weight_decay=0.1)
    for _ in range(10):
        descent.zero_grad()
        with inserted.outputs() as outputs:
            task = model(**batch)["loss"]
        losses.append(joint(task, outputs[-1]))
        losses[-1].backward()
        descent.step()
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if ".inserted." in name} and len(moved) == 2
    assert losses[-1] < losses[0]


def test_a_copy_of_the_model_has_a_layer_of_its_own() -> None:
    model = classifier("roberta")
    inserted = insert_layer(model, IsotropyLayer(D))
    batch = batch_of()
    twin = copy.deepcopy(model)
    before = twin(**batch).logits
    shaken(inserted.layer)
    assert torch.equal(twin(**batch).logits, before)
    assert not torch.allclose(model(**batch).logits, before)


def test_a_head_that_is_a_sequence_of_layers() -> None:
    model = classifier("bert")
    model.classifier = nn.Sequential(nn.Linear(D, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    batch = batch_of()
    before = model(**batch).logits
    inserted = insert_layer(model, shaken(IsotropyLayer(D)))
    assert not torch.allclose(model(**batch).logits, before)
    inserted.remove()
    assert torch.equal(model(**batch).logits, before)


def test_isobn_takes_its_averages_from_the_pooled_vectors() -> None:
    model = classifier("bert")
    isobn = IsoBN(D)
    insert_layer(model, isobn, at="after_pooler")
    assert int(isobn.steps) == 0  # the trial run must leave no trace
    batch = batch_of()
    pooled = model.bert(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state[:, 0]
    pooled = torch.tanh(model.bert.pooler.dense(pooled)).detach()
    isobn.train()
    model(**batch)
    torch.testing.assert_close(isobn.covariance, 0.05 * torch.cov(pooled.T, correction=0), rtol=1e-4, atol=1e-6)


def refused(model: Any, message: str, layer: nn.Module | None = None, **options: Any) -> None:
    keys = list(model.state_dict())
    with pytest.raises(ValueError, match=message):
        insert_layer(model, layer or IsotropyLayer(D), **options)
    assert list(model.state_dict()) == keys
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert not any("forward" in vars(part) for part in model.modules())


def test_a_head_that_is_not_there() -> None:
    refused(classifier("bert").bert, "BertModel has no head .* AutoModelForSequenceClassification")
    refused(LinearHead(classifier("bert").bert, 2), "LinearHead has no head .* TunedClassifier.insert")


def test_a_head_on_every_token() -> None:
    config = transformers.BertConfig(**USUAL, num_labels=3)
    refused(transformers.BertForTokenClassification(config), "does not read its first token alone")


def test_a_head_that_reads_past_the_pooler() -> None:
    class Direct(transformers.BertForSequenceClassification):  # type: ignore[misc, name-defined]
        def forward(self, **inputs: Any) -> dict[str, torch.Tensor]:
            inputs.pop("labels", None)
            return {"logits": self.classifier(self.bert(**inputs)[0][:, 0])}

    refused(Direct(transformers.BertConfig(**USUAL)), r"the logits of Direct do not pass before bert\.pooler")


def test_a_model_without_cls() -> None:
    sizes = {"vocab_size": 40, "n_embd": D, "n_layer": 2, "n_head": 2, "n_positions": 64, "pad_token_id": 0}
    model = transformers.GPT2ForSequenceClassification(transformers.GPT2Config(**sizes))
    refused(model, r"GPT2ForSequenceClassification has no \[CLS\] vector .* reads the last token")


def test_a_model_that_pools_all_its_tokens() -> None:
    config = transformers.ModernBertConfig(**USUAL, classifier_pooling="mean")
    refused(transformers.ModernBertForSequenceClassification(config), "does not read its first token alone")


def test_a_layer_of_another_width() -> None:
    refused(classifier("roberta"), r"IsotropyLayer before classifier of Roberta.* \(d=16\) does not run", layer=IsotropyLayer(5))


def test_a_second_layer_in_one_place() -> None:
    model = classifier("bert")
    insert_layer(model, IsotropyLayer(D))
    with pytest.raises(ValueError, match=r"there is a layer before bert\.pooler already"):
        insert_layer(model, IsotropyLayer(D))


def test_a_wrong_place() -> None:
    refused(classifier("bert"), "at='middle' must be", at="middle")


def trained(kind: type) -> Any:
    layer = kind(D)
    random = torch.Generator().manual_seed(1)
    if kind is IsoBN:
        layer.train()(torch.randn(32, D, generator=random) * torch.arange(1, D + 1))
    for parameter in layer.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=random)
    return layer.eval()


@torch.no_grad()
@pytest.mark.parametrize("at", ["before_pooler", "after_pooler"])
@pytest.mark.parametrize("kind", [IsotropyLayer, IsoBN])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_outputs_come_back_to_the_bit(family: str, kind: type, at: Any, tmp_path: Path) -> None:
    model, ids = classifier(family), batch_of()["input_ids"]
    plain = model(ids).logits
    inserted = insert_layer(model, trained(kind), at=at)
    changed = model(ids).logits
    assert not torch.allclose(plain, changed)
    save_with_layer(inserted, tmp_path / "model")
    assert torch.equal(load_with_layer(tmp_path / "model").model(ids).logits, changed)
    assert torch.equal(model(ids).logits, changed)  # saving has changed nothing
    alone = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    assert torch.equal(alone(ids).logits, plain)


def test_what_cannot_be_saved_or_read_leaves_nothing(tmp_path: Path) -> None:
    inserted = insert_layer(classifier("bert"), torch.nn.Identity())
    with pytest.raises(ValueError, match="Identity cannot be saved"):
        save_with_layer(inserted, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=r"no layer\.json"):
        load_with_layer(tmp_path)
    inserted.remove()
    inserted = insert_layer(inserted.model, IsotropyLayer(D))
    with pytest.raises(FileExistsError, match="overwrite"):
        save_with_layer(inserted, tmp_path)
