"""A picture is a projection: distances shrink, shares add up, the same rows in every state."""

import numpy as np
import pytest

from theodolite.core import pictures
from theodolite.core.pictures import draw_picture, read_picture, write_picture


@pytest.fixture
def X():  # noqa: N802
    rng = np.random.default_rng(0)
    return (rng.standard_normal((400, 20)) * np.linspace(5, 0.1, 20) + 3).astype(np.float32)


def test_the_axes_are_the_principal_directions(X):
    picture = draw_picture(X, points=400)
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    assert picture.explained == pytest.approx((values / values.sum())[:3], rel=1e-5)
    assert np.var(picture.points, axis=0) * 400 == pytest.approx(values[:3], rel=1e-4)
    assert picture.points.mean(axis=0) == pytest.approx(0, abs=1e-4)


def test_distances_never_grow(X):
    picture = draw_picture(X, points=50)
    flat = np.linalg.norm(picture.points[:, None] - picture.points[None], axis=-1)
    full = np.linalg.norm(X[picture.rows][:, None] - X[picture.rows][None], axis=-1)
    assert (flat <= full + 1e-3).all()


def test_two_states_show_the_same_rows_and_their_columns(X):
    names = [f"row {i}" for i in range(len(X))]
    one, two = (draw_picture(cloud, columns={"token": names}, points=30, seed=4) for cloud in (X, X[:, ::-1] ** 2))
    assert one.rows.tolist() == two.rows.tolist()
    assert list(one.columns["token"]) == [names[i] for i in one.rows]


def test_a_rotated_cloud_gives_the_same_picture_up_to_signs(X):
    turn, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((20, 20)))
    before, after = draw_picture(X, points=40), draw_picture(X @ turn, points=40)
    assert np.abs(after.points) == pytest.approx(np.abs(before.points), abs=2e-3)


def test_a_flat_cloud_has_zeros_on_the_directions_it_lacks():
    picture = draw_picture(np.arange(12.0).reshape(6, 2))
    assert picture.points.shape == (6, 3)
    assert not picture.points[:, 2].any()
    assert draw_picture(np.ones((5, 4))).explained == (0.0, 0.0, 0.0)


def test_a_picture_is_read_as_it_was_written(X, tmp_path):
    about = {"model": "m", "state": "pre-trained", "layer": 6}
    columns = {
        "token": ["</script>" if i % 2 else "ü" for i in range(len(X))],
        "frequency": [None if i % 3 else 1.5 for i in range(len(X))],
    }
    picture = draw_picture(X, columns=columns, about=about, points=25)
    write_picture(picture, tmp_path / "p.parquet")
    back = read_picture(tmp_path / "p.parquet")
    assert (back.points == picture.points).all() and (back.rows == picture.rows).all()
    assert (back.about, back.explained) == (about, picture.explained)
    assert {name: list(column) for name, column in back.columns.items()} == picture.columns


def test_another_table_is_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    parquet.write_table(pyarrow.table({"x": [1.0]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="not a picture of a cloud"):
        read_picture(tmp_path / "other.parquet")


def test_one_row_is_a_point_at_the_origin() -> None:
    picture = draw_picture(np.array([[1.0, 2.0, 3.0, 4.0]]))
    np.testing.assert_array_equal(picture.points, np.zeros((1, 3)))
    assert picture.explained == (0.0, 0.0, 0.0)


def test_a_thinned_picture_has_points_of_the_whole_with_their_facts(X):
    names = [str(i) for i in range(len(X))]
    whole = draw_picture(X, columns={"token": names, "label": names})
    thin = whole.thinned(30, without=("token",))
    assert thin.n == 30 and set(thin.columns) == {"label"} and thin.explained == whole.explained
    assert [int(name) for name in thin.columns["label"]] == thin.rows.tolist()
    assert thin.points.tolist() == whole.points[np.isin(whole.rows, thin.rows)].tolist()
    assert whole.thinned(10 * whole.n).rows.tolist() == whole.rows.tolist()


@pytest.mark.parametrize("n", [1, 2, 40, 400])
def test_many_dimensions_are_drawn_on_the_same_directions_as_few(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, 60)) @ (np.diag(np.r_[9.0, 6.0, 4.0, np.full(57, 0.5)])) + 3
    exact = draw_picture(X)
    monkeypatch.setattr(pictures, "EXACT", 8)
    drawn = draw_picture(X)
    np.testing.assert_allclose(drawn.explained, exact.explained, atol=1e-6)
    np.testing.assert_allclose(
        np.abs(drawn.points), np.abs(exact.points), atol=1e-3 * max(1.0, float(np.abs(exact.points).max()))
    )
