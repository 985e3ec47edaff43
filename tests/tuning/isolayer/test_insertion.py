"""A layer between encoder and head: in the right place in every family, on stored vectors, and refused if it cannot work."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
transformers = pytest.importorskip("transformers", reason="the extra models is not installed")

from torch import nn  # noqa: E402

from theodolite.tuning.heads import LinearHead  # noqa: E402
from theodolite.tuning.isobn import IsoBN  # noqa: E402
from theodolite.tuning.isolayer.insertion import InsertedLayer, freeze, insert_layer  # noqa: E402
from theodolite.tuning.isolayer.layer import IsotropyLayer  # noqa: E402
from theodolite.tuning.isolayer.loss import JointLoss  # noqa: E402

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
    "albert": ("before albert.pooler", "after albert.pooler"),
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


def linear_head(encoder: Any = None, outputs: int = 3) -> LinearHead:
    return LinearHead(encoder or classifier("bert").bert, outputs).eval()


def batch_of(model: Any, n: int = 6) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    batch = {"input_ids": torch.randint(5, 40, (n, 7), generator=random), "attention_mask": torch.ones(n, 7, dtype=torch.long)}
    batch["labels"] = torch.arange(n) % 3
    batch["attention_mask"][1, 4:] = 0
    if isinstance(model, LinearHead):
        batch["labels"] = batch["labels"].unsqueeze(1)
        batch["spots"] = nn.functional.one_hot(torch.zeros(n, 1, dtype=torch.long), 7).unsqueeze(1).float()
    return batch


def shaken(layer: nn.Module) -> nn.Module:
    """Far from the identity."""
    random = torch.Generator().manual_seed(2)
    for parameter in layer.parameters():
        parameter.data.add_(0.5 * torch.randn(parameter.shape, generator=random))
    return layer


MODELS = [*FAMILIES, "linear head"]


def model_of(name: str) -> Any:
    return linear_head() if name == "linear head" else classifier(name)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_place_is_the_familys_own(family: str) -> None:
    for at, place in zip(("before_pooler", "after_pooler"), PLACES[family], strict=True):
        assert str(insert_layer(classifier(family), nn.Identity(), at=at).place) == place


@pytest.mark.parametrize("name", MODELS)
def test_before_the_pooler_the_layer_sees_the_encoders_own_vectors(name: str) -> None:
    model = model_of(name)
    batch = batch_of(model)
    inserted = insert_layer(model, nn.Identity())
    encoder = model.encoder if name == "linear head" else model.base_model
    hidden = encoder(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    with inserted.outputs() as outputs:
        model(**batch)
    [vectors] = outputs
    torch.testing.assert_close(vectors, hidden[:, 0])
    torch.testing.assert_close(inserted.vectors(batch), hidden[:, 0])
    assert not inserted.vectors(batch).requires_grad


@pytest.mark.parametrize("family", FAMILIES)
def test_after_the_pooler_the_layer_sees_what_the_last_linear_map_gets(family: str) -> None:
    model = classifier(family)
    inserted = insert_layer(model, nn.Identity(), at="after_pooler")
    last = [part for part in model.modules() if isinstance(part, nn.Linear)][-1]
    with inserted.outputs() as outputs:
        logits = model(**batch_of(model)).logits
    torch.testing.assert_close(last(outputs[0]), logits)


@pytest.mark.parametrize("at", ["before_pooler", "after_pooler"])
@pytest.mark.parametrize("name", MODELS)
def test_an_identity_layer_changes_nothing_and_any_other_does(name: str, at: Any) -> None:
    model = model_of(name)
    batch = batch_of(model)
    with torch.no_grad():
        before = model(**batch)
        keys = set(model.state_dict())
        inserted = insert_layer(model, IsotropyLayer(D), at=at)
        torch.testing.assert_close(model(**batch)["logits"], before["logits"], rtol=0, atol=1e-6)
        shaken(inserted.layer)
        assert (model(**batch)["logits"] - before["logits"]).abs().max() > 1e-3
        assert {key for key in model.state_dict() if ".inserted." not in key} == keys
        assert inserted.remove() is inserted.layer
        assert torch.equal(model(**batch)["logits"], before["logits"])
        assert set(model.state_dict()) == keys


@pytest.mark.parametrize("at", ["before_pooler", "after_pooler"])
@pytest.mark.parametrize("name", MODELS)
def test_kept_vectors_give_the_models_own_logits_and_loss(name: str, at: Any) -> None:
    model = model_of(name)
    batch = batch_of(model)
    inserted = insert_layer(model, shaken(IsotropyLayer(D)), at=at)
    with torch.no_grad():
        through = model(**batch)
        kept = inserted.forward(inserted.vectors(batch), batch["labels"])
    torch.testing.assert_close(kept["logits"], through["logits"], rtol=0, atol=1e-5)
    torch.testing.assert_close(kept["loss"], through["loss"], rtol=0, atol=1e-5)
    assert set(inserted.forward(inserted.vectors(batch))) == {"logits"}


def train(inserted: InsertedLayer, batches: list[dict[str, torch.Tensor]], *, kept: bool) -> dict[str, torch.Tensor]:
    freeze(inserted.model)
    inserted.model.eval()
    joint = JointLoss(corrected=True)
    descent = torch.optim.AdamW(inserted.layer.parameters(), lr=0.01)
    stored = [inserted.vectors(batch) for batch in batches]
    for _ in range(3):
        for batch, vectors in zip(batches, stored, strict=True):
            descent.zero_grad()
            with inserted.outputs() as outputs:
                made = inserted.forward(vectors, batch["labels"]) if kept else inserted.model(**batch)
            joint(made["loss"], outputs[-1]).backward()
            descent.step()
    return {name: value.clone() for name, value in inserted.layer.state_dict().items()}


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "linear head"])
def test_training_on_kept_vectors_is_training_through_the_frozen_model(name: str) -> None:
    model = model_of(name)
    batches = [batch_of(model, n) for n in (6, 8, 5)]
    through = train(insert_layer(copy.deepcopy(model), IsotropyLayer(D)), batches, kept=False)
    kept = train(insert_layer(model, IsotropyLayer(D)), batches, kept=True)
    assert not torch.allclose(kept["layers.0.weight"], torch.eye(D), atol=1e-2)
    for key in kept:
        torch.testing.assert_close(kept[key], through[key], rtol=0, atol=1e-5)


def test_a_copy_of_the_model_has_a_layer_of_its_own() -> None:
    model = classifier("roberta")
    inserted = insert_layer(model, IsotropyLayer(D))
    batch = batch_of(model)
    twin = copy.deepcopy(model)
    before = twin(**batch).logits
    shaken(inserted.layer)
    assert torch.equal(twin(**batch).logits, before)
    assert not torch.allclose(model(**batch).logits, before)


def test_a_head_that_is_a_sequence_of_layers() -> None:
    model = classifier("bert")
    model.classifier = nn.Sequential(nn.Linear(D, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    batch = batch_of(model)
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
    batch = batch_of(model)
    pooled = model.bert(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state[:, 0]
    pooled = torch.tanh(model.bert.pooler.dense(pooled)).detach()
    isobn.train()
    model(**batch)
    torch.testing.assert_close(isobn.covariance, 0.05 * torch.cov(pooled.T, correction=0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "linear head"])
def test_freezing_leaves_the_layer_or_the_layer_and_the_head(name: str) -> None:
    model = model_of(name)
    inserted = insert_layer(model, IsotropyLayer(D))
    freeze(model)
    assert {id(p) for p in model.parameters() if p.requires_grad} == {id(p) for p in inserted.layer.parameters()}
    freeze(model, head=False)
    free = {key for key, parameter in model.named_parameters() if parameter.requires_grad and ".inserted." not in key}
    assert (
        free
        == {
            "bert": {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"},
            "roberta": {f"classifier.{part}.{kind}" for part in ("dense", "out_proj") for kind in ("weight", "bias")},
            "distilbert": {f"{part}.{kind}" for part in ("pre_classifier", "classifier") for kind in ("weight", "bias")},
            "linear head": {"head.weight", "head.bias"},
        }[name]
    )


def refused(model: Any, message: str, layer: nn.Module | None = None, **options: Any) -> None:
    keys = list(model.state_dict())
    with pytest.raises(ValueError, match=message):
        insert_layer(model, layer or IsotropyLayer(D), **options)
    assert list(model.state_dict()) == keys
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert not any("forward" in vars(part) for part in model.modules())


def test_a_head_that_is_not_there() -> None:
    refused(classifier("bert").bert, "BertModel has no head .* AutoModelForSequenceClassification")


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


def test_a_tokenizer_without_cls() -> None:
    class Plain:
        cls_token_id = None

    refused(classifier("bert"), r"Plain has no \[CLS\] token", tokenizer=Plain())


def test_a_layer_of_another_width() -> None:
    refused(classifier("roberta"), r"IsotropyLayer before classifier of Roberta.* \(d=16\) does not run", layer=IsotropyLayer(5))


def test_a_second_layer_in_one_place() -> None:
    model = classifier("bert")
    insert_layer(model, IsotropyLayer(D))
    with pytest.raises(ValueError, match=r"there is a layer before bert\.pooler already"):
        insert_layer(model, IsotropyLayer(D))


def test_words_have_no_place_for_it() -> None:
    model = linear_head()
    insert_layer(model, IsotropyLayer(D))
    batch = batch_of(model)
    batch["spots"] = batch["spots"].expand(-1, -1, 2, -1)
    batch["labels"] = batch["labels"].expand(-1, 2)
    with pytest.raises(ValueError, match="one vector per text, not 2"):
        model(**batch)


def test_a_wrong_place() -> None:
    refused(classifier("bert"), "at='middle' must be", at="middle")
