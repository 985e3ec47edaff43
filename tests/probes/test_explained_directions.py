"""Directions, hubs and outliers are linked with the columns that they follow, and with noise as rarely as promised."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from scipy.stats import f_oneway, ortho_group, pearsonr, rankdata, spearmanr

from theodolite.metrics.cloud import Undefined
from theodolite.probes.explained_directions import CATEGORIES, LEVEL, NUMBERS, column_links

N, D = 200, 6


def planted(seed: int = 0, *, n: int = N, weight: float = 3.0) -> tuple[Any, Any]:
    """Rows whose direction of most variance is the logarithm of a length, in a coordinate system of its own."""
    random = np.random.default_rng(seed)
    lengths = np.exp(random.normal(4, 1, n)).round() + 1
    X = random.standard_normal((n, D))
    X[:, 2] = weight * (np.log(lengths) - 4) + X[:, 2]
    return X @ ortho_group.rvs(D, random_state=seed), lengths


def noise_columns(random: Any, n: int = N) -> dict[str, list[Any]]:
    return {
        "number": random.standard_normal(n).tolist(),
        "count": random.integers(0, 1000, n).tolist(),
        "language": random.choice(["en", "de", "fr", "it"], n).tolist(),
        "source": random.choice([f"s{i}" for i in range(20)], n).tolist(),
    }


def best(links: Any, target: str) -> Any:
    return next(link for link in links if link.target == target)


def test_a_planted_length_is_named_and_noise_columns_are_not() -> None:
    X, lengths = planted()
    links, reasons = column_links(X, {**noise_columns(np.random.default_rng(1)), "length": lengths.tolist()}, permutations=199)
    first = best(links, "direction 1")
    assert first.column == "length" and first.kind == NUMBERS and first.is_clear and first.p == 1 / 200
    assert first.value > 0.9 and first.low < first.value < first.high <= 1 and first.share > 0.5
    assert {link.column for link in links if link.is_clear and link.target.startswith("direction")} == {"length"}
    assert not reasons and len(links) == 5 * 5  # three directions, hubs, outliers; five columns


def test_the_numbers_are_those_of_a_plain_loop() -> None:
    n = 120
    X, lengths = planted(3, n=n)
    topics = np.random.default_rng(3).choice(["a", "b", "c"], n)
    known = [None if i % 7 == 0 else value for i, value in enumerate(lengths.tolist())]
    links, _ = column_links(X, {"length": known, "topic": topics.tolist()}, permutations=99, seed=5)
    rows = [i for i in range(n) if i % 7]
    centred = X - X.mean(axis=0)
    scores = centred @ np.linalg.svd(centred, full_matrices=False)[2].T[:, :3]
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    distance = 1 - units @ units.T
    np.fill_diagonal(distance, np.inf)
    hubs = np.bincount(np.argsort(distance, axis=1)[:, :10].ravel(), minlength=n)
    ranks = np.stack([rankdata(values) for values in (*scores.T, hubs, distance.min(axis=1))])

    def chances(ranks: Any) -> Any:
        """p of one correlation and of one analysis of variance for each target, as SciPy has them."""
        of_lengths = [pearsonr(line[rows], rankdata(lengths[rows])).pvalue for line in ranks]
        return np.array([of_lengths, [f_oneway(*(line[topics == name] for name in "abc")).pvalue for line in ranks]])

    observed, random = chances(ranks), np.random.default_rng(5)
    smallest = np.array([chances(ranks[:, random.permutation(n)]).min() for _ in range(99)])
    for i, target in enumerate(("direction 1", "direction 2", "direction 3", "hubs", "outliers")):
        length, topic = (
            next(each for each in links if (each.target, each.column) == (target, name)) for name in ("length", "topic")
        )
        for place, link in enumerate((length, topic)):
            assert link.p == pytest.approx((1 + (smallest <= observed[place, i]).sum()) / 100), (target, link.column)
        expected = pearsonr(ranks[i][rows], rankdata(lengths[rows])).statistic
        assert abs(length.value) == pytest.approx(abs(expected), abs=1e-12) and length.n == len(rows)
        within = sum(((ranks[i][topics == name] - ranks[i][topics == name].mean()) ** 2).sum() for name in "abc") / (n - 3)
        assert topic.value == pytest.approx(max(0.0, 1 - within / ranks[i].var(ddof=1)), abs=1e-12)


def test_turning_moving_and_scaling_the_cloud_changes_nothing() -> None:
    X, lengths = planted(1)
    columns = {**noise_columns(np.random.default_rng(2)), "length": lengths.tolist()}
    Q = ortho_group.rvs(D, random_state=9)
    plain, turned = (column_links(vectors, columns, permutations=49)[0] for vectors in (X, 3 * X @ Q))
    for one, other in zip(plain, turned, strict=True):
        assert (one.target, one.column, one.p) == (other.target, other.column, other.p)
        assert one.value == pytest.approx(other.value, abs=1e-9) and one.low == pytest.approx(other.low, abs=1e-9)
    # Any increasing function of a column is the same column to ranks.
    logged, _ = column_links(X, {**columns, "length": np.log(lengths).tolist()}, permutations=49)
    assert [link.value for link in logged] == [link.value for link in plain]
    moved = column_links(X + 100, columns, permutations=49)[0]
    for target in ("direction 1", "direction 2", "direction 3"):  # cosines, and so neighbours, do change
        assert best(moved, target).value == pytest.approx(best(plain, target).value, abs=1e-9)


@pytest.mark.slow
def test_noise_is_named_in_at_most_five_percent_of_clouds_and_intervals_hold_the_truth() -> None:
    named = covered = 0
    draws = 100  # 10 or more of them are named with probability 0.03 at 5%, and 0.94 at 15%
    for seed in range(draws):
        random = np.random.default_rng(1000 + seed)
        links, _ = column_links(random.standard_normal((N, D)), noise_columns(random), permutations=99, seed=seed)
        named += any(link.p <= LEVEL for link in links)
        covered += all(link.low <= 0 <= link.high for link in links if link.kind == NUMBERS)
    assert named <= 0.05 * draws + 2 * np.sqrt(0.05 * 0.95 * draws)  # two standard errors of the simulation
    assert covered >= 0.95 * draws - 2 * np.sqrt(0.05 * 0.95 * draws)


@pytest.mark.slow
def test_rows_of_one_text_do_not_make_noise_clear() -> None:
    """What texts share makes rows look linked with what texts share; kept together, they are not, and as rows they are."""
    together = apart = 0
    draws = 50  # 6 or more are named with probability 0.04 at 5%, and 0.95 at 20%
    for seed in range(draws):
        random = np.random.default_rng(2000 + seed)
        text = np.repeat(np.arange(40), random.integers(3, 15, 40))
        n = len(text)
        X = random.standard_normal((n, D)) + 2 * random.standard_normal((40, D))[text]
        columns = {"length": random.standard_normal(40)[text].tolist(), "label": random.choice(list("abc"), 40)[text].tolist()}
        columns["frequency"] = random.standard_normal(n).tolist()
        together += any(link.p <= LEVEL for link in column_links(X, columns, groups=text, permutations=99, seed=seed)[0])
        apart += any(link.p <= LEVEL for link in column_links(X, columns, permutations=99, seed=seed)[0])
    assert together <= 0.05 * draws + 2 * np.sqrt(0.05 * 0.95 * draws)
    assert apart > 0.5 * draws


def test_a_link_inside_texts_is_found_with_texts_kept_together() -> None:
    random = np.random.default_rng(0)
    text = np.repeat(np.arange(60), random.integers(3, 15, 60))
    frequency = random.standard_normal(len(text))
    X = random.standard_normal((len(text), D)) + 0.5 * random.standard_normal((60, D))[text]
    X[:, 0] += 3 * frequency
    links, _ = column_links(X, {"frequency": frequency.tolist()}, groups=text, permutations=199)
    assert best(links, "direction 1").is_clear and best(links, "direction 1").value > 0.9


def test_hubs_and_outliers_have_a_sign() -> None:
    """Far rows are outliers and nobody's neighbour, so that a column that marks them grows with one and falls with the other."""
    random = np.random.default_rng(0)
    spread = np.exp(random.normal(0, 1, 300))
    X = np.ones((300, 8)) * 4 + spread[:, None] * random.standard_normal((300, 8))
    links, _ = column_links(X, {"spread": spread.tolist()}, permutations=99)
    assert best(links, "outliers").value > 0.5 and best(links, "hubs").value < -0.3
    assert best(links, "outliers").is_clear and best(links, "hubs").is_clear


def test_dates_numbers_in_text_and_truth_values_are_read_and_odd_columns_are_named() -> None:
    X, lengths = planted(2)
    days = [date(2020, 1, 1) + timedelta(days=int(length)) for length in lengths]
    moments = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=int(length)) for length in lengths]
    columns: dict[str, Any] = {
        "day": days,
        "written day": [day.isoformat() for day in days],
        "moment": moments,
        "moment of NumPy": np.array([moment.replace(tzinfo=None) for moment in moments], "datetime64[s]"),
        "number in text": [str(int(length)) for length in lengths],
        "gaps": [float("nan") if i % 3 else length for i, length in enumerate(lengths)],
        "is long": [bool(length > 55) for length in lengths],
        "text": ["x" * int(length) + f" {i}" for i, length in enumerate(lengths)],
        "constant": [7] * N,
        "empty": [None] * N,
        "almost empty": [1.0 * i if i < 5 else None for i in range(N)],
        "lists": [[1, 2]] * N,
        "rare": [f"r{i // 3}" if i < 30 else "usual" for i in range(N)],
    }
    links, reasons = column_links(X, columns, permutations=99)
    first = {link.column: link for link in links if link.target == "direction 1"}
    expected = abs(spearmanr(*(values for values in (X @ np.linalg.svd(X - X.mean(0))[2][0], lengths)))[0])
    for name in ("day", "written day", "moment", "moment of NumPy", "number in text"):
        assert first[name].kind == NUMBERS and first[name].value == pytest.approx(expected, abs=1e-9), name
    assert first["text length"].value == pytest.approx(expected, abs=0.01)  # the row's number is part of the text
    assert first["gaps"].n == -(-N // 3)
    assert first["is long"].kind == CATEGORIES and first["is long"].is_clear
    assert first["rare"].kind == CATEGORIES and not first["rare"].is_clear  # ten rare categories are one
    assert reasons == {
        "constant": "all rows have the same value",
        "empty": "only 0 rows have a value; there must be 20",
        "almost empty": "only 5 rows have a value; there must be 20",
        "lists": "its values are neither numbers nor dates nor text, such as list",
    }


def test_many_categories_explain_nothing_by_their_number_alone() -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((300, D))
    values = {"category": [f"c{i % 50}" for i in range(300)]}  # 49 free means explain a sixth of the variance by themselves
    links, _ = column_links(X, values, permutations=99)
    assert all(link.value < 0.1 and not link.is_clear for link in links)


def test_without_columns_or_spread_nothing_is_linked() -> None:
    X, _ = planted()
    assert column_links(X, {"constant": [1] * N})[0] == []
    with pytest.raises(Undefined, match="all rows are the same point"):
        column_links(np.ones((50, 3)), {"number": list(range(50))})
    # Fewer rows than a list of neighbours has: directions are left.
    few = column_links(X[:11], {"number": list(range(11))})
    assert few[0] == [] and "only 11 rows" in few[1]["number"]
