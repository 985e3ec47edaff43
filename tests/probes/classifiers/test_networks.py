"""Many networks trained as one give what each gives alone, and what scikit-learn gives from the same seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from theodolite.probes.classifiers.networks import Job, Network, _Batch, train_batched, train_one_by_one  # noqa: E402
from theodolite.probes.label_codes import Labelled  # noqa: E402

CLASSES = 5


@pytest.fixture(scope="module")
def blobs() -> Labelled:
    """450 rows, so that the last mini-batch of an epoch is a short one."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, 450)
    X = (rng.standard_normal((CLASSES, 20))[y] + rng.standard_normal((450, 20))).astype(np.float32)
    return Labelled(X, y, np.arange(CLASSES))


def apart(first: Network, second: Network) -> float:
    """Largest difference of any weight or bias."""
    pairs = zip((*first.weights, *first.biases), (*second.weights, *second.biases), strict=True)
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def some_jobs(n: int) -> list[Job]:
    everything, half = np.arange(n), np.arange(n // 2)
    return [
        *(Job((8, 6), alpha, 0, everything) for alpha in (1e-7, 1e-2, 1.0)),
        Job((8, 6), 1e-2, 1, everything),
        Job((4, 8), 1e-3, 0, everything),
        Job((8, 6), 1e-2, 0, half),
        Job((8, 6), 1e-2, 0, half + n // 2),
        Job((7,), 1e-2, 0, half),
        Job((), 1e-2, 2, everything),
    ]


def test_training_together_is_training_alone(blobs: Labelled) -> None:
    jobs = some_jobs(len(blobs.X))
    together = train_batched(blobs, jobs, max_iter=15)
    alone = [train_batched(blobs, [job], max_iter=15)[0] for job in jobs]
    assert max(map(apart, together, alone)) < 1e-5


def test_every_step_is_scikit_learns(blobs: Labelled) -> None:
    jobs = some_jobs(len(blobs.X))
    for epochs in (1, 15):
        ours = train_batched(blobs, jobs, max_iter=epochs)
        theirs = train_one_by_one(blobs, jobs, max_iter=epochs)
        assert max(map(apart, ours, theirs)) < 1e-5
        assert {network.epochs for network in (*ours, *theirs)} == {epochs}


def test_two_classes_have_one_output_as_in_scikit_learn(blobs: Labelled) -> None:
    X, data = blobs.X, Labelled(blobs.X, (blobs.codes > 1).astype(np.intp), np.arange(2))
    job = [Job((8, 6), 1e-2, 3, np.arange(len(X)))]
    (ours,), (theirs,) = (train(data, job, max_iter=15) for train in (train_batched, train_one_by_one))
    assert ours.weights[-1].shape == (1, 6)
    assert apart(ours, theirs) < 1e-5
    assert np.exp(ours.log_probabilities(X)).sum(axis=1) == pytest.approx(np.ones(len(X)))


def test_classes_without_rows_keep_their_output(blobs: Labelled) -> None:
    """An early timestep of a code needs this: a probability for a class without rows so far."""
    job = [Job((8,), 1e-2, 3, np.flatnonzero(blobs.codes < 3))]
    (ours,), (theirs,) = (train(blobs, job, max_iter=1) for train in (train_batched, train_one_by_one))
    assert ours.logits(blobs.X).shape == (len(blobs.X), CLASSES)
    assert apart(ours, theirs) < 1e-5


@pytest.mark.slow
def test_networks_retire_at_scikit_learns_epoch(blobs: Labelled) -> None:
    """Networks that stop at different epochs: the batch shrinks while the others go on, in either of two groups."""
    jobs = [Job((32, size), alpha, seed, np.arange(200)) for size in (8, 16) for alpha in (1e-4, 1e-1) for seed in (0, 1)]
    ours = train_batched(blobs, jobs, max_iter=1000)
    theirs = train_one_by_one(blobs, jobs, max_iter=1000)
    assert len({network.epochs for network in ours}) > 4
    assert all(network.converged for network in (*ours, *theirs))
    # The loss of some epoch is within rounding of the tolerance: that network stops an epoch sooner or later.
    assert [network.epochs for network in ours] == pytest.approx([network.epochs for network in theirs], abs=3)
    same = [apart(a, b) for a, b in zip(ours, theirs, strict=True) if a.epochs == b.epochs]
    assert len(same) >= len(jobs) / 2 and max(same) < 1e-3


@pytest.mark.parametrize("n_classes", [2, CLASSES])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
def test_gradients_are_autograds(hidden: tuple[int, ...], n_classes: int) -> None:
    """Two groups of two networks, written again as plain networks under autograd, in float64."""
    rng = np.random.default_rng(1)
    X, y = torch.as_tensor(rng.standard_normal((12, 7))), torch.as_tensor(rng.integers(0, n_classes, 12))
    jobs = [Job(hidden, alpha, seed, np.arange(12)) for seed in (0, 1) for alpha in (2.0**-10, 2.0)]
    batch = _Batch(X, y, jobs, n_classes)
    batch._lay_out([[tensor.double() for tensor in batch.parameters]] * 4)
    batch.alphas = batch.alphas.double()
    rows = [torch.arange(0, 6), torch.arange(5, 11)]
    labels = torch.stack([y[rows[0]], y[rows[0]], y[rows[1]], y[rows[1]]])
    losses = batch._differentiate([X[part] for part in rows], labels)
    for i, job in enumerate(jobs):
        loss, gradients = plain(X[rows[i // 2]], labels[i], job.alpha, [tensor[i] for tensor in batch.parameters])
        assert float(losses[i]) == pytest.approx(loss, rel=1e-9)
        for mine, other in zip(batch.gradients, gradients, strict=True):
            torch.testing.assert_close(mine[i], other, rtol=1e-9, atol=1e-12)


def plain(X: torch.Tensor, y: torch.Tensor, alpha: float, parameters: Sequence[torch.Tensor]) -> tuple[float, list[torch.Tensor]]:
    leaves = [tensor.clone().requires_grad_() for tensor in parameters]
    depth = len(leaves) // 2
    out = X
    for layer in range(depth):
        out = (out.relu() if layer else out) @ leaves[layer].T + leaves[depth + layer][:, 0]
    if out.shape[1] == 1:
        out = torch.cat([torch.zeros_like(out), out], dim=1)
    penalty = sum((weight**2).sum() for weight in leaves[:depth])
    loss = torch.nn.functional.cross_entropy(out, y) + alpha / (2 * len(X)) * penalty
    loss.backward()
    return loss.item(), [leaf.grad for leaf in leaves]


def test_one_seed_one_answer(blobs: Labelled) -> None:
    jobs = some_jobs(len(blobs.X))
    first, again = (train_batched(blobs, jobs, max_iter=5) for _ in range(2))
    assert max(map(apart, first, again)) == 0
    assert apart(first[1], first[3]) > 0.1


def test_progress_counts_networks_and_can_end_the_work(blobs: Labelled) -> None:
    jobs = some_jobs(len(blobs.X))
    calls: list[int] = []
    train_batched(blobs, jobs, max_iter=2, progress=calls.append)
    assert sum(calls) == len(jobs)

    def cancel(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_batched(blobs, jobs, max_iter=2, progress=cancel)


def test_a_scale_that_breaks_float32_is_an_error(blobs: Labelled) -> None:
    wide = blobs._replace(X=blobs.X / np.abs(blobs.X).max() * np.float32(3e38))
    with pytest.raises(ValueError, match="not finite; the largest entry of the vectors is"):
        train_batched(wide, some_jobs(len(blobs.X)), max_iter=3)
