"""The balance of two losses: eq. 3 of IL23, worked out by hand."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")

from theodolite.tuning.balance import LIMIT, Balance, JointLoss  # noqa: E402
from theodolite.tuning.isoscore_loss import isotropy_loss  # noqa: E402


def pair(first: float, second: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(first, requires_grad=True), torch.tensor(second, requires_grad=True)


def test_three_steps_as_equation_3_says() -> None:
    balance = Balance()
    assert balance.weights() == (0.5, 0.5)
    # k = 0: the averages are the losses, 1 and 4, and their mean 2.5; both scaled losses are 2.5.
    assert balance(*pair(1.0, 4.0)).item() == pytest.approx(2.5)
    assert balance.means.tolist() == [1.0, 4.0]
    assert balance.weights() == pytest.approx((0.5 * 2.5 / 1, 0.5 * 2.5 / 4))
    # k = 1: scaled by the old averages; then each moves by s/2 = 0.075 of its way.
    assert balance(*pair(2.0, 2.0)).item() == pytest.approx(0.5 * (2 * 2.5 / 1 + 2 * 2.5 / 4))
    assert balance.means.tolist() == pytest.approx([1.075, 3.85])
    # k = 2: s/3 = 0.05.
    mean = (1.075 + 3.85) / 2
    assert balance.weights() == pytest.approx((0.5 * mean / 1.075, 0.5 * mean / 3.85))
    assert balance(*pair(3.0, 0.0)).item() == pytest.approx(0.5 * 3 * mean / 1.075)
    assert balance.means.tolist() == pytest.approx([1.075 * 0.95 + 3 * 0.05, 3.85 * 0.95])


def test_the_gradient_is_the_weights() -> None:
    balance = Balance(alpha=0.3)
    balance(*pair(1.0, 4.0))
    weights, (first, second) = balance.weights(), pair(7.0, 5.0)
    balance(first, second).backward()
    assert (float(first.grad), float(second.grad)) == pytest.approx(weights)
    assert weights == pytest.approx((0.3 * 2.5, 0.7 * 2.5 / 4))


@pytest.mark.parametrize(("alpha", "total"), [(0.0, 4.0), (0.25, 3.25), (1.0, 1.0)])
def test_unbalanced_is_equation_2(alpha: float, total: float) -> None:
    balance = Balance(alpha=alpha, balanced=False)
    for _ in range(3):
        assert balance(*pair(1.0, 4.0)).item() == pytest.approx(total)
    assert balance.weights() == (alpha, 1 - alpha)


def test_averages_that_start_at_one() -> None:
    balance = Balance(initial="ones")
    assert balance(*pair(1.0, 4.0)).item() == pytest.approx(2.5)
    assert balance.means.tolist() == pytest.approx([1.0, 0.85 + 0.15 * 4])


def test_update_before_use() -> None:
    balance = Balance(initial="ones", update="before")
    mean = (1.0 + 1.45) / 2
    assert balance(*pair(1.0, 4.0)).item() == pytest.approx(0.5 * (1 * mean / 1 + 4 * mean / 1.45))
    assert balance.means.tolist() == pytest.approx([1.0, 1.45])


def test_a_gradient_through_the_averages_where_it_is_asked_for() -> None:
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


def test_a_balance_is_continued_where_it_was_saved() -> None:
    whole, first, second = Balance(), Balance(), Balance()
    losses = [(1.0, 4.0), (2.0, 2.0), (0.5, 3.0), (4.0, 1.0)]
    expected = [whole(*pair(*each)).item() for each in losses]
    begun = [first(*pair(*each)).item() for each in losses[:2]]
    second.load_state_dict(first.state_dict())
    assert begun + [second(*pair(*each)).item() for each in losses[2:]] == expected


def test_a_loss_of_zero_gets_a_large_but_finite_weight() -> None:
    balance = Balance()
    assert balance(*pair(1.0, 0.0)).item() == pytest.approx(0.5 * 0.5)
    assert balance.weights() == pytest.approx((0.25, 0.5 * LIMIT))
    nothing = Balance()
    nothing(*pair(0.0, 0.0))
    assert nothing.weights() == (0.5, 0.5)


@pytest.mark.parametrize("corrected", [False, True])
def test_the_joint_loss_is_the_balance_of_both(corrected: bool) -> None:
    X = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 7)
    task = torch.tensor(0.7)
    joint = JointLoss(Balance(alpha=0.2, balanced=False), corrected=corrected)(task, X)
    assert joint.dtype == torch.float32
    assert float(joint) == pytest.approx(0.2 * 0.7 + 0.8 * float(isotropy_loss(X, corrected=corrected)), rel=1e-6)
    assert set(JointLoss().state_dict()) == {"balance.means", "balance.iteration"}


@pytest.mark.parametrize("option", [{"alpha": 1.2}, {"smoothing": -0.1}, {"initial": "zero"}, {"update": "never"}])
def test_wrong_options_are_errors_that_name_the_value(option: dict[str, object]) -> None:
    [(name, value)] = option.items()
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        Balance(**option)
