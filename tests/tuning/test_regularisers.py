"""IsoBN gives the published numbers, cosine regularisation and I-STAR are the metrics they minimise, and all act in training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")
pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra models is not installed")

from safetensors.torch import load_file  # noqa: E402

from theodolite.metrics.cosine import mean_cosine  # noqa: E402
from theodolite.metrics.isoscore import iso_score, iso_score_star  # noqa: E402
from theodolite.tasks import load_task  # noqa: E402
from theodolite.tuning import TunedClassifier, fine_tune  # noqa: E402
from theodolite.tuning.regularisers import CosineRegulariser, IsoBN, IStar  # noqa: E402
from theodolite.tuning.trainers import Diverged  # noqa: E402

Quick = Callable[..., Any]
METHODS = ("isobn", "cosreg", "istar")


def batches(count: int, n: int = 64, d: int = 6) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    mix = torch.randn(d, d, generator=random)
    return [torch.randn(n, d, generator=random) @ mix + 2 for _ in range(count)]


def by_hand(covariance: torch.Tensor, deviation: torch.Tensor, *, beta: float = 0.5, eps: float = 1e-3) -> list[float]:
    """The scale in plain loops."""
    d = len(deviation)
    scales = []
    for i in range(d):
        gamma = sum(
            min(1.0, max(-1.0, float(covariance[i, j]) / (float(deviation[i]) * float(deviation[j])))) ** 2 for j in range(d)
        )
        scales.append((gamma / d * float(deviation[i]) + eps) ** -beta)
    total = sum(float(covariance[i, i]) for i in range(d))
    scaled = sum(float(covariance[i, i]) * scales[i] ** 2 for i in range(d))
    return [scale * (total / (scaled + eps)) ** 0.5 for scale in scales]


def test_the_published_program(reference: Path) -> None:
    with np.load(reference / "isotropy" / "inputs.npz") as inputs, np.load(reference / "isotropy" / "transforms.npz") as known:
        X = torch.from_numpy(inputs["plaw_1500x64"].astype(np.float32))
        isobn = IsoBN(64, published=True)
        for step, rows in enumerate(X[:1024].split(32)):
            made = isobn(rows).numpy()
            np.testing.assert_allclose(made, known["isobn_train_outputs_32x32x64"][step], atol=1e-6, err_msg=f"step {step}")
        np.testing.assert_allclose(isobn.covariance.numpy(), known["isobn_cov_after32"], atol=1e-6)
        np.testing.assert_allclose(isobn.deviation.numpy(), known["isobn_std_after32"], atol=1e-6)
        np.testing.assert_allclose(isobn.eval()(X[1024:1056]).numpy(), known["isobn_eval_output"], atol=1e-6)


def test_the_first_batch_alone_is_the_formula_on_its_own_moments() -> None:
    [X] = batches(1)
    covariance, deviation = torch.cov(X.T, correction=0), X.std(0, correction=0)
    assert (IsoBN(6)(X) / X)[0].tolist() == pytest.approx(by_hand(covariance, deviation), rel=1e-4)
    cold = IsoBN(6, published=True)
    assert (cold(X) / X)[0].tolist() == pytest.approx(by_hand(0.05 * covariance, 0.05 * deviation), rel=1e-4)


def test_with_correction_averages_of_equal_batches_are_that_batch() -> None:
    [X] = batches(1)
    once, often = IsoBN(6), IsoBN(6)
    once(X)
    for _ in range(20):
        often(X)
    torch.testing.assert_close(once.scale(), often.scale())
    published = IsoBN(6, published=True)
    published(X)
    assert not torch.allclose(published.scale(), once.scale(), rtol=0.05)


def test_both_modes_meet_after_many_steps() -> None:
    corrected, published = IsoBN(6), IsoBN(6, published=True)
    for X in batches(400):
        corrected(X)
        published(X)
    torch.testing.assert_close(corrected.scale(), published.scale(), rtol=1e-4, atol=1e-5)


def test_the_total_variance_stays_and_evens_out() -> None:
    isobn = IsoBN(6, momentum=1.0)
    [X] = batches(1, n=500)
    made = isobn(X)
    before, after = X.var(0, correction=0), made.var(0, correction=0)
    assert float(after.sum()) == pytest.approx(float(before.sum()), rel=1e-3)
    assert float(after.max() / after.min()) < float(before.max() / before.min())


def test_evaluation_uses_the_averages_and_leaves_them() -> None:
    isobn = IsoBN(6)
    first, second = batches(2)
    isobn(first)
    scale = isobn.scale()
    isobn.eval()
    torch.testing.assert_close(isobn(5 * second), 5 * second * scale)
    assert torch.equal(isobn.scale(), scale)


@pytest.mark.parametrize("published", [False, True])
def test_the_averages_are_saved_with_the_model(published: bool) -> None:
    isobn, again = IsoBN(6, published=published), IsoBN(6, published=published)
    *earlier, new = batches(4)
    for X in earlier:
        isobn(X)
    assert set(isobn.state_dict()) == {"covariance", "deviation", "steps"}
    again.load_state_dict(isobn.state_dict())
    assert torch.equal(again(new), isobn(new))


def test_no_gradient_goes_through_the_scale() -> None:
    isobn = IsoBN(6)
    X = batches(1)[0].requires_grad_()
    isobn(X).sum().backward()
    torch.testing.assert_close(X.grad, isobn.scale().expand_as(X))


@pytest.mark.parametrize("published", [False, True])
def test_before_the_first_batch_nothing_is_scaled(published: bool) -> None:
    [X] = batches(1)
    assert torch.equal(IsoBN(6, published=published).eval()(X), X)


def test_one_row_leaves_the_averages_as_they_are() -> None:
    isobn = IsoBN(6)
    [X] = batches(1)
    isobn(X)
    scale = isobn.scale()
    torch.testing.assert_close(isobn(X[:1]), X[:1] * scale)
    assert int(isobn.steps) == 1


def test_a_dimension_without_variance_is_finite() -> None:
    [X] = batches(1)
    X[:, 2] = 1
    assert IsoBN(6)(X).isfinite().all()


def test_a_wrong_batch_of_isobn_is_an_error_that_names_the_shape() -> None:
    with pytest.raises(ValueError, match=r"shape \(4, 5\); this IsoBN takes \(rows, 6\)"):
        IsoBN(6)(torch.ones(4, 5))
    with pytest.raises(ValueError, match="momentum=0"):
        IsoBN(6, momentum=0)


def cloud(n: int = 60, d: int = 8, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=random, dtype=torch.float64) * torch.arange(1, d + 1) + 2


def test_the_cosine_penalty_is_gamma_times_the_mean_over_all_pairs() -> None:
    X = cloud()
    U = X / X.norm(dim=1, keepdim=True)
    cosines = U @ U.T
    obvious = (cosines.sum() - cosines.trace()) / (60 * 59)
    assert float(CosineRegulariser()(X)) == pytest.approx(float(obvious), rel=1e-12)
    assert float(CosineRegulariser()(X)) == pytest.approx(mean_cosine(X.numpy()), rel=1e-12)
    assert float(CosineRegulariser(gamma=0.3)(X)) == pytest.approx(0.3 * float(obvious), rel=1e-12)


def test_the_extremes_of_the_cosine() -> None:
    same = torch.ones(5, 3) * torch.arange(1, 6).unsqueeze(1)
    assert float(CosineRegulariser()(same)) == pytest.approx(1)
    assert float(CosineRegulariser()(torch.tensor([[1.0, 0], [-2.0, 0]]))) == pytest.approx(-1)
    assert float(CosineRegulariser()(torch.eye(4))) == pytest.approx(0)


def test_zero_rows_are_left_out_with_a_finite_gradient() -> None:
    X = torch.cat([cloud(9), torch.zeros(2, 8, dtype=torch.float64)]).requires_grad_()
    value = CosineRegulariser()(X)
    assert value.item() == pytest.approx(float(CosineRegulariser()(cloud(9))), rel=1e-12)
    value.backward()
    assert X.grad.isfinite().all()
    assert torch.equal(X.grad[9:], torch.zeros(2, 8, dtype=torch.float64))


def test_gradcheck_of_the_cosine() -> None:
    assert torch.autograd.gradcheck(CosineRegulariser(), cloud(5, 4).requires_grad_())


@pytest.mark.parametrize("X", [torch.ones(1, 4), torch.zeros(5, 4)])
def test_a_batch_without_pairs_is_an_error(X: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="has no pair"):
        CosineRegulariser()(X)


def test_istar_is_one_minus_the_score_with_the_samples_covariance() -> None:
    X, sample = cloud(20), cloud(500, seed=1)
    istar = IStar(8, strength=2.5).double()
    istar.refresh(sample)
    C0 = torch.cov(sample.T)
    torch.testing.assert_close(istar.reference, C0)
    assert float(istar(X)) == pytest.approx(2.5 * (1 - iso_score_star(X.numpy(), C0.numpy(), zeta=0.2)), rel=1e-12)


def test_a_sample_may_be_a_tensor_of_any_precision_or_an_array() -> None:
    sample = cloud(300)
    references = []
    for given in (sample, sample.numpy(), sample.float(), sample.bfloat16()):
        istar = IStar(8)
        istar.refresh(given)
        references.append(istar.reference)
    for reference in references[1:]:
        torch.testing.assert_close(reference, references[0], rtol=0.05, atol=0.2)
    assert torch.equal(references[0], references[1])


def test_a_new_sample_replaces_the_old_and_is_saved() -> None:
    istar = IStar(8)
    istar.refresh(cloud(300, seed=1))
    istar.refresh(cloud(300, seed=2))
    again = IStar(8)
    again.load_state_dict(istar.state_dict())
    assert float(again(cloud(20))) == float(istar(cloud(20)))
    torch.testing.assert_close(again.reference, torch.cov(cloud(300, seed=2).T).float())


def test_going_down_raises_isotropy_and_a_negative_strength_lowers_it() -> None:
    def trained(strength: float) -> float:
        X = cloud(100).requires_grad_()
        istar = IStar(8, strength=strength)
        descent = torch.optim.Adam([X], lr=0.1)
        for _ in range(60):
            istar.refresh(X)
            descent.zero_grad()
            istar(X).backward()
            descent.step()
        return float(iso_score(X.detach().numpy()))

    assert trained(-1.0) < iso_score(cloud(100).numpy()) - 0.05 < trained(1.0) - 0.1


def test_istar_without_c0_or_of_another_width_is_an_error() -> None:
    with pytest.raises(ValueError, match="call refresh"):
        IStar(8)(cloud(20))
    with pytest.raises(ValueError, match="the sample has 5 dimensions; this I-STAR takes 8"):
        IStar(8).refresh(cloud(20, 5))
    with pytest.raises(ValueError, match="zeta=-1"):
        IStar(8, zeta=-1)


def value(tuned: Any, metric: str, state: str) -> float:
    return next(row.value for row in tuned.rows if row.metric == metric and row.state == state and row.split == "dev")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_task_is_learnt_with_every_method_and_the_saved_model_gives_its_numbers(
    quick: Quick, moods: Any, method: str
) -> None:
    tuned = fine_tune(quick(moods, epochs=6, method=method, strength=None if method == "isobn" else 0.1))
    assert tuned.after >= 0.9 > tuned.before
    loaded = TunedClassifier.from_pretrained(tuned.model_folder)
    dev = load_task(moods, "dev")
    assert np.mean(np.array(loaded.predict(dev.texts)) == np.array(dev.labels)) == tuned.after
    X = loaded.vectors(dev.texts)
    assert iso_score(X) == pytest.approx(value(tuned, "iso_score", "fine-tuned"), rel=1e-4)
    assert (tuned.model_folder / "layer.json").exists() == (method == "isobn")
    assert {row.setting for row in tuned.rows if row.metric == "ev_20" and row.state == "fine-tuned"} == {
        "isobn" if method == "isobn" else f"{method} strength=0.1"
    }


@pytest.mark.slow
def test_a_penalty_of_no_weight_changes_nothing(quick: Quick, moods: Any, tmp_path: Path) -> None:
    runs = [
        fine_tune(quick(moods, epochs=1, output=str(tmp_path / name), **options))
        for name, options in (
            ("plain", {}),
            ("cosreg", {"method": "cosreg", "strength": 0.0}),
            ("istar", {"method": "istar", "strength": 0.0}),
        )
    ]
    weights = [load_file(run.model_folder / "model.safetensors") for run in runs]
    for other in weights[1:]:
        assert all(torch.equal(weights[0][name], other[name]) for name in weights[0])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["isobn", "istar"])
def test_an_interrupted_run_ends_with_the_same_weights(quick: Quick, moods: Any, tmp_path: Path, method: str) -> None:
    options = {"method": method, "save_steps": 4, "epochs": 2}
    whole = fine_tune(quick(moods, output=str(tmp_path / "whole"), **options))
    settings = quick(moods, output=str(tmp_path / "cut"), **options)
    steps: list[int] = []

    def stop(done: int, _: int) -> None:
        steps.append(done)
        if done == 10:  # inside the second epoch
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(settings, progress=stop)
    again = fine_tune(settings)
    for name in ("model", "head", *(["layer"] if method == "isobn" else [])):
        first, second = (load_file(run.model_folder / f"{name}.safetensors") for run in (whole, again))
        assert all(torch.equal(first[key], second[key]) for key in first)


def test_the_last_batch_may_be_a_single_row(quick: Quick, moods: Any) -> None:
    tuned = fine_tune(quick(moods, train_rows=33, epochs=1, batch_size=16, method="cosreg"))
    assert tuned.steps == 3


def test_a_diverging_method_leaves_no_model(quick: Quick, moods: Any) -> None:
    settings = quick(moods, method="cosreg", strength=1e308)
    with pytest.raises(Diverged, match="learning rate"):
        fine_tune(settings)
    assert not (Path(settings.output) / "model").exists()
    assert not (Path(settings.output) / "result.json").exists()


def test_isobn_at_its_published_place(quick: Quick, moods: Any) -> None:
    """[CLS] through the encoder's own pooler, then IsoBN, then dropout and the head; the folder loads back as it was."""
    tuned = fine_tune(quick(moods, epochs=1, method="isobn", published=True, pooler=True, validation=0.0, patience=None))
    classifier = TunedClassifier.from_pretrained(tuned.model_folder)
    model, texts = classifier.model, ["the dog sees a cat .", "a song ."]
    assert model.dropout.p == 0.1 and isinstance(model.layer, IsoBN) and model.pooler is not None
    with torch.no_grad():
        coded = classifier.encoder.tokenizer(texts, padding=True, return_tensors="pt")
        pooled = model.pooler(model.encoder(**coded).last_hidden_state[:, 0])
        expected = model.head(pooled * model.layer.scale())
    assert float(pooled.abs().max()) <= 1  # tanh
    np.testing.assert_allclose(classifier.logits(texts), expected.numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="pooler is for"):
        quick(moods, method="isolayer", pooler=True, validation=0.3)
