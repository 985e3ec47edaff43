"""IsoBN: the published program's numbers, and what is different without its cold start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")

from theodolite.tuning.isobn import IsoBN  # noqa: E402


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
def test_state_is_saved_with_the_model(published: bool) -> None:
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


def test_wrong_input_is_an_error_that_names_the_shape() -> None:
    with pytest.raises(ValueError, match=r"shape \(4, 5\); this IsoBN takes \(rows, 6\)"):
        IsoBN(6)(torch.ones(4, 5))
    with pytest.raises(ValueError, match="momentum=0"):
        IsoBN(6, momentum=0)
