"""IsoScore as a loss (the metric's value, a right and finite gradient) and its balance with a task's loss (IL23, eq. 3)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")

from theodolite.core.moments import Moments  # noqa: E402
from theodolite.metrics import isoscore as metric  # noqa: E402
from theodolite.tuning.regularisers import (  # noqa: E402
    FLOOR,
    LIMIT,
    Balance,
    CeilingWarning,
    JointLoss,
    iso_score,
    iso_score_star,
    isotropy_loss,
)

SHAPES = [(200, 12), (13, 12), (12, 12), (9, 30), (3, 5)]


def cloud(n: int, d: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    spread = torch.arange(1, d + 1, dtype=torch.float64) ** -0.7
    return torch.randn(n, d, generator=random, dtype=torch.float64) * spread + 3


def rotation(d: int) -> torch.Tensor:
    return torch.linalg.qr(cloud(d, d, seed=7))[0]


def by_eigenvalues(X: torch.Tensor) -> torch.Tensor:
    """The slow and obvious way: the eigenvalues of the covariance, through autograd."""
    eigenvalues = torch.linalg.svdvals(X - X.mean(0)).square()
    return (eigenvalues.sum() ** 2 / eigenvalues.square().sum() - 1) / (X.shape[1] - 1)


def gradient(score: Callable[[torch.Tensor], torch.Tensor], X: torch.Tensor) -> torch.Tensor:
    X = X.clone().requires_grad_()
    score(X).backward()
    assert X.grad is not None
    return X.grad


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_the_values_are_the_metrics(n: int, d: int) -> None:
    X = cloud(n, d)
    assert float(iso_score(X)) == pytest.approx(metric.iso_score(X.numpy()), rel=1e-12)
    C0 = Moments.of(cloud(500, d, seed=1).numpy()).covariance()
    for zeta in (0.0, 0.2, 1.0):
        known = metric.iso_score_star(X.numpy(), C0, zeta=zeta)
        assert float(iso_score_star(X, torch.from_numpy(C0), zeta=zeta)) == pytest.approx(known, rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(200, 12), (13, 12), (20, 40)])
def test_the_corrected_value_is_the_metrics_while_that_is_below_one(n: int, d: int) -> None:
    X = cloud(n, d)
    known = metric.iso_score_corrected(X.numpy())
    assert 0 < known < 1
    assert float(iso_score(X, corrected=True)) == pytest.approx(known, rel=1e-12)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_shift_scale_and_rotation_change_nothing(n: int, d: int, corrected: bool) -> None:
    X = cloud(n, d)
    moved = -40 * X @ rotation(d) + torch.linspace(-5, 5, d)
    assert float(iso_score(moved, corrected=corrected)) == pytest.approx(float(iso_score(X, corrected=corrected)), rel=1e-10)


def test_iso_score_star_does_change_with_the_scale() -> None:
    X, C0 = cloud(50, 6), torch.eye(6)
    assert float(iso_score_star(2 * X, C0)) < float(iso_score_star(X, C0)) - 1e-3


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30])
def test_no_scale_is_too_small_or_too_large(scale: float) -> None:
    X = cloud(20, 4)
    assert float(iso_score(X * scale)) == pytest.approx(float(iso_score(X)), rel=1e-10)
    torch.testing.assert_close(gradient(iso_score, X * scale) * scale, gradient(iso_score, X))


@pytest.mark.parametrize(("n", "d"), [(8, 5), (4, 6)])
def test_gradcheck(n: int, d: int) -> None:
    X = cloud(n, d).requires_grad_()
    C0 = torch.cov(cloud(50, d, seed=1).T)
    assert torch.autograd.gradcheck(iso_score, X)
    assert torch.autograd.gradcheck(lambda x: iso_score(x, corrected=True), X)
    assert torch.autograd.gradcheck(lambda x: iso_score_star(x, C0), X)
    assert torch.autograd.gradcheck(lambda x: isotropy_loss(x, corrected=True), X)


@pytest.mark.parametrize(("n", "d"), [(200, 12), (9, 30)])
def test_value_and_gradient_are_those_of_the_singular_values(n: int, d: int) -> None:
    X = cloud(n, d)
    assert float(iso_score(X)) == pytest.approx(float(by_eigenvalues(X)), rel=1e-12)
    torch.testing.assert_close(gradient(iso_score, X), gradient(by_eigenvalues, X), rtol=1e-9, atol=1e-12)


def test_float32_rows_far_from_zero_keep_their_score_and_gradient() -> None:
    X = torch.randn(64, 16, generator=torch.Generator().manual_seed(0)) + 1000
    exact = X.double()
    score = iso_score(X)
    assert score.dtype == torch.float64
    assert float(score) == pytest.approx(float(iso_score(exact)), rel=1e-12)
    torch.testing.assert_close(gradient(iso_score, X).double(), gradient(iso_score, exact), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("corrected", [False, True])
def test_at_exact_isotropy_the_loss_is_zero_and_flat(corrected: bool) -> None:
    X = torch.cat([torch.eye(6), -torch.eye(6)]).double()
    assert float(isotropy_loss(X, corrected=corrected)) == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(gradient(lambda x: isotropy_loss(x, corrected=corrected), X), torch.zeros_like(X))
    # The eigenvalues all coincide here, so that eigenvectors, and gradients through them, have no meaning.
    assert float(by_eigenvalues(X)) == pytest.approx(1)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_variance_the_loss_is_at_its_floor_and_flat(value: float, corrected: bool, dtype: torch.dtype) -> None:
    X = torch.full((40, 5), value, dtype=dtype) * torch.tensor([1, -2, 3, 0.3, 0.7], dtype=dtype)
    assert float(isotropy_loss(X, corrected=corrected)) == pytest.approx(math.log(1 / FLOOR))
    assert torch.equal(gradient(lambda x: isotropy_loss(x, corrected=corrected), X), torch.zeros_like(X))
    assert float(iso_score_star(X, torch.zeros(5, 5))) == 0


def test_a_line_is_at_the_floor_with_a_finite_gradient() -> None:
    X = torch.outer(torch.arange(9.0), torch.tensor([1.0, 2.0, -1.0]))
    assert float(isotropy_loss(X)) == pytest.approx(math.log(1 / FLOOR))
    assert gradient(isotropy_loss, X).isfinite().all()


@pytest.mark.parametrize("n", [3, 8, 32])
def test_fewer_rows_than_dimensions_give_a_finite_gradient_that_points_up(n: int) -> None:
    X = cloud(n, 64)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return -iso_score(x).log()

    slope = gradient(loss, X)
    assert slope.isfinite().all()
    assert float(loss(X - 1e-3 * slope)) < float(loss(X))
    assert gradient(lambda x: isotropy_loss(x, corrected=True), X).isfinite().all()


def test_the_plain_score_reaches_its_ceiling_and_the_corrected_one_is_held_at_one() -> None:
    regular = rotation(20)[:8]  # a regular simplex: all of its n - 1 directions are alike
    assert float(iso_score(regular)) == pytest.approx((8 - 2) / (20 - 1), rel=1e-12)
    assert float(iso_score(cloud(8, 20))) < (8 - 2) / (20 - 1)
    assert float(iso_score(regular, corrected=True)) == 1
    assert torch.equal(gradient(lambda x: iso_score(x, corrected=True), regular), torch.zeros_like(regular))


def test_the_correction_takes_the_bias_away() -> None:
    random = torch.Generator().manual_seed(3)
    batches = [torch.randn(32, 256, generator=random) @ torch.diag(torch.linspace(0.2, 2, 256)) for _ in range(40)]
    spread = torch.linspace(0.2, 2, 256).square()
    truth = float((spread.sum() ** 2 / spread.square().sum() - 1) / 255)
    plain = np.mean([float(iso_score(X)) for X in batches])
    corrected = np.mean([float(iso_score(X, corrected=True)) for X in batches])
    assert plain < 0.2 * truth
    assert corrected == pytest.approx(truth, rel=0.05)


def test_going_down_the_loss_makes_a_cloud_isotropic() -> None:
    X = cloud(200, 8).requires_grad_()
    descent = torch.optim.Adam([X], lr=0.05)
    for _ in range(200):
        descent.zero_grad()
        isotropy_loss(X).backward()
        descent.step()
    assert metric.iso_score(X.detach().numpy()) > 0.99


def test_nan_stays_nan() -> None:
    X = cloud(20, 4)
    X[3, 2] = torch.nan
    assert math.isnan(float(isotropy_loss(X)))


def test_a_small_batch_is_warned_of_by_its_ceiling() -> None:
    with pytest.warns(CeilingWarning, match=r"32 rows in 768 dimensions .* = 0\.0391: pass corrected=True"):
        isotropy_loss(torch.randn(32, 768, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (torch.ones(1, 4), "a batch of 1 row has no covariance"),
        (torch.ones(0, 4), "a batch of 0 rows"),
        (torch.ones(4, 1), "one dimension"),
        (torch.ones(2, 3, 4), r"shape \(2, 3, 4\)"),
    ],
)
def test_what_has_no_score_is_an_error(X: torch.Tensor, message: str) -> None:
    for score in (iso_score, isotropy_loss, lambda x: iso_score_star(x, torch.eye(4))):
        with pytest.raises(ValueError, match=message):
            score(X)


def test_wrong_options_of_the_scores_are_errors() -> None:
    with pytest.raises(ValueError, match="at least 3 rows, but the batch has 2"):
        iso_score(torch.eye(2), corrected=True)
    with pytest.raises(ValueError, match=r"C0 must be \(4, 4\)"):
        iso_score_star(cloud(9, 4), torch.eye(3))
    with pytest.raises(ValueError, match=r"zeta=1\.5"):
        iso_score_star(cloud(9, 4), torch.eye(4), zeta=1.5)


def test_the_published_values_and_gradients(reference: Path) -> None:
    with np.load(reference / "isotropy" / "inputs.npz") as inputs, np.load(reference / "isotropy" / "transforms.npz") as known:
        X = torch.from_numpy(inputs["deficient_40x96"])
        C0 = torch.eye(96, dtype=torch.float64)
        # The authors' own value is 1e-8 away from the closed form in float64.
        assert float(iso_score_star(X, C0)) == pytest.approx(float(known["istar_val"]), rel=1e-7)
        for zeta, field in ((0.2, "istar_grad_C0=I_z0.2_deficient_40x96"), (0.0, "istar_grad_z0_deficient_40x96")):
            ours = gradient(lambda x, zeta=zeta: iso_score_star(x, C0, zeta=zeta), X).numpy()
            published = known[field]
            assert np.linalg.norm(ours - published) / np.linalg.norm(published) < 1e-7, field


def pair(first: float, second: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(first, requires_grad=True), torch.tensor(second, requires_grad=True)


def weights_of(balance: Balance) -> tuple[float, float]:
    """What the next losses are multiplied by, α included: the gradient of the sum, which moves no average."""
    first, second = pair(1.0, 1.0)
    copy.deepcopy(balance).eval()(first, second).backward()
    return float(first.grad), float(second.grad)


def test_three_steps_as_equation_3_says() -> None:
    balance = Balance()
    assert weights_of(balance) == (0.5, 0.5)
    # k = 0: the averages are the losses, 1 and 4, and their mean 2.5; both scaled losses are 2.5.
    assert balance(*pair(1.0, 4.0)).item() == pytest.approx(2.5)
    assert balance.means.tolist() == [1.0, 4.0]
    assert weights_of(balance) == pytest.approx((0.5 * 2.5 / 1, 0.5 * 2.5 / 4))
    # k = 1: scaled by the old averages; then each moves by s/2 = 0.075 of its way.
    assert balance(*pair(2.0, 2.0)).item() == pytest.approx(0.5 * (2 * 2.5 / 1 + 2 * 2.5 / 4))
    assert balance.means.tolist() == pytest.approx([1.075, 3.85])
    # k = 2: s/3 = 0.05.
    mean = (1.075 + 3.85) / 2
    assert weights_of(balance) == pytest.approx((0.5 * mean / 1.075, 0.5 * mean / 3.85))
    assert balance(*pair(3.0, 0.0)).item() == pytest.approx(0.5 * 3 * mean / 1.075)
    assert balance.means.tolist() == pytest.approx([1.075 * 0.95 + 3 * 0.05, 3.85 * 0.95])


def test_the_gradient_is_the_weights() -> None:
    balance = Balance(alpha=0.3)
    balance(*pair(1.0, 4.0))
    weights, (first, second) = weights_of(balance), pair(7.0, 5.0)
    balance(first, second).backward()
    assert (float(first.grad), float(second.grad)) == pytest.approx(weights)
    assert weights == pytest.approx((0.3 * 2.5, 0.7 * 2.5 / 4))


@pytest.mark.parametrize(("alpha", "total"), [(0.0, 4.0), (0.25, 3.25), (1.0, 1.0)])
def test_unbalanced_is_equation_2(alpha: float, total: float) -> None:
    balance = Balance(alpha=alpha, balanced=False)
    for _ in range(3):
        assert balance(*pair(1.0, 4.0)).item() == pytest.approx(total)
    assert weights_of(balance) == (alpha, 1 - alpha)


def test_averages_that_start_at_one() -> None:
    balance = Balance(initial="ones")
    assert balance(*pair(1.0, 4.0)).item() == pytest.approx(2.5)
    assert balance.means.tolist() == pytest.approx([1.0, 0.85 + 0.15 * 4])


def test_update_before_use() -> None:
    balance = Balance(initial="ones", update="before")
    mean = (1.0 + 1.45) / 2
    assert balance(*pair(1.0, 4.0)).item() == pytest.approx(0.5 * (1 * mean / 1 + 4 * mean / 1.45))
    assert balance.means.tolist() == pytest.approx([1.0, 1.45])


def test_a_gradient_through_the_averages_if_they_are_not_detached() -> None:
    def slope(**options: object) -> float:
        first, second = pair(1.0, 4.0)
        Balance(initial="ones", update="before", **options)(first, second).backward()
        return float(second.grad)

    mean = 1.225
    assert slope() == pytest.approx(0.5 * mean / 1.45)

    def total(second: float) -> float:
        mine = 0.85 + 0.15 * second
        middle = (1 + mine) / 2
        return 0.5 * (middle + second * middle / mine)

    assert slope(detach=False) == pytest.approx((total(4.001) - total(3.999)) / 0.002, rel=1e-4)


def test_evaluation_moves_nothing() -> None:
    balance = Balance()
    balance(*pair(1.0, 4.0))
    balance.eval()
    before = {name: value.clone() for name, value in balance.state_dict().items()}
    balance(*pair(9.0, 9.0))
    assert all(torch.equal(before[name], value) for name, value in balance.state_dict().items())


def test_a_saved_balance_continues_as_if_it_had_not_been() -> None:
    whole, first, second = Balance(), Balance(), Balance()
    losses = [(1.0, 4.0), (2.0, 2.0), (0.5, 3.0), (4.0, 1.0)]
    expected = [whole(*pair(*each)).item() for each in losses]
    begun = [first(*pair(*each)).item() for each in losses[:2]]
    second.load_state_dict(first.state_dict())
    assert begun + [second(*pair(*each)).item() for each in losses[2:]] == expected


def test_a_loss_of_zero_gets_a_large_but_finite_weight() -> None:
    balance = Balance()
    assert balance(*pair(1.0, 0.0)).item() == pytest.approx(0.5 * 0.5)
    assert weights_of(balance) == pytest.approx((0.25, 0.5 * LIMIT))
    nothing = Balance()
    nothing(*pair(0.0, 0.0))
    assert weights_of(nothing) == (0.5, 0.5)


@pytest.mark.parametrize("corrected", [False, True])
def test_the_joint_loss_is_the_balance_of_both(corrected: bool) -> None:
    X = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 7)
    task = torch.tensor(0.7)
    joint = JointLoss(Balance(alpha=0.2, balanced=False), corrected=corrected)(task, X)
    assert joint.dtype == torch.float32
    assert float(joint) == pytest.approx(0.2 * 0.7 + 0.8 * float(isotropy_loss(X, corrected=corrected)), rel=1e-6)
    assert set(JointLoss().state_dict()) == {"balance.means", "balance.iteration"}


@pytest.mark.parametrize("option", [{"alpha": 1.2}, {"smoothing": -0.1}, {"initial": "zero"}, {"update": "never"}])
def test_wrong_options_of_the_balance_are_errors_that_name_the_value(option: dict[str, object]) -> None:
    [(name, value)] = option.items()
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        Balance(**option)
