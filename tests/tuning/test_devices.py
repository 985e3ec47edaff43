"""Encoding, training and probing on a device other than the CPU give the numbers of the CPU, and never mix tensors of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from pretend_device import pretended_device  # noqa: E402

from theodolite.models.encoder import Encoder  # noqa: E402
from theodolite.models.extraction import extract_space  # noqa: E402
from theodolite.models.tokens import text_inputs  # noqa: E402
from theodolite.probes.classifiers.networks import Job, train_batched  # noqa: E402
from theodolite.probes.label_codes import Labelled  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning.heads import LinearHead, TextDataset, embed  # noqa: E402
from theodolite.tuning.isotropy_layer import IsotropyLayer, train_layer  # noqa: E402
from theodolite.tuning.regularisers import CosineRegulariser, IsoBN, IStar  # noqa: E402
from theodolite.tuning.settings import LayerSettings  # noqa: E402
from theodolite.tuning.tracked_sample import Sample  # noqa: E402
from theodolite.tuning.tuned_classifier import TunedClassifier  # noqa: E402

Numbers = dict[str, Any]


def test_the_pretended_device_refuses_what_a_gpu_refuses() -> None:
    with pretended_device() as device:
        there, here = torch.arange(6.0, device=device).reshape(2, 3), torch.ones(2, 3)
        assert there.device.type == device
        assert (there @ here.to(device).T).cpu().tolist() == [[3, 3], [12, 12]]
        assert (there * torch.tensor(2.0)).sum().item() == 30
        with pytest.raises(RuntimeError, match="of the device and of the CPU"):
            there + here
        with pytest.raises(RuntimeError, match="of the device and of the CPU"):
            there[torch.tensor([1])]
        with pytest.raises((RuntimeError, TypeError)):
            there.numpy()


def loaded(folder: str, device: str, **options: Any) -> Encoder:
    """An encoder whose attention is one kernel on every device: others round differently."""
    encoder = Encoder.load(folder, device=device, **options)
    encoder.module.set_attn_implementation("eager")
    return encoder


def on_both(measure: Any) -> tuple[Numbers, Numbers]:
    """What a function of a device returns on the CPU, and on another one."""
    here = measure("cpu")
    with pretended_device() as device:
        there = measure(device)
    return here, there


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("unit", ["tokens", "cls", "mean", "max"])
def test_vectors(tiny_bert: str, moods: Any, unit: Any, dtype: Any) -> None:
    def vectors(device: str) -> Numbers:
        space = extract_space(loaded(tiny_bert, device, dtype=dtype), load_task(moods, "dev"), unit=unit)
        return {str(layer): space[layer] for layer in space.layers}

    here, there = on_both(vectors)
    assert here.keys() == there.keys() == {"0", "1", "2"}
    for layer, X in here.items():
        np.testing.assert_allclose(there[layer], X, atol=1e-6)


def test_the_tracked_sample(tiny_bert: str, tags: Any) -> None:
    def vectors(device: str) -> Numbers:
        encoder = loaded(tiny_bert, device)
        sample = Sample.of(load_task(tags, "dev"), encoder, unit="words", size=12, seed=0)
        with torch.no_grad():
            return {str(layer): X for layer, X in sample.vectors(encoder.module).items()}

    here, there = on_both(vectors)
    for layer, X in here.items():
        np.testing.assert_allclose(there[layer], X, atol=1e-6)


@pytest.mark.parametrize("method", ["plain", "isobn", "cosreg", "istar"])
def test_losses_and_gradients(tiny_bert: str, moods: Any, method: str) -> None:
    def gradients(device: str) -> Numbers:
        encoder, train = loaded(tiny_bert, device), load_task(moods, "train")
        torch.manual_seed(0)
        model = LinearHead(encoder.module, 2)
        model.layer = IsoBN(32) if method == "isobn" else None
        model.penalty = {"cosreg": CosineRegulariser(), "istar": IStar(32)}.get(method)
        model.to(device).train()
        encoder.module.eval()  # without dropout, whose random numbers differ between devices
        dataset = TextDataset.of(encoder, text_inputs(train, "cls"), "cls", targets=np.array(train.label_ids(["bad", "good"])))
        if method == "istar":
            model.penalty.refresh(embed(model, dataset).vectors)
        batch = {name: tensor.to(device) for name, tensor in dataset.__getitems__(range(16)).items()}
        loss = model(**batch)["loss"]
        loss.backward()
        weights = {name: each.grad.cpu().numpy() for name, each in model.named_parameters() if each.grad is not None}
        return {"loss": loss.detach().cpu().numpy(), **weights}

    here, there = on_both(gradients)
    assert len(here) > 10
    for name, value in here.items():
        np.testing.assert_allclose(there[name], value, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("trains", ["layer", "joint"])
def test_an_isotropy_layer(tiny_bert: str, moods: Any, trains: Any) -> None:
    def layer(device: str) -> Numbers:
        encoder, train = loaded(tiny_bert, device), load_task(moods, "train")
        torch.manual_seed(0)
        model = LinearHead(encoder.module, 2)
        model.layer = IsotropyLayer(32)
        model.to(device)
        dataset = TextDataset.of(encoder, text_inputs(train, "cls"), "cls", targets=np.array(train.label_ids(["bad", "good"])))
        features = embed(model, dataset)
        settings = LayerSettings(learning_rate=1e-2, batch_size=16, epochs=2, trains=trains)
        train_layer(model, features, features, lambda labels, logits: -float(logits.square().mean()), settings)
        weight, bias = model.layer.affine()
        return {"weight": weight.detach().cpu().numpy(), "bias": bias.detach().cpu().numpy()}

    here, there = on_both(layer)
    assert np.abs(here["weight"] - np.eye(32)).max() > 1e-2
    for name, value in here.items():
        np.testing.assert_allclose(there[name], value, atol=1e-6)


def test_a_saved_classifier(plain_run: Any) -> None:
    def answers(device: str) -> Numbers:
        classifier = TunedClassifier.from_pretrained(plain_run / "model", device=device)
        texts = ["the dog is fine", "a grim cat"]
        return {"logits": classifier.logits(texts), "vectors": classifier.vectors(texts)}

    here, there = on_both(answers)
    for name, value in here.items():
        np.testing.assert_allclose(there[name], value, atol=1e-6)


def test_probes() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 250)
    data = Labelled((rng.standard_normal((3, 10))[y] + rng.standard_normal((250, 10))).astype(np.float32), y, np.arange(3))
    jobs = [Job((8, 6), 1e-2, 0, np.arange(250)), Job((4,), 1e-3, 1, np.arange(200))]

    def probabilities(device: str) -> Numbers:
        networks = train_batched(data, jobs, max_iter=12, device=device)
        return {str(number): network.log_probabilities(data.X) for number, network in enumerate(networks)}

    here, there = on_both(probabilities)
    for name, value in here.items():
        np.testing.assert_allclose(there[name], value, atol=1e-6)
